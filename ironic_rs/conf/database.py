"""Options of group [database].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("database")

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "mysql_engine",
        default="InnoDB",
        help="",
    ),
    cfg.BoolOpt(
        "sqlite_retries",
        default=True,
        help="",
    ),
    cfg.IntOpt(
        "sqlite_max_wait_for_retry",
        default=10,
        help="",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

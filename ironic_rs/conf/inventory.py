"""Options of group [inventory].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("inventory")

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "data_backend",
        default="database",
        choices=["none", "database", "swift"],
        help="Where the inventory of inspected machines is kept.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

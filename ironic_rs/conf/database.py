"""Options of group [database], beside those of oslo.db.

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg
from oslo_db import options

GROUP = cfg.OptGroup("database")

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "sqlite_retries",
        default=True,
        help="Try again when SQLite says that the database is locked.",
    ),
    cfg.IntOpt(
        "sqlite_max_wait_for_retry",
        default=10,
        help="Seconds to go on trying when SQLite says that the database is locked.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    # On the option itself: a default set on conf is lost by conf.reset().
    # As many connections are kept as an API process has threads, and at most as many
    # opened as by oslo.db's own 5 + 50: with these, a request in eight paid for a new one.
    cfg.set_defaults(
        options.database_opts,
        connection="sqlite:///$state_path/ironic.sqlite",
        max_pool_size=32,
        max_overflow=23,
    )
    conf.register_opts(options.database_opts, group=GROUP)
    conf.register_opts(OPTS, group=GROUP)

"""Options of notifications, in group [DEFAULT].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "notification_level",
        choices=["debug", "info", "warning", "error", "critical"],
        help=(
            "Lowest level of notifications that are sent. When unset, none are. They also need "
            "a driver in [oslo_messaging_notifications]."
        ),
    ),
    cfg.ListOpt(
        "versioned_notifications_topics",
        default=["ironic_versioned_notifications"],
        help="Topics that notifications are sent to.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS)

"""Options of group [nova]: how to reach the Compute service.

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

from ironic_rs.conf import client

GROUP = cfg.OptGroup("nova", help="How the conductor reaches the Compute service.")

OPTS: list[cfg.Opt] = [
    *client.options("compute"),
    cfg.BoolOpt(
        "send_power_notifications",
        default=True,
        mutable=True,
        help=(
            "Tell the Compute service when the power state of a machine with an instance "
            "changes. Without auth_type in this group nothing is sent."
        ),
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

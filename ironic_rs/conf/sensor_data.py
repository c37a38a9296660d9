"""Options of group [sensor_data].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("sensor_data")

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "send_sensor_data",
        default=False,
        help=(
            "Send what the sensors of machines tell as notifications. Needs a driver in "
            "[oslo_messaging_notifications]."
        ),
    ),
    cfg.IntOpt(
        "interval",
        default=600,
        min=1,
        help="Seconds between two readings of all sensors.",
    ),
    cfg.IntOpt(
        "workers",
        default=4,
        min=1,
        help="How many machines are asked for their sensors at the same time.",
    ),
    cfg.IntOpt(
        "wait_timeout",
        default=300,
        help=(
            "Seconds after which one reading of all sensors asks no further machines; the next "
            "one begins with those that were left out."
        ),
    ),
    cfg.ListOpt(
        "data_types",
        default=["ALL"],
        help="Types of sensors that are told of, such as Temperature or Fan; ALL for every type.",
    ),
    cfg.BoolOpt(
        "enable_for_undeployed_nodes",
        default=False,
        help="Read the sensors of all machines, not only of those that are in use (active).",
    ),
    cfg.BoolOpt(
        "enable_for_conductor",
        default=True,
        help="Send the metrics of the conductor itself as well.",
    ),
    cfg.BoolOpt(
        "enable_for_nodes",
        default=True,
        help="Read the sensors of machines.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

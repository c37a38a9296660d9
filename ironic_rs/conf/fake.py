"""Options of group [fake].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("fake")

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "power_delay",
        default="0",
        help=(
            'Seconds that an operation of the fake power interface takes; "a,b" takes a random '
            "time between a and b, mostly near a."
        ),
    ),
    cfg.StrOpt(
        "boot_delay",
        default="0",
        help=(
            'Seconds that an operation of the fake boot interface takes; "a,b" takes a random '
            "time between a and b, mostly near a."
        ),
    ),
    cfg.StrOpt(
        "deploy_delay",
        default="0",
        help=(
            'Seconds that an operation of the fake deploy interface takes; "a,b" takes a random'
            " time between a and b, mostly near a."
        ),
    ),
    cfg.StrOpt(
        "vendor_delay",
        default="0",
        help=(
            'Seconds that an operation of the fake vendor interface takes; "a,b" takes a random'
            " time between a and b, mostly near a."
        ),
    ),
    cfg.StrOpt(
        "management_delay",
        default="0",
        help=(
            'Seconds that an operation of the fake management interface takes; "a,b" takes a '
            "random time between a and b, mostly near a."
        ),
    ),
    cfg.StrOpt(
        "inspect_delay",
        default="0",
        help=(
            'Seconds that an operation of the fake inspect interface takes; "a,b" takes a '
            "random time between a and b, mostly near a."
        ),
    ),
    cfg.StrOpt(
        "raid_delay",
        default="0",
        help=(
            'Seconds that an operation of the fake raid interface takes; "a,b" takes a random '
            "time between a and b, mostly near a."
        ),
    ),
    cfg.StrOpt(
        "bios_delay",
        default="0",
        help=(
            'Seconds that an operation of the fake bios interface takes; "a,b" takes a random '
            "time between a and b, mostly near a."
        ),
    ),
    cfg.StrOpt(
        "storage_delay",
        default="0",
        help=(
            'Seconds that an operation of the fake storage interface takes; "a,b" takes a '
            "random time between a and b, mostly near a."
        ),
    ),
    cfg.StrOpt(
        "rescue_delay",
        default="0",
        help=(
            'Seconds that an operation of the fake rescue interface takes; "a,b" takes a random'
            " time between a and b, mostly near a."
        ),
    ),
    cfg.StrOpt(
        "firmware_delay",
        default="0",
        help=(
            'Seconds that an operation of the fake firmware interface takes; "a,b" takes a '
            "random time between a and b, mostly near a."
        ),
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

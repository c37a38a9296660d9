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
        help="",
    ),
    cfg.StrOpt(
        "boot_delay",
        default="0",
        help="",
    ),
    cfg.StrOpt(
        "deploy_delay",
        default="0",
        help="",
    ),
    cfg.StrOpt(
        "vendor_delay",
        default="0",
        help="",
    ),
    cfg.StrOpt(
        "management_delay",
        default="0",
        help="",
    ),
    cfg.StrOpt(
        "inspect_delay",
        default="0",
        help="",
    ),
    cfg.StrOpt(
        "raid_delay",
        default="0",
        help="",
    ),
    cfg.StrOpt(
        "bios_delay",
        default="0",
        help="",
    ),
    cfg.StrOpt(
        "storage_delay",
        default="0",
        help="",
    ),
    cfg.StrOpt(
        "rescue_delay",
        default="0",
        help="",
    ),
    cfg.StrOpt(
        "firmware_delay",
        default="0",
        help="",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

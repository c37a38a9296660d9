"""Options of group [inspector].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("inspector")

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "force_dhcp",
        default=False,
        help="Let the ramdisk ask for addresses by DHCP on all its network cards.",
    ),
    cfg.StrOpt(
        "add_ports",
        default="pxe",
        choices=["all", "active", "pxe", "disabled"],
        help=(
            "For which network cards of an inspected machine ports are created: all, those with"
            " an address, those that the machine booted from, or none."
        ),
    ),
    cfg.StrOpt(
        "keep_ports",
        default="all",
        choices=["all", "present", "added"],
        help=(
            "Which ports of an inspected node stay: all, those of network cards that are "
            "present, or those that add_ports selects."
        ),
    ),
    cfg.BoolOpt(
        "update_pxe_enabled",
        default=True,
        help=(
            "Set pxe_enabled of ports according to the network card that the machine booted from."
        ),
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

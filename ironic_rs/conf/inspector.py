"""Options of group [inspector].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

from ironic_rs.conf.types import KernelParameters

GROUP = cfg.OptGroup("inspector")

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "force_dhcp",
        default=False,
        help="Let the ramdisk ask for addresses by DHCP on all its network cards.",
    ),
    cfg.Opt(
        "extra_kernel_params",
        type=KernelParameters(),
        default="",
        help="Further kernel parameters of the ramdisk for in-band inspection.",
    ),
    cfg.BoolOpt(
        "power_off",
        default=True,
        help=(
            "Power the machine off at the end of an in-band inspection, unless its ramdisk is "
            "kept for the next flow (fast track)."
        ),
    ),
    cfg.BoolOpt(
        "require_managed_boot",
        default=True,
        help=(
            "Refuse in-band inspection of a node whose boot or network interface cannot boot "
            "the ramdisk. When false, such a machine is switched to boot from the network, "
            "where somebody else has to offer a ramdisk."
        ),
    ),
    cfg.BoolOpt(
        "pre_create_ports",
        default=True,
        help=(
            "Create ports for the network cards that the BMC knows before an in-band "
            "inspection starts."
        ),
    ),
    cfg.StrOpt(
        "default_hooks",
        default="ramdisk-error,validate-interfaces,ports,architecture",
        help="Value of $default_hooks in hooks.",
    ),
    cfg.StrOpt(
        "hooks",
        default="$default_hooks",
        help="Hooks run on the inventory of in-band inspection, in order.",
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

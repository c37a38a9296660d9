"""Options of group [inspector].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

from ironic_rs.conf.types import KernelParameters

GROUP = cfg.OptGroup("inspector")

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "status_check_period",
        default=60,
        help="Seconds between two looks at running inspections; 0 turns them off.",
    ),
    cfg.BoolOpt(
        "force_dhcp",
        default=False,
        help="Let the ramdisk ask for addresses by DHCP on all its network cards.",
    ),
    cfg.Opt(
        "extra_kernel_params",
        type=KernelParameters(),
        default="",
        help="Kernel parameters for ramdisks that inspect.",
    ),
    cfg.BoolOpt(
        "power_off",
        default=True,
        help="Switch a machine off after its inspection.",
    ),
    cfg.StrOpt(
        "callback_endpoint_override",
        help="URL that ramdisks send their inventory to, where it is not that of the API.",
    ),
    cfg.BoolOpt(
        "require_managed_boot",
        default=True,
        help="Refuse to inspect machines whose boot this service cannot control.",
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
    cfg.BoolOpt(
        "pre_create_ports",
        default=True,
        help=(
            "Create ports for the addresses that the driver can see before an in-band "
            "inspection starts."
        ),
    ),
    cfg.StrOpt(
        "default_hooks",
        default="ramdisk-error,validate-interfaces,ports,architecture",
        help="Hooks that hooks stands for when it is not changed.",
    ),
    cfg.StrOpt(
        "hooks",
        default="$default_hooks",
        help=(
            "Hooks that work on the inventory of an inspected machine, in this order. "
            "$default_hooks can be a part."
        ),
    ),
    cfg.StrOpt(
        "known_accelerators",
        default="$pybasedir/drivers/modules/inspector/hooks/known_accelerators.yaml",
        help="",
    ),
    cfg.DictOpt(
        "cpu_capabilities",
        default={
            "vmx": "cpu_vt",
            "svm": "cpu_vt",
            "aes": "cpu_aes",
            "pse": "cpu_hugepages",
            "pdpe1gb": "cpu_hugepages_1g",
            "smx": "cpu_txt",
        },
        help="",
    ),
    cfg.BoolOpt(
        "extra_hardware_strict",
        default=False,
        help="",
    ),
    cfg.MultiStrOpt(
        "pci_device_alias",
        default=[],
        help="",
    ),
    cfg.ListOpt(
        "physical_network_cidr_map",
        default=[],
        help="",
    ),
    cfg.BoolOpt(
        "disk_partitioning_spacing",
        default=True,
        help="",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

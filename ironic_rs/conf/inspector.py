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
        help="",
    ),
    cfg.BoolOpt(
        "force_dhcp",
        default=False,
        help="",
    ),
    cfg.Opt(
        "extra_kernel_params",
        type=KernelParameters(),
        default="",
        help="",
    ),
    cfg.BoolOpt(
        "power_off",
        default=True,
        help="",
    ),
    cfg.StrOpt(
        "callback_endpoint_override",
        help="",
    ),
    cfg.BoolOpt(
        "require_managed_boot",
        default=True,
        help="",
    ),
    cfg.StrOpt(
        "add_ports",
        default="pxe",
        choices=["all", "active", "pxe", "disabled"],
        help="",
    ),
    cfg.StrOpt(
        "keep_ports",
        default="all",
        choices=["all", "present", "added"],
        help="",
    ),
    cfg.BoolOpt(
        "update_pxe_enabled",
        default=True,
        help="",
    ),
    cfg.BoolOpt(
        "pre_create_ports",
        default=True,
        help="",
    ),
    cfg.StrOpt(
        "default_hooks",
        default="ramdisk-error,validate-interfaces,ports,architecture",
        help="",
    ),
    cfg.StrOpt(
        "hooks",
        default="$default_hooks",
        help="",
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

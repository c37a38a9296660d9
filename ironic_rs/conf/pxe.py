"""Options of group [pxe].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

from ironic_rs.conf.types import KernelParameters

GROUP = cfg.OptGroup("pxe")

OPTS: list[cfg.Opt] = [
    cfg.Opt(
        "kernel_append_params",
        type=KernelParameters(),
        default="nofb vga=normal",
        mutable=True,
        deprecated_opts=[cfg.DeprecatedOpt("pxe_append_params", group="pxe")],
        help="Kernel parameters for ramdisks that boot from the network.",
    ),
    cfg.StrOpt(
        "default_ephemeral_format",
        default="ext4",
        mutable=True,
        help="File system of the ephemeral partition.",
    ),
    cfg.StrOpt(
        "images_path",
        default="/var/lib/ironic/images/",
        help="Directory where images are put together for one node.",
    ),
    cfg.StrOpt(
        "instance_master_path",
        default="/var/lib/ironic/master_images",
        help="Directory of the cache of instance images; empty turns the cache off.",
    ),
    cfg.IntOpt(
        "image_cache_size",
        default=20480,
        help="Largest size of the image cache, in MiB.",
    ),
    cfg.IntOpt(
        "image_cache_ttl",
        default=10080,
        help="Minutes after which an unused image leaves the cache.",
    ),
    cfg.StrOpt(
        "pxe_config_template",
        default="$pybasedir/drivers/modules/pxe_config.template",
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "ipxe_config_template",
        default="$pybasedir/drivers/modules/ipxe_config.template",
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "uefi_pxe_config_template",
        default="$pybasedir/drivers/modules/pxe_grub_config.template",
        mutable=True,
        help="",
    ),
    cfg.DictOpt(
        "pxe_config_template_by_arch",
        default={},
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "tftp_server",
        default="$my_ip",
        help="",
    ),
    cfg.StrOpt(
        "tftp_root",
        default="/tftpboot",
        help="",
    ),
    cfg.StrOpt(
        "tftp_master_path",
        default="/tftpboot/master_images",
        help="",
    ),
    cfg.IntOpt(
        "dir_permission",
        help="",
    ),
    cfg.IntOpt(
        "file_permission",
        default=420,
        help="",
    ),
    cfg.StrOpt(
        "pxe_bootfile_name",
        default="pxelinux.0",
        help="",
    ),
    cfg.StrOpt(
        "pxe_config_subdir",
        default="pxelinux.cfg",
        help="",
    ),
    cfg.StrOpt(
        "uefi_pxe_bootfile_name",
        default="bootx64.efi",
        help="",
    ),
    cfg.StrOpt(
        "ipxe_bootfile_name",
        default="undionly.kpxe",
        help="",
    ),
    cfg.StrOpt(
        "uefi_ipxe_bootfile_name",
        default="snponly.efi",
        help="",
    ),
    cfg.DictOpt(
        "pxe_bootfile_name_by_arch",
        default={},
        help="",
    ),
    cfg.DictOpt(
        "ipxe_bootfile_name_by_arch",
        default={},
        help="",
    ),
    cfg.StrOpt(
        "ipxe_boot_script",
        default="$pybasedir/drivers/modules/boot.ipxe",
        help="",
    ),
    cfg.StrOpt(
        "ipxe_fallback_script",
        help="",
    ),
    cfg.IntOpt(
        "ipxe_timeout",
        default=0,
        help="",
    ),
    cfg.IntOpt(
        "boot_retry_timeout",
        min=60,
        help="",
    ),
    cfg.IntOpt(
        "boot_retry_check_interval",
        default=90,
        min=1,
        help="",
    ),
    cfg.StrOpt(
        "ip_version",
        default="4",
        choices=["4", "6"],
        mutable=True,
        help="",
    ),
    cfg.BoolOpt(
        "ipxe_use_swift",
        default=False,
        mutable=True,
        help="",
    ),
    cfg.BoolOpt(
        "enable_netboot_fallback",
        default=False,
        mutable=True,
        help="",
    ),
    cfg.DictOpt(
        "loader_file_paths",
        default={},
        help="",
    ),
    cfg.StrOpt(
        "initial_grub_template",
        default="$pybasedir/drivers/modules/initial_grub_cfg.template",
        help="",
    ),
    cfg.BoolOpt(
        "enable_insecure_template_override",
        default=False,
        help="",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

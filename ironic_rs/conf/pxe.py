"""Options of group [pxe].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

from ironic_rs.conf.types import KernelParameters

GROUP = cfg.OptGroup("pxe")

_TEMPLATES = "$pybasedir/drivers/pxe/templates"

OPTS: list[cfg.Opt] = [
    cfg.Opt(
        "kernel_append_params",
        type=KernelParameters(),
        default="nofb vga=normal",
        mutable=True,
        deprecated_name="pxe_append_params",
        help=(
            "Kernel parameters of a ramdisk that is booted over the network, before those that "
            "the service adds itself. kernel_append_params of instance_info or driver_info "
            "takes its place; %default% there stands for this value."
        ),
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
        default=f"{_TEMPLATES}/pxelinux.cfg.template",
        mutable=True,
        help="Template of the boot configuration of BIOS machines that boot by PXE.",
    ),
    cfg.StrOpt(
        "ipxe_config_template",
        default=f"{_TEMPLATES}/node.ipxe.template",
        mutable=True,
        help="Template of the boot configuration of machines that boot by iPXE.",
    ),
    cfg.StrOpt(
        "uefi_pxe_config_template",
        default=f"{_TEMPLATES}/grub.cfg.template",
        mutable=True,
        help="Template of the boot configuration of UEFI machines that boot by PXE or HTTP.",
    ),
    cfg.DictOpt(
        "pxe_config_template_by_arch",
        default={},
        mutable=True,
        help=(
            "Templates that take the place of pxe_config_template and uefi_pxe_config_template "
            "for an architecture (cpu_arch of the node's properties): aarch64:FILE,..."
        ),
    ),
    cfg.StrOpt(
        "tftp_server",
        default="$my_ip",
        help="Address of the TFTP server of tftp_root, as machines see it.",
    ),
    cfg.StrOpt(
        "tftp_root",
        default="/tftpboot",
        help="Directory that the conductor's TFTP server serves.",
    ),
    cfg.StrOpt(
        "tftp_master_path",
        default="/tftpboot/master_images",
        help="Directory of the cache of kernels and ramdisks; empty turns the cache off.",
    ),
    cfg.IntOpt(
        "dir_permission",
        help=(
            "Permission bits of the directories made in tftp_root and http_root, as a decimal "
            "number. Default: 493 (octal 755)."
        ),
    ),
    cfg.IntOpt(
        "file_permission",
        default=420,
        help="Permission bits of the files put there, as a decimal number (420: octal 644).",
    ),
    cfg.StrOpt(
        "pxe_bootfile_name",
        default="pxelinux.0",
        help="Boot loader of BIOS machines that boot by PXE.",
    ),
    cfg.StrOpt(
        "pxe_config_subdir",
        default="pxelinux.cfg",
        help=(
            "Directory in tftp_root and http_root with one link for each MAC address. The boot "
            "loader of BIOS machines looks in pxelinux.cfg."
        ),
    ),
    cfg.StrOpt(
        "uefi_pxe_bootfile_name",
        default="bootx64.efi",
        help="Boot loader of UEFI machines that boot by PXE or HTTP.",
    ),
    cfg.StrOpt(
        "ipxe_bootfile_name",
        default="undionly.kpxe",
        help="iPXE for BIOS machines.",
    ),
    cfg.StrOpt(
        "uefi_ipxe_bootfile_name",
        default="snponly.efi",
        help="iPXE for UEFI machines.",
    ),
    cfg.DictOpt(
        "pxe_bootfile_name_by_arch",
        default={},
        help=(
            "Boot loaders by architecture, which go before pxe_bootfile_name and "
            "uefi_pxe_bootfile_name: aarch64:FILE,... A key with a boot mode, such as "
            "aarch64-uefi, goes before one without."
        ),
    ),
    cfg.DictOpt(
        "ipxe_bootfile_name_by_arch",
        default={},
        help=(
            "iPXE by architecture, in the same way, before ipxe_bootfile_name and "
            "uefi_ipxe_bootfile_name."
        ),
    ),
    cfg.StrOpt(
        "ipxe_boot_script",
        default=f"{_TEMPLATES}/boot.ipxe.template",
        help=(
            "Template of the first script of all iPXE machines: it finds the configuration of "
            "the machine. It is put into http_root under the template's name, without "
            "'.template' at its end."
        ),
    ),
    cfg.StrOpt(
        "ipxe_fallback_script",
        help=(
            "File in http_root, or URL, of the iPXE script for machines that have no "
            "configuration: those to be discovered."
        ),
    ),
    cfg.IntOpt(
        "ipxe_timeout",
        default=0,
        min=0,
        help="Seconds that iPXE tries to fetch a kernel or ramdisk; 0: its own default.",
    ),
    cfg.IntOpt(
        "boot_retry_timeout",
        min=60,
        help=(
            "Seconds after which a machine whose ramdisk was not heard of is booted again. "
            "Unset: never."
        ),
    ),
    cfg.IntOpt(
        "boot_retry_check_interval",
        default=90,
        min=1,
        help="Seconds between searches for such machines.",
    ),
    cfg.BoolOpt(
        "enable_netboot_fallback",
        default=False,
        mutable=True,
        help=(
            "Leave a machine that boots from its disk a network boot configuration that goes on "
            "to the disk, for machines that boot from the network in any case."
        ),
    ),
    cfg.DictOpt(
        "loader_file_paths",
        default={},
        help=(
            "Boot loaders to copy into tftp_root and http_root when the conductor starts: "
            "NAME:FILE,... where NAME has no directory."
        ),
    ),
    cfg.StrOpt(
        "initial_grub_template",
        default=f"{_TEMPLATES}/initial_grub.cfg.template",
        help=(
            "Template of the first GRUB configuration, grub/grub.cfg in tftp_root and "
            "http_root: it finds the configuration of the machine."
        ),
    ),
    cfg.BoolOpt(
        "enable_insecure_template_override",
        default=False,
        help=(
            "Let driver_info pxe_template name a template file of the conductor. Who may edit "
            "nodes can then read files of the conductor's host (CVE-2026-44917)."
        ),
    ),
    cfg.StrOpt(
        "default_ephemeral_format",
        default="ext4",
        mutable=True,
        help="File system of the ephemeral partition of an instance that asks for none.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

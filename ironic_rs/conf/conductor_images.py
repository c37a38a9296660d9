"""Options of the group ``conductor`` about images: ramdisks, instances, config drives."""

from __future__ import annotations

from oslo_config import cfg

from ironic_rs.conf.conductor import GROUP
from ironic_rs.conf.types import ImageDirectory

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "deploy_kernel",
        mutable=True,
        help="Kernel of the deployment ramdisk for nodes without their own.",
    ),
    cfg.StrOpt(
        "deploy_ramdisk",
        mutable=True,
        help="Deployment ramdisk for nodes without their own.",
    ),
    cfg.DictOpt(
        "deploy_kernel_by_arch",
        default={},
        mutable=True,
        help="As deploy_kernel, by the cpu_arch of the node; comes before it.",
    ),
    cfg.DictOpt(
        "deploy_ramdisk_by_arch",
        default={},
        mutable=True,
        help="As deploy_ramdisk, by the cpu_arch of the node; comes before it.",
    ),
    cfg.StrOpt(
        "rescue_kernel",
        mutable=True,
        help="Kernel of the rescue ramdisk for nodes without their own.",
    ),
    cfg.StrOpt(
        "rescue_ramdisk",
        mutable=True,
        help="Rescue ramdisk for nodes without their own.",
    ),
    cfg.DictOpt(
        "rescue_kernel_by_arch",
        default={},
        mutable=True,
        help="As rescue_kernel, by the cpu_arch of the node; comes before it.",
    ),
    cfg.DictOpt(
        "rescue_ramdisk_by_arch",
        default={},
        mutable=True,
        help="As rescue_ramdisk, by the cpu_arch of the node; comes before it.",
    ),
    cfg.StrOpt(
        "bootloader",
        mutable=True,
        help=(
            "EFI system partition image with a boot loader for nodes without their own, as a "
            "URL or an image of the image service."
        ),
    ),
    cfg.BoolOpt(
        "disable_configdrive_check",
        default=False,
        mutable=True,
        help=(
            "Leave config drives as they are. When off, those that do not tell the instance of "
            "its networks are completed from what the Networking service knows."
        ),
    ),
    cfg.BoolOpt(
        "disable_metadata_mtu_check",
        default=False,
        mutable=True,
        help="Take the network data of a config drive for complete also when links lack an MTU.",
    ),
    cfg.BoolOpt(
        "disable_deep_image_inspection",
        default=False,
        help=("Do not look into images for dangerous contents, such as references to other files."),
    ),
    cfg.BoolOpt(
        "conductor_always_validates_images",
        default=False,
        help=(
            "Let the conductor download and check every image, also those that the ramdisk "
            "fetches itself."
        ),
    ),
    cfg.ListOpt(
        "permitted_image_formats",
        default=["raw", "gpt", "qcow2", "iso"],
        mutable=True,
        help="Formats of images that are accepted for deployment.",
    ),
    cfg.BoolOpt(
        "disable_file_checksum",
        default=False,
        help="Do not compute checksums of images that are given as file:// URLs.",
    ),
    cfg.BoolOpt(
        "disable_support_for_checksum_files",
        default=False,
        help="Do not accept the URL of a file of checksums as the checksum of an image.",
    ),
    cfg.ListOpt(
        "file_url_allowed_paths",
        item_type=ImageDirectory(),
        default=["/var/lib/ironic"],
        help=(
            "Directories below which images may be given as file:// URLs. System directories "
            "are never allowed."
        ),
    ),
    cfg.DictOpt(
        "bootloader_by_arch",
        default={},
        help="As bootloader, by the cpu_arch of the node; comes before it.",
    ),
    cfg.BoolOpt(
        "error_on_ramdisk_config_inconsistency",
        default=False,
        mutable=True,
        help=(
            "Fail when a node has only one of a kernel and a ramdisk of its own, instead of "
            "taking both from the configuration."
        ),
    ),
    cfg.BoolOpt(
        "disable_kernel_parameter_parsing",
        default=False,
        help=("Accept kernel parameters of nodes as they are, without looking at their syntax."),
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register these options."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

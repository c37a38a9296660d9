"""Options of group [deploy].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("deploy")

OPTS: list[cfg.Opt] = [
    cfg.URIOpt(
        "http_url",
        help=(
            "URL at which http_root of this conductor is served to machines, such as "
            "http://192.0.2.1:8080."
        ),
    ),
    cfg.StrOpt(
        "http_root",
        default="/httpboot",
        help=(
            "Directory that the conductor's web server serves: boot ISOs, cached images and "
            "config drives are put there."
        ),
    ),
    cfg.BoolOpt(
        "http_server",
        help=(
            "Serve http_root from the conductor's own process, for sites without a web server "
            "beside it. http_url, when unset, becomes the address of this server. Default: only "
            "in ironic-rs (API and conductor in one process), and only when http_url is unset. "
            "An option of this product only."
        ),
    ),
    cfg.StrOpt(
        "http_server_host",
        default="0.0.0.0",
        help="Address that the server of http_root listens on. An option of this product only.",
    ),
    cfg.PortOpt(
        "http_server_port",
        default=8080,
        help=(
            "Port of the server of http_root; 0 takes a free one. An option of this product only."
        ),
    ),
    cfg.StrOpt(
        "image_server_auth_strategy",
        default="noauth",
        choices=["noauth", "http_basic"],
        mutable=True,
        help="How to log in at image servers.",
    ),
    cfg.StrOpt(
        "image_server_user",
        mutable=True,
        help=(
            'Name to log in at image servers with, when image_server_auth_strategy is "http_basic".'
        ),
    ),
    cfg.StrOpt(
        "image_server_password",
        mutable=True,
        secret=True,
        help=(
            "Password to log in at image servers with, when image_server_auth_strategy is "
            '"http_basic".'
        ),
    ),
    cfg.ListOpt(
        "image_server_auth_hosts",
        default=[],
        mutable=True,
        help="Image servers that the credentials may be sent to.",
    ),
    cfg.BoolOpt(
        "image_server_auth_permit_unknown_hosts",
        default=True,
        mutable=True,
        help=(
            "Get images without credentials from servers that are not in "
            "image_server_auth_hosts, instead of refusing them."
        ),
    ),
    cfg.URIOpt(
        "external_http_url",
        help="URL at which http_root is served to BMCs, where they cannot reach http_url.",
    ),
    cfg.URIOpt(
        "external_callback_url",
        help=(
            "URL of the API for ramdisks that were booted from virtual media outside of the "
            "provisioning network."
        ),
    ),
    cfg.BoolOpt(
        "enable_ata_secure_erase",
        default=True,
        mutable=True,
        help="Let the ramdisk erase ATA disks by the disk's own command.",
    ),
    cfg.BoolOpt(
        "enable_nvme_secure_erase",
        default=True,
        mutable=True,
        help="Let the ramdisk erase NVMe disks by the disk's own command.",
    ),
    cfg.IntOpt(
        "erase_devices_priority",
        mutable=True,
        help=(
            "Priority of the clean step that erases all disks; 0 leaves it out of automated "
            "cleaning. The ramdisk's own priority when unset."
        ),
    ),
    cfg.IntOpt(
        "erase_devices_metadata_priority",
        mutable=True,
        help=(
            "Priority of the clean step that erases partition tables and file system headers; 0"
            " leaves it out. The ramdisk's own priority when unset."
        ),
    ),
    cfg.IntOpt(
        "delete_configuration_priority",
        mutable=True,
        help=(
            "Priority of the in-band clean step that deletes the RAID configuration; 0 leaves "
            "it out. The ramdisk's own priority when unset."
        ),
    ),
    cfg.IntOpt(
        "create_configuration_priority",
        mutable=True,
        help=(
            "Priority of the in-band clean step that creates the RAID configuration; 0 leaves "
            "it out. The ramdisk's own priority when unset."
        ),
    ),
    cfg.IntOpt(
        "shred_random_overwrite_iterations",
        default=1,
        min=0,
        mutable=True,
        help=(
            "How often a disk is overwritten with random data when it has no erase command of "
            "its own."
        ),
    ),
    cfg.BoolOpt(
        "shred_final_overwrite_with_zeros",
        default=True,
        mutable=True,
        help="Overwrite a disk with zeros after the random data.",
    ),
    cfg.BoolOpt(
        "continue_if_disk_secure_erase_fails",
        default=False,
        mutable=True,
        help=("Overwrite a disk whose own erase command failed, instead of failing the cleaning."),
    ),
    cfg.IntOpt(
        "disk_erasure_concurrency",
        default=4,
        min=1,
        mutable=True,
        help="How many disks the ramdisk erases at the same time.",
    ),
    cfg.BoolOpt(
        "power_off_after_deploy_failure",
        default=True,
        mutable=True,
        help="Switch a machine off whose deployment failed.",
    ),
    cfg.StrOpt(
        "default_boot_mode",
        default="uefi",
        choices=["uefi", "bios"],
        mutable=True,
        help="Boot mode of machines for which neither the node nor the BMC says one.",
    ),
    cfg.StrOpt(
        "http_image_subdir",
        default="agent_images",
        help=("Directory below http_root for images that ramdisks fetch from this conductor."),
    ),
    cfg.BoolOpt(
        "fast_track",
        default=False,
        mutable=True,
        help="Go on with a ramdisk that is already running instead of booting it anew.",
    ),
    cfg.IntOpt(
        "fast_track_timeout",
        default=300,
        min=0,
        max=300,
        mutable=True,
        help="Seconds after its last heartbeat for which a ramdisk counts as running.",
    ),
    cfg.BoolOpt(
        "erase_skip_read_only",
        default=False,
        mutable=True,
        help="Leave read-only disks out when disks are erased, instead of failing.",
    ),
    cfg.StrOpt(
        "ramdisk_image_download_source",
        default="local",
        choices=["http", "local", "swift"],
        mutable=True,
        help=(
            'Where a BMC gets a boot ISO from that is given as a URL: "http" directly from that'
            ' URL, "local" from the web server of the conductor, which caches it first, "swift"'
            " by a temporary URL."
        ),
    ),
    cfg.StrOpt(
        "iso_master_path",
        default="/var/lib/ironic/master_iso_images",
        help="Directory of the cache of boot ISOs; empty turns the cache off.",
    ),
    cfg.IntOpt(
        "iso_cache_size",
        default=20480,
        help="Largest size of the cache of boot ISOs, in MiB.",
    ),
    cfg.IntOpt(
        "iso_cache_ttl",
        default=10080,
        help="Minutes after which an unused boot ISO leaves the cache.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

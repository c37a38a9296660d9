"""Options of group [deploy].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("deploy")

OPTS: list[cfg.Opt] = [
    cfg.URIOpt(
        "http_url",
        help="",
    ),
    cfg.StrOpt(
        "http_root",
        default="/httpboot",
        help="",
    ),
    cfg.StrOpt(
        "image_server_auth_strategy",
        default="noauth",
        choices=["noauth", "http_basic"],
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "image_server_user",
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "image_server_password",
        mutable=True,
        secret=True,
        help="",
    ),
    cfg.ListOpt(
        "image_server_auth_hosts",
        default=[],
        mutable=True,
        help="",
    ),
    cfg.BoolOpt(
        "image_server_auth_permit_unknown_hosts",
        default=True,
        mutable=True,
        help="",
    ),
    cfg.URIOpt(
        "external_http_url",
        help="",
    ),
    cfg.URIOpt(
        "external_callback_url",
        help="",
    ),
    cfg.BoolOpt(
        "enable_ata_secure_erase",
        default=True,
        mutable=True,
        help="",
    ),
    cfg.BoolOpt(
        "enable_nvme_secure_erase",
        default=True,
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "erase_devices_priority",
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "erase_devices_metadata_priority",
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "delete_configuration_priority",
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "create_configuration_priority",
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "shred_random_overwrite_iterations",
        default=1,
        min=0,
        mutable=True,
        help="",
    ),
    cfg.BoolOpt(
        "shred_final_overwrite_with_zeros",
        default=True,
        mutable=True,
        help="",
    ),
    cfg.BoolOpt(
        "continue_if_disk_secure_erase_fails",
        default=False,
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "disk_erasure_concurrency",
        default=4,
        min=1,
        mutable=True,
        help="",
    ),
    cfg.BoolOpt(
        "power_off_after_deploy_failure",
        default=True,
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "default_boot_mode",
        default="uefi",
        choices=["uefi", "bios"],
        mutable=True,
        help="",
    ),
    cfg.BoolOpt(
        "configdrive_use_object_store",
        default=False,
        mutable=True,
        deprecated_opts=[cfg.DeprecatedOpt("configdrive_use_swift", group="conductor")],
        help="",
    ),
    cfg.StrOpt(
        "http_image_subdir",
        default="agent_images",
        help="",
    ),
    cfg.BoolOpt(
        "fast_track",
        default=False,
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "fast_track_timeout",
        default=300,
        min=0,
        max=300,
        mutable=True,
        help="",
    ),
    cfg.BoolOpt(
        "erase_skip_read_only",
        default=False,
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "ramdisk_image_download_source",
        default="local",
        choices=["http", "local", "swift"],
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "iso_master_path",
        default="/var/lib/ironic/master_iso_images",
        help="",
    ),
    cfg.IntOpt(
        "iso_cache_size",
        default=20480,
        help="",
    ),
    cfg.IntOpt(
        "iso_cache_ttl",
        default=10080,
        help="",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

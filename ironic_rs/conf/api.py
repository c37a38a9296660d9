"""Options of group [api].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg, types

from ironic_rs.conf.types import FileMode

GROUP = cfg.OptGroup("api")

OPTS: list[cfg.Opt] = [
    cfg.HostAddressOpt(
        "host_ip",
        default="0.0.0.0",
        help="",
    ),
    cfg.PortOpt(
        "port",
        default=6385,
        help="",
    ),
    cfg.StrOpt(
        "unix_socket",
        help="",
    ),
    cfg.Opt(
        "unix_socket_mode",
        type=FileMode(),
        help="",
    ),
    cfg.IntOpt(
        "max_limit",
        default=1000,
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "public_endpoint",
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "api_workers",
        help="",
    ),
    cfg.BoolOpt(
        "enable_ssl_api",
        default=False,
        help="",
    ),
    cfg.BoolOpt(
        "enable_ramdisk_endpoints",
        default=True,
        mutable=True,
        help="",
    ),
    cfg.BoolOpt(
        "restrict_lookup",
        default=True,
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "ramdisk_heartbeat_timeout",
        default=300,
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "network_data_schema",
        default="$pybasedir/api/controllers/v1/network-data-schema.json",
        help="",
    ),
    cfg.BoolOpt(
        "project_admin_can_manage_own_nodes",
        default=True,
        mutable=True,
        help="",
    ),
    cfg.ListOpt(
        "disallowed_enrollment_boot_modes",
        default=[],
        item_type=types.String(choices=["uefi", "bios"]),
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "cert_file",
        help="",
    ),
    cfg.StrOpt(
        "key_file",
        help="",
    ),
    cfg.StrOpt(
        "server_tls_minimum_version",
        default="1.3",
        choices=["1.2", "1.3"],
        deprecated_opts=[cfg.DeprecatedOpt("tls_minimum_version", group="api")],
        help="",
    ),
    cfg.StrOpt(
        "server_tls_ciphers",
        deprecated_opts=[cfg.DeprecatedOpt("tls_ciphers", group="api")],
        help="",
    ),
    cfg.IntOpt(
        "max_json_body_depth",
        default=25,
        min=8,
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "max_json_body_size",
        default=1024,
        min=4,
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "max_json_body_size_provision",
        default=65536,
        min=4,
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "max_json_body_size_inspection",
        default=16384,
        min=4,
        mutable=True,
        help="",
    ),
    cfg.ListOpt(
        "middleware",
        default=[],
        help="",
    ),
    cfg.ListOpt(
        "disallow_deploy_steps",
        default=["vendor.send_raw"],
        mutable=True,
        help="",
    ),
    cfg.ListOpt(
        "disallow_service_steps",
        default=["vendor.send_raw"],
        mutable=True,
        help="",
    ),
    cfg.ListOpt(
        "disallow_clean_steps",
        default=["vendor.send_raw"],
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "response_validation",
        default="warn",
        choices=["error", "warn", "ignore"],
        help="",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

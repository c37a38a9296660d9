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
        help="Address on which the API listens.",
    ),
    cfg.PortOpt(
        "port",
        default=6385,
        help="TCP port on which the API listens.",
    ),
    cfg.StrOpt(
        "unix_socket",
        help="Path of a Unix socket to listen on instead of an address and port.",
    ),
    cfg.Opt(
        "unix_socket_mode",
        type=FileMode(),
        help="Permissions of the Unix socket, in octal.",
    ),
    cfg.IntOpt(
        "max_limit",
        default=1000,
        mutable=True,
        help="Largest number of items in one page of a collection.",
    ),
    cfg.StrOpt(
        "public_endpoint",
        mutable=True,
        help=(
            "URL of the API as clients see it, for the links in answers. When unset, the URL of"
            " the request is taken, with what a proxy says about it if "
            "enable_proxy_headers_parsing is on."
        ),
    ),
    cfg.IntOpt(
        "api_workers",
        help=("Number of worker processes of the API. When unset, one per CPU and at most four."),
    ),
    cfg.BoolOpt(
        "enable_ssl_api",
        default=False,
        help="Speak TLS, with cert_file and key_file.",
    ),
    cfg.BoolOpt(
        "enable_ramdisk_endpoints",
        default=True,
        mutable=True,
        help=(
            "Serve look-up, heartbeat and the end of inspection, which ramdisks call without "
            "credentials. Turn it off on an API that only users reach."
        ),
    ),
    cfg.BoolOpt(
        "restrict_lookup",
        default=True,
        mutable=True,
        help=(
            "Answer the look-up of a ramdisk only for nodes in a state in which one is expected."
        ),
    ),
    cfg.IntOpt(
        "ramdisk_heartbeat_timeout",
        default=300,
        mutable=True,
        help="Seconds within which the ramdisk is told to send its next heartbeat.",
    ),
    cfg.StrOpt(
        "network_data_schema",
        default="$pybasedir/api/schemas/network_data.json",
        help="JSON schema that the network_data of nodes must keep to.",
    ),
    cfg.BoolOpt(
        "project_admin_can_manage_own_nodes",
        default=True,
        mutable=True,
        help=("Let administrators of a project create nodes, which then belong to the project."),
    ),
    cfg.ListOpt(
        "disallowed_enrollment_boot_modes",
        default=[],
        item_type=types.String(choices=["uefi", "bios"]),
        mutable=True,
        help="Boot modes with which a node cannot be created or changed to.",
    ),
    cfg.StrOpt(
        "cert_file",
        help="Certificate, with its chain, of the API.",
    ),
    cfg.StrOpt(
        "key_file",
        help="Private key of the API's certificate.",
    ),
    cfg.StrOpt(
        "server_tls_minimum_version",
        default="1.3",
        choices=["1.2", "1.3"],
        deprecated_opts=[cfg.DeprecatedOpt("tls_minimum_version", group="api")],
        help="Oldest version of TLS that clients may speak.",
    ),
    cfg.StrOpt(
        "server_tls_ciphers",
        deprecated_opts=[cfg.DeprecatedOpt("tls_ciphers", group="api")],
        help="OpenSSL cipher list for clients with TLS 1.2.",
    ),
    cfg.IntOpt(
        "max_json_body_depth",
        default=25,
        min=8,
        mutable=True,
        help="How deeply objects and lists in a request may be nested.",
    ),
    cfg.IntOpt(
        "max_json_body_size",
        default=1024,
        min=4,
        mutable=True,
        help="Largest body of a request, in KiB.",
    ),
    cfg.IntOpt(
        "max_json_body_size_provision",
        default=65536,
        min=4,
        mutable=True,
        help=(
            "Largest body of a request for a provision state, in KiB; it may carry a config drive."
        ),
    ),
    cfg.IntOpt(
        "max_json_body_size_inspection",
        default=16384,
        min=4,
        mutable=True,
        help="Largest body of an inventory sent by a ramdisk, in KiB.",
    ),
    cfg.ListOpt(
        "middleware",
        default=[],
        help=("Entry points of WSGI filters to wrap around the API, the first one innermost."),
    ),
    cfg.ListOpt(
        "disallow_deploy_steps",
        default=["vendor.send_raw"],
        mutable=True,
        help="Deploy steps, as interface.step, that requests must not contain.",
    ),
    cfg.ListOpt(
        "disallow_service_steps",
        default=["vendor.send_raw"],
        mutable=True,
        help="Service steps, as interface.step, that requests must not contain.",
    ),
    cfg.ListOpt(
        "disallow_clean_steps",
        default=["vendor.send_raw"],
        mutable=True,
        help="Clean steps, as interface.step, that requests must not contain.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

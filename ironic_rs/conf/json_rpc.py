"""Options of group [json_rpc]: calls between services without a message broker.

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from keystoneauth1 import loading
from oslo_config import cfg

from ironic_rs.conf.types import FileMode

GROUP = cfg.OptGroup(
    "json_rpc",
    help=(
        "Calls between services by JSON-RPC 2.0 over HTTP, with rpc_transport = json-rpc: where a "
        "conductor listens, whom it serves, and how it is called. Every service needs the same "
        "port."
    ),
)

OPTS: list[cfg.Opt] = [
    cfg.HostAddressOpt(
        "host_ip",
        default="::",
        help="Address on which a conductor listens.",
    ),
    cfg.PortOpt(
        "port",
        default=8089,
        help=(
            "TCP port on which a conductor listens. With another one than 8089 the name of the "
            "conductor is host:port, so that several can run on one host."
        ),
    ),
    cfg.StrOpt(
        "unix_socket",
        help="Path of a Unix socket to listen on instead, behind a proxy on host and port.",
    ),
    cfg.Opt(
        "unix_socket_mode",
        type=FileMode(),
        help="Permissions of the Unix socket, in octal.",
    ),
    cfg.StrOpt(
        "auth_strategy",
        choices=["noauth", "keystone", "http_basic"],
        help=(
            "How a conductor checks who calls it, and what callers send: a token with one of "
            "allowed_roles, or username and password. Default: [DEFAULT]auth_strategy."
        ),
    ),
    cfg.StrOpt(
        "http_basic_auth_user_file",
        default="/etc/ironic/htpasswd-json-rpc",
        help='Names and bcrypt hashes of callers, with auth_strategy "http_basic".',
    ),
    cfg.ListOpt(
        "allowed_roles",
        default=["admin"],
        help='Roles of which callers need one, with auth_strategy "keystone".',
    ),
    cfg.BoolOpt(
        "use_ssl",
        default=False,
        help="Speak TLS on the conductor's side, with cert_file and key_file.",
    ),
    cfg.StrOpt(
        "cert_file",
        help="Certificate, with its chain, of the conductor.",
    ),
    cfg.StrOpt(
        "key_file",
        help="Private key of the conductor's certificate.",
    ),
    cfg.StrOpt(
        "server_tls_minimum_version",
        default="1.3",
        choices=["1.2", "1.3"],
        deprecated_opts=[cfg.DeprecatedOpt("tls_minimum_version", group="json_rpc")],
        help="Oldest version of TLS that callers may speak.",
    ),
    cfg.StrOpt(
        "server_tls_ciphers",
        help="OpenSSL cipher list for callers with TLS 1.2.",
    ),
    cfg.BoolOpt(
        "client_use_ssl",
        default=False,
        help="Call conductors by HTTPS.",
    ),
    cfg.BoolOpt(
        "debug_log_request_id_only",
        default=True,
        mutable=True,
        help="Leave the arguments of calls out of the debug log.",
    ),
    *loading.get_session_conf_options(),
    *loading.get_auth_common_conf_options(),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

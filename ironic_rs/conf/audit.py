"""Options of group [audit].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("audit")

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help=(
            "Emit an audit event in CADF form for each request to the API and for each answer. "
            "[audit_middleware_notifications] says where to."
        ),
    ),
    cfg.StrOpt(
        "audit_map_file",
        default="/etc/ironic/api_audit_map.conf",
        help="File that says which paths of the API stand for which resources and actions.",
    ),
    cfg.StrOpt(
        "ignore_req_list",
        help='HTTP methods that are not audited, such as "GET,POST".',
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)

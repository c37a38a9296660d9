"""Look-up and heartbeat of the ramdisk; both without authentication.

Source: specification rest-api.md sections 12.1, 12.2; agent-protocol.md section 3;
field case K08.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from oslo_config import cfg
from oslo_log import log
from oslo_utils import strutils

from ironic_rs.api import documents
from ironic_rs.api.args import LIST, UUID, Arg
from ironic_rs.api.call import Call
from ironic_rs.api.microversions import V
from ironic_rs.api.v1 import node_view
from ironic_rs.db import nodes as db_nodes
from ironic_rs.db import ports as db_ports
from ironic_rs.domain import errors, names, secrets, states
from ironic_rs.domain.fields import show
from ironic_rs.domain.fields.kinds import String

LOG = log.getLogger(__name__)

LOOKUP_ARGS = (Arg("addresses", LIST), Arg("node_uuid", UUID))
HEARTBEAT_ARGS = (
    Arg("callback_url", String(maximum=2048), required=True),
    Arg("agent_version", String(), since=V.AGENT_VERSION, below=400),
    Arg("agent_token", String(), required=True),
    Arg("agent_verify_ca", String(maximum=None), since=V.AGENT_VERIFY_CA, below=400),
    Arg(
        "agent_status",
        String(choices=("start", "end", "error")),
        since=V.AGENT_STATUS,
        below=400,
    ),
    Arg("agent_status_message", String(maximum=None), since=V.AGENT_STATUS, below=400),
)
NAMED_HEARTBEAT_ARGS = (Arg("node_ident", String(), required=True), *HEARTBEAT_ARGS)
AGENT = documents.Shape(
    "the node and the configuration of its ramdisk",
    documents.record(
        {
            "node": documents.record(
                {
                    "uuid": documents.UUID,
                    "properties": documents.OBJECT,
                    "instance_info": documents.OBJECT,
                    "driver_internal_info": documents.OBJECT,
                    "links": documents.LINKS,
                }
            ),
            "config": documents.record(
                {
                    "metrics": documents.OBJECT,
                    "metrics_statsd": documents.OBJECT,
                    "heartbeat_timeout": {"type": "integer"},
                    "agent_containers": documents.OBJECT,
                    "agent_token": documents.or_null(documents.TEXT),
                    "agent_token_required": documents.BOOLEAN,
                    "agent_md5_checksum_enable": documents.BOOLEAN,
                    "disable_deep_image_inspection": documents.BOOLEAN,
                    "permitted_image_formats": {"type": "array", "items": documents.TEXT},
                    "agent_skip_bmc_detect": documents.BOOLEAN,
                    "enable_bios_bootloader_install": documents.BOOLEAN,
                    "tls_min_version": documents.or_null(documents.TEXT),
                    "tls_cipher_suites": documents.or_null(documents.TEXT),
                }
            ),
        }
    ),
)

_COLUMNS = (
    "uuid",
    "driver",
    "conductor_group",
    "provision_state",
    "properties",
    "instance_info",
    "driver_info",
    "driver_internal_info",
    "management_interface",
)
_NO_BMC_DETECTION = ("redfish", "idrac-redfish")

Node = Mapping[Any, Any]


def require_enabled(call: Call) -> None:
    """Refuse the endpoints of ramdisks where there are none.

    :raises HTTPForbidden: ``[api]enable_ramdisk_endpoints`` is false.
    """
    if not call.conf.api.enable_ramdisk_endpoints:
        raise errors.HTTPForbidden(resource=call.route.path)


def lookup(call: Call) -> dict[str, Any]:
    """GET /v1/lookup."""
    require_enabled(call)
    call.authorize()
    addresses = [mac for item in call.args["addresses"] or () if (mac := names.normalize_mac(item))]
    uuid = call.args["node_uuid"]
    if not addresses and uuid is None:
        raise errors.IncompleteLookup()
    found = [node for node in _candidates(uuid, addresses) if _may_look_up(call.conf, node)]
    if len(found) != 1:
        # One text for all: who asks must not learn which nodes exist.
        raise errors.NotFound("No node that waits for a ramdisk matches the look-up.")
    return describe(call, found[0])


def _candidates(uuid: str | None, addresses: list[str]) -> list[Node]:
    """Return the nodes that are meant: the one of the uuid, else all with these addresses.

    Several nodes may show the same network card, such as that of a BMC towards its host.
    """
    if uuid is not None:
        return list(db_nodes.select(_COLUMNS, {"uuid": uuid}, limit=1))
    owners = owners_of(addresses)
    if len(owners) != 1:
        LOG.info("Look-up by addresses of %d nodes: %s", len(owners), owners or addresses)
    return list(db_nodes.select(_COLUMNS, {"uuid_in": sorted(owners)})) if owners else []


def owners_of(addresses: list[str]) -> dict[str, list[str]]:
    """Return uuid of a node -> which of the MAC addresses its ports have."""
    owners: dict[str, list[str]] = {}
    if addresses:
        for port in db_ports.select(("address", "node_uuid"), {"address_in": addresses}):
            owners.setdefault(port["node_uuid"], []).append(port["address"])
    return owners


def _may_look_up(conf: cfg.ConfigOpts, node: Node) -> bool:
    if not conf.api.restrict_lookup:
        return True
    fast_track = node["driver_info"].get("fast_track", conf.deploy.fast_track)
    if strutils.bool_from_string(fast_track):
        return node["provision_state"] in states.FASTTRACK_LOOKUP_ALLOWED
    return node["provision_state"] in states.LOOKUP_ALLOWED


def describe(call: Call, node: Node) -> dict[str, Any]:
    """Return what a ramdisk gets: its node and its configuration, with the token once.

    :raises NodeLocked: a new token can not be stored now; the agent asks again.
    """
    internal = secrets.mask(node["driver_internal_info"])
    token = None
    if call.has(V.AGENT_TOKEN):
        token = call.conductors.get_node_with_token(call.context, node)["agent_secret_token"]
        internal["agent_secret_token"] = secrets.MASK
    return {
        "node": {
            "uuid": node["uuid"],
            "properties": node["properties"],
            "instance_info": secrets.mask_instance_info(node["instance_info"]),
            "driver_internal_info": internal,
            "links": call.links(f"nodes/{node['uuid']}"),
        },
        "config": _configuration(call.conf, node, token),
    }


def _configuration(conf: cfg.ConfigOpts, node: Node, token: str | None) -> dict[str, Any]:
    containers = conf.agent_containers
    return {
        "metrics": {
            "backend": conf.metrics.agent_backend,
            "prepend_host": conf.metrics.agent_prepend_host,
            "prepend_uuid": conf.metrics.agent_prepend_uuid,
            "prepend_host_reverse": conf.metrics.agent_prepend_host_reverse,
            "global_prefix": conf.metrics.agent_global_prefix,
        },
        "metrics_statsd": {
            "statsd_host": conf.metrics_statsd.agent_statsd_host,
            "statsd_port": conf.metrics_statsd.agent_statsd_port,
        },
        "heartbeat_timeout": conf.api.ramdisk_heartbeat_timeout,
        "agent_containers": {
            "allow_arbitrary_containers": containers.allow_arbitrary_containers,
            "allowed_containers": containers.allowed_containers,
            "container_steps_file": containers.container_steps_file,
            "runner": containers.runner,
            "pull_options": containers.pull_options,
            "run_options": containers.run_options,
        },
        "agent_token": token,
        "agent_token_required": True,
        "agent_md5_checksum_enable": conf.agent.allow_md5_checksum,
        "disable_deep_image_inspection": conf.conductor.disable_deep_image_inspection,
        "permitted_image_formats": conf.conductor.permitted_image_formats,
        "agent_skip_bmc_detect": node["management_interface"] in _NO_BMC_DETECTION,
        "enable_bios_bootloader_install": conf.agent.enable_bios_bootloader_install,
        "tls_min_version": conf.agent.tls_minimum_version,
        "tls_cipher_suites": conf.agent.tls_ciphers,
    }


def heartbeat(call: Call) -> None:
    """POST /v1/heartbeat/{node}."""
    _heartbeat(call, call.path["node"])


def named_heartbeat(call: Call) -> None:
    """POST /v1/heartbeat: the node is named in the body, and the caller has a token."""
    _heartbeat(call, call.args["node_ident"])


def _heartbeat(call: Call, ident: str) -> None:
    require_enabled(call)
    args = call.args
    url = args["callback_url"]
    _check_url(url)
    _check_certificate(args["agent_verify_ca"])
    rows = db_nodes.select(
        ("uuid", "driver", "conductor_group", "driver_internal_info"),
        node_view.ident_filter(call, ident),
        limit=1,
    )
    if not rows:
        raise errors.NodeNotFound(node=ident)
    node = rows[0]
    call.authorize()
    # The conductor checks it again under the lock; what is not from the node's ramdisk
    # must not even get as far as trying to take that lock.
    if not secrets.token_matches(node["driver_internal_info"], args["agent_token"]):
        raise errors.InvalidParameterValue("Invalid or missing agent token received.")
    known = node["driver_internal_info"].get("agent_url")
    if known is not None and known != url:
        raise errors.InvalidParameterValue(
            f"The agent of node {node['uuid']} can not change its callback_url: another one is "
            "known."
        )
    call.conductors.heartbeat(
        call.context,
        node,
        url,
        args["agent_version"],
        agent_token=args["agent_token"],
        agent_verify_ca=args["agent_verify_ca"],
        agent_status=args["agent_status"],
        agent_status_message=args["agent_status_message"],
    )


def _check_url(url: str) -> None:
    """Agents that can not be called send the empty string."""
    if not url:
        return
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        good = False
    if not good:
        raise errors.InvalidParameterValue(
            f"Invalid callback_url {show(url)}; accepted: an http or https URL."
        )


def _check_certificate(pem: str | None) -> None:
    if pem is None:
        return
    # OpenSSL reads it as it will when the agent is called (SSLError is an OSError).
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ValueError, OSError) as exc:
        raise errors.InvalidParameterValue(
            f"agent_verify_ca is not a certificate in PEM form: {exc}"
        ) from exc

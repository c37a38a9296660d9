"""POST /v1/continue_inspection: what a ramdisk found out, without authentication.

Source: specification rest-api.md section 12.3, inspection.md sections 1 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oslo_log import log
from oslo_utils import uuidutils

from ironic_rs.api import documents
from ironic_rs.api.args import UUID, Arg
from ironic_rs.api.call import Call
from ironic_rs.api.microversions import V
from ironic_rs.api.v1 import ramdisk
from ironic_rs.db import nodes as db_nodes
from ironic_rs.domain import errors, names, states

LOG = log.getLogger(__name__)

ARGS = (Arg("node_uuid", UUID, since=V.CONTINUE_INSPECTION, below=404),)
DATA = documents.Shape(
    "the inventory; all other keys are data of plug-ins",
    {
        "type": "object",
        "properties": {
            "inventory": {
                "type": "object",
                "properties": {
                    "interfaces": {
                        "type": "array",
                        "minItems": 1,
                        "items": {
                            "type": "object",
                            "properties": {"mac_address": documents.TEXT},
                            "required": ["mac_address"],
                        },
                    },
                    "bmc_address": documents.or_null(documents.TEXT),
                    "bmc_v6address": documents.or_null(documents.TEXT),
                },
                "required": ["interfaces"],
            }
        },
        "required": ["inventory"],
    },
)


def _answer(minor: int) -> documents.Schema:
    if minor < V.CONTINUE_INSPECTION:
        return documents.record({"uuid": documents.UUID})
    return ramdisk.AGENT.schema(minor)


ANSWER = documents.Shape("the node, and from 1.84 the configuration of its ramdisk", _answer)

_COLUMNS = (
    "uuid",
    "driver",
    "conductor_group",
    "provision_state",
    "reservation",
    "properties",
    "instance_info",
    "driver_internal_info",
    "management_interface",
)
_NOT_FOUND = "No node that waits for inspection data matches the look-up."

Node = Mapping[Any, Any]


def continue_inspection(call: Call) -> dict[str, Any]:
    """POST /v1/continue_inspection."""
    ramdisk.require_enabled(call)
    call.authorize()
    inventory, plugin_data = _parts(call.body)
    uuid = call.args["node_uuid"]
    addresses = _addresses(inventory)
    bmc = [a for key in ("bmc_address", "bmc_v6address") if (a := inventory.get(key))]
    if not addresses and not bmc and uuid is None:
        raise errors.InvalidParameterValue(
            "The inventory has no interface with a valid mac_address and no BMC address: nothing "
            "to find the node by."
        )
    node = _find(uuid, addresses, bmc)
    if node is None:
        node = _discover(call)
        plugin_data["auto_discovered"] = True
    if not call.has(V.CONTINUE_INSPECTION):
        call.conductors.continue_inspection(call.context, node, inventory, plugin_data)
        return {"uuid": node["uuid"]}
    # The token first: once the inspection goes on, the node is locked.
    answer = ramdisk.describe(call, node)
    call.conductors.continue_inspection(call.context, node, inventory, plugin_data)
    return answer


def _parts(body: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return inventory and plugin data of a checked body."""
    if not isinstance(body, dict) or not isinstance(body.get("inventory"), dict):
        raise errors.InvalidParameterValue(
            "The request body must be an object with the key inventory, an object."
        )
    inventory = body["inventory"]
    interfaces = inventory.get("interfaces")
    if (
        not isinstance(interfaces, list)
        or not interfaces
        or not all(
            isinstance(item, dict) and isinstance(item.get("mac_address"), str)
            for item in interfaces
        )
    ):
        raise errors.InvalidParameterValue(
            "The inventory must have interfaces: a list of at least one object with a mac_address."
        )
    for key in ("bmc_address", "bmc_v6address"):
        if not isinstance(inventory.get(key), str | None):
            raise errors.InvalidParameterValue(f"{key} of the inventory must be a string or null.")
    return inventory, {key: value for key, value in body.items() if key != "inventory"}


def _addresses(inventory: Mapping[str, Any]) -> list[str]:
    found = (names.normalize_mac(item["mac_address"]) for item in inventory["interfaces"])
    return [mac for mac in found if mac]


def _find(uuid: str | None, addresses: list[str], bmc: list[str]) -> Node | None:
    """Return the node, or None when nothing at all matches (it may be enrolled).

    Several nodes may show the same network card, such as that of a BMC towards its host:
    uuid, state and address of the BMC tell them apart.

    :raises NotFound: what matches is contradictory, or does not wait for inspection.
    :raises Conflict: its inspection is just being started; the ramdisk tries again.
    """
    owners = ramdisk.owners_of(addresses)
    if uuid is not None and owners and uuid not in owners:
        LOG.error("Inspection data of node %s has MAC addresses of others: %s", uuid, owners)
        raise errors.NotFound(_NOT_FOUND)
    known = [uuid] if uuid is not None else sorted(owners)
    found = _that_wait(known) if known else []
    by_bmc = _by_bmc(bmc)
    if known and by_bmc:
        reached = {node["uuid"] for node in by_bmc}
        found = [node for node in found if node["uuid"] in reached]
        if not found:
            LOG.error("Inspection data of node %s has a BMC address of another node", known)
            raise errors.NotFound(_NOT_FOUND)
    elif not known:
        found = by_bmc
    if len(found) > 1:
        LOG.error(
            "Inspection data matches several nodes: %s; MAC addresses %s, BMC addresses %s",
            ", ".join(node["uuid"] for node in found),
            owners,
            bmc,
        )
        raise errors.NotFound(_NOT_FOUND)
    return found[0] if found else None


def _that_wait(uuids: list[str]) -> list[Node]:
    """Return those of the nodes that wait for inspection data.

    :raises NotFound, Conflict: none does, see :func:`_find`.
    """
    rows: list[Node] = list(db_nodes.select(_COLUMNS, {"uuid_in": uuids}))
    waiting = [node for node in rows if node["provision_state"] == states.INSPECTWAIT]
    if waiting:
        return waiting
    if any(node["provision_state"] == states.INSPECTING and node["reservation"] for node in rows):
        # A machine that boots fast is not to be turned away for good.
        LOG.info("Inspection data came for node %s, which is locked", ", ".join(uuids))
        raise errors.Conflict("The inspection is busy, send the data again later.")
    LOG.error("Inspection data came for node %s, which waits for none", ", ".join(uuids))
    raise errors.NotFound(_NOT_FOUND)


def _by_bmc(addresses: list[str]) -> list[Node]:
    if not addresses:
        return []
    wanted = {names.canonical_ip(address) for address in addresses}
    rows = db_nodes.select(_COLUMNS, {"provision_state": states.INSPECTWAIT})
    return [
        row
        for row in rows
        if wanted & set(row["driver_internal_info"].get("lookup_bmc_addresses") or ())
    ]


def _discover(call: Call) -> Node:
    """Enrol the machine that sent the data.

    :raises NotFound: ``[auto_discovery]enabled`` is false.
    :raises IronicError: enrolling failed; the log says why (500).
    """
    options = call.conf.auto_discovery
    if not options.enabled:
        raise errors.NotFound(_NOT_FOUND)
    values = {
        "uuid": uuidutils.generate_uuid(),
        "driver": options.driver,
        "conductor_group": call.conf.default_conductor_group.lower(),
        "resource_class": call.conf.default_resource_class,
        "provision_state": states.ENROLL,
    }
    try:
        uuid = call.conductors.create_node(call.context, values)["uuid"]
        return db_nodes.select(_COLUMNS, {"uuid": uuid}, limit=1)[0]
    except errors.IronicError as exc:
        LOG.error("A discovered machine could not be enrolled: %s", exc)
        raise errors.IronicError("The machine could not be enrolled.") from exc

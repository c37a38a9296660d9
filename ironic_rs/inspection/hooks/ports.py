"""Hook ``ports``: brings the ports of a node in line with its interfaces.

Source: specification inspection.md section 4; field case 66.
"""

from __future__ import annotations

from typing import Any

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.db import ports as db_ports
from ironic_rs.domain import errors
from ironic_rs.inspection.hooks.base import Data, Hook, InspectionTask

LOG = log.getLogger(__name__)


def create(node: models.Node, address: str, **values: Any) -> bool:
    """Create a port unless its address is taken.

    :returns: whether it was created.
    """
    try:
        db_ports.create({"node_id": node.id, "address": address, **values})
    except errors.MACAlreadyExists:
        LOG.info("Node %s: a port with address %s exists already", node.uuid, address)
        return False
    LOG.info("Node %s: port with address %s created", node.uuid, address)
    return True


class Ports(Hook):
    """Creates, updates and deletes ports, as ``[inspector]add_ports``, ``keep_ports``
    and ``update_pxe_enabled`` say.
    """

    dependencies = ("validate-interfaces",)

    def __call__(self, task: InspectionTask, inventory: Data, plugin_data: Data) -> None:
        node = task.node
        wanted = _by_address(plugin_data["valid_interfaces"])
        existing = {str(port.address): port for port in db_ports.of_node(node.id)}
        if CONF.inspector.add_ports != "disabled":
            for address, entry in wanted.items():
                if address not in existing:
                    create(
                        node,
                        address,
                        pxe_enabled=entry["pxe_enabled"],
                        extra=_extra(entry),
                    )
        present = _by_address(plugin_data["all_interfaces"])
        keep = {"present": present, "added": wanted}.get(CONF.inspector.keep_ports)
        boot = inventory.get("boot")
        knows_pxe = isinstance(boot, dict) and bool(boot.get("pxe_interface"))
        for address, port in existing.items():
            if keep is not None and address not in keep:
                LOG.info("Node %s: port %s has no interface any more, deleted", node.uuid, address)
                db_ports.destroy(port, fence=node.reservation)
            elif address in present:
                _update(node, port, present[address], knows_pxe=knows_pxe)


def _update(node: models.Node, port: models.Port, entry: Data, *, knows_pxe: bool) -> None:
    if CONF.inspector.update_pxe_enabled and knows_pxe:
        port.pxe_enabled = entry["pxe_enabled"]
    port.extra = {**port.extra, **_extra(entry)}
    db_ports.save(port, fence=node.reservation)


def _by_address(interfaces: dict[str, Data]) -> dict[str, Data]:
    """Return the interfaces by MAC address; of those that share one, the first."""
    found: dict[str, Data] = {}
    for entry in interfaces.values():
        found.setdefault(entry["mac_address"], entry)
    return found


def _extra(entry: Data) -> dict[str, Any]:
    client_id = entry.get("client_id")
    return {"client-id": client_id} if client_id else {}

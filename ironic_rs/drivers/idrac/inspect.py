"""Inspect interface ``idrac-redfish``: which interfaces boot from the network is told, too.

Source: specification drivers.md section 7.
"""

from __future__ import annotations

from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.idrac import oem
from ironic_rs.drivers.redfish.inspect import RedfishInspect
from ironic_rs.drivers.redfish.inventory import Found
from ironic_rs.drivers.redfish.resources import optional
from ironic_rs.drivers.redfish.sessions import NodeBmc


class IDRACInspect(RedfishInspect):
    """Redfish, and the BIOS settings of network boot."""

    def add_own(self, task: Task, bmc: NodeBmc, found: Found) -> None:
        node = task.node
        nothing: list[str] = []
        names = optional(node, "network boot settings", lambda: oem.pxe_interfaces(bmc), nothing)
        macs = {nic["name"]: nic["mac_address"] for nic in found.inventory["interfaces"]}
        for name in names:
            if name in macs:
                found.inventory["boot"]["pxe_interface"] = macs[name]
                return

"""Out-of-band inspection: ask the BMC what the machine is made of.

Source: specification drivers.md section 6.11, inspection.md section 5.
"""

from __future__ import annotations

from typing import Any

from ironic_rs.conf import CONF
from ironic_rs.domain import capabilities, errors, states
from ironic_rs.drivers.base import InspectInterface, Properties
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.redfish import inventory
from ironic_rs.drivers.redfish.driver_info import PROPERTIES, parse_driver_info
from ironic_rs.drivers.redfish.sessions import NodeBmc, talk
from ironic_rs.inspection import store
from ironic_rs.inspection.hooks import base as hooks
from ironic_rs.inspection.rules import engine as rules

#: Properties without which a node cannot be scheduled.
ESSENTIAL = ("memory_mb", "local_gb", "cpu_arch")


class RedfishInspect(InspectInterface):
    """Synchronous: the node is manageable again when the method returns."""

    def __init__(self) -> None:
        super().__init__()
        self._hooks = hooks.load("[redfish]inspection_hooks", CONF.redfish.inspection_hooks)

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    def validate(self, task: Task) -> None:
        parse_driver_info(task.node)

    def inspect_hardware(self, task: Task) -> str:
        """Store the inventory, create ports, set the properties.

        :raises HardwareInspectionFailure: an essential property cannot be found.
        :raises RedfishError: the BMC refused, or did not answer.
        """
        node = task.node
        with talk(task, "inspecting the hardware") as bmc:
            found = inventory.collect(node, bmc)
            self.add_own(task, bmc, found)
        plugin_data: dict[str, Any] = {}
        if found.lldp:
            plugin_data["parsed_lldp"] = found.lldp
        _set_properties(task, found)
        hooks.run(self._hooks, task, found.inventory, plugin_data)
        # Before the data is stored: what rules make of it is part of it.
        rules.apply(task, found.inventory, plugin_data)
        store.store(node, found.inventory, plugin_data)
        missing = [name for name in ESSENTIAL if node.properties.get(name) is None]
        if missing:
            raise errors.HardwareInspectionFailure(
                error=(
                    f"the BMC of node {node.uuid} does not tell what is needed for "
                    f"{', '.join(missing)}; set them in properties, or use another "
                    "inspect_interface"
                )
            )
        task.save()
        return states.MANAGEABLE

    def add_own(self, task: Task, bmc: NodeBmc, found: inventory.Found) -> None:
        """Add to the inventory what only BMCs of one vendor tell."""


def _set_properties(task: Task, found: inventory.Found) -> None:
    """Write to the properties of the node; hooks add theirs, one save writes all."""
    node = task.node
    memory = found.inventory.get("memory")
    if memory:
        node.properties["memory_mb"] = memory["physical_mb"]
    cpu = found.inventory.get("cpu")
    if cpu and cpu["count"]:
        node.properties["cpus"] = cpu["count"]
    if found.local_gb or node.properties.get("local_gb") is None:
        node.properties["local_gb"] = found.local_gb
    mode = found.inventory["boot"].get("current_boot_mode")
    if mode and capabilities.of_node(node, "boot_mode") is None:
        existing = node.properties.get("capabilities")
        added = f"boot_mode:{mode}"
        node.properties["capabilities"] = f"{existing},{added}" if existing else added

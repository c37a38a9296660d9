"""Hook ``architecture``: properties.cpu_arch.

Source: specification inspection.md section 4.
"""

from __future__ import annotations

from oslo_log import log

from ironic_rs.domain import errors
from ironic_rs.inspection.hooks.base import Data, Hook, InspectionTask

LOG = log.getLogger(__name__)


class Architecture(Hook):
    """Writes the architecture of the processor to the properties of the node."""

    def __call__(self, task: InspectionTask, inventory: Data, plugin_data: Data) -> None:
        cpu = inventory.get("cpu")
        value = cpu.get("architecture") if isinstance(cpu, dict) else None
        properties = task.node.properties
        if value and isinstance(value, str):
            properties["cpu_arch"] = value
        elif properties.get("cpu_arch"):
            LOG.warning(
                "Node %s: the inventory does not tell the architecture, it stays %s",
                task.node.uuid,
                properties["cpu_arch"],
            )
        else:
            raise errors.HardwareInspectionFailure(
                error="the inventory does not tell cpu.architecture"
            )

"""RPC: facts about hardware types, and the wanted RAID configuration of nodes.

Source: specification conductor.md section 1.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ironic_rs.conductor.endpoints.base import Endpoint
from ironic_rs.domain import errors
from ironic_rs.drivers.noop import NoRAID
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.rpc.context import RequestContext


class DriversEndpoint(Endpoint):
    """Hardware types of this conductor."""

    @rpc_method("get_driver_properties", since="1.16")
    def get_driver_properties(self, context: RequestContext, driver_name: str) -> dict[str, str]:
        """Return driver_info property -> description, of the default interfaces.

        :raises DriverNotFound: not enabled here.
        """
        return self.conductor.drivers.properties(driver_name)

    @rpc_method("get_raid_logical_disk_properties", since="1.30")
    def get_raid_logical_disk_properties(
        self, context: RequestContext, driver_name: str
    ) -> dict[str, str]:
        """Return property -> description of a logical disk.

        :raises DriverNotFound: not enabled here.
        :raises UnsupportedDriverExtension: its default RAID interface is ``no-raid``.
        """
        drivers = self.conductor.drivers
        name = drivers.default_interface(driver_name, "raid")
        raid: Any = drivers.get_interface(driver_name, "raid", name)
        if isinstance(raid, NoRAID):
            raise errors.UnsupportedDriverExtension(driver=driver_name, extension="raid")
        properties: dict[str, str] = raid.get_logical_disk_properties()
        return properties

    @rpc_method("set_target_raid_config", since="1.30")
    def set_target_raid_config(
        self, context: RequestContext, node_id: str, target_raid_config: dict[str, Any]
    ) -> None:
        """Store the wanted RAID configuration of a node; an empty one clears it.

        :raises InvalidParameterValue, UnsupportedDriverExtension: not acceptable.
        """
        with self.acquire(context, node_id, purpose="setting target RAID config") as task:
            if target_raid_config:
                task.driver.raid.validate_raid_config(task, target_raid_config)
            task.node.target_raid_config = target_raid_config
            task.save()

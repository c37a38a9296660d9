"""RAID interface ``idrac-redfish``.

Source: specification drivers.md section 7.
"""

from __future__ import annotations

from ironic_rs.domain import states
from ironic_rs.drivers.agent import ramdisk
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import clean_step, deploy_step, require_exclusive_lock
from ironic_rs.drivers.idrac import oem
from ironic_rs.drivers.redfish.raid import CREATE_ARGUMENTS, RedfishRAID

#: Seconds that a BMC may take to get ready for requests to its RAID controllers.
READY_TIMEOUT = 300.0


class IDRACRAID(RedfishRAID):
    """Redfish, when the BMC is ready for it; no ramdisk has to run."""

    @clean_step(priority=0, abortable=False, argsinfo=CREATE_ARGUMENTS, requires_ramdisk=False)
    @require_exclusive_lock
    def create_configuration(
        self,
        task: Task,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> str | None:
        """Create the volumes of target_raid_config, or those of one kind.

        :raises RedfishError: the BMC is not ready or refuses, or they do not fit.
        """
        _get_ready(task)
        return super().create_configuration(
            task, create_root_volume, create_nonroot_volumes, delete_existing
        )

    @clean_step(priority=0, requires_ramdisk=False)
    @deploy_step(priority=0)
    @require_exclusive_lock
    def delete_configuration(self, task: Task) -> str | None:
        """Delete the RAID volumes of all controllers.

        :raises RedfishError: the BMC is not ready, or refuses.
        """
        _get_ready(task)
        return super().delete_configuration(task)


def _get_ready(task: Task) -> None:
    """Have the BMC ready; without a ramdisk the machine may be off, and RAID with it."""
    if ramdisk.disabled(task.node):
        task.flows.power(states.POWER_ON)
    oem.wait_until_ready(task, READY_TIMEOUT)

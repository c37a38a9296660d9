"""Boot interface ``idrac-redfish-virtual-media``.

Source: specification drivers.md section 7.
"""

from __future__ import annotations

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.idrac import oem
from ironic_rs.drivers.redfish.boot import RedfishVirtualMediaBoot
from ironic_rs.drivers.redfish.sessions import talk

LOG = log.getLogger(__name__)


class IDRACVirtualMediaBoot(RedfishVirtualMediaBoot):
    """Virtual media as in the standard; a request of its own makes them the boot device."""

    def check_machine(self, task: Task) -> None:
        """Every machine is taken: those without the request do as the standard says."""

    def boot_from_iso(self, task: Task, url: str, *, persistent: bool) -> None:
        with talk(task, "setting the boot device to the virtual CD") as bmc:
            done = oem.boot_virtual_medium(
                task,
                bmc,
                "VCD-DVD",
                persistent=persistent,
                timeout=CONF.drac.boot_device_job_status_timeout,
            )
            bmc.changed()
        if not done:
            LOG.debug("Node %s: its BMC boots virtual media as the standard says", task.node.uuid)
            super().boot_from_iso(task, url, persistent=persistent)

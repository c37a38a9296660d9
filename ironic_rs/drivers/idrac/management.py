"""Management interface ``idrac-redfish``: Redfish, and care for the BMC itself.

Source: specification drivers.md section 7.
"""

from __future__ import annotations

from collections.abc import Callable

from oslo_log import log

from ironic_rs.domain import errors, states
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import clean_step, verify_step
from ironic_rs.drivers.idrac import oem
from ironic_rs.drivers.redfish.management import RedfishManagement
from ironic_rs.drivers.redfish.sessions import talk

LOG = log.getLogger(__name__)


class IDRACManagement(RedfishManagement):
    """Brings a BMC that is stuck back to a known state."""

    @clean_step(priority=0, requires_ramdisk=False)
    @verify_step(priority=0)
    def clear_job_queue(self, task: Task) -> None:
        """Delete all jobs of the BMC, running ones too.

        :raises RedfishError: the BMC refuses; in a verification that is only logged.
        """
        self._care(task, _clear_jobs)

    @clean_step(priority=0, requires_ramdisk=False)
    @verify_step(priority=0)
    def reset_idrac(self, task: Task) -> None:
        """Reset the BMC and wait until it is ready again.

        :raises RedfishError: it refuses, or does not come back; in a verification that
            is only logged.
        """
        self._care(task, _reset)

    @clean_step(priority=0, requires_ramdisk=False)
    @verify_step(priority=0)
    def known_good_state(self, task: Task) -> None:
        """Reset the BMC, then delete its jobs.

        :raises RedfishError: as with the two; in a verification that is only logged.
        """
        self._care(task, _reset, _clear_jobs)

    @staticmethod
    def _care(task: Task, *requests: Callable[[Task], None]) -> None:
        try:
            for request in requests:
                request(task)
        except errors.RedfishError as exc:
            if task.node.provision_state != states.VERIFYING:
                raise
            LOG.warning("Node %s is verified all the same: %s", task.node.uuid, exc)


def _clear_jobs(task: Task) -> None:
    with talk(task, "deleting the jobs of the BMC") as bmc:
        if oem.act(task, bmc, oem.CLEAR_JOBS) is None:
            LOG.warning("The BMC of node %s has no job queue that can be cleared", task.node.uuid)


def _reset(task: Task) -> None:
    with talk(task, "resetting the BMC") as bmc:
        if not oem.reset(task, bmc):
            LOG.warning("The BMC of node %s cannot be reset by request", task.node.uuid)
            return
    oem.wait_until_back(task)

"""RAID volumes through Redfish.

A step finds disks for all volumes before it asks for the first one.  What the BMC does
in the background, or at the next boot, is followed by a periodic; all state is in
``driver_internal_info["raid_configs"]`` (:mod:`raid_progress`), so another conductor
can go on.

Source: specification drivers.md section 6.10, conductor.md section 7; field case 94.
"""

from __future__ import annotations

from typing import Any

from oslo_log import log

from ironic_rs.domain import errors, raid, states, steps
from ironic_rs.drivers.agent import ramdisk
from ironic_rs.drivers.base import Properties, RAIDInterface
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import (
    clean_step,
    deploy_step,
    node_periodic,
    require_exclusive_lock,
    service_step,
)
from ironic_rs.drivers.redfish import raid_layout, raid_progress, raid_volumes
from ironic_rs.drivers.redfish.driver_info import PROPERTIES, parse_driver_info
from ironic_rs.drivers.redfish.raid_progress import CREATE, DELETE, STATE, Outcome
from ironic_rs.drivers.redfish.sessions import talk
from ironic_rs.drivers.redfish.task_state import Next

LOG = log.getLogger(__name__)

_WAITING = (states.CLEANWAIT, states.DEPLOYWAIT, states.SERVICEWAIT)
_FAILED = (states.CLEANFAIL, states.DEPLOYFAIL, states.SERVICEFAIL)


def _choice(nonroot: bool) -> dict[str, dict[str, Any]]:
    return {
        "create_root_volume": {
            "description": "Create the root volume of the target. Default true.",
            "required": False,
        },
        "create_nonroot_volumes": {
            "description": (
                f"Create the other volumes of the target. Default {str(nonroot).lower()}."
            ),
            "required": False,
        },
        "delete_existing": {
            "description": "Delete all RAID volumes first. Default false.",
            "required": False,
        },
    }


CREATE_ARGUMENTS = _choice(nonroot=True)
_APPLY_ARGUMENTS = {
    "raid_config": {
        "description": "Target RAID configuration: {logical_disks: [...]}.",
        "required": True,
    },
    **_choice(nonroot=False),
}


def _is_configuring(node: Any) -> bool:
    return bool(node.driver_internal_info.get(STATE))


class RedfishRAID(RAIDInterface):
    """Creates and deletes volumes at the RAID controllers that a BMC shows."""

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    def validate(self, task: Task) -> None:
        parse_driver_info(task.node)
        super().validate(task)

    def validate_raid_config(self, task: Task, raid_config: dict[str, Any]) -> None:
        """Check a target configuration, as far as that goes without asking the BMC.

        :raises InvalidParameterValue: names the volume and what is wrong with it.
        """
        raid_layout.check(raid_config)

    @deploy_step(priority=0, argsinfo=_APPLY_ARGUMENTS)
    @service_step(priority=0, argsinfo=_APPLY_ARGUMENTS)
    @require_exclusive_lock
    def apply_configuration(
        self,
        task: Task,
        raid_config: dict[str, Any],
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = False,
        delete_existing: bool = False,
    ) -> str | None:
        """Make the given configuration the target, and create its volumes.

        :raises InvalidParameterValue: ``raid_config`` is not acceptable.
        :raises RedfishError: it does not fit the machine, or the BMC refuses.
        """
        return super().apply_configuration(
            task, raid_config, create_root_volume, create_nonroot_volumes, delete_existing
        )

    @clean_step(priority=0, abortable=False, argsinfo=CREATE_ARGUMENTS)
    @require_exclusive_lock
    def create_configuration(
        self,
        task: Task,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> str | None:
        """Create the volumes of target_raid_config, or those of one kind.

        :param delete_existing: delete all RAID volumes before; nothing is deleted when
            the target would not fit the machine then.
        :raises MissingParameterValue: there is nothing to create.
        :raises RedfishError: it does not fit the machine, or the BMC refuses.
        """
        node = task.node
        target = raid.filtered_target(
            node,
            create_root_volume=create_root_volume,
            create_nonroot_volumes=create_nonroot_volumes,
        )
        self.validate_raid_config(task, target)
        with talk(task, "looking for disks for RAID volumes") as bmc:
            controllers = raid_volumes.read(bmc)
            disks = raid_volumes.disks(node, controllers, emptied=delete_existing)
        try:
            volumes = raid_layout.plan(target, disks)
        except raid_layout.DoesNotFit as exc:
            raise errors.RedfishError(
                f"The target RAID configuration does not fit node {node.uuid}: {exc}."
            ) from exc
        raid_progress.begin(task, DELETE if delete_existing else CREATE, controllers, volumes)
        return self._start(task)

    @clean_step(priority=0)
    @deploy_step(priority=0)
    @service_step(priority=0)
    @require_exclusive_lock
    def delete_configuration(self, task: Task) -> str | None:
        """Delete the RAID volumes of all controllers.

        :raises RedfishError: the BMC refuses.
        """
        with talk(task, "looking for RAID volumes") as bmc:
            controllers = raid_volumes.read(bmc)
        raid_progress.begin(task, DELETE, controllers)
        return self._start(task)

    def _start(self, task: Task) -> str | None:
        outcome = raid_progress.advance(task)
        if outcome.do is Next.FAIL:
            raise errors.RedfishError(f"Node {task.node.uuid}: {outcome.text}.")
        if outcome.do is Next.DONE:
            _record(task.node, _shown(task))
            return None
        if outcome.do is Next.REBOOT:
            return self._reboot(task)
        steps.set_flags(task.node, skip_current=True, polling=True)
        task.save()
        return steps.wait_state(task.node)

    def _reboot(self, task: Task) -> str:
        raid_progress.rebooting(task)
        steps.set_flags(task.node, reboot=True, skip_current=True, polling=True)
        task.save()
        return ramdisk.reboot_to_finish_step(task)

    @node_periodic(
        "checking async RAID config failed",
        lambda conf: int(conf.redfish.raid_config_fail_interval),
        filters={"reserved": False, "provision_state_in": list(_FAILED)},
        columns=("driver_internal_info",),
        predicate=_is_configuring,
    )
    def _query_raid_config_failed(self, task: Task) -> None:
        """Forget the volumes of a flow that has failed, and see what came of them."""
        # The BMC may be dead: nobody has to wait for the lock meanwhile.
        try:
            shown = _shown(task)
        except errors.RedfishError as exc:
            LOG.warning("Node %s: its RAID volumes cannot be read: %s", task.node.uuid, exc)
            return
        task.upgrade_lock(purpose="looking after failed RAID volumes", retry=False)
        if task.node.provision_state in _FAILED and _is_configuring(task.node):
            try:
                _record(task.node, shown)
            except errors.InvalidParameterValue as exc:
                LOG.warning("Node %s: %s", task.node.uuid, exc)
            task.save()

    @node_periodic(
        "checking async RAID config tasks",
        lambda conf: int(conf.redfish.raid_config_status_interval),
        filters={"reserved": False, "provision_state_in": list(_WAITING)},
        columns=("driver_internal_info",),
        predicate=_is_configuring,
    )
    def _query_raid_config_status(self, task: Task) -> None:
        """Go on with the volumes of a node, one small piece at a time."""
        task.upgrade_lock(purpose="following RAID volumes", retry=False)
        node = task.node
        if node.provision_state not in _WAITING or not _is_configuring(node):
            return
        if (getattr(node, steps.kind_of(node).field) or {}).get("interface") != "raid":
            # Left by a flow that has failed; this one does something else.
            return
        try:
            outcome = raid_progress.advance(task)
        except errors.RedfishError as exc:
            LOG.info("Node %s: its RAID volumes cannot be looked at: %s", node.uuid, exc)
            return
        self._do(task, outcome)

    def _do(self, task: Task, outcome: Outcome) -> None:
        if outcome.do is Next.FAIL:
            self._fail(task, outcome.text)
        elif outcome.do is Next.DONE:
            self._done(task)
        else:
            try:
                if outcome.do is Next.REBOOT:
                    self._reboot(task)
            except errors.LockLost:
                raise
            except errors.IronicError as exc:
                self._fail(task, f"it cannot be rebooted for its RAID volumes: {exc}")
                return
            if outcome.moved:
                # The time-out is for a BMC that gets nowhere.
                task.flows.touch()

    def _done(self, task: Task) -> None:
        try:
            _record(task.node, _shown(task))
        except errors.RedfishError as exc:
            # The next look finds all done again.
            LOG.info("Node %s: its RAID volumes cannot be read: %s", task.node.uuid, exc)
        except errors.InvalidParameterValue as exc:
            self._fail(task, str(exc))
        else:
            task.flows.resume(steps.kind_of(task.node).name)

    def _fail(self, task: Task, text: str) -> None:
        """Fail the step; the other periodic looks what has become of the volumes."""
        message = f"Node {task.node.uuid}: {text}."
        LOG.error("%s", message)
        task.flows.fail(steps.kind_of(task.node).name, message)


def _shown(task: Task) -> list[dict[str, Any]]:
    """Return the volumes that the BMC shows.

    :raises RedfishError: they cannot be read.
    """
    with talk(task, "reading the RAID volumes") as bmc:
        return raid_volumes.shown(raid_volumes.read(bmc))


def _record(node: Any, disks: list[dict[str, Any]]) -> None:
    """Write volumes to the node, and forget what was under way (not saved).

    :raises InvalidParameterValue: ``properties`` of the node does not take the root volume.
    """
    state = node.driver_internal_info.pop(STATE)
    known = (node.raid_config or {}).get("logical_disks") or []
    roots = [_key(disk) for disk in known if isinstance(disk, dict) and disk.get("is_root_volume")]
    if state.get("root"):
        roots = [_key(state["root"])]
    for disk in disks:
        if _key(disk) in roots:
            disk["is_root_volume"] = True
    raid.record(node, {"logical_disks": disks})


def _key(disk: dict[str, Any]) -> tuple[Any, Any]:
    return disk.get("controller"), disk.get("id")

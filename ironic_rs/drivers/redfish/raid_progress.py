"""RAID volumes on their way: asked for, followed, and proven by what the BMC shows.

What was asked of the BMC is a list of jobs in ``driver_internal_info["raid_configs"]``:

| key | |
|---|---|
| ``operation`` | ``create`` or ``delete`` |
| ``pending`` | volumes that are still to be created, after the end of a deletion |
| ``jobs`` | what the BMC was asked for and has not been seen to be done |
| ``controllers`` | ids of all storages with volumes, as of the start |
| ``root`` | {controller, id} of the new root volume |

A job is written down before its request is sent.  So a conductor that finds one does
not ask again, whether the request was sent or not: it waits for the volume to show.

Source: specification drivers.md section 6.10; field cases 90 and 94.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sushy.exceptions
from oslo_log import log

from ironic_rs.db import models
from ironic_rs.domain import steps
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.redfish import raid_volumes, task_state
from ironic_rs.drivers.redfish.raid_layout import Volume
from ironic_rs.drivers.redfish.raid_volumes import Answer, Controller
from ironic_rs.drivers.redfish.sessions import NodeBmc, talk
from ironic_rs.drivers.redfish.task_state import Next, Phase

LOG = log.getLogger(__name__)

STATE = steps.RAID_STATE

CREATE, DELETE = "create", "delete"

#: Seconds that a BMC may take to show a change whose task has ended, or that has none:
#: some show it after a boot only.
PROOF_LIMIT = 900

Job = dict[str, Any]
State = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What became of a look.

    :param moved: something was asked for, or has ended.
    :param text: why, for FAIL.
    """

    do: Next
    moved: bool = False
    text: str = ""


class _Failed(Exception):
    """The BMC has failed, refuses, or does not do what it accepted."""


def begin(
    task: Task, operation: str, controllers: Sequence[Controller], volumes: Sequence[Volume] = ()
) -> None:
    """Note what is to be done (not saved); it is done by :func:`advance`."""
    task.node.driver_internal_info[STATE] = {
        "operation": operation,
        "pending": [asdict(volume) for volume in volumes],
        "jobs": [],
        "controllers": [controller.identity for controller in controllers],
    }


def advance(task: Task) -> Outcome:
    """Look once at all that is under way, and ask for what can be asked for now.

    The state is saved, except for FAIL.

    :raises RedfishError: the BMC cannot be looked at now.
    """
    state: State = task.node.driver_internal_info[STATE]
    if "jobs" not in state:
        return Outcome(
            Next.FAIL,
            text="what was asked of the BMC was noted by other software, and cannot be followed",
        )
    try:
        moved, over = _advance(task, state)
    except _Failed as exc:
        return Outcome(Next.FAIL, text=str(exc))
    task.save()
    rebooted = [bool(job.get("rebooted")) for job in state["jobs"] if job["on_reset"]]
    # A boot that works on volumes is not broken off for further ones.
    if rebooted and not any(rebooted):
        return Outcome(Next.REBOOT, moved)
    return Outcome(Next.DONE if over else Next.WAIT, moved)


def _advance(task: Task, state: State) -> tuple[bool, bool]:
    """Return whether something has moved, and whether all is done."""
    moved = False
    while True:
        with talk(task, f"{_DOING[state['operation']]} RAID volumes") as bmc:
            controllers = raid_volumes.read(bmc)
            ended = _settle(task.node, bmc, state, controllers)
            asked = _ask_all(task, state, controllers)
        moved = moved or ended or bool(asked)
        over = _is_over(state, controllers)
        if over and state["operation"] == DELETE and state["pending"]:
            state["operation"] = CREATE
        # Some BMCs have done it with their answer: the next look shows it.
        elif not any(job["task_monitor_uri"] is None and not job["on_reset"] for job in asked):
            return moved, over


_DOING = {CREATE: "creating", DELETE: "deleting"}


def rebooting(task: Task) -> None:
    """Note that the machine is rebooted (not saved), so that nobody else does it again."""
    for job in task.node.driver_internal_info[STATE]["jobs"]:
        if job["on_reset"]:
            job["rebooted"] = True


def _is_over(state: State, controllers: Sequence[Controller]) -> bool:
    """Tell whether nothing is left of the operation, at any controller.

    A BMC shows no storage at all while the machine boots: then nothing is known.
    """
    if state["jobs"]:
        return False
    if state["operation"] == CREATE:
        return not state["pending"]
    known = {controller.identity for controller in controllers}
    return known.issuperset(state["controllers"]) and not any(c.raid for c in controllers)


# -- what was asked -----------------------------------------------------------------


def _settle(
    node: models.Node, bmc: NodeBmc, state: State, controllers: Sequence[Controller]
) -> bool:
    """Drop the jobs that are done; tells whether there was one.

    :raises _Failed: one has failed.
    """
    by_id = {controller.identity: controller for controller in controllers}
    left = []
    for job in state["jobs"]:
        phase = Phase.GONE
        if job["task_monitor_uri"] is not None:
            view = task_state.look(bmc, job["task_monitor_uri"])
            if view.phase is Phase.FAILED:
                raise _Failed(f"{_described(job)} failed: {view.text}")
            phase = view.phase
        if phase is Phase.ACTIVE or (job["on_reset"] and not job.get("rebooted")):
            left.append(job)
        elif _is_shown(state, job, by_id.get(job["controller"])):
            LOG.info("Node %s: %s is done", node.uuid, _described(job))
        else:
            _check_patience(job, phase)
            left.append(job)
    ended = len(left) < len(state["jobs"])
    state["jobs"] = left
    return ended


def _described(job: Job) -> str:
    if job["volume"] is not None:
        return f"creating RAID volume {Volume(**job['volume'])}"
    return f"deleting RAID volume {job['id']} of controller {job['controller']}"


def _is_shown(state: State, job: Job, controller: Controller | None) -> bool:
    """Tell whether the BMC shows that a job is done."""
    if controller is None:
        return False
    if job["volume"] is None:
        return job["id"] not in {volume.identity for volume in controller.volumes}
    new = [v for identity, v in controller.raid.items() if identity not in job["known"]]
    if not new:
        return False
    if job["volume"]["is_root"]:
        named = [v for v in new if v.name and v.name == job["volume"]["name"]]
        state["root"] = {"controller": controller.identity, "id": (named or new)[0].identity}
    return True


def _check_patience(job: Job, phase: Phase) -> None:
    waited = time.time() - job.setdefault("over_since", time.time())
    if waited > PROOF_LIMIT:
        ended = "its task has ended" if phase is Phase.DONE else "there is no task for it"
        shows = "still shows" if job["volume"] is None else "does not show"
        raise _Failed(
            f"{_described(job)}: {ended}, and after {int(waited)} s the BMC {shows} the volume"
        )


# -- what is asked next -------------------------------------------------------------


def _ask_all(task: Task, state: State, controllers: Sequence[Controller]) -> list[Job]:
    """Ask each controller for as much as it takes at a time; returns the new jobs."""
    ask = _create_next if state["operation"] == CREATE else _delete_next
    return [job for controller in controllers for job in ask(task, state, controller)]


def _busy(state: State, controller: Controller) -> list[Job]:
    return [job for job in state["jobs"] if job["controller"] == controller.identity]


def _create_next(task: Task, state: State, controller: Controller) -> Iterator[Job]:
    """Ask for the next volume of a controller, when it has done the one before.

    Its free space, and what it shows as new, are clear only then.
    """
    mine = [item for item in state["pending"] if item["controller"] == controller.identity]
    if not mine or _busy(state, controller):
        return
    volume = Volume(**mine[0])
    job: Job = {
        "controller": controller.identity,
        "volume": mine[0],
        "known": [known.identity for known in controller.volumes],
        "on_reset": raid_volumes.needs_reset(task.node, controller.collection),
    }
    state["pending"].remove(mine[0])
    _note(task, state, job)
    LOG.info("Node %s: asking the BMC for RAID volume %s", task.node.uuid, volume)
    answer = _sent(job, raid_volumes.create, controller, volume, job["on_reset"])
    job["task_monitor_uri"] = answer.task_monitor
    yield job


def _delete_next(task: Task, state: State, controller: Controller) -> Iterator[Job]:
    """Ask for the end of all RAID volumes of a controller.

    One at a time where it needs a boot, or where the BMC takes no second request.
    """
    asked = {job["id"] for job in _busy(state, controller)}
    for identity, volume in controller.raid.items():
        on_reset = raid_volumes.needs_reset(task.node, volume)
        if on_reset is None:
            on_reset = raid_volumes.needs_reset(task.node, controller.collection)
        busy = _busy(state, controller)
        if identity in asked or (busy and on_reset):
            continue
        job: Job = {
            "controller": controller.identity,
            "volume": None,
            "id": identity,
            "on_reset": on_reset,
        }
        _note(task, state, job)
        LOG.info("Node %s: asking the BMC to delete RAID volume %s", task.node.uuid, identity)
        try:
            answer = _sent(job, raid_volumes.delete, volume, on_reset)
        except sushy.exceptions.ResourceNotFoundError:
            # Deleted along with another, or by somebody else: the next look shows it.
            job["on_reset"] = False
            yield job
            continue
        except _Failed as exc:
            if not busy:
                raise
            LOG.info("Node %s: it has to wait: %s", task.node.uuid, exc)
            state["jobs"].remove(job)
            return
        job["task_monitor_uri"] = answer.task_monitor
        yield job


def _sent(job: Job, ask: Callable[..., Answer], *args: Any) -> Answer:
    """Send the request of a job.

    :raises _Failed: the BMC refuses.
    :raises sushy.exceptions.ResourceNotFoundError: the volume to delete is gone.
    :raises sushy.exceptions.ConnectionError: nobody knows whether it has arrived: the job
        stays, and is not sent again.
    """
    try:
        return ask(*args)
    except sushy.exceptions.HTTPError as exc:
        if isinstance(exc, sushy.exceptions.ResourceNotFoundError) and job["volume"] is None:
            raise
        text = str(exc) if (exc.detail or "") in str(exc) else f"{exc} {exc.detail}"
        raise _Failed(f"{_described(job)} is refused by the BMC: {text}") from exc


def _note(task: Task, state: State, job: Job) -> None:
    """Write a job down before its request is sent."""
    job["task_monitor_uri"] = None
    state["jobs"].append(job)
    task.save()

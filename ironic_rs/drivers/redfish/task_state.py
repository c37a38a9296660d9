"""What became of something that a BMC does in the background.

Source: specification drivers.md section 18 (TaskMonitor, Task); field case 90.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import sushy
import sushy.exceptions
from sushy.resources.taskservice.task import Task as RedfishTask

from ironic_rs.drivers.redfish.sessions import NodeBmc

_ACTIVE = (
    sushy.TaskState.NEW,
    sushy.TaskState.RUNNING,
    sushy.TaskState.STARTING,
    sushy.TaskState.PENDING,
)
_GOOD = (sushy.Health.OK, sushy.Health.WARNING, None)


class Phase(Enum):
    """How far a task is; GONE: the BMC does not know it (any more)."""

    ACTIVE = "active"
    DONE = "done"
    FAILED = "failed"
    GONE = "gone"


class Next(Enum):
    """What has to be done next by a step that follows tasks."""

    WAIT = "wait"
    REBOOT = "reboot"
    DONE = "done"
    FAIL = "fail"


@dataclass(frozen=True)
class TaskView:
    """A task as it was just read; ``text`` is what the BMC says about it."""

    phase: Phase
    state: sushy.TaskState | None = None
    text: str = ""


def look(bmc: NodeBmc, uri: str | None) -> TaskView:
    """Read a task.  Its state counts, not the HTTP status it comes with.

    :param uri: of the task monitor; None: the BMC gave none.
    """
    if uri is None:
        return TaskView(Phase.GONE)
    try:
        monitor = bmc.root.get_task_monitor(uri)
        task = monitor.task or monitor.get_task()
    except sushy.exceptions.ResourceNotFoundError:
        return TaskView(Phase.GONE)
    except sushy.exceptions.BadRequestError as exc:
        # A monitor that has ended answers as the operation would have done.
        return TaskView(Phase.FAILED, text=exc.detail or str(exc))
    except sushy.exceptions.MissingAttributeError:
        # The monitor has ended and shows the result of the operation instead of a task.
        return TaskView(Phase.ACTIVE if monitor.is_processing else Phase.DONE)
    if not monitor.is_processing and "TaskState" not in (task.json or {}):
        # The same, with what was made in place of a task.
        return TaskView(Phase.DONE)
    state = task.task_state
    text = _text(task)
    if state in _ACTIVE:
        return TaskView(Phase.ACTIVE, state, text)
    if state is sushy.TaskState.COMPLETED and task.task_status in _GOOD:
        return TaskView(Phase.DONE, state, text)
    return TaskView(Phase.FAILED, state, text)


def _text(task: RedfishTask) -> str:
    said = [message.message or message.message_id for message in task.messages or ()]
    shown = "; ".join(str(text) for text in said if text)
    state = task.task_state
    return shown or (f"task state {state.value}" if state is not None else "no task state")

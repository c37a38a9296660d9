"""What all endpoints share.

An endpoint method answers only after the lock is taken, the request is checked,
the first transition is saved and a worker has accepted the rest; a refusal leaves
the node as it was (conductor.md section 16, guarantee 3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ironic_rs.conductor import failures
from ironic_rs.conf import CONF
from ironic_rs.db import nodes, records, revision
from ironic_rs.domain import errors, fields, patch, state_since, states

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor
    from ironic_rs.conductor.task import Task
    from ironic_rs.db.base import Base
    from ironic_rs.rpc.context import RequestContext

#: Columns that no patch from outside may name.
_PRIVATE = frozenset({"id", "uuid", "internal_info", "created_at", "updated_at", "version"})


class Endpoint:
    """Base of the endpoint classes: one per subject."""

    def __init__(self, conductor: Conductor) -> None:
        self.conductor = conductor

    def acquire(
        self,
        context: RequestContext,
        node_id: str | int,
        *,
        condition_on_node: bool = True,
        **kwargs: Any,
    ) -> Task:
        """Take a task; other arguments as ``TaskManager.acquire``.

        A condition of the call is looked at under the exclusive lock.

        :param condition_on_node: false leaves the condition to :meth:`require_match`.
        :raises PreconditionFailed: the node is not as the caller thinks.
        """
        condition = context.take_condition() if condition_on_node else None
        if condition is not None:
            kwargs["shared"] = False
            kwargs["check"] = lambda node: revision.require(node, condition)
        return self.conductor.tasks.acquire(context, node_id, **kwargs)

    @staticmethod
    def require_match(context: RequestContext, record: Base) -> None:
        """Look at the condition of a call that is about a record of a node.

        :param record: as read under the node's lock.
        :raises PreconditionFailed: the record is not as the caller thinks.
        """
        revision.require(record, context.take_condition())


def patched(
    record: Base, operations: Sequence[Mapping[str, Any]], table: fields.Table
) -> dict[str, Any]:
    """Apply a patch on column names to a record; return the columns that changed.

    :raises PatchError, InvalidParameterValue: does not apply, bad value.
    """
    names = set(type(record).__table__.columns.keys()) - _PRIVATE
    document = {name: getattr(record, name) for name in names}
    wanted = patch.apply(document, [dict(op) for op in operations], table)
    touched = {patch.root(op): wanted[patch.root(op)] for op in operations}
    for name, value in fields.check_values(table.resource, touched).items():
        setattr(record, name, value)
    return records.changes(record)


def require_event(task: Task, event: str, action: str | None = None) -> None:
    """Refuse an action whose machine event is illegal now, or was asked for of another state.

    :param action: how the caller knows the action; default: the event.
    :raises InvalidStateRequested: illegal.
    :raises NodeMoved: the node has been in another state since its user decided.
    """
    node = task.node
    if not states.is_allowed(node.provision_state, event):
        raise errors.InvalidStateRequested(
            action=action or event, node=node.uuid, state=node.provision_state
        )
    seen = task.context.take_seen()
    now = state_since.stamp(node.provision_state, node.provision_updated_at)
    if seen not in (None, now):
        raise errors.NodeMoved(node=node.uuid, seen=seen, now=now)


def start(
    task: Task,
    event: str,
    worker: Callable[..., None],
    *args: Any,
    action: str | None = None,
    target_state: str | None = None,
    last_error: str | None = None,
) -> None:
    """Fire the first event of a flow and hand the task to its worker.

    :param worker: called as ``worker(task, *args)``.
    :raises InvalidStateRequested: the event is illegal now.
    """
    require_event(task, event, action)
    task.event(
        event,
        callback=worker,
        call_args=(task, *args),
        error_handler=failures.provision_refused,
        target_state=target_state,
        last_error=last_error,
    )


def refuse_maintenance(task: Task, action: str) -> None:
    """Refuse an action on a node in maintenance.

    :raises NodeInMaintenance: it is.
    """
    if task.node.maintenance:
        raise errors.NodeInMaintenance(op=action, node=task.node.uuid)


def refuse_protected(task: Task) -> None:
    """Refuse an action that destroys the instance of a protected node.

    :raises NodeProtected: it is protected.
    """
    if task.node.protected:
        raise errors.NodeProtected(node=task.node.uuid)


def check_concurrency(action: str) -> None:
    """Refuse more deployments or cleanings than the configuration allows.

    Counted before the lock: two requests at the same moment may both pass (W44).

    :param action: ``deploy`` or ``clean``.
    :raises ConcurrentActionLimit: the limit is reached.
    """
    conf = CONF.conductor
    if action == "deploy":
        counted, limit = states.CONCURRENT_DEPLOY_COUNTED, conf.max_concurrent_deploy
    else:
        counted, limit = states.CONCURRENT_CLEAN_COUNTED, conf.max_concurrent_clean
    group = conf.conductor_group.lower() if conf.max_concurrent_per_conductor_group else None
    if nodes.count_in_states(counted, group) >= limit:
        raise errors.ConcurrentActionLimit(task_type=action)

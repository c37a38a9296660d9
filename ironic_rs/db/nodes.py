"""Nodes: queries, writes under the fence of the lock, and the lock itself.

Specification data-model.md sections 4.2 to 4.4; conductor.md section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from oslo_utils import strutils, timeutils, uuidutils
from sqlalchemy import ColumnElement, Connection, RowMapping

from ironic_rs.conf import CONF
from ironic_rs.db import integrity, jsontext, models, records, revision, session, values
from ironic_rs.db.base import table
from ironic_rs.db.listing import Listing, contains, equals, identity, is_in, is_set
from ironic_rs.db.traits import add_traits, remove_traits, set_traits
from ironic_rs.db.types import is_text, json_strings, seconds_ago, utcnow
from ironic_rs.domain import errors, states

__all__ = [
    "LISTING",
    "REVISION_COLUMNS",
    "add_traits",
    "child_uuids",
    "clear_own",
    "count_in_states",
    "create",
    "destroy",
    "get",
    "get_by_ident",
    "get_by_instance",
    "locked",
    "release",
    "remove_traits",
    "reserve",
    "revision_of",
    "save",
    "select",
    "set_traits",
    "shard_counts",
    "take_over_lock",
    "touch_provisioning",
    "traits_in",
    "update",
]

Node = models.Node

_nodes = table(Node)
_node_traits = table(models.NodeTrait)
_chassis = table(models.Chassis)
_allocations = table(models.Allocation)

#: What belongs to a node and goes with it, in the order of deletion.
_OWNED = tuple(
    table(model)
    for model in (
        models.Port,
        models.Portgroup,
        models.NodeTag,
        models.NodeTrait,
        models.VolumeConnector,
        models.VolumeTarget,
        models.BIOSSetting,
        models.NodeHistory,
        models.NodeInventory,
        models.FirmwareComponent,
    )
)
_TRAITS = (
    sa.select(json_strings(_node_traits.c.trait))
    .where(_node_traits.c.node_id == _nodes.c.id)
    .scalar_subquery()
)
_WITH_TRAITS = sa.select(_nodes, _TRAITS.label("traits_json"))


def _project(project: str) -> ColumnElement[bool]:
    return sa.or_(_nodes.c.owner == project, _nodes.c.lessee == project)


def _include_children(wanted: bool) -> ColumnElement[bool]:
    return sa.true() if wanted else _nodes.c.parent_node.is_(None)


def _all_traits(traits: Iterable[str]) -> ColumnElement[bool]:
    wanted = set(traits)
    return _nodes.c.id.in_(
        sa.select(_node_traits.c.node_id)
        .where(_node_traits.c.trait.in_(wanted))
        .group_by(_node_traits.c.node_id)
        .having(sa.func.count(_node_traits.c.trait) == len(wanted))
    )


def _chassis_is(uuid: str) -> ColumnElement[bool]:
    return _nodes.c.chassis_id == (
        sa.select(_chassis.c.id).where(_chassis.c.uuid == uuid).scalar_subquery()
    )


_EQUAL = (
    "console_enabled",
    "maintenance",
    "retired",
    "driver",
    "resource_class",
    "provision_state",
    "uuid",
    "id",
    "fault",
    "conductor_group",
    "owner",
    "lessee",
    "instance_uuid",
    "instance_name",
    "parent_node",
    "shard",
    "reservation",
    "name",
    "conductor_affinity",
)

LISTING = Listing(
    Node,
    missing=lambda ident: errors.NodeNotFound(node=ident),
    derived={
        "chassis_uuid": sa.select(_chassis.c.uuid)
        .where(_chassis.c.id == _nodes.c.chassis_id)
        .scalar_subquery(),
        "allocation_uuid": sa.select(_allocations.c.uuid)
        .where(_allocations.c.id == _nodes.c.allocation_id)
        .scalar_subquery(),
        "traits_json": _TRAITS,
        # Times of nodes are compared with this clock (W43).
        "database_time": sa.select(utcnow()).scalar_subquery(),
    },
    filters={
        **{name: equals(_nodes.c[name]) for name in _EQUAL},
        "uuid_in": is_in(_nodes.c.uuid),
        "id_in": is_in(_nodes.c.id),
        "provision_state_in": is_in(_nodes.c.provision_state),
        "conductor_affinity_not": lambda number: sa.or_(
            _nodes.c.conductor_affinity.is_(None), _nodes.c.conductor_affinity != number
        ),
        "provision_state_not_in": lambda names: _nodes.c.provision_state.not_in(list(names)),
        "shard_in": is_in(_nodes.c.shard),
        "driver_in": is_in(_nodes.c.driver),
        "associated": is_set(_nodes.c.instance_uuid),
        "reserved": is_set(_nodes.c.reservation),
        "with_power_state": is_set(_nodes.c.power_state),
        "with_target_power_state": is_set(_nodes.c.target_power_state),
        # In one of these states, or on the way to a power state.
        "on_its_way_in": lambda names: sa.or_(
            _nodes.c.provision_state.in_(list(names)), _nodes.c.target_power_state.is_not(None)
        ),
        "sharded": is_set(_nodes.c.shard),
        "reserved_by_any_of": is_in(_nodes.c.reservation),
        "chassis_uuid": _chassis_is,
        "provisioned_before": lambda s: _nodes.c.provision_updated_at < seconds_ago(s),
        "inspection_started_before": lambda s: _nodes.c.inspection_started_at < seconds_ago(s),
        "description_contains": contains(_nodes.c.description),
        "project": _project,
        "include_children": _include_children,
        "ident_in": lambda found: sa.or_(
            _nodes.c.uuid.in_(list(found)), _nodes.c.name.in_(list(found))
        ),
        "all_traits": _all_traits,
    },
)


select = LISTING.select


def _one(connection: Connection, where: ColumnElement[bool]) -> Node | None:
    row = connection.execute(_WITH_TRAITS.where(where)).mappings().one_or_none()
    return None if row is None else _record(row)


def _record(row: RowMapping) -> Node:
    return records.build(Node, row, traits=traits_in(row))


def traits_in(row: Mapping[Any, Any]) -> list[str]:
    """Sorted traits of a row that was selected with ``traits_json``."""
    return sorted(jsontext.loads(row["traits_json"])) if row["traits_json"] else []


#: What :func:`revision_of` needs.
REVISION_COLUMNS = (*revision.columns(Node), "traits_json")


def revision_of(row: Mapping[Any, Any]) -> str:
    """Return the revision of a row that was selected with ``REVISION_COLUMNS``."""
    return revision.of(Node, row, traits=traits_in(row))


@session.reads
def get(connection: Connection, ident: int | str) -> Node:
    """Node by its integer id or uuid, with traits (1 statement).

    :raises InvalidIdentity: neither an id nor a uuid.
    :raises NodeNotFound: no such node.
    """
    node = _one(connection, identity(Node, ident))
    if node is None:
        raise errors.NodeNotFound(node=ident)
    return node


@session.reads
def get_by_ident(connection: Connection, ident: str) -> Node:
    """Node by uuid or name, with traits.

    :raises NodeNotFound: no such node.
    """
    is_uuid = uuidutils.is_uuid_like(ident)
    node = _one(connection, _nodes.c.uuid == ident if is_uuid else is_text(_nodes.c.name, ident))
    if node is None:
        raise errors.NodeNotFound(node=ident)
    return node


@session.reads
def get_by_instance(connection: Connection, instance_uuid: str) -> Node:
    """Node that an instance is on.

    :raises InvalidUUID: the instance is not a uuid.
    :raises InstanceNotFound: no node has it.
    """
    if not uuidutils.is_uuid_like(instance_uuid):
        raise errors.InvalidUUID(uuid=instance_uuid)
    node = _one(connection, _nodes.c.instance_uuid == instance_uuid)
    if node is None:
        raise errors.InstanceNotFound(instance=instance_uuid)
    return node


@session.reads
def count_in_states(
    connection: Connection, provision_states: Iterable[str], conductor_group: str | None = None
) -> int:
    """Number of nodes in these provision states (of one conductor group)."""
    where: list[ColumnElement[bool]] = [_nodes.c.provision_state.in_(list(provision_states))]
    if conductor_group is not None:
        where.append(_nodes.c.conductor_group == conductor_group)
    return connection.execute(sa.select(sa.func.count(_nodes.c.id)).where(*where)).scalar_one()


@session.reads
def child_uuids(connection: Connection, parent_uuid: str, project: str | None = None) -> list[str]:
    """Uuids of the nodes whose parent this is, in order of creation.

    :param project: only children that it owns or leases; None for all.
    """
    where = [_nodes.c.parent_node == parent_uuid]
    if project is not None:
        where.append(_project(project))
    rows = connection.execute(sa.select(_nodes.c.uuid).where(*where).order_by(_nodes.c.id))
    return [row.uuid for row in rows]


@session.reads
def shard_counts(connection: Connection) -> list[tuple[str | None, int]]:
    """(shard, number of nodes), largest first; None for nodes in no shard."""
    number = sa.func.count(_nodes.c.id)
    rows = connection.execute(
        sa.select(_nodes.c.shard, number).group_by(_nodes.c.shard).order_by(number.desc())
    )
    return [(shard, count) for shard, count in rows]


def _prepare(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values as they are stored: texts cut, group in lower case, sizes checked."""
    row = dict(given)
    for name in ("last_error", "maintenance_reason"):
        if name in row:
            row[name] = values.cut(row[name], CONF.log_in_db_max_size)
    if row.get("conductor_group"):
        row["conductor_group"] = row["conductor_group"].lower()
    for name in ("local_gb", "memory_mb"):
        size = (row.get("properties") or {}).get(name)
        if size is not None and not (strutils.is_int_like(size) and int(size) >= 0):
            raise errors.InvalidParameterValue(
                err=f"Property {name} of a node must be a non-negative integer, not {size!r}."
            )
    return row


@session.writes
def create(connection: Connection, given: Mapping[str, Any]) -> Node:
    """Store a node; uuid and provision_state (enroll) are supplied when missing.

    :raises DuplicateName, NodeAlreadyExists, InstanceAssociated: not unique.
    :raises InvalidParameterValue: a value that is no column (``traits``), or does
        not fit.
    """
    row = values.for_insert(Node, _prepare(given))
    row.setdefault("power_state", None)
    if row.get("provision_state") is None:
        row["provision_state"] = states.ENROLL
    integrity.refuse_other_case(connection, Node, row)
    with integrity.translated(Node, row):
        connection.execute(sa.insert(_nodes).values(row))
    node = _one(connection, _nodes.c.uuid == row["uuid"])
    assert node is not None
    return node


def _stamps(node: Node, row: Mapping[str, Any]) -> dict[str, Any]:
    """Times that a new provision state sets (data-model.md section 4.4)."""
    if "provision_state" not in row:
        return {}
    stamps: dict[str, Any] = {"provision_updated_at": utcnow()}
    if not stamps.keys().isdisjoint(row):
        # The state is put back as it was, and with it since when it was so.
        return {}
    before, after = records.original(node, "provision_state"), row["provision_state"]
    was_inspecting = before in (states.INSPECTING, states.INSPECTWAIT)
    if after == states.INSPECTING:
        stamps |= {"inspection_started_at": utcnow(), "inspection_finished_at": None}
    elif was_inspecting and after == states.MANAGEABLE:
        stamps |= {"inspection_finished_at": utcnow(), "inspection_started_at": None}
    elif was_inspecting and after == states.INSPECTFAIL:
        stamps["inspection_started_at"] = None
    return stamps


def _not_written(
    connection: Connection, node_id: int, fence: str | None, name: str | None = None
) -> errors.IronicError:
    """Why a conditional write met no row; ``name`` is what a message calls the node."""
    found = connection.execute(
        sa.select(_nodes.c.uuid, _nodes.c.reservation).where(_nodes.c.id == node_id)
    ).one_or_none()
    if found is None:
        return errors.NodeNotFound(node=name or node_id)
    holder = f"it is held by {found.reservation}" if found.reservation else "it was released"
    return errors.LockLost(host=fence, node=found.uuid, reason=holder)


def _fenced(node_id: int, fence: str | None) -> ColumnElement[bool]:
    if fence is None:
        return _nodes.c.id == node_id
    return sa.and_(_nodes.c.id == node_id, _nodes.c.reservation == fence)


def update(node: Node, given: Mapping[str, Any], *, fence: str | None) -> dict[str, Any]:
    """Write these columns in one UPDATE; the record itself is left as it is.

    A node that lets go of its allocation (``allocation_id`` None) takes it along, in
    the same transaction: neither is ever without the other.

    :param fence: hostname that must still hold the reservation; None writes
        whoever holds it.
    :returns: columns whose stored value is not the given one: ``updated_at``, the
        times set with ``provision_state``, cut texts.  On MySQL and MariaDB, which
        can not return them, the times are those of this host's clock.
    :raises LockLost: the reservation is not ``fence`` (any more).
    :raises NodeNotFound: the node is gone.
    :raises DuplicateName, InstanceAssociated: not unique.
    """
    if not given:
        return {}
    if "allocation_id" in given and given["allocation_id"] is None:
        return _update_without_allocation(node, given, fence)
    return _update(node, given, fence)


@session.writes
def _update_without_allocation(
    connection: Connection, node: Node, given: Mapping[str, Any], fence: str | None
) -> dict[str, Any]:
    written = _write(connection, node, given, fence)
    connection.execute(sa.delete(_allocations).where(_allocations.c.node_id == node.id))
    return written


@session.writes_once
def _update(
    connection: Connection, node: Node, given: Mapping[str, Any], fence: str | None
) -> dict[str, Any]:
    return _write(connection, node, given, fence)


def _write(
    connection: Connection, node: Node, given: Mapping[str, Any], fence: str | None
) -> dict[str, Any]:
    row = values.for_update(Node, _prepare(given))
    stamps = _stamps(node, row)
    integrity.refuse_other_case(connection, Node, row, _nodes.c.id == node.id)
    statement = sa.update(_nodes).where(_fenced(node.id, fence)).values(row | stamps)
    written = {name: row[name] for name in row if name not in given or row[name] != given[name]}
    times = ["updated_at", *stamps]
    with integrity.translated(Node, {"uuid": node.uuid, **row}):
        if connection.dialect.update_returning:
            returning = statement.returning(*(_nodes.c[name] for name in times))
            stored = connection.execute(returning).mappings().one_or_none()
            if stored is None:
                raise _not_written(connection, node.id, fence, node.uuid)
            return written | dict(stored)
        if connection.execute(statement).rowcount == 0:
            raise _not_written(connection, node.id, fence, node.uuid)
    now = timeutils.utcnow(with_timezone=True).replace(microsecond=0)
    set_now = {n: None if n in stamps and stamps[n] is None else now for n in times}
    return written | set_now


def save(node: Node, *, fence: str | None) -> None:
    """Write the columns of the record that changed (no statement when none did).

    Afterwards the record is what is stored; errors as in :func:`update`.
    """
    changed = records.changes(node)
    if not changed:
        return
    written = update(node, changed, fence=fence)
    records.mark_clean(node, changed)
    records.apply(node, written)


@session.writes_once
def touch_provisioning(connection: Connection, node_id: int, fence: str | None = None) -> None:
    """Set provision_updated_at to now: call-back time-outs start anew.

    :raises NodeNotFound: the node is gone.
    :raises LockLost: ``fence`` does not hold the reservation.
    """
    statement = sa.update(_nodes).where(_fenced(node_id, fence))
    if connection.execute(statement.values(provision_updated_at=utcnow())).rowcount == 0:
        raise _not_written(connection, node_id, fence)


@session.writes
def destroy(connection: Connection, node_id: int, fence: str | None = None) -> None:
    """Delete a node and all that belongs to it, in one transaction.

    :raises NodeNotFound: no such node.
    :raises LockLost: ``fence`` does not hold the reservation; nothing is deleted.
    """
    # With the row locked nobody adds what would be left behind, or refer to nothing.
    locked = sa.select(_nodes.c.id).where(_fenced(node_id, fence)).with_for_update()
    if connection.execute(locked).one_or_none() is None:
        raise _not_written(connection, node_id, fence)
    exist = (sa.exists().where(rows.c.node_id == node_id).label(rows.name) for rows in _OWNED)
    present = connection.execute(sa.select(*exist)).mappings().one()
    for rows in _OWNED:
        if present[rows.name]:
            connection.execute(sa.delete(rows).where(rows.c.node_id == node_id))
    connection.execute(sa.delete(_nodes).where(_nodes.c.id == node_id))
    connection.execute(sa.delete(_allocations).where(_allocations.c.node_id == node_id))


# The lock.  It is not part of what a node is: it leaves updated_at alone.


def _held_by(host: str | None) -> dict[str, Any]:
    return {"reservation": host, "updated_at": _nodes.c.updated_at}


@session.writes
def reserve(connection: Connection, ident: int | str, host: str) -> Node:
    """Take the exclusive lock: one conditional UPDATE, then the fresh node with traits.

    :raises InvalidIdentity: neither an id nor a uuid.
    :raises NodeLocked: held, be it by the same host; tells what the row tells.
    :raises NodeNotFound: no such node.
    """
    where = identity(Node, ident)
    take = sa.update(_nodes).where(where, _nodes.c.reservation.is_(None)).values(_held_by(host))
    # Twice: it may be released between our UPDATE and the look at who holds it.
    for _ in range(2):
        if connection.execute(take).rowcount == 1:
            node = _one(connection, where)
            assert node is not None
            return node
        row = connection.execute(sa.select(*_HOLDER).where(where)).mappings().one_or_none()
        if row is None:
            raise errors.NodeNotFound(node=ident)
        refused = locked(row)
        if row["reservation"] is not None:
            break
    raise refused


_HOLDER = (
    _nodes.c.uuid,
    _nodes.c.reservation,
    _nodes.c.provision_state,
    _nodes.c.provision_updated_at,
)


def locked(row: Mapping[Any, Any]) -> errors.NodeLocked:
    """Return the error about the lock of a row that was read without it.

    A row does not tell what its lock is for, except in the states that a conductor
    only leaves by ending its work: those began when the work did.

    :param row: uuid, reservation, provision_state, provision_updated_at.
    """
    host, state = row["reservation"] or "unknown", row["provision_state"]
    busy = state in states.STUCK_STATES_TREATED_AS_FAIL
    error = errors.NodeLocked(node=row["uuid"], host=host)
    return error.held_by(
        row["uuid"], host, state if busy else None, row["provision_updated_at"] if busy else None
    )


@session.writes
def release(connection: Connection, node_id: int, host: str) -> None:
    """Give the lock back (1 UPDATE).

    :raises NodeNotFound: the node is gone.
    :raises NodeNotLocked: nobody holds it.
    :raises NodeLocked: another host holds it.
    """
    statement = sa.update(_nodes).where(_fenced(node_id, host)).values(_held_by(None))
    if connection.execute(statement).rowcount == 1:
        return
    found = connection.execute(
        sa.select(_nodes.c.uuid, _nodes.c.reservation).where(_nodes.c.id == node_id)
    ).one_or_none()
    if found is None:
        raise errors.NodeNotFound(node=node_id)
    if found.reservation is None:
        raise errors.NodeNotLocked(node=found.uuid)
    raise errors.NodeLocked(node=found.uuid, host=found.reservation)


@session.writes_once
def take_over_lock(connection: Connection, node_id: int, dead_host: str, host: str) -> bool:
    """Move the lock of a dead conductor to ``host``; False when it holds it no more.

    In one statement: at no moment is a node in a transient state without an owner.
    """
    statement = sa.update(_nodes).where(_fenced(node_id, dead_host)).values(_held_by(host))
    return connection.execute(statement).rowcount == 1


_ABORTED = "Pending power operation was aborted because the conductor restarted."


@session.writes
def clear_own(connection: Connection, host: str) -> list[str]:
    """Free every node that this host (exactly) holds from an earlier life.

    A power action that was pending there is cancelled and noted in last_error; the
    power state is unknown then.

    :returns: uuids of the nodes.
    """
    mine = _nodes.c.reservation == host
    uuids = [row.uuid for row in connection.execute(sa.select(_nodes.c.uuid).where(mine))]
    if uuids:
        connection.execute(
            sa.update(_nodes)
            .where(mine, _nodes.c.target_power_state.is_not(None))
            .values(power_state=None, target_power_state=None, last_error=_ABORTED)
        )
        connection.execute(sa.update(_nodes).where(mine).values(_held_by(None)))
    return uuids

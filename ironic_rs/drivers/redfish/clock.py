"""The clock of the BMC: wrong clocks break certificates and make logs useless.

Source: specification drivers.md section 6.4 (clock).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sushy.exceptions
from oslo_log import log
from sushy.resources.manager.manager import Manager

from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers.redfish.sessions import NodeBmc

LOG = log.getLogger(__name__)

UTC_OFFSET = "+00:00"
#: Difference that is no difference.
TOLERANCE = timedelta(seconds=1)


def _manager(node: models.Node, bmc: NodeBmc) -> Manager:
    managers = bmc.system.managers
    if not managers:
        raise errors.RedfishError(error=f"the system of node {node.uuid} names no manager")
    return managers[0]


def _parse(node: models.Node, text: object) -> datetime:
    try:
        when = datetime.fromisoformat(str(text))
    except ValueError as exc:
        raise errors.RedfishError(
            error=f"the BMC of node {node.uuid} has the time {text!r}, which is no ISO 8601 time"
        ) from exc
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _format(when: datetime, like: object) -> str:
    """Return the time with fractions only when the BMC shows fractions."""
    fractions = isinstance(like, str) and "." in like
    return when.isoformat(timespec="milliseconds" if fractions else "seconds")


def set_time(
    node: models.Node, bmc: NodeBmc, target: str | None = None, offset: str | None = None
) -> None:
    """Set the clock, to now in UTC unless told otherwise, and read it back.

    :param target: ISO 8601 time.
    :raises InvalidParameterValue: ``target`` is no such time.
    :raises RedfishError: the BMC refused, or shows another time afterwards.
    """
    manager = _manager(node, bmc)
    if target is None:
        when = datetime.now(UTC)
        offset = offset or UTC_OFFSET
    else:
        try:
            when = datetime.fromisoformat(target)
        except ValueError as exc:
            raise errors.InvalidParameterValue(
                f"target_datetime must be an ISO 8601 time, not {target!r}."
            ) from exc
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
    _set(node, manager, when, offset)


def _set(node: models.Node, manager: Manager, when: datetime, offset: str | None) -> None:
    asked_at = datetime.now(UTC)
    manager.set_datetime(_format(when, manager.datetime), offset)
    shown = _parse(node, manager.datetime)
    drift = abs(shown - when) - (datetime.now(UTC) - asked_at)
    if drift > TOLERANCE:
        raise errors.RedfishError(
            error=(
                f"the clock of the BMC of node {node.uuid} shows {shown.isoformat()} after it "
                f"was set to {when.isoformat()}"
            )
        )


def correct(node: models.Node, bmc: NodeBmc) -> None:
    """Set the clock when it is off by more than a second.

    :raises RedfishError: it cannot be read or set.
    """
    try:
        manager = _manager(node, bmc)
    except sushy.exceptions.MissingAttributeError as exc:
        raise errors.RedfishError(
            error=f"the system of node {node.uuid} names no manager: {exc}"
        ) from exc
    drift = abs(_parse(node, manager.datetime) - datetime.now(UTC))
    if drift <= TOLERANCE:
        return
    LOG.info("Node %s: the clock of the BMC is off by %s, setting it", node.uuid, drift)
    offset = None if manager.datetimelocaloffset == UTC_OFFSET else UTC_OFFSET
    _set(node, manager, datetime.now(UTC), offset)

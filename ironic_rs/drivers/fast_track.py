"""Whether a running ramdisk may be used for the next flow, without a reboot.

Source: specification conductor.md section 8.5.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from oslo_log import log
from oslo_utils import strutils, timeutils

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states, steps

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)


def enabled(node: models.Node) -> bool:
    """Tell whether fast track is on for the node.

    :raises InvalidParameterValue: driver_info.fast_track is no boolean.
    """
    value = node.driver_info.get("fast_track")
    if value is None:
        return bool(CONF.deploy.fast_track)
    try:
        return bool(strutils.bool_from_string(value, strict=True))
    except ValueError as exc:
        raise errors.InvalidParameterValue(
            f"driver_info fast_track of node {node.uuid} is not a boolean: {exc}"
        ) from exc


def able(task: Task) -> bool:
    """Tell whether the node could use a running ramdisk now, if there is one.

    :raises InvalidParameterValue: driver_info.fast_track is no boolean.
    """
    node = task.node
    info = node.driver_internal_info
    return (
        enabled(node)
        and node.last_error is None
        and node.provision_state not in states.SERVICING_STATES
        and not info.get(steps.FIRMWARE_UPDATES)
        and not info.get(steps.FIRMWARE_IMAGES)
        and task.driver.storage.should_write_image(task)
    )


def _is_recent(moment: datetime.datetime | str | None, timeout: int) -> bool:
    if moment is None:
        return False
    if isinstance(moment, str):
        try:
            moment = timeutils.parse_isotime(moment)
        except ValueError:
            return False
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    age = timeutils.utcnow(with_timezone=True) - moment
    return age <= datetime.timedelta(seconds=timeout)


def agent_is_alive(node: models.Node, timeout: int | None = None) -> bool:
    """Tell whether the agent was heard of lately.

    :param timeout: seconds, default ``[deploy]fast_track_timeout``.
    """
    if timeout is None:
        timeout = CONF.deploy.fast_track_timeout
    # The end of an inspection counts as a sign of life.
    if node.power_state == states.POWER_ON and _is_recent(node.inspection_finished_at, timeout):
        return True
    info = node.driver_internal_info
    inspecting = node.provision_state in (states.INSPECTING, states.INSPECTWAIT)
    if not info.get("agent_url") and not inspecting:
        return False
    return _is_recent(info.get("agent_last_heartbeat"), timeout)


def in_use(task: Task) -> bool:
    """Tell whether the next flow can go on with the ramdisk that runs now.

    Asks the BMC for the power state when everything else allows it.

    :raises InvalidParameterValue: driver_info.fast_track is no boolean.
    """
    return (
        able(task)
        and agent_is_alive(task.node)
        and task.driver.power.get_power_state(task) == states.POWER_ON
    )

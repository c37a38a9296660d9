"""Node history: one record for each failure, and ``last_error`` with it.

Source: specification conductor.md sections 11.4 and 14.
"""

from __future__ import annotations

import datetime
import logging
from typing import TYPE_CHECKING

from ironic_rs.conductor.outage import outlast
from ironic_rs.conf import CONF
from ironic_rs.db import history as db_history
from ironic_rs.domain import states

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.rpc.context import RequestContext

LOG = logging.getLogger(__name__)


def truncate_error(text: str) -> str:
    """Cut a text to what ``last_error`` and ``maintenance_reason`` may hold."""
    limit = CONF.log_in_db_max_size
    return text if len(text) <= limit else text[:limit]


def forget_error(node: models.Node) -> None:
    """Clear the last error, unless it tells why the node is in its failed state (W14)."""
    if node.provision_state not in states.FAILED:
        node.last_error = None


def is_kept() -> bool:
    """Tell whether the operator wants a history of nodes."""
    group = CONF.conductor
    return bool(group.node_history) and group.node_history_max_entries > 0


def record(
    node: models.Node,
    host: str,
    context: RequestContext | None,
    event: str,
    event_type: str = "UNKNOWN",
    *,
    error: bool = True,
    user: str | None = None,
) -> None:
    """Write a history record of ``node`` as it is now.

    An error also becomes ``node.last_error`` (in memory; the caller saves), even
    when ``[conductor]node_history`` is off or ``node_history_max_entries`` is 0.  An
    empty text does nothing.

    :param event_type: kind of the flow: ``deploying``, ``cleaning``, ``power``, ...
    :param user: who asked; default is the user of the context.
    """
    if not event:
        return
    if error:
        node.last_error = truncate_error(event)
    if not is_kept():
        return
    values = {
        "node_id": node.id,
        "conductor": host,
        "event": event,
        "event_type": event_type,
        "severity": "ERROR" if error else "INFO",
        "user": user or (context.user_id if context is not None else None),
        "project": context.project_id if context is not None else None,
        "state": node.provision_state,
        "target_provision_state": node.target_provision_state,
        "duration_seconds": _seconds_in_state(node),
    }
    outlast(lambda: db_history.create(values))


def _seconds_in_state(node: models.Node) -> int | None:
    since = node.provision_updated_at
    if since is None:
        return None
    now = datetime.datetime.now(datetime.UTC)
    return max(0, int((now - since).total_seconds()))

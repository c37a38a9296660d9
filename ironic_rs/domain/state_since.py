"""Since when a node is in its provision state.

``provision_updated_at`` alone does not tell: it also moves with each sign of life of a ramdisk,
since the call-back time-outs count from it.  The first such move keeps the time before in
``driver_internal_info``, where users see it; the event that ends the state removes it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, MutableMapping
from typing import Any

#: Key of driver_internal_info: ``{"state": ..., "time": ...}``.  With another state it was left
#: behind by a release that does not know it.
KEY = "provision_state_since"


def keep(
    internal_info: MutableMapping[str, Any], state: str, updated_at: datetime.datetime | None
) -> None:
    """Keep the time of the last change before ``provision_updated_at`` moves on.

    :param internal_info: driver_internal_info of the node.
    :param updated_at: its ``provision_updated_at``.
    """
    if updated_at is not None and _kept(internal_info, state) is None:
        internal_info[KEY] = {"state": state, "time": updated_at.isoformat()}


def of(node: Mapping[Any, Any]) -> datetime.datetime | None:
    """Return since when a node is in its state, None when nobody knows.

    :param node: driver_internal_info, provision_state, provision_updated_at, created_at.
    """
    kept = _kept(node["driver_internal_info"] or {}, node["provision_state"])
    found: datetime.datetime | None = kept or node["provision_updated_at"] or node["created_at"]
    return found


def stamp(state: str, updated_at: datetime.datetime | None) -> str:
    """Return a text that is another one as soon as a settled node has been in another state.

    :param state: its provision state, in which no ramdisk gives signs of life.
    :param updated_at: its ``provision_updated_at``.
    """
    return f"{state} since {updated_at.isoformat() if updated_at else 'ever'}"


def _kept(internal_info: Mapping[str, Any], state: str) -> datetime.datetime | None:
    known = internal_info.get(KEY)
    if not isinstance(known, Mapping) or known.get("state") != state:
        return None
    try:
        time = datetime.datetime.fromisoformat(known["time"])
    except (KeyError, TypeError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)

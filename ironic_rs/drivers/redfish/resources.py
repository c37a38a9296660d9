"""The part of a system that is read all the time, and parts that may be missing.

Power sync reads every system every cycle.  sushy's own ``System`` keeps the whole
document, parses all of it, and may read the settings resource along with it.
:class:`SystemSummary` keeps a few values: exactly one GET a refresh, little CPU,
little memory.

Source: specification drivers.md section 6.3, design section 7.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

import sushy
import sushy.exceptions
from oslo_log import log
from sushy.resources import base

from ironic_rs.db import models
from ironic_rs.drivers.redfish.connector import LoginsRefused

LOG = log.getLogger(__name__)

T = TypeVar("T")

#: What sushy raises when a document is not what the standard says.
_STRANGE = (AttributeError, IndexError, KeyError, TypeError, ValueError)


def _member(name: str, enum: type[Enum] | None = None) -> Callable[[Any], Any]:
    """Return a reader of one member of an object; None for anything strange in it."""

    def read(value: Any) -> Any:
        member = value.get(name) if isinstance(value, dict) else None
        if enum is None:
            return member if isinstance(member, str) else None
        try:
            return enum(member)
        except ValueError:
            return None

    return read


class SystemSummary(base.ResourceBase):
    """Power state, boot mode, health and manufacturer of a system.

    ``read_at`` is the monotonic time of the last read.
    """

    power_state = base.MappedField("PowerState", sushy.PowerState)
    boot_mode = base.Field(
        "Boot", adapter=_member("BootSourceOverrideMode", sushy.BootSourceOverrideMode)
    )
    health = base.Field("Status", adapter=_member("Health", sushy.Health))
    manufacturer = base.Field("Manufacturer")
    has_settings = base.Field("@Redfish.Settings", default=False, adapter=bool)
    secure_boot_path = base.Field("SecureBoot", adapter=_member("@odata.id"))

    read_at: float = 0.0

    def _do_refresh(self, force: bool) -> None:
        # The document of ten thousand systems must not stay in memory.
        self._json = None
        self.read_at = time.monotonic()


def optional(
    node: models.Node,
    what: str,
    read: Callable[[], T],
    default: T,
    strange: list[str] | None = None,
) -> T:
    """Read a part that a BMC may lack or show in a strange form.

    The gap is logged and filled with ``default``.  A BMC that does not answer is no
    gap: that error is raised.

    :param strange: gets the text about a part in a strange form, which then is for the
        caller to tell.
    """
    try:
        return read()
    except (sushy.exceptions.ConnectionError, LoginsRefused):
        raise
    except (
        sushy.exceptions.MissingAttributeError,
        sushy.exceptions.ResourceNotFoundError,
    ) as exc:
        LOG.info("Node %s: the BMC shows no %s: %s", node.uuid, what, exc)
    except (sushy.exceptions.SushyError, *_STRANGE) as exc:
        text = f"could not read the {what}: {type(exc).__name__}: {exc}"
        if strange is None:
            LOG.warning("Node %s: %s", node.uuid, text)
        else:
            strange.append(text)
    return default


def members(node: models.Node, owner: Any, attribute: str) -> list[Any]:
    """Return the resources in a collection, or list, of a resource; none for a gap.

    :param attribute: of ``owner``, such as ``drives``.
    """

    def read() -> list[Any]:
        found = getattr(owner, attribute)
        return list(found.get_members() if hasattr(found, "get_members") else found)

    return optional(node, f"{attribute} of {owner.path}", read, [])


def plain(value: Any) -> Any:
    """Return the text of an enumeration member, other values as they are."""
    return value.value if isinstance(value, Enum) else value

"""The part of a computer system that is read all the time, as a sushy resource.

Power sync reads every system every cycle.  sushy's own ``System`` keeps the whole
document, parses all of it, and may read the settings resource along with it.  This
one keeps five values: exactly one GET a refresh, little CPU, little memory.

Source: specification drivers.md section 6.3, design section 7.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Any

import sushy
from sushy.resources import base


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

"""What a driver sees of the conductor: the task, and the flows it may ask for.

Drivers never import the conductor and never decide about provision states; they
return or raise, or ask through :class:`Flows`.

Source: specification conductor.md sections 3, 8 to 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.base import BareDriver


class Flows(Protocol):
    """Actions of the conductor that drivers may trigger on their task.

    All of them need the exclusive lock.  Errors of node records are written by
    the callee, under the fence of the lock.
    """

    def power(self, new_state: str, timeout: int | None = None) -> None:
        """Run one power action and record it (conductor.md section 10.1)."""

    def power_off_and_on(self) -> AbstractContextManager[None]:
        """Power off, run the body, power on again (reboot with disable_power_off)."""

    def wait_for_power_state(self, state: str, timeout: int | None = None) -> str:
        """Poll the BMC with back-off until it reports ``state``.

        :raises PowerStateFailure: not reached within the timeout (seconds, default
            ``[conductor]power_state_change_timeout``).
        """

    def set_boot_device(self, device: str, persistent: bool = False) -> None:
        """Set the boot device, honouring driver_info.force_persistent_boot_device."""

    def set_boot_mode(self, mode: str) -> None:
        """Set the boot mode if the driver can."""

    def set_steps(self, kind: str, *, reset_current: bool = False) -> None:
        """Compute the plan of a kind again, in-band steps included."""

    def resume(self, kind: str) -> None:
        """Event ``resume`` (manual cleaning target kept), then run the next steps.

        Runs in the calling worker until the flow waits, ends or fails.
        """

    def start(self, kind: str) -> None:
        """First heartbeat of a fresh ramdisk: resume, build the plan, run it."""

    def fail(self, kind: str, message: str, *, collect_logs: bool = False) -> None:
        """Error handler of the kind: ``clean``, ``deploy``, ``service``, ``rescue``."""

    def touch(self) -> None:
        """Move provision_updated_at: the call-back time-out starts anew."""


class Task(Protocol):
    """A locked (or shared) node with its driver.

    ``node`` is the record as of the lock; ``save`` writes the columns that changed.
    """

    context: Any
    node: models.Node
    shared: bool
    driver: BareDriver
    flows: Flows

    @property
    def ports(self) -> Sequence[models.Port]: ...

    @ports.setter
    def ports(self, value: Sequence[models.Port] | None) -> None:
        """None: they have changed, and are loaded again on the next use."""

    @property
    def portgroups(self) -> Sequence[models.Portgroup]: ...

    def save(self) -> None:
        """Write the changed columns of ``node`` in one UPDATE, under the fence.

        :raises LockLost: the reservation is no longer ours; nothing was written.
        :raises ExclusiveLockRequired: the task is shared.
        """

    def save_and_release(self, *, touch: bool = False) -> None:
        """Write the changed columns and give the lock back, in one UPDATE.

        :param touch: the call-back time-out starts anew.
        :raises LockLost: the reservation is no longer ours; nothing was written.
        """

    def upgrade_lock(self, purpose: str | None = None, retry: bool | None = None) -> None:
        """Take the exclusive lock; ``node`` becomes a fresh record.

        :raises NodeLocked: held by somebody else after the retries.
        """

    def history(
        self, event: str, event_type: str, *, error: bool = True, user: str | None = None
    ) -> None:
        """Record a node history entry; an error also becomes ``last_error``."""

"""Fake vendor interface: passthru methods of every flavour.

Source: specification drivers.md section 4, clients.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.domain import errors, states
from ironic_rs.drivers import base
from ironic_rs.drivers.decorators import clean_step, passthru, service_step
from ironic_rs.drivers.fake.delay import pause

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

_NEED_BAR = frozenset({"second_method", "third_method_sync", "fourth_method_shared_lock"})


class FakeVendor(base.VendorInterface):
    """Methods that compare their argument ``bar`` with a word."""

    def get_properties(self) -> base.Properties:
        return {"B1": "First property of the fake vendor.", "B2": "Second property. Required."}

    def validate(self, task: Task, method: str | None = None, **kwargs: Any) -> None:
        if method in _NEED_BAR and not kwargs.get("bar"):
            raise errors.MissingParameterValue(f"Parameter 'bar' of method '{method}' is missing.")

    @passthru(["POST"], description="Compare 'bar' with kazoo, in the background.")
    def second_method(self, task: Task, http_method: str, bar: str) -> bool:
        pause("vendor")
        return bar == "kazoo"

    @passthru(["POST"], async_call=False, description="Compare 'bar' with meow and answer.")
    def third_method_sync(self, task: Task, http_method: str, bar: str) -> bool:
        pause("vendor")
        return bar == "meow"

    @passthru(["POST"], require_exclusive_lock=False, description="Compare 'bar' with woof.")
    def fourth_method_shared_lock(self, task: Task, http_method: str, bar: str) -> bool:
        pause("vendor")
        return bar == "woof"

    @clean_step(priority=1)
    @service_step(requires_ramdisk=False)
    @passthru(["POST"], description="Write the arguments to the log of the conductor.")
    def log_passthrough(self, task: Task, **kwargs: Any) -> None:
        pause("vendor")
        LOG.debug(
            "log_passthrough of node %s called with arguments %s",
            task.node.uuid,
            ", ".join(sorted(kwargs)) or "none",
        )

    @service_step()
    def trigger_servicewait(self, task: Task) -> str:
        pause("vendor")
        return states.SERVICEWAIT

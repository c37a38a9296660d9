"""Vendor methods of Redfish: ejecting virtual media, event subscriptions.

Source: specification drivers.md section 6.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sushy
import sushy.exceptions

from ironic_rs.domain import errors
from ironic_rs.drivers.base import Properties, VendorInterface
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import passthru, require_exclusive_lock
from ironic_rs.drivers.redfish import subscriptions, virtual_media
from ironic_rs.drivers.redfish.driver_info import parse_driver_info
from ironic_rs.drivers.redfish.sessions import talk

#: Names of slots: those of the API, and Redfish's own.
_DEVICES = {
    **virtual_media.MEDIA_TYPES,
    **{kind.value.lower(): kind for kind in sushy.VirtualMediaType},
}
#: Method -> its arguments.
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "eject_vmedia": ("boot_device",),
    "create_subscription": subscriptions.ARGUMENTS,
    "delete_subscription": ("id",),
    "get_all_subscriptions": (),
    "get_subscription": ("id",),
}


def _media_types(boot_device: Any) -> list[sushy.VirtualMediaType]:
    """Return what to eject: one kind of medium, or all of them.

    :raises InvalidParameterValue: there is no such device.
    """
    if boot_device is None:
        return list(dict.fromkeys(_DEVICES.values()))
    kind = _DEVICES.get(boot_device.lower()) if isinstance(boot_device, str) else None
    if kind is None:
        raise errors.InvalidParameterValue(
            f"boot_device is {boot_device!r}, expected one of {', '.join(_DEVICES)}."
        )
    return [kind]


def _identity(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise errors.InvalidParameterValue(
            f"id is {value!r}, expected the Id of a subscription, as text."
        )
    return value


class RedfishVendor(VendorInterface):
    """What Redfish offers and no other interface does."""

    def get_properties(self) -> Properties:
        return {}

    def validate(self, task: Task, method: str | None = None, **kwargs: Any) -> None:
        """Check the node, and the arguments of a method.

        :raises InvalidParameterValue: an argument is unknown, missing or of the wrong form.
        """
        if method is not None and method in _ARGUMENTS:
            known = _ARGUMENTS[method]
            given = kwargs.keys() - {"http_method"}
            unknown = sorted(given - set(known))
            if unknown:
                raise errors.InvalidParameterValue(
                    f"{method} has no argument '{unknown[0]}'; it takes "
                    f"{', '.join(known) or 'none'}."
                )
            if method == "eject_vmedia":
                _media_types(kwargs.get("boot_device"))
            elif method == "create_subscription":
                subscriptions.wanted(kwargs)
            elif "id" in known:
                _identity(kwargs.get("id"))
        parse_driver_info(task.node)

    @passthru(
        ["POST"],
        description="Eject virtual media. Optional argument: boot_device, such as cdrom (all).",
    )
    @require_exclusive_lock
    def eject_vmedia(self, task: Task, http_method: str, boot_device: str | None = None) -> None:
        """Eject what is in the slots of one kind, or in all."""
        kinds = _media_types(boot_device)
        with talk(task, "ejecting virtual media") as bmc:
            for kind in kinds:
                virtual_media.eject(task.node, bmc, kind)

    @passthru(
        ["POST"],
        async_call=False,
        description=(
            "Have the BMC post events. Required argument: Destination, a URI. Optional: "
            "Protocol (Redfish), Context, EventTypes ([Alert]), HttpHeaders."
        ),
    )
    @require_exclusive_lock
    def create_subscription(self, task: Task, http_method: str, **arguments: Any) -> dict[str, Any]:
        """Subscribe; return Id, Context, Protocol, Destination and EventTypes."""
        payload = subscriptions.wanted(arguments)
        with talk(task, f"subscribing {payload['Destination']} to events") as bmc:
            return subscriptions.create(task.node, bmc, payload)

    @passthru(
        ["DELETE"],
        async_call=False,
        description="Delete an event subscription. Required argument: id.",
    )
    @require_exclusive_lock
    def delete_subscription(self, task: Task, http_method: str, id: str) -> None:
        """Unsubscribe.

        :raises RedfishError: there is no such subscription (HTTP 404).
        """
        identity = _identity(id)
        with talk(task, f"deleting subscription '{identity}'") as bmc:
            try:
                subscriptions.find(task.node, bmc, identity).delete()
            except sushy.exceptions.ResourceNotFoundError as exc:
                raise subscriptions.not_found(task.node, identity) from exc

    @passthru(["GET"], async_call=False, description="List the event subscriptions.")
    @require_exclusive_lock
    def get_all_subscriptions(self, task: Task, http_method: str) -> dict[str, Any]:
        """Return the collection as the BMC shows it."""
        with talk(task, "listing the event subscriptions") as bmc:
            return subscriptions.everything(task.node, bmc)

    @passthru(
        ["GET"], async_call=False, description="Show an event subscription. Required argument: id."
    )
    @require_exclusive_lock
    def get_subscription(self, task: Task, http_method: str, id: str) -> dict[str, Any]:
        """Return Id, Context, Protocol, Destination and EventTypes.

        :raises RedfishError: there is no such subscription (HTTP 404).
        """
        identity = _identity(id)
        with talk(task, f"reading subscription '{identity}'") as bmc:
            return subscriptions.shown(subscriptions.find(task.node, bmc, identity))

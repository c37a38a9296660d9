"""Lights of chassis, system and disks.

Source: specification drivers.md section 6.4 (indicators).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sushy
import sushy.exceptions

from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers.redfish.sessions import NodeBmc

#: Component types of the REST API; power supplies and network cards have no
#: light in Redfish.
COMPONENTS = ("system", "chassis", "disk")

_STATES = {
    sushy.IndicatorLED.LIT: "on",
    sushy.IndicatorLED.OFF: "off",
    sushy.IndicatorLED.BLINKING: "blinking",
}
_BY_NAME = {name: led for led, name in _STATES.items()}


def _lights(bmc: NodeBmc, component: str) -> Iterator[tuple[str, Any]]:
    """Yield (indicator id, resource) of the things of a component that have a light."""
    system = bmc.system
    try:
        if component == "system":
            if system.indicator_led is not None:
                yield str(system.uuid), system
        elif component == "chassis":
            for chassis in system.chassis:
                if chassis.indicator_led is not None:
                    yield str(chassis.uuid), chassis
        elif component == "disk":
            for storage in system.storage.get_members():
                for drive in storage.drives:
                    if drive.indicator_led is not None:
                        yield f"{storage.identity}:{drive.identity}", drive
    except (
        sushy.exceptions.MissingAttributeError,
        sushy.exceptions.ResourceNotFoundError,
    ):
        return


def supported(bmc: NodeBmc, component: str | None) -> dict[str, dict[str, Any]]:
    """Return component -> indicator -> {readonly, states}, without empty components."""
    wanted = COMPONENTS if component is None else (component,)
    found = {
        name: {
            indicator: {"readonly": False, "states": sorted(_BY_NAME)}
            for indicator, _resource in _lights(bmc, name)
        }
        for name in wanted
    }
    return {name: lights for name, lights in found.items() if lights}


def _find(node: models.Node, bmc: NodeBmc, component: str, indicator: str) -> Any:
    for name, resource in _lights(bmc, component):
        if name == indicator:
            return resource
    raise errors.MissingParameterValue(
        f"Node {node.uuid} has no indicator '{indicator}' of component '{component}'."
    )


def get(node: models.Node, bmc: NodeBmc, component: str, indicator: str) -> str:
    """Return on, off, blinking or unknown.

    :raises MissingParameterValue: no such indicator.
    """
    resource = _find(node, bmc, component, indicator)
    return _STATES.get(resource.indicator_led, "unknown")


def set_(node: models.Node, bmc: NodeBmc, component: str, indicator: str, state: str) -> None:
    """Set an indicator to on, off or blinking.

    :raises InvalidParameterValue: another state.
    :raises MissingParameterValue: no such indicator.
    """
    led = _BY_NAME.get(state)
    if led is None:
        raise errors.InvalidParameterValue(
            f"An indicator cannot be set to '{state}'; possible are {', '.join(sorted(_BY_NAME))}."
        )
    _find(node, bmc, component, indicator).set_indicator_led(led)
    bmc.changed()

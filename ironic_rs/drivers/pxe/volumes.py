"""Booting an instance from an iSCSI volume by iPXE.

Source: specification drivers.md sections 11.3 and 14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ironic_rs.db import volumes
from ironic_rs.domain import errors

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.contract import Task

_ISCSI = "iscsi"


def boots_from_volume(task: Task) -> bool:
    """Tell whether the instance boots from an iSCSI volume by this boot interface."""
    return (
        bool(task.node.driver_internal_info.get("boot_from_volume"))
        and f"{_ISCSI}_volume_boot" in task.driver.boot.capabilities
    )


def options(node: models.Node) -> dict[str, Any]:
    """Return the options that the entry boot_iscsi needs.

    :raises MissingParameterValue: the node has no boot volume, or no iSCSI initiator.
    :raises InvalidParameterValue: a volume's properties are incomplete.
    """
    found = volumes.targets_of_node(node.id)
    boot = next((volume for volume in found if str(volume.boot_index) == "0"), None)
    if boot is None or boot.volume_type != _ISCSI:
        raise errors.MissingParameterValue(
            f"Node {node.uuid} is to boot from an iSCSI volume, but has no volume target of type "
            "iscsi with boot index 0."
        )
    result: dict[str, Any] = {
        "boot_from_volume": True,
        "iscsi_initiator_iqn": _initiator(node),
        "iscsi_boot_url": _url(node, boot),
        "iscsi_volumes": [],
    }
    result.update(_credentials(node, boot))
    for volume in found:
        if volume is not boot and volume.volume_type == _ISCSI:
            result["iscsi_volumes"].append(
                {"url": _url(node, volume), **_credentials(node, volume)}
            )
    return result


def _initiator(node: models.Node) -> str:
    for connector in volumes.connectors_of_node(node.id):
        if connector.type == "iqn" and connector.connector_id:
            return _word(node, "connector_id of a volume connector", connector.connector_id)
    raise errors.MissingParameterValue(
        f"Node {node.uuid} is to boot from an iSCSI volume, but has no volume connector of type "
        "iqn."
    )


def _word(node: models.Node, what: str, value: Any) -> str:
    """Return a value that becomes a word of a script; blanks would make it two."""
    text = str(value)
    if not text or any(char.isspace() or not char.isprintable() for char in text):
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: {what} is {value!r}, expected text without blanks."
        )
    return text


def _credentials(node: models.Node, volume: models.VolumeTarget) -> dict[str, str]:
    found = {}
    for key, name in (("username", "auth_username"), ("password", "auth_password")):
        value = volume.properties.get(name)
        if value:
            found[key] = _word(node, f"{name} of volume target {volume.uuid}", value)
    return found


def _url(node: models.Node, volume: models.VolumeTarget) -> str:
    """Return the URLs of all portals of a volume, separated by blanks."""
    portals = _all(volume, "target_portal")
    names = _all(volume, "target_iqn")
    luns = _all(volume, "target_lun")
    if not portals or len(portals) != len(names) or len(names) != len(luns):
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: volume target {volume.uuid} needs target_portal, target_iqn and "
            "target_lun (or as many of target_portals, target_iqns and target_luns) in its "
            "properties."
        )
    urls = []
    for portal, name, lun in zip(portals, names, luns, strict=True):
        host, _colon, port = str(portal).rpartition(":")
        try:
            number = int(lun)
            known_port = not port or 0 < int(port) < 65536
        except (TypeError, ValueError):
            known_port, number = False, -1
        if not host or not known_port or number < 0:
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: volume target {volume.uuid} has portal {portal!r} and LUN "
                f"{lun!r}, expected HOST:PORT and a number."
            )
        address = f"iscsi:{host}::{port}:{number:x}:{name}"
        urls.append(_word(node, f"address of volume target {volume.uuid}", address))
    return " ".join(urls)


def _all(volume: models.VolumeTarget, name: str) -> list[Any]:
    """Return a property that is there once, or as a list for several portals."""
    several = volume.properties.get(f"{name}s")
    if isinstance(several, list) and several:
        return several
    one = volume.properties.get(name)
    return [] if one is None else [one]

"""Config drives: network data for instances whose config drive has none of use.

Source: specification conductor.md section 10.6 (worker, step 2), auxiliary.md section 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.images import configdrive

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)

_ELSEWHERE = ("http://", "https://")


def checked(task: Task, drive: str | dict[str, Any]) -> str | dict[str, Any]:
    """Return a config drive with network data; the given one when it has them.

    Whatever goes wrong, the instance gets what was given.

    :param drive: URL, base64 and gzip ISO, or a dict to build one from.
    """
    if CONF.conductor.disable_configdrive_check:
        return drive
    if "metadata" not in task.driver.network.capabilities:
        return drive
    if isinstance(drive, str) and drive.startswith(_ELSEWHERE):
        return drive
    try:
        return _completed(task, drive)
    except errors.LockLost:
        raise
    except errors.IronicError as exc:
        LOG.warning("Node %s: the config drive stays as it is: %s", task.node.uuid, exc)
    except Exception:
        LOG.exception("Node %s: the config drive stays as it is", task.node.uuid)
    return drive


def _completed(task: Task, drive: str | dict[str, Any]) -> str | dict[str, Any]:
    mtu = not CONF.conductor.disable_metadata_mtu_check
    if isinstance(drive, str):
        return configdrive.with_network(drive, lambda: _network(task), mtu=mtu)
    data = configdrive.better_network(drive.get("network_data"), lambda: _network(task), mtu=mtu)
    return drive if data is None else {**drive, "network_data": data}


def _network(task: Task) -> dict[str, Any]:
    """Return the network data of the instance, with links that are named as interfaces."""
    LOG.info("Node %s: network data of the config drive are made anew", task.node.uuid)
    data: Mapping[str, Any] = task.driver.network.get_node_network_data(task)
    if not data:
        return {}
    links = data.get("links") or []
    names = {link["id"]: f"iface{number}" for number, link in enumerate(links)}
    renamed = []
    for link in links:
        new = {**link, "id": names[link["id"]]}
        if link.get("bond_links"):
            new["bond_links"] = [names.get(name, name) for name in link["bond_links"]]
        renamed.append(new)
    networks = [
        {**network, "link": names.get(network.get("link"), network.get("link"))}
        for network in data.get("networks") or []
    ]
    return {**data, "links": renamed, "networks": networks}

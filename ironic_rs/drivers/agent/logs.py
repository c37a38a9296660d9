"""Logs of the ramdisk, kept on the conductor.

Source: specification drivers.md section 3 (ramdisk logs), agent-protocol.md
section 10.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import TYPE_CHECKING

from oslo_log import log
from oslo_utils import timeutils

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.drivers.agent import client

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

#: Provision state -> word in the names of files.
_LABELS = {
    states.CLEANING: "cleaning",
    states.CLEANWAIT: "cleaning",
    states.CLEANFAIL: "cleaning",
    states.INSPECTING: "inspect",
    states.INSPECTWAIT: "inspect",
    states.ENROLL: "inspect",
}


def file_name(node: models.Node) -> str:
    """Return ``uuid[_name][_instance uuid][_label]_<time>.tar.gz``."""
    parts = [node.uuid, node.name, node.instance_uuid, _LABELS.get(str(node.provision_state))]
    parts.append(timeutils.utcnow().strftime("%Y-%m-%d-%H-%M-%S"))
    # A name is free of slashes by its grammar; what is stored is checked all the same.
    return "_".join(str(part).replace("/", "-") for part in parts if part) + ".tar.gz"


def collect(task: Task) -> None:
    """Fetch the logs of the ramdisk and store them; every failure is only logged."""
    node = task.node
    try:
        command = client.AgentClient(node).collect_system_logs()
        if command.get("command_status") != client.SUCCEEDED:
            raise errors.AgentAPIError(node=node.uuid, status=200, error=client.error_text(command))
        packed = command["command_result"]["system_logs"]
    except (errors.IronicError, KeyError, TypeError) as exc:
        LOG.warning("Node %s: the logs of the ramdisk could not be fetched: %s", node.uuid, exc)
        return
    keep(node, packed)


def keep(node: models.Node, packed: object) -> None:
    """Store the logs of the ramdisk; every failure is only logged.

    :param packed: base64 of a tar.gz, as the ramdisk gave it; None: it gave none.
    """
    if packed is None:
        LOG.info("Node %s: the ramdisk sent no logs", node.uuid)
        return
    try:
        _store(file_name(node), base64.b64decode(str(packed), validate=True))
    except (OSError, binascii.Error, ValueError) as exc:
        LOG.warning("Node %s: the logs of the ramdisk could not be kept: %s", node.uuid, exc)


def _store(name: str, content: bytes) -> None:
    if CONF.agent.deploy_logs_storage_backend != "local":
        LOG.warning("Logs of ramdisks can only be stored locally; %s is not kept", name)
        return
    directory = Path(CONF.agent.deploy_logs_local_path)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(content)
    LOG.info("Logs of the ramdisk are in %s", directory / name)

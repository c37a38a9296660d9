"""Where the inventory of a node is kept.

Source: specification inspection.md section 6.
"""

from __future__ import annotations

from typing import Any

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.db import inventory as db_inventory
from ironic_rs.db import models
from ironic_rs.domain import errors

LOG = log.getLogger(__name__)


def store(node: models.Node, inventory: dict[str, Any], plugin_data: dict[str, Any]) -> None:
    """Keep an inventory in place of the one before, where ``[inventory]`` says.

    Logs of the ramdisk are not kept.

    :raises IncorrectConfiguration: a back end that this release does not have.
    """
    backend = CONF.inventory.data_backend
    if backend == "none":
        LOG.debug("The inventory of node %s is not stored: [inventory]data_backend", node.uuid)
        return
    if backend != "database":
        raise errors.IncorrectConfiguration(
            error=f"[inventory]data_backend {backend} is not available"
        )
    kept = {key: value for key, value in plugin_data.items() if key != "logs"}
    db_inventory.store(node.id, inventory, kept)

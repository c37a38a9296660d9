"""Files of a node that is deleted: nobody else would remove them.

A node in maintenance may be deleted in the middle of everything.  Its image would stay in
the cache for ever, and its machine would go on booting what was meant for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.domain import errors
from ironic_rs.drivers.agent import image
from ironic_rs.drivers.dhcp import base as dhcp
from ironic_rs.drivers.pxe import files
from ironic_rs.drivers.pxe.flavour import Flavour
from ironic_rs.drivers.redfish import boot_media

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

#: One flavour for each place of boot files and kind of links.
_FLAVOURS = (
    Flavour(ipxe=False, http=False),
    Flavour(ipxe=True, http=False),
    Flavour(ipxe=False, http=True),
)


def remove(task: Task) -> None:
    """Remove the images, boot files and DHCP options of a node; none are fine.

    :param task: its ports are known; nothing is read from the database.
    """
    image.remove_served(task.node)
    boot_media.unpublish(task.node)
    for flavour in _FLAVOURS:
        files.remove_config(task, flavour)
    try:
        dhcp.provider().clean_dhcp_opts(task)
    except errors.IronicError as exc:
        LOG.warning("Node %s: its DHCP options were not taken back: %s", task.node.uuid, exc)

"""What a DHCP provider is, and which one is in use.

Source: specification drivers.md section 11.5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_log import log
from stevedore import driver

from ironic_rs.conf import CONF
from ironic_rs.domain import errors

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

GROUP = "ironic_rs.dhcp"
_BUILT_IN = (cfg.Locations.opt_default, cfg.Locations.set_default)


@dataclass(frozen=True)
class DhcpOption:
    """A DHCP option for a node.

    :param name: number, or a provider's way to make it depend on the client, such as
        ``tag:!ipxe,67``.
    :param ip_version: 4 or 6.
    """

    name: str
    value: str
    ip_version: int


class DHCPProvider(ABC):
    """Gives options to machines; shared by all nodes and threads."""

    @abstractmethod
    def update_port_dhcp_opts(
        self, port_id: str, options: Sequence[DhcpOption], context: Any = None
    ) -> None:
        """Set the options of one port of the network service.

        :raises FailedToUpdateDHCPOptOnPort: not possible.
        """

    @abstractmethod
    def update_dhcp_opts(self, task: Task, options: Sequence[DhcpOption], vifs: Any = None) -> None:
        """Set the options of a node.

        :param vifs: ports of the network service; the node's own when None.
        :raises FailedToUpdateDHCPOptOnPort: not possible.
        """

    def get_ip_addresses(self, task: Task) -> list[str]:
        """Return the IP addresses that the node has, or will have."""
        return []

    def clean_dhcp_opts(self, task: Task) -> None:  # noqa: B027 - not all keep something
        """Take back what :meth:`update_dhcp_opts` has set."""

    def supports_ipxe_tag(self) -> bool:
        """Tell whether an option can be for iPXE alone by a tag."""
        return False


class NoDHCP(DHCPProvider):
    """Provider ``none``: somebody else configures the DHCP server."""

    def update_port_dhcp_opts(
        self, port_id: str, options: Sequence[DhcpOption], context: Any = None
    ) -> None:
        pass

    def update_dhcp_opts(self, task: Task, options: Sequence[DhcpOption], vifs: Any = None) -> None:
        pass


def provider_name() -> str:
    """Return the name of the provider in use.

    The default is for those who have a Networking service.
    """
    name = str(CONF.dhcp.dhcp_provider)
    where = CONF.get_location("dhcp_provider", "dhcp")
    built_in = where is None or where.location in _BUILT_IN
    if built_in and (name not in _installed() or CONF.neutron.auth_type is None):
        return "none"
    return name


@cache
def _installed() -> frozenset[str]:
    return frozenset(metadata.entry_points(group=GROUP).names)


def provider() -> DHCPProvider:
    """Return the provider in use.

    :raises DHCPLoadError: it cannot be loaded.
    """
    return _load(provider_name())


@cache
def _load(name: str) -> DHCPProvider:
    try:
        manager: Any = driver.DriverManager(GROUP, name, invoke_on_load=True)
    except Exception as exc:
        raise errors.DHCPLoadError(provider=name, reason=exc) from exc
    LOG.info("DHCP provider: %s", name)
    found: DHCPProvider = manager.driver
    return found

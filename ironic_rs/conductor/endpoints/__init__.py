"""The RPC methods of a conductor, one class per subject."""

from __future__ import annotations

from ironic_rs.conductor.endpoints.agent import AgentEndpoint
from ironic_rs.conductor.endpoints.allocations import AllocationsEndpoint
from ironic_rs.conductor.endpoints.base import Endpoint
from ironic_rs.conductor.endpoints.console import ConsoleEndpoint
from ironic_rs.conductor.endpoints.deployment import DeploymentEndpoint
from ironic_rs.conductor.endpoints.drivers import DriversEndpoint
from ironic_rs.conductor.endpoints.management import ManagementEndpoint
from ironic_rs.conductor.endpoints.network import NetworkEndpoint
from ironic_rs.conductor.endpoints.nodes import NodesEndpoint
from ironic_rs.conductor.endpoints.ports import PortsEndpoint
from ironic_rs.conductor.endpoints.power import PowerEndpoint
from ironic_rs.conductor.endpoints.provision import ProvisionEndpoint
from ironic_rs.conductor.endpoints.vendor import VendorEndpoint
from ironic_rs.conductor.endpoints.volumes import VolumesEndpoint

#: All endpoint classes; a conductor makes one of each.
ENDPOINTS: tuple[type[Endpoint], ...] = (
    AgentEndpoint,
    AllocationsEndpoint,
    ConsoleEndpoint,
    DeploymentEndpoint,
    DriversEndpoint,
    ManagementEndpoint,
    NetworkEndpoint,
    NodesEndpoint,
    PortsEndpoint,
    PowerEndpoint,
    ProvisionEndpoint,
    VendorEndpoint,
    VolumesEndpoint,
)

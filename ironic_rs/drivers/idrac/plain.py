"""Interfaces that are those of ``redfish`` under the name that nodes have stored.

Source: specification drivers.md section 7.
"""

from __future__ import annotations

from ironic_rs.drivers.redfish.bios import RedfishBIOS
from ironic_rs.drivers.redfish.power import RedfishPower
from ironic_rs.drivers.redfish.vendor import RedfishVendor


class IDRACBIOS(RedfishBIOS):
    """Use ``redfish``."""

    supported = False


class IDRACPower(RedfishPower):
    """Use ``redfish``."""

    supported = False


class IDRACVendor(RedfishVendor):
    """Use ``redfish``."""

    supported = False

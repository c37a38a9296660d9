"""IPv6 addresses of BMCs (field-cases.md K04/37), as an inspected machine is found by them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ironic_rs.domain import states
from ironic_rs.inspection import addresses
from tests.functional.defects.site import Site

OTHER = "2001:db8::99"


def waiting(site: Site, **driver_info: Any) -> str:
    """Store a node whose inspection has begun; return its uuid."""
    node = SimpleNamespace(uuid="of the test", driver_info=driver_info)
    return site.node(
        states.INSPECTWAIT,
        driver_info=driver_info,
        driver_internal_info={"lookup_bmc_addresses": addresses.of_bmc(node)},  # type: ignore[arg-type]
    )


def post(site: Site, **inventory: Any) -> Any:
    data = {"interfaces": [{"mac_address": "52:54:00:00:00:37"}], **inventory}
    return site.api.post("/v1/continue_inspection", {"inventory": data})


@pytest.fixture(autouse=True)
def hooks_of_nothing(site: Site) -> None:
    site.kit.interfaces["inspect"].continue_inspection = lambda task, inventory, data: None


@pytest.mark.parametrize(
    "driver_info",
    [
        {"redfish_address": "https://[2001:db8::10]"},
        {"redfish_address": "https://[2001:db8::10]:8443/"},
        {"redfish_address": "[2001:db8::10]"},
        {"redfish_address": "[2001:db8::10]:8443/redfish/v1"},
        {"redfish_address": "2001:db8::10"},
        {"redfish_address": "https://[2001:DB8:0:0::10]"},
        {"ipmi_address": "2001:db8::10"},
        {"ipmi_address": "[2001:db8::10]"},
    ],
    ids=str,
)
@pytest.mark.parametrize("told", ["2001:db8::10", "2001:0DB8:0:0:0:0:0:10"])
def test_37_a_machine_is_found_by_the_ipv6_address_of_its_bmc(
    site: Site, driver_info: dict[str, str], told: str
) -> None:
    other = waiting(site, redfish_address=f"https://[{OTHER}]")
    uuid = waiting(site, **driver_info)
    assert post(site, bmc_address="0.0.0.0", bmc_v6address=told).status == 202
    site.settle()
    assert site.shown(uuid)["provision_state"] == states.MANAGEABLE
    assert site.shown(other)["provision_state"] == states.INSPECTWAIT


@pytest.mark.parametrize("told", ["::/0", "2001:db8::11", "nonsense", "fe80::10%eth0"])
def test_37_what_is_no_address_of_it_finds_nothing(site: Site, told: str) -> None:
    uuid = waiting(site, redfish_address="https://[2001:db8::10]")
    assert post(site, bmc_v6address=told).status == 404
    assert site.shown(uuid)["provision_state"] == states.INSPECTWAIT


def test_37_the_ipv4_address_counts_beside_it(site: Site) -> None:
    uuid = waiting(site, redfish_address="https://192.0.2.10", other_address="2001:db8::10")
    assert post(site, bmc_address="192.0.2.10", bmc_v6address="::/0").status == 202
    site.settle()
    assert site.shown(uuid)["provision_state"] == states.MANAGEABLE

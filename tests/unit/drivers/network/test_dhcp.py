"""DHCP options as ports of the Networking service have them, down to the wire."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.drivers.dhcp import base
from ironic_rs.drivers.dhcp.base import DhcpOption
from ironic_rs.drivers.dhcp.neutron import NeutronDHCP
from tests.harness.networking import NETWORK

V4 = DhcpOption("67", "boot.efi", 4)
V6 = DhcpOption("59", "tftp://[2001:db8::1]/boot.efi", 6)
SET = [{"opt_name": "67", "opt_value": "boot.efi", "ip_version": 4}]


@pytest.fixture
def dhcp():
    return NeutronDHCP()


@pytest.fixture
def vif(networking):
    return networking.add("ports", network_id=NETWORK)["id"]


@pytest.fixture
def node(flat, vif, make_port):
    node = flat.node()
    make_port(node, internal_info={"tenant_vif_port_id": vif})
    return node


def options_of(networking, vif):
    return networking.ports[vif]["extra_dhcp_opts"]


def test_options_fit_the_addresses_of_the_port(flat, dhcp, node, vif, networking):
    with flat.task(node) as task:
        dhcp.update_dhcp_opts(task, [V4, V6])
    assert options_of(networking, vif) == SET


def test_the_port_of_the_service_comes_before_that_of_the_instance(
    flat, dhcp, networking, vif, make_port
):
    cleaning = networking.add("ports", network_id=NETWORK)["id"]
    node = flat.node()
    make_port(node, internal_info={"tenant_vif_port_id": vif, "cleaning_vif_port_id": cleaning})
    with flat.task(node) as task:
        dhcp.update_dhcp_opts(task, [V4])
    assert (options_of(networking, cleaning), options_of(networking, vif)) == (SET, [])


def test_a_port_without_an_address_gets_none(flat, dhcp, node, vif, networking, caplog):
    networking.ports[vif]["fixed_ips"] = []
    with flat.task(node) as task:
        dhcp.update_dhcp_opts(task, [V4])
    assert options_of(networking, vif) == []
    assert f"Port {vif} has no address" in caplog.text


def test_named_ports_are_used(flat, dhcp, networking, vif):
    with flat.task(flat.node()) as task:
        dhcp.update_dhcp_opts(task, [V4], [vif])
    assert options_of(networking, vif) == SET


def test_a_node_without_a_vif_is_an_error_that_says_what_to_do(flat, dhcp, networking):
    with (
        flat.task(flat.node()) as task,
        pytest.raises(errors.FailedToUpdateDHCPOptOnPort, match=r"\[dhcp\]dhcp_provider to none"),
    ):
        dhcp.update_dhcp_opts(task, [V4])


@pytest.mark.parametrize("status", [401, 409, 503])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_refusal_is_told(flat, dhcp, node, vif, networking, method, status):
    networking.fail(method, f"/v2.0/ports/{vif}", status)
    with (
        flat.task(node) as task,
        pytest.raises(errors.FailedToUpdateDHCPOptOnPort, match=f"{vif} could.*HTTP {status}"),
    ):
        dhcp.update_dhcp_opts(task, [V4])


def test_a_port_that_is_gone_is_told(flat, dhcp, node, vif, networking):
    networking.ports.clear()
    with (
        flat.task(node) as task,
        pytest.raises(errors.FailedToUpdateDHCPOptOnPort, match="has no such port"),
    ):
        dhcp.update_dhcp_opts(task, [V4])


def test_some_ports_are_enough(flat, dhcp, node, vif, networking, make_port, caplog):
    make_port(node, internal_info={"tenant_vif_port_id": "gone"})
    with flat.task(node) as task:
        dhcp.update_dhcp_opts(task, [V4])
    assert options_of(networking, vif) == SET
    assert "The DHCP options of port gone could not be set" in caplog.text


def test_the_service_is_given_time_when_it_needs_some(flat, dhcp, node, monkeypatch):
    pauses = []
    monkeypatch.setattr("time.sleep", pauses.append)
    CONF.set_override("port_setup_delay", 7, "neutron")
    with flat.task(node) as task:
        dhcp.update_dhcp_opts(task, [V4])
    assert pauses == [7]


def test_addresses_are_those_of_the_ports(flat, dhcp, node, vif, networking):
    with flat.task(node) as task:
        assert dhcp.get_ip_addresses(task) == [networking.ports[vif]["fixed_ips"][0]["ip_address"]]
        networking.fail("GET", "/v2.0/ports", 503)
        assert dhcp.get_ip_addresses(task) == []
    with flat.task(flat.node()) as task:
        assert dhcp.get_ip_addresses(task) == []


def test_the_provider_that_the_operator_names_is_used(flat):
    CONF.set_override("dhcp_provider", "neutron", "dhcp")
    CONF.clear_override("auth_type", "neutron")
    assert base.provider_name() == "neutron"

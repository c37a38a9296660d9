"""Changes of ports and port groups that the Networking service has to hear of."""

from __future__ import annotations

import pytest

from ironic_rs.db import portgroups, ports
from ironic_rs.domain import errors
from tests.harness.networking import NETWORK

NEW = "52:54:00:00:bb:01"


@pytest.fixture
def node(flat):
    return flat.node()


@pytest.fixture
def vif(networking):
    return networking.add("ports", network_id=NETWORK)["id"]


def update(world, node, record, path, value):
    kind = "port" if hasattr(record, "portgroup_id") else "portgroup"
    patch = [{"op": "replace", "path": path, "value": value}]
    world.call(f"update_{kind}", node, **{f"{kind}_id": record.uuid}, patch=patch)


def test_the_vif_follows_the_address(flat, node, vif, networking, make_port):
    port = make_port(node)
    flat.call("vif_attach", node, vif_info={"id": vif})
    update(flat, node, port, "/address", NEW)
    assert networking.ports[vif]["mac_address"] == NEW
    assert networking.ports[vif]["binding:host_id"] == node.uuid
    assert ports.get(port.uuid).address == NEW


def test_an_address_in_use_changes_nothing(flat, node, vif, networking, make_port):
    port = make_port(node)
    flat.call("vif_attach", node, vif_info={"id": vif})
    networking.add("ports", network_id=NETWORK, mac_address=NEW)
    with pytest.raises(errors.NetworkError, match=f"{NEW} is in use"):
        update(flat, node, port, "/address", NEW)
    assert networking.ports[vif]["mac_address"] == port.address
    assert networking.ports[vif]["binding:host_id"] == node.uuid
    assert ports.get(port.uuid).address == port.address


def test_a_binding_that_is_lost_on_the_way_is_logged(
    flat, node, vif, networking, make_port, caplog
):
    port = make_port(node)
    flat.call("vif_attach", node, vif_info={"id": vif})
    networking.add("ports", network_id=NETWORK, mac_address=NEW)
    unbound = len(networking.asked("PUT")) + 1

    def later(method, path, seen=networking._fault):
        if method == "PUT" and len(networking.asked("PUT")) > unbound + 1:
            networking.fail("PUT", "/v2.0/ports/.*", 503)
        return seen(method, path)

    networking._fault = later
    with pytest.raises(errors.NetworkError, match="is in use"):
        update(flat, node, port, "/address", NEW)
    assert f"VIF {vif} is not bound to {node.uuid} any more" in caplog.text


def test_a_port_without_a_vif_asks_only_for_the_network(flat, node, networking, make_port):
    port = make_port(node)
    update(flat, node, port, "/address", NEW)
    assert {line.split("?")[0] for line in networking.asked()} == {"GET /v2.0/networks"}


def test_a_vif_that_is_gone_does_not_matter(flat, node, networking, make_port):
    port = make_port(node, internal_info={"tenant_vif_port_id": "gone"})
    update(flat, node, port, "/address", NEW)
    assert ports.get(port.uuid).address == NEW


@pytest.mark.parametrize(("extra", "value"), [({"client-id": "ff:01"}, "ff:01"), ({}, None)])
def test_the_client_identifier_goes_to_the_dhcp_options(
    flat, node, vif, networking, make_port, extra, value
):
    port = make_port(node, extra={"client-id": "ff:00"})
    flat.call("vif_attach", node, vif_info={"id": vif})
    update(flat, node, port, "/extra", extra)
    assert networking.ports[vif]["extra_dhcp_opts"] == [{"opt_name": "61", "opt_value": value}]


def test_other_extra_fields_do_not_concern_the_network(flat, node, vif, networking, make_port):
    port = make_port(node)
    flat.call("vif_attach", node, vif_info={"id": vif})
    before = networking.asked("PUT")
    update(flat, node, port, "/extra", {"rack": 7})
    assert networking.asked("PUT") == before


def test_the_vif_of_a_port_group_follows_its_address(
    flat, node, vif, networking, make_port, make_group
):
    group = make_group(node, address="52:54:00:00:aa:01")
    make_port(node, portgroup_id=group.id)
    flat.call("vif_attach", node, vif_info={"id": vif})
    update(flat, node, group, "/address", NEW)
    assert networking.ports[vif]["mac_address"] == NEW
    assert portgroups.get(group.uuid).address == NEW


@pytest.mark.parametrize(
    "values", [{"pxe_enabled": True}, {"internal_info": {"tenant_vif_port_id": "x"}}]
)
def test_a_standalone_port_can_not_join_a_group_without_such(
    flat, node, make_port, make_group, values
):
    group = make_group(node, standalone_ports_supported=False)
    port = make_port(node, **{"pxe_enabled": False, **values})
    with pytest.raises(errors.Conflict, match="does not support standalone ports"):
        update(flat, node, port, "/portgroup_id", group.id)


def test_another_port_can_join_it(flat, node, make_port, make_group):
    group = make_group(node, standalone_ports_supported=False)
    port = make_port(node, pxe_enabled=False)
    update(flat, node, port, "/portgroup_id", group.id)
    assert ports.get(port.uuid).portgroup_id == group.id
    with pytest.raises(errors.Conflict, match="does not support standalone ports"):
        update(flat, node, port, "/pxe_enabled", True)


def test_a_group_with_standalone_ports_has_to_support_them(flat, node, make_port, make_group):
    group = make_group(node)
    alone = make_port(node, portgroup_id=group.id)
    with pytest.raises(errors.Conflict, match=alone.uuid):
        update(flat, node, group, "/standalone_ports_supported", False)
    update(flat, node, alone, "/pxe_enabled", False)
    update(flat, node, group, "/standalone_ports_supported", False)


def test_a_port_with_a_vif_is_not_deleted(flat, node, vif, make_port):
    port = make_port(node)
    flat.call("vif_attach", node, vif_info={"id": vif})
    with pytest.raises(errors.InvalidState, match=f"VIF {vif} is bound"):
        flat.call("destroy_port", node, port_id=port.uuid)

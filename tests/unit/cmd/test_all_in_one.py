"""``ironic-rs`` runs without configuration, and then within reach of this host only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ironic_rs.cmd import all_in_one
from ironic_rs.conf import CONF


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    # oslo.config remembers for ever where an option was set last, by another test too.
    CONF.set_default("auth_strategy", "keystone")
    CONF.set_default("host_ip", "0.0.0.0", group="api")
    CONF.set_default("enabled_network_interfaces", CONF.enabled_network_interfaces)
    yield
    CONF.clear_override("auth_strategy")
    CONF.clear_override("host_ip", group="api")
    CONF.clear_default("auth_strategy")
    CONF.clear_default("host_ip", group="api")
    CONF.clear_override("auth_type", group="neutron")
    CONF.clear_override("enabled_network_interfaces")
    CONF.clear_default("enabled_network_interfaces")
    CONF.clear_default("default_network_interface")


def test_without_a_strategy_the_api_is_open_to_this_host_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    all_in_one._open_to_this_host()
    assert CONF.auth_strategy == "noauth"
    assert CONF.api.host_ip == "127.0.0.1"
    assert "asks for no credentials" in caplog.text


def test_an_address_that_was_chosen_is_not_opened() -> None:
    CONF.set_override("host_ip", "192.0.2.1", group="api")
    all_in_one._open_to_this_host()
    assert CONF.auth_strategy == "keystone"
    assert CONF.api.host_ip == "192.0.2.1"


def test_a_strategy_that_was_chosen_stays() -> None:
    CONF.set_override("auth_strategy", "http_basic")
    all_in_one._open_to_this_host()
    assert CONF.auth_strategy == "http_basic"
    assert CONF.api.host_ip == "0.0.0.0"


def test_without_a_networking_service_machines_stay_where_they_are() -> None:
    all_in_one._leave_networks_alone()
    assert CONF.default_network_interface == "noop"


@pytest.mark.parametrize(
    ("option", "value", "group"),
    [("auth_type", "none", "neutron"), ("enabled_network_interfaces", ["flat"], None)],
)
def test_networks_that_were_configured_are_used(
    option: str, value: object, group: str | None
) -> None:
    CONF.set_override(option, value, group=group)
    all_in_one._leave_networks_alone()
    assert CONF.default_network_interface is None

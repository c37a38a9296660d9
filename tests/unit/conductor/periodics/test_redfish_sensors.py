"""Sensors of machines behind real BMCs, some of which are odd (field case 95)."""

from __future__ import annotations

import collections
import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_messaging.notify import _impl_test

from ironic_rs.conductor.periodics.sensors import SensorReading
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import states
from ironic_rs.drivers.redfish import sessions
from tests.harness.bmc import ROOT, SYSTEM, Answer, Bmc, collection, link

MakeNode = Callable[..., models.Node]
CHASSIS = f"{ROOT}/Chassis/1"
INTERFACES = {
    "boot": "redfish-virtual-media",
    "console": "no-console",
    "deploy": "direct",
    "firmware": "no-firmware",
    "inspect": "no-inspect",
    "management": "redfish",
    "network": "noop",
    "power": "redfish",
    "raid": "no-raid",
    "rescue": "no-rescue",
    "storage": "noop",
    "vendor": "no-vendor",
}
OK = {"State": "Enabled", "Health": "OK"}


def with_sensors(bmc: Bmc) -> Bmc:
    """Let a BMC show one sensor of each kind, with all that may be an enumeration."""
    bmc.system["Links"]["Chassis"] = [link(CHASSIS)]
    bmc.system["Storage"] = link(f"{SYSTEM}/Storage")
    bmc.tree[CHASSIS] = {
        "Id": "c",
        "Name": "c",
        "ChassisType": "RackMount",
        "Thermal": link(f"{CHASSIS}/Thermal"),
        "Power": link(f"{CHASSIS}/Power"),
    }
    bmc.tree[f"{CHASSIS}/Thermal"] = {
        "Fans": [
            {
                "MemberId": "0",
                "Reading": 2100,
                "ReadingUnits": "RPM",
                "PhysicalContext": "CPU",
                "Status": OK,
            },
            {"MemberId": 1, "Reading": 7, "Status": {"State": "NoSuchState"}},
            {"MemberId": "2", "Reading": 8, "Status": None},
        ],
        "Temperatures": [
            {"MemberId": "1", "ReadingCelsius": 41.5, "PhysicalContext": "Intake", "Status": OK},
            {"MemberId": "2", "ReadingCelsius": None, "Status": {"Health": "Critical"}},
        ],
    }
    bmc.tree[f"{CHASSIS}/Power"] = {
        "Id": "P",
        "Name": "P",
        "PowerSupplies": [{"MemberId": "0", "LastPowerOutputWatts": 230, "Status": OK}],
    }
    bmc.tree[f"{SYSTEM}/Storage"] = collection(f"{SYSTEM}/Storage/1")
    drive = f"{SYSTEM}/Storage/1/Drives/1"
    bmc.tree[f"{SYSTEM}/Storage/1"] = {"Id": "S", "Name": "S", "Drives": [link(drive)]}
    bmc.tree[drive] = {"Id": "D", "Name": "D", "CapacityBytes": 2**40, "Status": OK}
    return bmc


@pytest.fixture
def bmcs() -> Iterator[Callable[[], Bmc]]:
    """A maker of BMCs with sensors."""
    with contextlib.ExitStack() as stack:

        def make() -> Bmc:
            bmc = with_sensors(Bmc())
            stack.callback(bmc.close)
            return bmc

        yield make
        sessions.close_all()


@pytest.fixture
def conductor(database: None, make_conductor: Callable[..., Conductor]) -> Iterator[Conductor]:
    """A conductor of Redfish machines that sends what sensors tell."""
    import oslo_messaging
    from oslo_messaging.notify import notifier

    for kind, name in INTERFACES.items():
        CONF.set_override(f"enabled_{kind}_interfaces", [name])
    CONF.set_override("default_storage_interface", "noop")
    CONF.set_override("enabled_hardware_types", ["redfish"])
    oslo_messaging.get_notification_transport(CONF, url="fake://")
    CONF.register_opts(notifier._notifier_opts, group="oslo_messaging_notifications")
    CONF.set_override("driver", ["test"], group="oslo_messaging_notifications")
    CONF.set_override("transport_url", "fake://", group="oslo_messaging_notifications")
    CONF.set_override("send_sensor_data", True, group="sensor_data")
    CONF.set_override("connection_attempts", 1, group="redfish")
    _impl_test.reset()
    yield make_conductor()
    _impl_test.reset()


@pytest.fixture
def machine(make_node: MakeNode) -> Callable[[Bmc], str]:
    """Store a node on a BMC, without a system id; returns its uuid."""

    def make(bmc: Bmc) -> str:
        node = make_node(
            states.ACTIVE,
            driver="redfish",
            driver_info={"redfish_address": bmc.address},
            **{f"{kind}_interface": name for kind, name in INTERFACES.items()},
        )
        return str(node.uuid)

    return make


def told() -> dict[str, Any]:
    """What was sent, by the uuid of the node."""
    payloads = [message["payload"] for _, message, _, _ in _impl_test.NOTIFICATIONS]
    return {payload["node_uuid"]: payload["payload"] for payload in payloads}


def leaves(value: Any) -> Iterator[Any]:
    for inner in value.values() if isinstance(value, dict) else [value]:
        yield from leaves(inner) if isinstance(inner, dict) else [inner]


def test_what_sensors_tell_is_plain_json(
    conductor: Conductor, machine: Callable[[Bmc], str], bmcs: Callable[[], Bmc]
) -> None:
    uuid = machine(bmcs())
    SensorReading().run(conductor)
    data = told()[uuid]
    assert {type(leaf) for leaf in leaves(data)} <= {str, int, float, type(None)}
    assert json.loads(json.dumps(data)) == data
    assert {kind: list(found) for kind, found in data.items() if kind != "Extra"} == {
        "Fan": ["0@c", "1@c", "2@c"],
        "Temperature": ["1@c", "2@c"],
        "Power": ["0:P@c"],
        "Drive": ["D:S@1"],
    }
    assert data["Fan"]["0@c"]["physical_context"] == "CPU"
    assert data["Temperature"]["2@c"]["health"] == "Critical"


def test_a_round_over_a_hundred_machines_with_odd_ones_among_them(
    conductor: Conductor,
    machine: Callable[[Bmc], str],
    bmcs: Callable[[], Bmc],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    healthy, several, gone, strange, empty = (bmcs() for _bmc in range(5))
    several.tree[f"{ROOT}/Systems"] = collection(SYSTEM, f"{ROOT}/Systems/2")
    gone.script("GET", "", Answer(close=True))
    for part in (f"{CHASSIS}/Thermal", f"{CHASSIS}/Power"):
        strange.script("GET", part, Answer(200, b"<html>"))
    empty.tree[f"{CHASSIS}/Thermal"] = {"Fans": 7, "Temperatures": "none"}
    empty.tree[f"{CHASSIS}/Power"] = {"Id": "P", "Name": "P", "PowerSupplies": {}}
    empty.system["Storage"] = 5
    bad = {machine(bmc): bmc for bmc in (several, gone, strange, empty)}
    good = {machine(healthy) for _node in range(96)}
    SensorReading().run(conductor)

    said = told()
    assert good <= said.keys()
    assert [said[uuid].keys() for uuid, bmc in bad.items() if bmc is strange] == [
        {"Fan", "Temperature", "Power", "Drive", "Extra"}
    ]
    warned = collections.Counter(
        uuid
        for record in caplog.records
        if record.levelname in ("WARNING", "ERROR")
        for uuid in (*bad, *good)
        if uuid in record.getMessage()
    )
    assert warned == dict.fromkeys(bad, 1)

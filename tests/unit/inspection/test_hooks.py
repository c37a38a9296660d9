"""The hooks of out-of-band inspection, on a database."""

from __future__ import annotations

from typing import ClassVar

import pytest

from ironic_rs.db import nodes, ports
from ironic_rs.domain import errors
from ironic_rs.inspection.hooks import base
from ironic_rs.inspection.hooks.architecture import Architecture
from ironic_rs.inspection.hooks.interfaces import ValidateInterfaces, pxe_address
from ironic_rs.inspection.hooks.ports import Ports

DEFAULT = "validate-interfaces,ports,architecture"
FIRST, SECOND, THIRD = (f"aa:bb:cc:00:00:0{n}" for n in (1, 2, 3))


def nic(name, mac, **more):
    return {"name": name, "mac_address": mac, **more}


def run(task, *interfaces, **more):
    """Run interfaces and ports hooks; return plugin_data."""
    plugin_data = {}
    hooks = [("validate-interfaces", ValidateInterfaces()), ("ports", Ports())]
    base.run(hooks, task, {"interfaces": list(interfaces), **more}, plugin_data)
    return plugin_data


def found_ports(task):
    return {port.address: port for port in ports.of_node(task.node.id)}


class TestLoading:
    def test_in_the_configured_order(self, config):
        assert [name for name, _hook in base.load("x", DEFAULT)] == DEFAULT.split(",")
        assert base.load("x", "") == []

    def test_an_unknown_hook_is_told_with_the_option(self, config):
        with pytest.raises(errors.ConfigInvalid, match=r"\[redfish\]hooks.*no-such"):
            base.load("[redfish]hooks", "architecture,no-such")

    @pytest.mark.parametrize("names", ["ports", "ports,validate-interfaces"])
    def test_what_a_hook_needs_must_come_before_it(self, config, names):
        with pytest.raises(errors.ConfigInvalid, match="ports needs validate-interfaces"):
            base.load("x", names)


class Complains(base.Hook):
    dependencies: ClassVar = ()

    def __init__(self, text):
        self.text = text

    def preprocess(self, task, inventory, plugin_data):
        raise errors.HardwareInspectionFailure(error=self.text)

    def __call__(self, task, inventory, plugin_data):
        raise AssertionError("must not be called")


def test_all_complaints_of_preprocessing_are_told_together(task):
    with pytest.raises(errors.HardwareInspectionFailure, match="first: one; second: two"):
        base.run([("first", Complains("one")), ("second", Complains("two"))], task, {}, {})


class TestInterfaces:
    def test_oddities_are_left_out(self, task):
        found = run(
            task,
            nic("eth0", FIRST.upper()),
            nic("eth1", SECOND.replace(":", "-")),
            nic("wwn", "50:06:01:60:3b:de:00:01"),
            nic("empty", ""),
            nic("null", None),
            nic("number", 5),
            nic("", THIRD),
            {"mac_address": THIRD},
            "text",
            nic("lo", THIRD),
            nic("loopback", THIRD, ipv4_address="127.0.0.1"),
            nic("bond", FIRST),
        )
        assert set(found["valid_interfaces"]) == {"eth0", "eth1", "bond"}
        assert found["macs"] == [FIRST, SECOND]
        assert set(found_ports(task)) == {FIRST, SECOND}

    def test_the_scope_of_an_address_is_dropped(self, task):
        found = run(task, nic("eth0", FIRST, ipv6_address="fe80::1%eth0"))
        assert found["all_interfaces"]["eth0"]["ipv6_address"] == "fe80::1"

    @pytest.mark.parametrize("interfaces", [None, [], "text", [nic("x", "bad")]], ids=str)
    def test_none_at_all_is_a_failure(self, task, interfaces):
        with pytest.raises(errors.HardwareInspectionFailure, match="interface"):
            base.run(
                [("validate-interfaces", ValidateInterfaces())],
                task,
                {"interfaces": interfaces},
                {},
            )

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ("all", {"a", "b", "c"}),
            ("active", {"b"}),
            ("pxe", {"a"}),
            ("disabled", {"a", "b", "c"}),
        ],
    )
    def test_which_count_is_configurable(self, task, config, wanted, expected):
        config("inspector", add_ports=wanted)
        found = run(
            task,
            nic("a", FIRST),
            nic("b", SECOND, ipv4_address="192.0.2.1"),
            nic("c", THIRD),
            boot={"pxe_interface": FIRST},
        )
        assert set(found["valid_interfaces"]) == expected
        assert set(found["all_interfaces"]) == {"a", "b", "c"}
        assert bool(found_ports(task)) is (wanted != "disabled")

    def test_none_that_counts_is_a_failure(self, task, config):
        config("inspector", add_ports="active")
        with pytest.raises(errors.HardwareInspectionFailure, match="add_ports = active"):
            run(task, nic("a", FIRST))

    @pytest.mark.parametrize(
        ("boot", "expected"),
        [
            ({"pxe_interface": FIRST.upper()}, FIRST),
            ({"pxe_interface": "01-" + FIRST.replace(":", "-")}, FIRST),
            ({"pxe_interface": 5}, None),
            ({}, None),
            (None, None),
        ],
        ids=str,
    )
    def test_the_interface_of_network_boot(self, boot, expected):
        assert pxe_address({"boot": boot}) == expected


class TestPorts:
    def test_are_created_for_all_when_the_boot_interface_is_not_known(self, task):
        run(task, nic("a", FIRST, client_id="ff:01"), nic("b", SECOND))
        found = found_ports(task)
        assert found[FIRST].extra == {"client-id": "ff:01"}
        assert found[FIRST].pxe_enabled is True
        assert found[SECOND].pxe_enabled is True

    def test_a_second_run_changes_nothing(self, task):
        run(task, nic("a", FIRST))
        before = found_ports(task)[FIRST]
        run(task, nic("a", FIRST.upper()))
        after = found_ports(task)
        assert (len(after), after[FIRST].uuid) == (1, before.uuid)
        assert after[FIRST].updated_at == before.updated_at

    def test_an_address_of_another_node_is_left_there(self, task):
        other = nodes.create({"driver": "redfish"})
        ports.create({"node_id": other.id, "address": FIRST})
        run(task, nic("a", FIRST), nic("b", SECOND))
        assert set(found_ports(task)) == {SECOND}

    @pytest.mark.parametrize(
        ("keep", "expected"),
        [
            ("all", {FIRST, SECOND, THIRD}),
            ("present", {FIRST, SECOND}),
            ("added", {FIRST}),
        ],
    )
    def test_which_stay_is_configurable(self, task, config, keep, expected):
        config("inspector", keep_ports=keep)
        for address in (SECOND, THIRD):
            ports.create({"node_id": task.node.id, "address": address})
        run(task, nic("a", FIRST), nic("b", SECOND), boot={"pxe_interface": FIRST})
        assert set(found_ports(task)) == expected

    @pytest.mark.parametrize(
        ("known", "update", "expected"),
        [(True, True, False), (True, False, True), (False, True, True)],
    )
    def test_pxe_enabled_follows_what_is_known(self, task, config, known, update, expected):
        config("inspector", update_pxe_enabled=update, add_ports="all")
        ports.create({"node_id": task.node.id, "address": SECOND})
        boot = {"pxe_interface": FIRST} if known else {}
        run(task, nic("a", FIRST), nic("b", SECOND), boot=boot)
        assert found_ports(task)[SECOND].pxe_enabled is expected

    def test_are_only_changed_under_the_lock(self, task, config):
        config("inspector", keep_ports="present")
        ports.create({"node_id": task.node.id, "address": THIRD})
        nodes.release(task.node.id, "conductor-1")
        with pytest.raises(errors.LockLost):
            run(task, nic("a", FIRST))


class TestArchitecture:
    def test_is_taken_from_the_inventory(self, task):
        Architecture()(task, {"cpu": {"architecture": "aarch64"}}, {})
        assert task.node.properties["cpu_arch"] == "aarch64"

    @pytest.mark.parametrize("cpu", [None, {}, {"architecture": ""}, {"architecture": 5}], ids=str)
    def test_a_gap_is_a_failure_unless_the_node_knows(self, task, cpu):
        with pytest.raises(errors.HardwareInspectionFailure, match="architecture"):
            Architecture()(task, {"cpu": cpu}, {})
        task.node.properties["cpu_arch"] = "x86_64"
        Architecture()(task, {"cpu": cpu}, {})
        assert task.node.properties["cpu_arch"] == "x86_64"

"""Conductors: registration, heartbeat, liveness, ring input."""

from __future__ import annotations

import datetime

import pytest
import sqlalchemy as sa

from ironic_rs.conf import CONF
from ironic_rs.db import conductors, models, nodes, session
from ironic_rs.domain import errors
from tests.database_suite.setup import in_threads, make_node

FAKE_POWER = {
    "hardware_type": "fake-hardware",
    "interface_type": "power",
    "interface_name": "fake",
    "default": True,
}


def let_die(hostname):
    """Make the heartbeat older than any timeout."""
    rows = models.Conductor.__table__
    long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    with session.writer() as connection:
        connection.execute(
            sa.update(rows).where(rows.c.hostname == hostname).values(updated_at=long_ago)
        )


def register(hostname, group="", *interfaces):
    found = conductors.register(hostname, ["fake-hardware"], group)
    conductors.set_interfaces(found.id, interfaces or [FAKE_POWER])
    return found


@pytest.mark.usefixtures("db")
class TestConductors:
    def test_registration_makes_a_live_row(self):
        found = conductors.register("a", ["redfish", "ipmi"], "East")
        assert found.drivers == ["redfish", "ipmi"]
        assert found.conductor_group == "east"
        assert found.online is True
        assert found.updated_at is not None
        assert found.version == "1.6"
        assert conductors.online_hosts() == ["a"]
        assert conductors.get("a").id == found.id

    def test_a_live_name_is_not_taken_twice_unless_asked(self):
        first = conductors.register("a", ["x"])
        with pytest.raises(errors.ConductorAlreadyRegistered):
            conductors.register("a", ["y"])
        second = conductors.register("a", ["y"], update_existing=True)
        assert second.id == first.id
        assert second.drivers == ["y"]

    def test_a_stopped_conductor_registers_again(self):
        first = conductors.register("a", ["x"])
        conductors.unregister("a")
        assert conductors.register("a", ["x"]).id == first.id
        assert conductors.online_hosts() == ["a"]

    def test_registration_at_once_makes_one_row(self):
        results = in_threads(6, lambda n: conductors.register("a", ["x"]))
        assert len([r for r in results if isinstance(r, models.Conductor)]) == 1
        others = {type(r) for r in results if not isinstance(r, models.Conductor)}
        assert others == {errors.ConductorAlreadyRegistered}
        assert len(conductors.select(["id"])) == 1

    def test_a_heartbeat_is_one_statement_and_tells_of_a_lost_row(self):
        register("a")
        let_die("a")
        assert conductors.online_hosts() == []
        with session.count_statements() as seen:
            assert conductors.touch("a")
        assert seen.count == 1
        assert conductors.online_hosts() == ["a"]
        assert not conductors.touch("b")

    def test_a_heartbeat_while_stopping_keeps_it_out_of_the_rings(self):
        register("a")
        conductors.touch("a", online=False)
        assert conductors.online_hosts() == []
        assert conductors.offline_hosts() == []

    def test_death_is_noticed_whatever_online_says(self):
        for name in ("live", "dead", "stopped"):
            register(name)
        let_die("dead")
        conductors.unregister("stopped")
        assert conductors.online_hosts() == ["live"]
        assert conductors.offline_hosts() == ["dead"]
        assert conductors.ring_members() == [("", "fake-hardware", "live")]
        let_die("stopped")
        assert sorted(conductors.offline_hosts()) == ["dead", "stopped"]

    def test_without_a_timeout_nobody_dies(self):
        register("a")
        let_die("a")
        CONF.set_override("heartbeat_timeout", 0, group="conductor")
        try:
            assert conductors.online_hosts() == ["a"]
            assert conductors.offline_hosts() == []
        finally:
            CONF.clear_override("heartbeat_timeout", group="conductor")

    def test_the_ring_has_one_row_for_each_group_type_and_host(self):
        twice = [
            {**FAKE_POWER, "interface_name": name, "default": name == "fake"}
            for name in ("fake", "other")
        ]
        register("a", "East", *twice, {**FAKE_POWER, "hardware_type": "redfish"})
        register("b")
        with session.count_statements() as seen:
            members = conductors.ring_members()
        assert seen.count == 1
        assert sorted(members) == [
            ("", "fake-hardware", "b"),
            ("east", "fake-hardware", "a"),
            ("east", "redfish", "a"),
        ]

    def test_interfaces_are_replaced_and_listed(self):
        found = register("a")
        conductors.set_interfaces(found.id, [{**FAKE_POWER, "interface_name": "new"}])
        (row,) = conductors.interfaces()
        assert row["interface_name"] == "new"
        assert row["hostname"] == "a"
        assert row["default"] is True
        assert conductors.interfaces(["redfish"]) == []
        with pytest.raises(errors.ConductorHardwareInterfacesAlreadyRegistered):
            conductors.set_interfaces(found.id, [FAKE_POWER, FAKE_POWER])
        assert len(conductors.interfaces()) == 1
        conductors.set_interfaces(found.id, [])
        assert conductors.interfaces() == []

    def test_unregistering_empties_the_rings(self):
        register("a")
        conductors.unregister("a")
        assert conductors.ring_members() == []
        with pytest.raises(errors.ConductorNotFound):
            conductors.unregister("a")
        with pytest.raises(errors.ConductorNotFound):
            conductors.unregister("b")

    def test_the_list_shows_who_is_alive(self):
        register("a")
        register("b")
        let_die("b")
        rows = conductors.select(["hostname", "alive"], sort_key="hostname")
        assert [(row["hostname"], row["alive"]) for row in rows] == [("a", True), ("b", False)]
        rows = conductors.select(["hostname"], sort_key="hostname", marker="a")
        assert [row["hostname"] for row in rows] == ["b"]
        with pytest.raises(errors.ConductorNotFound):
            conductors.select(["hostname"], marker="c")
        with pytest.raises(errors.ConductorNotFound):
            conductors.get("c")

    def test_a_stale_conductor_is_deleted_with_all_that_points_to_it(self):
        gone, kept = register("gone"), register("kept")
        let_die("gone")
        prepared = make_node(conductor_affinity=gone.id)
        others = make_node(reservation="kept", conductor_affinity=kept.id)
        assert conductors.stale(3600, 10) == [("gone", 0)]
        assert conductors.stale(3600, 0) == []
        assert conductors.destroy("gone", 3600)
        assert nodes.get(prepared.id).conductor_affinity is None
        assert nodes.get(prepared.id).updated_at == prepared.updated_at
        assert nodes.get(others.id).reservation == "kept"
        assert nodes.get(others.id).conductor_affinity == kept.id
        assert [row["hostname"] for row in conductors.select(["hostname"])] == ["kept"]
        assert not conductors.destroy("gone", 3600)

    def test_a_stale_conductor_that_holds_a_node_stays(self):
        register("gone")
        let_die("gone")
        held = make_node(reservation="gone", target_power_state="power on")
        assert not conductors.destroy("gone", 3600)
        assert nodes.get(held.id).reservation == "gone"
        assert nodes.get(held.id).target_power_state == "power on"
        assert conductors.get("gone").online is True

    def test_a_conductor_that_came_back_is_not_deleted(self):
        register("back")
        let_die("back")
        assert conductors.stale(3600, 10) == [("back", 0)]
        conductors.touch("back")
        assert not conductors.destroy("back", 3600)
        assert conductors.ring_members() == [("", "fake-hardware", "back")]

    def test_those_that_hold_nodes_do_not_hide_the_others_from_the_batch(self):
        for name in ("a", "b", "c"):
            register(name)
            let_die(name)
        make_node(reservation="a")
        make_node(reservation="a")
        make_node(reservation="b")
        with session.count_statements() as seen:
            assert conductors.stale(3600, 2) == [("c", 0), ("b", 1)]
        assert seen.count == 1

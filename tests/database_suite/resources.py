"""Every resource other than nodes and conductors."""

from __future__ import annotations

import contextlib
import datetime
import uuid

import pytest
import sqlalchemy as sa

from ironic_rs.db import (
    bios,
    chassis,
    firmware,
    history,
    inspection_rules,
    inventory,
    models,
    nodes,
    portgroups,
    ports,
    records,
    runbooks,
    session,
    templates,
    volumes,
)
from ironic_rs.domain import errors
from tests.database_suite.setup import make_node

HOST = "conductor-1"
MAC = "52:54:00:00:00:0"


@pytest.mark.usefixtures("db")
class TestPorts:
    def test_a_port_is_found_by_every_name_it_has(self):
        node = make_node()
        port = ports.create({"node_id": node.id, "address": f"{MAC}A", "name": "eth0"})
        assert port.address == f"{MAC}a"
        assert port.node_uuid == node.uuid
        assert port.version == "1.16"
        assert (port.pxe_enabled, port.available_for_dynamic_portgroup) == (True, True)
        for found in (
            ports.get(port.id),
            ports.get(port.uuid),
            ports.get_by_ident(port.uuid),
            ports.get_by_ident(f"{MAC}A"),
            ports.get_by_ident("eth0"),
            ports.get_by_address(f"{MAC}A"),
            *ports.of_node(node.id),
        ):
            assert records.as_dict(found) == records.as_dict(port)
        with pytest.raises(errors.PortNotFound):
            ports.get(str(uuid.uuid4()))
        with pytest.raises(errors.PortNotFound):
            ports.get_by_address(f"{MAC}f")

    def test_uniqueness(self):
        node = make_node()
        first = ports.create({"node_id": node.id, "address": f"{MAC}1", "name": "a"})
        second = ports.create({"node_id": node.id, "address": f"{MAC}2"})
        with pytest.raises(errors.MACAlreadyExists, match=f"{MAC}1"):
            ports.create({"node_id": node.id, "address": f"{MAC}1"})
        with pytest.raises(errors.PortDuplicateName, match="a"):
            ports.create({"node_id": node.id, "address": f"{MAC}3", "name": "a"})
        with pytest.raises(errors.PortAlreadyExists, match=first.uuid):
            ports.create({"node_id": node.id, "address": f"{MAC}3", "uuid": first.uuid})
        with pytest.raises(errors.MACAlreadyExists):
            ports.update(second, {"address": f"{MAC}1"})
        with pytest.raises(errors.PortDuplicateName):
            ports.update(second.uuid, {"name": "a"})
        with pytest.raises(errors.InvalidParameterValue):
            ports.create({"node_id": 12345, "address": f"{MAC}3"})

    def test_a_save_is_one_statement_of_what_changed(self):
        port = ports.create({"node_id": make_node().id, "address": f"{MAC}1"})
        port.internal_info["vif"] = "x"
        with session.count_statements() as seen:
            ports.save(port)
            ports.save(port)
        assert seen.count == 1
        assert "address" not in seen.statements[0]
        stored = ports.get(port.id)
        assert stored.internal_info == {"vif": "x"}
        assert stored.updated_at is not None

    def test_the_fence_is_the_lock_of_the_node(self):
        node = make_node()
        port = ports.create({"node_id": node.id, "address": f"{MAC}1"})
        with pytest.raises(errors.LockLost, match=node.uuid):
            ports.update(port, {"name": "a"}, fence=HOST)
        with pytest.raises(errors.LockLost):
            ports.destroy(port, fence=HOST)
        nodes.reserve(node.id, HOST)
        ports.update(port, {"name": "a"}, fence=HOST)
        ports.destroy(port.uuid, fence=HOST)
        for fence in (None, HOST):
            with pytest.raises(errors.PortNotFound):
                ports.update(port, {"name": "a"}, fence=fence)
            with pytest.raises(errors.PortNotFound):
                ports.destroy(port, fence=fence)

    def test_filters_by_node_and_portgroup(self):
        node = make_node(owner="p", shard="s", conductor_group="g")
        group = portgroups.create({"node_id": node.id})
        port = ports.create(
            {
                "node_id": node.id,
                "address": f"{MAC}1",
                "portgroup_id": group.id,
                "description": "uplink 1",
            }
        )
        ports.create({"node_id": make_node().id, "address": f"{MAC}2"})
        for filters in (
            {"node_id": node.id},
            {"node_uuid": node.uuid},
            {"owner": "p"},
            {"project": "p"},
            {"shard_in": ["s"]},
            {"conductor_groups": ["g"]},
            {"portgroup_id": group.id},
            {"portgroup_uuid": group.uuid},
            {"address": f"{MAC}1".upper()},
            {"address_in": [f"{MAC}1"]},
            {"description_contains": "link"},
        ):
            assert [r["uuid"] for r in ports.select(["uuid"], filters)] == [port.uuid], filters
        assert [p.id for p in ports.of_portgroup(group.id)] == [port.id]


@pytest.mark.usefixtures("db")
class TestPortgroups:
    def test_life_of_a_portgroup(self):
        node = make_node()
        group = portgroups.create({"node_id": node.id, "name": "bond0", "address": f"{MAC}B"})
        assert group.mode == "active-backup"
        assert group.node_uuid == node.uuid
        assert group.address == f"{MAC}b"
        for ident in (group.uuid, "bond0", f"{MAC}B"):
            assert portgroups.get_by_ident(ident).id == group.id
        assert portgroups.get(group.id).uuid == group.uuid
        assert [g.id for g in portgroups.of_node(node.id)] == [group.id]
        group.properties = {"miimon": "100"}
        portgroups.save(group)
        assert portgroups.get(group.uuid).properties == {"miimon": "100"}
        port = ports.create({"node_id": node.id, "address": f"{MAC}1", "portgroup_id": group.id})
        with pytest.raises(errors.PortgroupNotEmpty, match=group.uuid):
            portgroups.destroy(group)
        ports.destroy(port)
        portgroups.destroy(group.uuid)
        with pytest.raises(errors.PortgroupNotFound):
            portgroups.get(group.id)
        with pytest.raises(errors.PortgroupNotFound):
            portgroups.get_by_ident("bond0")

    def test_uniqueness(self):
        node = make_node()
        first = portgroups.create({"node_id": node.id, "name": "a", "address": f"{MAC}1"})
        for values, error in (
            ({"name": "a"}, errors.PortgroupDuplicateName),
            ({"address": f"{MAC}1"}, errors.PortgroupMACAlreadyExists),
            ({"uuid": first.uuid}, errors.PortgroupAlreadyExists),
        ):
            with pytest.raises(error):
                portgroups.create({"node_id": node.id, **values})
        second = portgroups.create({"node_id": node.id})
        with pytest.raises(errors.PortgroupDuplicateName):
            portgroups.update(second, {"name": "a"})

    def test_the_ports_get_the_physical_network_of_the_group_or_nothing_changes(self):
        node = make_node()
        portgroups.create({"node_id": node.id, "name": "taken"})
        group = portgroups.create({"node_id": node.id})
        for number in range(3):
            address = {"address": f"{MAC}{number}"}
            ports.create({"node_id": node.id, "portgroup_id": group.id, **address})
        group.physical_network, group.category = "net", "fast"
        for fence, name in (("nobody", None), (None, "taken")):
            group.name = name
            with pytest.raises(errors.Conflict):
                portgroups.save_with_ports(group, fence=fence)
            assert {port.physical_network for port in ports.of_portgroup(group.id)} == {None}
        group.name = None
        with session.count_statements() as seen:
            portgroups.save_with_ports(group, fence=None)
        assert seen.count == 2
        assert {port.physical_network for port in ports.of_portgroup(group.id)} == {"net"}
        stored = portgroups.get(group.id)
        assert (stored.physical_network, stored.category) == ("net", "fast")


@pytest.mark.usefixtures("db")
class TestChassis:
    def test_life_of_a_chassis(self):
        rack = chassis.create({"description": "rack 1", "extra": {"row": 1}})
        with pytest.raises(errors.ChassisAlreadyExists):
            chassis.create({"uuid": rack.uuid})
        node = make_node(chassis_id=rack.id)
        (row,) = nodes.select(["chassis_uuid"])
        assert row["chassis_uuid"] == rack.uuid
        changed = chassis.change(rack.uuid, lambda c: {"description": f"{c.description}, top"})
        assert changed.description == "rack 1, top"
        assert chassis.get(rack.id).updated_at is not None
        with pytest.raises(errors.ChassisNotEmpty):
            chassis.destroy(rack.uuid)
        nodes.destroy(node.id)
        chassis.destroy(rack.uuid)
        for call in (chassis.get, chassis.destroy, lambda c: chassis.change(c, dict)):
            with pytest.raises(errors.ChassisNotFound):
                call(rack.uuid)


@pytest.mark.usefixtures("db")
class TestHistory:
    def add(self, node, number, days_ago=0):
        for n in range(number):
            history.create({"node_id": node.id, "event": f"event {n}", "severity": "ERROR"})
        if days_ago:
            rows = models.NodeHistory.__table__
            past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days_ago)
            with session.writer() as connection:
                connection.execute(
                    sa.update(rows).where(rows.c.node_id == node.id).values(created_at=past)
                )

    def test_entries_are_written_with_one_statement_and_read_back(self):
        node = make_node()
        with session.count_statements() as seen:
            entry = history.create(
                {"node_id": node.id, "event": "boom", "conductor": HOST, "duration_seconds": 7}
            )
        assert seen.count == 1
        found = history.get(entry)
        assert (found.event, found.conductor, found.duration_seconds) == ("boom", HOST, 7)
        assert [e.uuid for e in history.of_node(node.id)] == [entry]
        (row,) = history.select(["uuid", "node_uuid"], {"node_id": node.id})
        assert row["node_uuid"] == node.uuid
        with pytest.raises(errors.NodeHistoryNotFound):
            history.get(str(uuid.uuid4()))
        with pytest.raises(errors.InvalidParameterValue):
            history.create({"node_id": 12345, "event": "x"})

    def test_entries_of_many_nodes_are_written_with_one_statement(self):
        first, second, other = make_node(), make_node(), make_node()
        with session.count_statements() as seen:
            history.create_all(
                [
                    {"node_id": node.id, "event": "slow", "event_type": "time in state"}
                    for node in (first, second)
                ]
            )
        assert seen.count == 1
        ids = [node.id for node in (first, second, other)]
        newest = history.newest_of_type(ids, "time in state")
        assert set(newest) == {first.id, second.id}
        assert newest[first.id].tzinfo is datetime.UTC
        self.add(other, 1)
        assert history.newest_of_type([other.id], "time in state") == {}

    def test_a_huge_event_loses_its_middle(self):
        entry = history.create({"node_id": make_node().id, "event": "ä" * 40000 + "end"})
        event = history.get(entry).event
        assert len(event.encode()) <= 65535
        assert event.startswith("äää")
        assert event.endswith("äend")

    def test_purging_keeps_the_newest(self):
        full, fits = make_node(), make_node()
        self.add(full, 5)
        self.add(fits, 2)
        with session.count_statements() as seen:
            (row,) = history.overfull(keep=2, days=0)
            assert (row["node_id"], row["uuid"], row["excess"]) == (full.id, full.uuid, 3)
            assert (row["driver"], row["conductor_group"]) == (full.driver, "")
            assert history.delete_oldest([full.id, fits.id], keep=2, days=0) == 3
        assert seen.count == 3
        assert [e.event for e in history.of_node(full.id)] == ["event 3", "event 4"]
        assert len(history.of_node(fits.id)) == 2
        assert history.overfull(keep=2, days=0) == []

    def test_purging_many_nodes_takes_few_statements(self):
        made = [make_node() for _ in range(30)]
        for node in made:
            self.add(node, 4)
        with session.count_statements() as seen:
            assert history.delete_oldest([node.id for node in made], keep=1, days=0) == 90
        assert seen.count == 2
        assert {len(history.of_node(node.id)) for node in made} == {1}
        with session.count_statements() as seen:
            assert history.delete_oldest([made[0].id], keep=1, days=0) == 0
        assert seen.count == 1

    def test_purging_spares_what_is_young(self):
        node = make_node()
        self.add(node, 3, days_ago=10)
        self.add(node, 3)
        assert [row["excess"] for row in history.overfull(keep=1, days=5)] == [2]
        assert history.delete_oldest([node.id], keep=1, days=5) == 2
        assert len(history.of_node(node.id)) == 4


@pytest.mark.usefixtures("db")
class TestInventory:
    def test_the_last_inspection_replaces_the_one_before(self):
        node = make_node()
        with pytest.raises(errors.NodeInventoryNotFound):
            inventory.get(node.id)
        inventory.store(node.id, {"cpu": 1}, {"lldp": []})
        inventory.store(node.id, {"cpu": 2, "blob": "x" * 100000}, {})
        found = inventory.get(node.id)
        assert found.inventory_data["cpu"] == 2
        assert found.plugin_data == {}
        inventory.destroy(node.id)
        with pytest.raises(errors.NodeInventoryNotFound):
            inventory.destroy(node.id)
        with pytest.raises(errors.InvalidParameterValue):
            inventory.store(12345, {}, {})


@pytest.mark.usefixtures("db")
class TestBios:
    def test_settings_follow_the_hardware(self):
        node = make_node()
        bios.create(node.id, [{"name": "a", "value": "1"}, {"name": "b", "value": None}])
        with pytest.raises(errors.BIOSSettingAlreadyExists):
            bios.create(node.id, [{"name": "a", "value": "2"}])
        done = bios.sync(
            node.id,
            [
                {"name": "a", "value": "2", "allowable_values": ["1", "2"]},
                {"name": "c", "value": "3", "upper_bound": 2**40},
            ],
        )
        assert done == (["c"], ["a"], ["b"], [])
        assert bios.sync(node.id, [{"name": "a", "value": "2"}, {"name": "c", "value": "3"}]) == (
            [],
            [],
            [],
            ["a", "c"],
        )
        assert [(s.name, s.value) for s in bios.of_node(node.id)] == [("a", "2"), ("c", "3")]
        assert bios.get(node.id, "a").allowable_values == ["1", "2"]
        assert bios.get(node.id, "c").upper_bound == 2**40
        with pytest.raises(errors.BIOSSettingNotFound):
            bios.get(node.id, "b")
        with pytest.raises(errors.BIOSSettingListNotFound, match="b, d"):
            bios.destroy(node.id, ["a", "b", "d"])
        assert len(bios.of_node(node.id)) == 2
        bios.destroy(node.id, ["a", "c"])
        assert bios.of_node(node.id) == []


@pytest.mark.usefixtures("db")
class TestFirmware:
    def test_components_follow_the_hardware(self):
        node = make_node()
        read = [
            {"component": "bios", "current_version": "1"},
            {"component": "bmc", "current_version": "1"},
        ]
        assert firmware.sync(node.id, read) == (["bios", "bmc"], [], [])
        assert firmware.get(node.id, "bios").initial_version == "1"
        assert firmware.sync(node.id, read) == ([], [], ["bios", "bmc"])
        read[0]["current_version"] = "2"
        read[1]["vendor"] = "ACME"
        assert firmware.sync(node.id, read) == ([], ["bios", "bmc"], [])
        bios_record, bmc = firmware.of_node(node.id)
        assert (bios_record.current_version, bios_record.last_version_flashed) == ("2", "2")
        assert (bios_record.initial_version, bmc.vendor) == ("1", "ACME")
        assert (bmc.current_version, bmc.last_version_flashed) == ("1", None)
        firmware.update(node.id, "bios", {"last_version_flashed": "3"})
        assert firmware.sync(node.id, read[:1]) == ([], ["bios"], [])
        assert firmware.get(node.id, "bios").last_version_flashed == "2"

    def test_errors(self):
        node = make_node()
        new = {"node_id": node.id, "component": "bmc", "initial_version": "1"}
        firmware.create(new)
        with pytest.raises(errors.FirmwareComponentAlreadyExists):
            firmware.create(new)
        with pytest.raises(errors.FirmwareComponentNotFound):
            firmware.get(node.id, "bios")
        with pytest.raises(errors.FirmwareComponentNotFound):
            firmware.update(node.id, "bios", {"vendor": "x"})


@pytest.mark.usefixtures("db")
class TestVolumes:
    def test_life_of_a_connector(self):
        node = make_node(owner="p")
        new = {"node_id": node.id, "type": "iqn", "connector_id": "iqn.1"}
        first = volumes.create_connector(new)
        with pytest.raises(errors.VolumeConnectorTypeAndIdAlreadyExists, match=r"iqn\.1"):
            volumes.create_connector(new)
        with pytest.raises(errors.VolumeConnectorAlreadyExists):
            volumes.create_connector({"node_id": node.id, "uuid": first.uuid})
        second = volumes.create_connector({**new, "type": "mac"})
        with pytest.raises(errors.VolumeConnectorTypeAndIdAlreadyExists):
            volumes.update_connector(second, {"type": "iqn"})
        volumes.update_connector(first, {"extra": {"a": 1}})
        assert volumes.get_connector(first.uuid).extra == {"a": 1}
        assert len(volumes.connectors_of_node(node.id)) == 2
        rows = volumes.select_connectors(["uuid", "node_uuid"], {"project": "p"}, limit=1)
        assert [tuple(row.values()) for row in rows] == [(first.uuid, node.uuid)]
        volumes.destroy_connector(first.uuid)
        with pytest.raises(errors.VolumeConnectorNotFound):
            volumes.get_connector(first.id)
        with pytest.raises(errors.LockLost):
            volumes.destroy_connector(second, fence=HOST)

    def test_life_of_a_target(self):
        node = make_node()
        first = volumes.create_target({"node_id": node.id, "boot_index": 0, "volume_id": "v"})
        with pytest.raises(errors.VolumeTargetBootIndexAlreadyExists):
            volumes.create_target({"node_id": node.id, "boot_index": 0})
        with pytest.raises(errors.VolumeTargetAlreadyExists):
            volumes.create_target({"node_id": node.id, "boot_index": 1, "uuid": first.uuid})
        volumes.update_target(first.id, {"properties": {"a": 1}})
        assert volumes.get_target(first.uuid).properties == {"a": 1}
        assert [t.id for t in volumes.targets_of_node(node.id)] == [first.id]
        rows = volumes.select_targets(["node_uuid"], {"volume_id": "v"})
        assert [row["node_uuid"] for row in rows] == [node.uuid]
        volumes.destroy_target(first)
        with pytest.raises(errors.VolumeTargetNotFound):
            volumes.destroy_target(first)


STEPS = [
    {"interface": "deploy", "step": "a", "args": {"x": 1, "y": 2}, "priority": 10},
    {"interface": "bios", "step": "b", "args": {}, "priority": 20},
]


def step_rows(model):
    with session.reader() as connection:
        rows = connection.execute(sa.select(model.__table__.c.id, model.__table__.c.step))
        return {step: row_id for row_id, step in rows}


@pytest.mark.usefixtures("db")
class TestTemplates:
    def test_life_of_a_template(self):
        template = templates.create({"name": "CUSTOM_A", "steps": STEPS})
        assert template.steps == STEPS
        assert templates.get(template.uuid).steps == STEPS
        assert templates.get_by_ident("CUSTOM_A").id == template.id
        assert [t.id for t in templates.named(["CUSTOM_A", "CUSTOM_B"])] == [template.id]
        assert templates.steps_of([template.id]) == {template.id: STEPS}
        with pytest.raises(errors.DeployTemplateDuplicateName):
            templates.create({"name": "CUSTOM_A"})
        with pytest.raises(errors.DeployTemplateAlreadyExists):
            templates.create({"name": "CUSTOM_B", "uuid": template.uuid})
        templates.destroy(template.uuid)
        assert step_rows(models.DeployTemplateStep) == {}
        for call in (templates.get, templates.destroy, lambda i: templates.change(i, dict)):
            with pytest.raises(errors.DeployTemplateNotFound):
                call(template.id)

    def test_steps_are_kept_in_the_order_given(self):
        template = templates.create({"name": "CUSTOM_A", "steps": STEPS})
        before = step_rows(models.DeployTemplateStep)
        same = {**STEPS[0], "args": {"y": 2, "x": 1}}
        other = {**STEPS[1], "priority": 5}
        assert templates.change(template.id, lambda t: {"steps": [same, other]}).steps == [
            STEPS[0],
            other,
        ]
        after = step_rows(models.DeployTemplateStep)
        assert after["a"] == before["a"]
        changed = templates.change(template.uuid, lambda t: {"extra": {"a": len(t.steps)}})
        assert changed.extra == {"a": 2}
        assert step_rows(models.DeployTemplateStep) == after
        templates.change(template.uuid, lambda t: {"steps": t.steps[::-1]})
        assert [s["priority"] for s in templates.get(template.id).steps] == [5, 10]
        templates.change(template.uuid, lambda t: {"steps": []})
        assert templates.get(template.id).steps == []

    def test_arguments_that_are_too_large_are_refused(self):
        # MySQL takes 64 KiB; the others take it all.
        large = {**STEPS[0], "args": {"x": "y" * 70_000}}
        with contextlib.suppress(errors.InvalidParameterValue):
            templates.create({"name": "CUSTOM_A", "steps": [large]})
            assert templates.get_by_ident("CUSTOM_A").steps == [large]

    def test_new_steps_move_the_time_of_the_update(self):
        template = templates.create({"name": "CUSTOM_A", "steps": STEPS})
        assert template.updated_at is None
        assert templates.change(template.id, lambda t: {}).updated_at is None
        assert templates.change(template.id, lambda t: {"steps": STEPS[:1]}).updated_at is not None

    def test_a_refused_change_leaves_everything(self):
        template = templates.create({"name": "CUSTOM_A", "steps": STEPS})
        templates.create({"name": "CUSTOM_B"})
        with pytest.raises(errors.DeployTemplateDuplicateName):
            templates.change(template.id, lambda t: {"steps": [], "name": "CUSTOM_B"})
        assert templates.get(template.id).steps == STEPS


@pytest.mark.usefixtures("db")
class TestRunbooks:
    steps = tuple(
        {"interface": "deploy", "step": name, "args": {}, "order": order}
        for order, name in enumerate("ab")
    )

    def test_life_of_a_runbook(self):
        runbook = runbooks.create(
            {"name": "CUSTOM_A", "steps": self.steps, "traits": ["CUSTOM_T", "CUSTOM_S"]}
        )
        assert runbook.steps == list(self.steps)
        assert runbook.traits == ["CUSTOM_S", "CUSTOM_T"]
        assert runbook.public is False
        with session.reader() as connection:
            versions = connection.execute(sa.select(models.RunbookTrait.__table__.c.version))
            assert set(versions.scalars()) == {"1.0"}
        assert runbooks.get_by_ident("CUSTOM_A").traits == runbook.traits
        assert [r.id for r in runbooks.for_traits(["CUSTOM_T", "CUSTOM_S"])] == [runbook.id]
        assert runbooks.for_traits(["CUSTOM_X"]) == []
        with pytest.raises(errors.RunbookDuplicateName):
            runbooks.create({"name": "CUSTOM_A"})
        with pytest.raises(errors.RunbookAlreadyExists):
            runbooks.create({"name": "CUSTOM_B", "uuid": runbook.uuid})
        runbooks.change(runbook.uuid, lambda r: {"traits": ["CUSTOM_U", r.traits[0], "CUSTOM_U"]})
        assert runbooks.traits_of([runbook.id]) == {runbook.id: ["CUSTOM_S", "CUSTOM_U"]}
        changed = runbooks.change(
            runbook.id, lambda r: {"public": True, "steps": r.steps[:1], "traits": []}
        )
        assert (changed.public, changed.steps, changed.traits) == (True, [self.steps[0]], [])
        assert runbooks.steps_of([runbook.id]) == {runbook.id: [self.steps[0]]}
        runbooks.destroy(runbook.uuid)
        for call in (runbooks.get, runbooks.destroy):
            with pytest.raises(errors.RunbookNotFound):
                call(runbook.id)

    def test_filters(self):
        mine = runbooks.create({"name": "CUSTOM_A", "owner": "p"})
        public = runbooks.create({"name": "CUSTOM_B", "public": True})
        runbooks.create({"name": "CUSTOM_C", "owner": "q"})
        rows = runbooks.select(["uuid"], {"project": "p"})
        assert {row["uuid"] for row in rows} == {mine.uuid, public.uuid}
        rows = runbooks.select(["uuid"], {"public": True})
        assert [row["uuid"] for row in rows] == [public.uuid]


@pytest.mark.usefixtures("db")
class TestInspectionRules:
    def test_life_of_a_rule(self):
        low = inspection_rules.create({"actions": [{"op": "fail"}], "priority": 1})
        high = inspection_rules.create({"actions": [], "priority": 5, "phase": "other"})
        assert low.phase == "main"
        assert [r.id for r in inspection_rules.in_phase()] == [high.id, low.id]
        assert [r.id for r in inspection_rules.in_phase("main")] == [low.id]
        with pytest.raises(errors.InspectionRuleAlreadyExists):
            inspection_rules.create({"actions": [], "uuid": low.uuid})
        assert inspection_rules.change(low.uuid, lambda r: {"sensitive": True}).sensitive is True
        inspection_rules.destroy(low)
        with pytest.raises(errors.RuleNotFound):
            inspection_rules.get(low.id)
        assert [row["uuid"] for row in inspection_rules.select(["uuid"])] == [high.uuid]

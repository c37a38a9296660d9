"""Nodes and their lock."""

from __future__ import annotations

import datetime
import uuid

import pytest
import sqlalchemy as sa

from ironic_rs.conf import CONF
from ironic_rs.db import (
    allocations,
    bios,
    chassis,
    firmware,
    history,
    inventory,
    models,
    nodes,
    portgroups,
    ports,
    records,
    session,
    volumes,
)
from ironic_rs.domain import errors
from tests.database_suite.setup import in_threads, make_node

HOST = "conductor-1"
OTHER = "conductor-2"


def set_column(node_id, **values):
    with session.writer() as connection:
        table = models.Node.__table__
        connection.execute(sa.update(table).where(table.c.id == node_id).values(**values))


@pytest.mark.usefixtures("db")
class TestReadingNodes:
    def test_a_new_node_has_the_defaults_of_the_specification(self):
        node = make_node()
        assert uuid.UUID(node.uuid).version == 4
        assert node.provision_state == "enroll"
        assert node.power_state is None
        assert (node.extra, node.clean_step, node.instance_info) == ({}, {}, {})
        assert (node.maintenance, node.protected, node.retired) == (False, False, False)
        assert node.conductor_group == ""
        assert node.version == "1.44"
        assert node.traits == []
        assert node.updated_at is None
        assert node.created_at.tzinfo is datetime.UTC
        assert records.changes(node) == {}

    def test_a_row_tells_the_time_of_the_database_beside_its_own(self):
        node = make_node()
        nodes.touch_provisioning(node.id)
        (row,) = nodes.select(["database_time", "provision_updated_at"], {"id": node.id})
        assert row["database_time"].tzinfo is datetime.UTC
        age = row["database_time"] - row["provision_updated_at"]
        assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=5)

    def test_a_node_is_found_by_id_uuid_name_and_instance(self):
        instance = str(uuid.uuid4())
        node = make_node(name="metal-1", instance_uuid=instance)
        found = [
            nodes.get(node.id),
            nodes.get(str(node.id)),
            nodes.get(node.uuid),
            nodes.get_by_ident(node.uuid),
            nodes.get_by_ident("metal-1"),
            nodes.get_by_instance(instance),
        ]
        assert {n.id for n in found} == {node.id}
        assert records.as_dict(found[0]) == records.as_dict(node)

    def test_what_does_not_exist_is_not_found(self):
        nobody = str(uuid.uuid4())
        with pytest.raises(errors.NodeNotFound):
            nodes.get(nobody)
        with pytest.raises(errors.NodeNotFound):
            nodes.get(12345)
        with pytest.raises(errors.InvalidIdentity):
            nodes.get("a name")
        with pytest.raises(errors.NodeNotFound):
            nodes.get_by_ident("a name")
        with pytest.raises(errors.InstanceNotFound):
            nodes.get_by_instance(nobody)
        with pytest.raises(errors.InvalidUUID):
            nodes.get_by_instance("a name")

    def test_one_node_with_its_traits_is_one_statement(self):
        node = make_node()
        nodes.set_traits(node.id, ["CUSTOM_B", "CUSTOM_A"])
        with session.count_statements() as seen:
            found = nodes.get(node.uuid)
        assert found.traits == ["CUSTOM_A", "CUSTOM_B"]
        assert seen.count == 1

    def test_a_list_is_one_statement_of_the_wanted_columns(self):
        for number in range(3):
            make_node(name=f"n{number}", extra={"number": number})
        with session.count_statements() as seen:
            rows = nodes.select(["uuid", "extra", "chassis_uuid", "allocation_uuid"])
        assert seen.count == 1
        assert "driver_internal_info" not in seen.statements[0]
        assert [row["extra"] for row in rows] == [{"number": n} for n in range(3)]

    def test_traits_of_a_page_are_one_statement(self):
        first, second, third = make_node(), make_node(), make_node()
        nodes.set_traits(first.id, ["B", "A"])
        nodes.set_traits(third.id, ["C"])
        with session.count_statements() as seen:
            rows = nodes.select(["id", "traits_json"])
        found = {row["id"]: nodes.traits_in(row) for row in rows}
        assert found == {first.id: ["A", "B"], second.id: [], third.id: ["C"]}
        assert seen.count == 1

    def test_rows_of_an_older_release_read_like_new_ones(self):
        node = make_node()
        set_column(node.id, network_data=sa.null(), version="1.41")
        with session.writer() as connection:
            connection.execute(sa.text("UPDATE nodes SET extra = 'null', properties = NULL"))
        found = nodes.get(node.id)
        assert (found.network_data, found.extra, found.properties) == ({}, {}, {})

    def test_json_comes_back_as_it_went_in(self):
        extra = {
            "big": 2**70,
            "negative": -(2**63),
            "float": 0.1,
            "emoji": "😀 \x00 \u2028",
            "nested": [{"a": [None, True, False, "x"]}],
            "": "empty key",
        }
        node = make_node(extra=extra)
        assert nodes.get(node.id).extra == extra

    def test_text_comes_back_as_it_went_in(self):
        description = "Größe 😀 'quoted' \\ %s :name\n"
        node = make_node(description=description, name="n-1.2_3~4")
        assert nodes.get(node.id).description == description


@pytest.mark.usefixtures("db")
class TestFilters:
    def uuids(self, **filters):
        return {row["uuid"] for row in nodes.select(["uuid"], filters)}

    def test_each_filter_selects_what_it_says(self):
        group = chassis.create({"description": "rack"})
        plain = make_node(name="plain", description="100%_sure")
        rich = make_node(
            name="rich",
            instance_uuid=str(uuid.uuid4()),
            maintenance=True,
            provision_state="active",
            resource_class="gold",
            conductor_group="East",
            owner="p1",
            lessee="p2",
            shard="s1",
            chassis_id=group.id,
            power_state="power on",
            target_power_state="power off",
            reservation=HOST,
            fault="power failure",
            driver="redfish",
        )
        child = make_node(name="child", parent_node=rich.uuid, description="100 percent")
        everything = {plain.uuid, rich.uuid, child.uuid}
        assert self.uuids() == everything
        assert self.uuids(include_children=True) == everything
        assert self.uuids(include_children=False) == {plain.uuid, rich.uuid}
        assert self.uuids(parent_node=rich.uuid) == {child.uuid}
        for only_rich in (
            {"maintenance": True},
            {"provision_state": "active"},
            {"provision_state_in": ["active", "error"]},
            {"provision_state_not_in": ["enroll"]},
            {"resource_class": "gold"},
            {"conductor_group": "east"},
            {"owner": "p1"},
            {"lessee": "p2"},
            {"project": "p1"},
            {"project": "p2"},
            {"shard_in": ["s1", "s2"]},
            {"sharded": True},
            {"associated": True},
            {"reserved": True},
            {"reserved_by_any_of": [HOST, "x"]},
            {"with_power_state": True},
            {"with_target_power_state": True},
            {"chassis_uuid": group.uuid},
            {"fault": "power failure"},
            {"driver": "redfish"},
            {"driver_in": ["redfish"]},
            {"instance_uuid": rich.instance_uuid},
            {"uuid_in": [rich.uuid]},
            {"id": rich.id},
            {"name": "rich"},
        ):
            assert self.uuids(**only_rich) == {rich.uuid}, only_rich
        assert self.uuids(associated=False) == {plain.uuid, child.uuid}
        assert self.uuids(reserved=False, sharded=False) == {plain.uuid, child.uuid}
        assert self.uuids(description_contains="100%sure") == {plain.uuid}
        assert self.uuids(description_contains="0 per") == {child.uuid}
        assert self.uuids(fault=None) == {plain.uuid, child.uuid}
        assert self.uuids(maintenance=False, project="p1") == set()
        assert self.uuids(uuid_in=[]) == set()

    def test_ages_are_measured_by_the_clock_of_the_database(self):
        old, new, never = make_node(), make_node(), make_node()
        nodes.touch_provisioning(new.id)
        long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        set_column(old.id, provision_updated_at=long_ago, inspection_started_at=long_ago)
        assert self.uuids(provisioned_before=60) == {old.uuid}
        assert self.uuids(inspection_started_before=60) == {old.uuid}
        assert self.uuids(provisioned_before=-60) == {old.uuid, new.uuid}
        assert never.uuid not in self.uuids(provisioned_before=-60)

    def test_an_unknown_filter_or_column_is_a_programming_error(self):
        with pytest.raises(ValueError, match="no filter 'colour'"):
            nodes.select(["uuid"], {"colour": "red"})
        with pytest.raises(ValueError, match="no column 'colour'"):
            nodes.select(["colour"])

    def test_nodes_are_counted_by_state_and_group(self):
        make_node(provision_state="deploying", conductor_group="a")
        make_node(provision_state="wait call-back")
        make_node(provision_state="active")
        assert nodes.count_in_states(["deploying", "wait call-back"]) == 2
        assert nodes.count_in_states(["deploying", "wait call-back"], "a") == 1
        assert nodes.count_in_states([]) == 0

    def test_children_shards_and_idents(self):
        parent = make_node(name="parent", shard="a", owner="p")
        child = make_node(parent_node=parent.uuid, shard="a")
        assert nodes.child_uuids(parent.uuid) == [child.uuid]
        assert nodes.shard_counts() == [("a", 2)]
        make_node(name="other")
        found = nodes.select(["uuid"], {"ident_in": ["parent", child.uuid, "parent", "nobody"]})
        assert [row["uuid"] for row in found] == [parent.uuid, child.uuid]

    def test_nodes_are_found_by_all_of_their_traits(self):
        both, one = make_node(), make_node()
        nodes.set_traits(both.id, ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"])
        nodes.set_traits(one.id, ["CUSTOM_A"])
        for wanted, expected in (
            (["CUSTOM_A"], [both.id, one.id]),
            (["CUSTOM_A", "CUSTOM_B", "CUSTOM_A"], [both.id]),
            (["CUSTOM_A", "CUSTOM_D"], []),
        ):
            rows = nodes.select(["id"], {"all_traits": wanted})
            assert [row["id"] for row in rows] == expected


@pytest.mark.usefixtures("db")
class TestWritingNodes:
    def test_what_must_be_unique_has_an_error_of_its_own(self):
        instance = str(uuid.uuid4())
        first = make_node(name="one", instance_uuid=instance)
        second = make_node(name="two")
        with pytest.raises(errors.DuplicateName, match="one"):
            make_node(name="one")
        with pytest.raises(errors.NodeAlreadyExists, match=first.uuid):
            make_node(uuid=first.uuid)
        with pytest.raises(errors.InstanceAssociated, match=instance):
            make_node(instance_uuid=instance)
        with pytest.raises(errors.DuplicateName, match="one"):
            nodes.update(second, {"name": "one"}, fence=None)
        with pytest.raises(errors.InstanceAssociated, match=second.uuid):
            nodes.update(second, {"instance_uuid": instance}, fence=None)

    @pytest.mark.parametrize(
        "values",
        [
            {"name": "x" * 256},
            {"lessee": "x" * 5000},
            {"description": "a\x00b"},
            {"traits": ["CUSTOM_A"]},
            {"tags": ["a"]},
            {"chassis_id": 2**31},
            {"chassis_id": 99999},
            {"properties": {"memory_mb": -1}},
            {"properties": {"local_gb": "many"}},
        ],
    )
    def test_what_does_not_fit_is_refused_everywhere_alike(self, values):
        with pytest.raises(errors.InvalidParameterValue):
            make_node(**values)
        node = make_node()
        with pytest.raises(errors.InvalidParameterValue):
            nodes.update(node, values, fence=None)

    def test_the_longest_values_fit(self):
        node = make_node(name="é" * 255, lessee="😀" * 255, description="d" * 20000)
        assert nodes.get(node.id).lessee == "😀" * 255

    def test_a_wrong_type_for_a_json_column_is_a_programming_error(self):
        node = make_node()
        with pytest.raises(Exception, match="takes a dict, not list"):
            nodes.update(node, {"extra": []}, fence=None)

    def test_an_update_is_one_statement_and_moves_updated_at(self):
        node = make_node()
        with session.count_statements() as seen:
            written = nodes.update(node, {"power_state": "power on"}, fence=None)
        assert seen.count == 1
        assert seen.statements[0].startswith("UPDATE nodes SET")
        stored = nodes.get(node.id)
        assert stored.power_state == "power on"
        assert stored.updated_at is not None
        assert abs(stored.updated_at - written["updated_at"]).total_seconds() < 30

    def test_an_empty_update_is_no_statement(self):
        node = make_node()
        with session.count_statements() as seen:
            assert nodes.update(node, {}, fence=None) == {}
            nodes.save(node, fence=None)
        assert seen.count == 0

    def test_identity_never_changes(self):
        node = make_node()
        for values in ({"uuid": str(uuid.uuid4())}, {"id": 7}):
            with pytest.raises(errors.InvalidParameterValue, match="overwrite"):
                nodes.update(node, values, fence=None)

    def test_long_errors_are_cut_and_groups_are_in_lower_case(self):
        limit = CONF.log_in_db_max_size
        node = make_node(last_error="e" * 9000, conductor_group="EAST-1")
        assert node.last_error == "e" * limit
        assert node.conductor_group == "east-1"
        node.maintenance_reason = "m" * 9000
        node.conductor_group = "WEST"
        nodes.save(node, fence=None)
        assert node.maintenance_reason == "m" * limit
        assert node.conductor_group == "west"
        assert records.as_dict(nodes.get(node.id)) == records.as_dict(node) | {
            "updated_at": nodes.get(node.id).updated_at
        }

    def test_save_writes_only_what_changed(self):
        node = make_node(extra={"a": 1})
        other = nodes.get(node.id)
        other.extra["b"] = 2
        nodes.save(other, fence=None)
        node.power_state = "power off"
        with session.count_statements() as seen:
            nodes.save(node, fence=None)
        assert seen.count == 1
        assert "extra" not in seen.statements[0]
        stored = nodes.get(node.id)
        assert stored.extra == {"a": 1, "b": 2}
        assert stored.power_state == "power off"
        assert records.changes(node) == {}

    def test_a_change_inside_a_json_column_is_saved(self):
        node = make_node(driver_internal_info={"steps": [{"step": "a"}]})
        node.driver_internal_info["steps"][0]["step"] = "b"
        nodes.save(node, fence=None)
        assert nodes.get(node.id).driver_internal_info == {"steps": [{"step": "b"}]}

    def test_a_new_provision_state_stamps_its_time(self):
        node = make_node()
        assert node.provision_updated_at is None
        node.provision_state = "verifying"
        nodes.save(node, fence=None)
        assert node.provision_updated_at is not None
        before = nodes.get(node.id).provision_updated_at
        assert before is not None
        node.power_state = "power on"
        nodes.save(node, fence=None)
        assert nodes.get(node.id).provision_updated_at == before

    @pytest.mark.parametrize("during", ["inspecting", "inspect wait"])
    def test_inspection_stamps_its_start_and_end(self, during):
        node = make_node(provision_state="manageable")
        node.provision_state = "inspecting"
        nodes.save(node, fence=None)
        assert node.inspection_started_at is not None
        assert node.inspection_finished_at is None
        node.provision_state = during
        nodes.save(node, fence=None)
        node.provision_state = "manageable"
        nodes.save(node, fence=None)
        stored = nodes.get(node.id)
        for record in (node, stored):
            assert record.inspection_started_at is None
            assert record.inspection_finished_at is not None

    def test_a_failed_inspection_has_neither_start_nor_end(self):
        node = make_node(provision_state="manageable")
        for state in ("inspecting", "inspect failed"):
            node.provision_state = state
            nodes.save(node, fence=None)
        stored = nodes.get(node.id)
        assert stored.inspection_started_at is None
        assert stored.inspection_finished_at is None

    def test_an_update_of_nothing_is_not_found(self):
        node = make_node()
        nodes.destroy(node.id)
        with pytest.raises(errors.NodeNotFound):
            nodes.update(node, {"name": "x"}, fence=None)
        with pytest.raises(errors.NodeNotFound):
            nodes.update(node, {"name": "x"}, fence=HOST)
        with pytest.raises(errors.NodeNotFound):
            nodes.touch_provisioning(node.id)
        with pytest.raises(errors.NodeNotFound):
            nodes.destroy(node.id)

    def test_touch_is_one_statement(self):
        node = make_node()
        with session.count_statements() as seen:
            nodes.touch_provisioning(node.id)
        assert seen.count == 1
        assert nodes.get(node.id).provision_updated_at is not None

    def test_a_destroyed_node_takes_all_its_own_with_it(self):
        doomed, kept = make_node(), make_node()
        for node in (doomed, kept):
            n = node.id
            group = portgroups.create({"node_id": n, "address": f"52:54:00:01:00:{n:02x}"[:17]})
            ports.create(
                {
                    "node_id": n,
                    "portgroup_id": group.id,
                    "address": f"52:54:00:02:00:{n % 256:02x}",
                }
            )
            nodes.set_traits(n, ["CUSTOM_A"])
            history.create({"node_id": n, "event": "x"})
            inventory.store(n, {}, {})
            bios.create(n, [{"name": "a", "value": "b"}])
            firmware.create({"node_id": n, "component": "bmc", "initial_version": "1"})
            volumes.create_connector({"node_id": n, "type": "iqn", "connector_id": f"iqn.{n}"})
            volumes.create_target({"node_id": n, "boot_index": 0})
            allocations.bind(allocations.create({"resource_class": "x"}), n)
        nodes.destroy(doomed.id)
        with session.reader() as connection:
            left = {
                table.name: connection.execute(
                    sa.select(sa.func.count()).select_from(table)
                ).scalar_one()
                for table in models.Base.metadata.sorted_tables
            }
        theirs = (models.Port, models.Portgroup, models.NodeTrait, models.NodeHistory)
        theirs += (models.NodeInventory, models.BIOSSetting, models.FirmwareComponent)
        theirs += (models.VolumeConnector, models.VolumeTarget, models.Allocation)
        for table in (models.Node.__tablename__, *(model.__tablename__ for model in theirs)):
            assert left[table] == 1, table


@pytest.mark.usefixtures("db")
class TestLock:
    def test_taking_and_releasing_is_three_statements(self):
        node = make_node()
        nodes.set_traits(node.id, ["CUSTOM_A"])
        with session.count_statements() as seen:
            held = nodes.reserve(node.uuid, HOST)
            nodes.release(node.id, HOST)
        assert seen.count == 3
        assert held.reservation == HOST
        assert held.traits == ["CUSTOM_A"]
        assert nodes.get(node.id).reservation is None

    def test_a_held_lock_is_refused_and_names_its_holder(self):
        node = make_node()
        nodes.reserve(node.id, HOST)
        for host in (HOST, OTHER):
            with pytest.raises(errors.NodeLocked, match=HOST):
                nodes.reserve(node.uuid, host)

    def test_only_the_holder_releases(self):
        node = make_node()
        with pytest.raises(errors.NodeNotLocked):
            nodes.release(node.id, HOST)
        nodes.reserve(node.id, HOST)
        with pytest.raises(errors.NodeLocked, match=HOST):
            nodes.release(node.id, OTHER)
        assert nodes.get(node.id).reservation == HOST

    def test_what_does_not_exist_is_not_locked(self):
        with pytest.raises(errors.NodeNotFound):
            nodes.reserve(12345, HOST)
        with pytest.raises(errors.NodeNotFound):
            nodes.release(12345, HOST)
        with pytest.raises(errors.InvalidIdentity):
            nodes.reserve("a name", HOST)

    def test_one_of_many_gets_the_lock(self):
        node = make_node()
        results = in_threads(12, lambda n: nodes.reserve(node.id, f"host-{n}"))
        winners = [r for r in results if isinstance(r, models.Node)]
        assert len(winners) == 1
        assert nodes.get(node.id).reservation == winners[0].reservation
        losers = [r for r in results if r is not winners[0]]
        assert {type(r) for r in losers} == {errors.NodeLocked}
        assert {r.fields["host"] for r in losers} == {winners[0].reservation}

    def test_no_update_is_lost_under_the_lock(self):
        node = make_node(extra={"count": 0})

        def add_one(place):
            for _ in range(5):
                while True:
                    try:
                        held = nodes.reserve(node.id, f"host-{place}")
                        break
                    except errors.NodeLocked:
                        continue
                held.extra["count"] += 1
                nodes.save(held, fence=f"host-{place}")
                nodes.release(node.id, f"host-{place}")

        assert in_threads(4, add_one) == [None] * 4
        assert nodes.get(node.id).extra == {"count": 20}

    def test_a_lost_lock_writes_nothing(self):
        node = nodes.reserve(make_node().id, HOST)
        nodes.release(node.id, HOST)
        for holder in (None, OTHER):
            if holder:
                nodes.reserve(node.id, holder)
            node.power_state = "power on"
            with pytest.raises(errors.LockLost, match=f"lost its lock of node {node.uuid}"):
                nodes.save(node, fence=HOST)
            with pytest.raises(errors.LockLost):
                nodes.touch_provisioning(node.id, fence=HOST)
            with pytest.raises(errors.LockLost):
                nodes.destroy(node.id, fence=HOST)
            with pytest.raises(errors.LockLost):
                nodes.set_traits(node.id, ["CUSTOM_A"], fence=HOST)
            with pytest.raises(errors.NodeNotLocked if holder is None else errors.NodeLocked):
                nodes.release(node.id, HOST)
            stored = nodes.get(node.id)
            assert stored.power_state is None
            assert stored.traits == []
            assert records.changes(node) == {"power_state": "power on"}

    def test_a_failed_destroy_keeps_the_children(self):
        node = make_node(reservation=OTHER)
        ports.create({"node_id": node.id, "address": "52:54:00:00:00:01"})
        with pytest.raises(errors.LockLost):
            nodes.destroy(node.id, fence=HOST)
        assert len(ports.of_node(node.id)) == 1

    def test_a_held_lock_lets_its_holder_write(self):
        node = nodes.reserve(make_node().id, HOST)
        node.power_state = "power on"
        nodes.save(node, fence=HOST)
        nodes.touch_provisioning(node.id, fence=HOST)
        nodes.set_traits(node.id, ["CUSTOM_A"], fence=HOST)
        stored = nodes.get(node.id)
        assert (stored.power_state, stored.traits) == ("power on", ["CUSTOM_A"])
        nodes.destroy(node.id, fence=HOST)

    def test_a_dead_hosts_lock_is_taken_over_by_compare_and_set(self):
        node = make_node(reservation=OTHER)
        assert not nodes.take_over_lock(node.id, "gone", HOST)
        assert nodes.get(node.id).reservation == OTHER
        assert nodes.take_over_lock(node.id, OTHER, HOST)
        assert nodes.get(node.id).reservation == HOST
        assert not nodes.take_over_lock(node.id, OTHER, HOST)

    def test_a_restart_frees_exactly_its_own_nodes(self):
        mine = make_node(reservation="host_1")
        pending = make_node(reservation="host_1", target_power_state="power on")
        like_mine = make_node(reservation="hostx1", target_power_state="power on")
        longer = make_node(reservation="host_1:8090")
        assert set(nodes.clear_own("host_1")) == {mine.uuid, pending.uuid}
        assert nodes.clear_own("host_1") == []
        stored = nodes.get(pending.id)
        assert stored.reservation is None
        assert stored.target_power_state is None
        assert "restarted" in stored.last_error
        assert nodes.get(mine.id).last_error is None
        assert nodes.get(like_mine.id).reservation == "hostx1"
        assert nodes.get(like_mine.id).target_power_state == "power on"
        assert nodes.get(longer.id).reservation == "host_1:8090"
        assert nodes.get(mine.id).reservation is None


@pytest.mark.usefixtures("db")
class TestTraits:
    def test_traits_are_replaced_added_and_removed(self):
        node = make_node()
        nodes.set_traits(node.id, ["CUSTOM_B", "CUSTOM_A", "CUSTOM_A"])
        nodes.add_traits(node.id, ["CUSTOM_A", "CUSTOM_C"])
        assert nodes.get(node.id).traits == ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"]
        nodes.remove_traits(node.id, "CUSTOM_B")
        with pytest.raises(errors.NodeTraitNotFound):
            nodes.remove_traits(node.id, "CUSTOM_B")
        assert nodes.get(node.id).traits == ["CUSTOM_A", "CUSTOM_C"]
        nodes.set_traits(node.id, [])
        assert nodes.get(node.id).traits == []
        assert nodes.get(node.id).updated_at is not None

    def test_fifty_traits_are_the_most(self):
        node = make_node()
        nodes.set_traits(node.id, [f"CUSTOM_{n}" for n in range(50)])
        with pytest.raises(errors.InvalidParameterValue, match="50"):
            nodes.add_traits(node.id, ["CUSTOM_X"])
        nodes.add_traits(node.id, ["CUSTOM_1"])
        with pytest.raises(errors.InvalidParameterValue, match="50"):
            nodes.set_traits(node.id, [f"CUSTOM_{n}" for n in range(51)])
        assert len(nodes.get(node.id).traits) == 50

    def test_traits_need_a_node(self):
        with pytest.raises(errors.NodeNotFound):
            nodes.set_traits(12345, ["CUSTOM_A"])

    def test_concurrent_additions_all_count(self):
        node = make_node()
        assert in_threads(6, lambda n: nodes.add_traits(node.id, [f"CUSTOM_{n}"])) == [None] * 6
        assert len(nodes.get(node.id).traits) == 6

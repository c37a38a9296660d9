"""The schema: equal to upstream's, made in three ways, and data migrations."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from ironic_rs.conf import CONF
from ironic_rs.db import migration, models, nodes, online, runbooks, session
from ironic_rs.domain import errors
from tests.database_suite.setup import (
    UPSTREAM,
    create_upstream,
    drop_everything,
    in_threads,
    index_names,
    make_node,
    schema_facts,
)

OURS = {
    str(index.name)
    for table in models.Base.metadata.sorted_tables
    for index in table.indexes
    if str(index.name).startswith("ix_")
}


def table_names():
    with session.reader() as connection:
        return set(sa.inspect(connection).get_table_names())


def execute(*statements):
    with session.writer() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


@pytest.fixture
def upstream_facts(empty_db):
    """The schema of a database that upstream made."""
    create_upstream()
    facts = schema_facts()
    drop_everything()
    return facts


class TestSchema:
    def test_there_are_21_tables_of_the_recorded_names(self):
        assert set(models.Base.metadata.tables) == set(UPSTREAM)
        assert len(UPSTREAM) == 21

    @pytest.mark.parametrize("make", [migration.upgrade, migration.create_schema])
    def test_it_is_upstreams_and_our_indexes(self, upstream_facts, make):
        make()
        assert schema_facts() == upstream_facts
        assert index_names() == OURS
        assert migration.version() == migration.head()

    @pytest.mark.usefixtures("empty_db")
    def test_migrations_and_models_do_not_differ(self):
        migration.upgrade()
        with session.reader() as connection:
            context = MigrationContext.configure(
                connection, opts={"include_name": migration.is_ours, "compare_type": True}
            )
            assert compare_metadata(context, models.Base.metadata) == []

    def test_foreign_keys_and_constraints_have_upstreams_names(self):
        for name, facts in UPSTREAM.items():
            table = models.Base.metadata.tables[name]
            unique = {
                c.name: [column.name for column in c.columns]
                for c in table.constraints
                if isinstance(c, sa.UniqueConstraint)
            }
            foreign = [
                [key.parent.name, key.target_fullname, *([key.name] if key.name else [])]
                for key in table.foreign_keys
            ]
            assert unique == facts["unique"]
            assert sorted(foreign) == sorted(facts["foreign_keys"])


@pytest.mark.usefixtures("empty_db")
class TestUpgrade:
    def test_an_empty_database_has_no_version(self):
        assert migration.version() is None

    def test_upgrading_twice_changes_nothing(self):
        migration.upgrade()
        node = make_node(name="kept")
        migration.upgrade()
        assert nodes.get(node.id).name == "kept"

    def test_two_at_a_time_are_safe(self):
        assert in_threads(3, lambda n: migration.upgrade()) == [None] * 3
        assert migration.version() == migration.head()

    def test_an_interrupted_upgrade_is_finished(self):
        migration.upgrade("0001")
        execute(
            "DROP TABLE inspection_rules", "DROP TABLE node_tags", "DELETE FROM ironic_rs_version"
        )
        migration.upgrade()
        assert set(UPSTREAM) <= table_names()
        assert index_names() == OURS

    def test_a_schema_is_created_only_once(self):
        migration.create_schema()
        with pytest.raises(migration.SchemaRefused, match="already"):
            migration.create_schema()

    def test_stamping_records_a_revision(self):
        migration.upgrade()
        migration.stamp("0001")
        assert migration.version() == "0001"
        migration.upgrade()
        assert migration.version() == migration.head()


UPSTREAM_NODE = (
    "INSERT INTO nodes (id, uuid, name, driver, driver_info, instance_info, extra, "
    "provision_state, conductor_group, reservation, created_at, version) VALUES "
    "(7, '11111111-2222-4333-8444-555555555555', 'old', 'redfish', "
    '\'{"redfish_address": "https://bmc", "redfish_password": "p\\u00e4ss"}\', '
    "'{}', NULL, 'active', '', 'gone', '2024-05-06 07:08:09', '1.44')"
)


@pytest.mark.usefixtures("empty_db")
class TestAdoption:
    def test_an_upstream_database_is_taken_over_in_place(self):
        create_upstream()
        facts = schema_facts()
        insert = UPSTREAM_NODE
        if session.database().dialect == "mysql":
            # There, a backslash in a literal must be doubled.
            insert = insert.replace("\\u", "\\\\u")
        execute(
            insert,
            "INSERT INTO node_traits (node_id, trait, version) VALUES (7, 'CUSTOM_A', '1.1')",
        )
        migration.upgrade()
        assert migration.version() == migration.head()
        assert schema_facts() == facts
        assert index_names() == OURS
        node = nodes.get(7)
        assert node.name == "old"
        assert node.driver_info == {
            "redfish_address": "https://bmc",
            "redfish_password": "päss",
        }
        assert node.extra == {}
        assert node.traits == ["CUSTOM_A"]
        assert node.created_at.isoformat() == "2024-05-06T07:08:09+00:00"
        node.extra["new"] = True
        nodes.save(node, fence="gone")
        with session.reader() as connection:
            left = connection.execute(sa.text("SELECT version_num FROM alembic_version"))
            assert left.scalars().all() == [migration.UPSTREAM_HEAD]

    def test_an_older_upstream_database_is_refused_with_the_way_out(self):
        create_upstream("163040c5513f")
        before = table_names()
        with pytest.raises(migration.SchemaRefused, match=r"163040c5513f.*old release first"):
            migration.upgrade()
        assert table_names() == before

    def test_an_incomplete_upstream_database_is_refused(self):
        create_upstream()
        execute("DROP TABLE node_inventory")
        with pytest.raises(migration.SchemaRefused, match="node_inventory"):
            migration.upgrade()

    def test_tables_of_no_recorded_version_are_refused(self):
        create_upstream()
        execute("DROP TABLE alembic_version")
        with pytest.raises(migration.SchemaRefused, match="stamp --revision 0001"):
            migration.upgrade()
        migration.stamp("0001")
        migration.upgrade()
        assert index_names() == OURS

    def test_a_schema_is_not_created_over_upstreams(self):
        create_upstream()
        with pytest.raises(migration.SchemaRefused, match="already"):
            migration.create_schema()


@pytest.mark.usefixtures("empty_db")
class TestVersionCheck:
    def test_a_table_without_versions_is_too_old(self):
        execute("CREATE TABLE nodes (id INTEGER)")
        with pytest.raises(errors.DatabaseVersionTooOld):
            online.row_versions()

    def test_tables_may_be_missing(self):
        assert online.row_versions().unsupported == {}


@pytest.mark.usefixtures("db")
class TestOnlineMigrations:
    def test_our_own_rows_are_supported(self):
        make_node()
        runbooks.create({"name": "CUSTOM_A", "traits": ["CUSTOM_A"]})
        assert online.row_versions().unsupported == {}

    @pytest.mark.parametrize("version", ["1.41", "1.9"])
    def test_rows_of_older_releases_are_supported(self, version):
        make_node()
        execute(f"UPDATE nodes SET version = '{version}'")
        assert online.row_versions().unsupported == {}

    @pytest.mark.parametrize("version", ["'1.45'", "'2.0'", "'x'", "NULL"])
    def test_rows_of_unknown_versions_are_found(self, version):
        make_node()
        execute(f"UPDATE nodes SET version = {version}")
        found = "none" if version == "NULL" else version.strip("'")
        assert online.row_versions().unsupported == {"nodes": [found]}

    def test_traits_that_upstream_left_without_version_are_supported_and_stamped(self):
        runbooks.create({"name": "CUSTOM_A", "traits": ["CUSTOM_A"]})
        execute("UPDATE runbook_traits SET version = NULL")
        assert online.row_versions().unsupported == {}
        assert online.update_to_latest_versions(0) == (1, 1)
        assert online.update_to_latest_versions(0) == (0, 0)

    def test_rows_are_stamped_in_batches_and_otherwise_left_alone(self):
        created = [make_node(extra={"n": n}) for n in range(5)]
        execute("UPDATE nodes SET version = '1.43'")
        assert online.update_to_latest_versions(2) == (5, 2)
        assert online.update_to_latest_versions(2) == (3, 2)
        assert online.update_to_latest_versions(2) == (1, 1)
        stored = [nodes.get(node.id) for node in created]
        assert [node.version for node in stored] == ["1.44"] * 5
        assert [node.extra for node in stored] == [{"n": n} for n in range(5)]
        assert [node.updated_at for node in stored] == [None] * 5

    def test_nodes_leave_the_retired_inspector(self):
        moved = make_node(inspect_interface="inspector", provision_state="manageable")
        busy = make_node(inspect_interface="inspector", provision_state="inspect wait")
        other = make_node(inspect_interface="redfish")
        CONF.set_override("enabled_inspect_interfaces", ["redfish", "inspector"])
        try:
            assert online.migrate_to_builtin_inspection(0) == (0, 0)
            CONF.set_override("enabled_inspect_interfaces", ["agent", "redfish"])
            assert online.migrate_to_builtin_inspection(10) == (1, 1)
        finally:
            CONF.clear_override("enabled_inspect_interfaces")
        found = [nodes.get(node.id).inspect_interface for node in (moved, busy, other)]
        assert found == ["agent", "inspector", "redfish"]

    def test_runbook_names_become_traits(self):
        named = [runbooks.create({"name": f"CUSTOM_{n}"}) for n in range(3)]
        tied = runbooks.create({"name": "CUSTOM_X", "traits": ["CUSTOM_Y"]})
        assert online.migrate_runbook_names_to_traits(2) == (3, 2)
        assert online.migrate_runbook_names_to_traits(2) == (1, 1)
        assert [runbooks.get(r.id).traits for r in named] == [[r.name] for r in named]
        assert runbooks.get(tied.id).traits == ["CUSTOM_Y"]

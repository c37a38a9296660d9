"""The database suite on MariaDB and PostgreSQL servers, and what only they do."""

from __future__ import annotations

import contextlib

import pytest
import sqlalchemy as sa

from ironic_rs.conf import CONF
from ironic_rs.db import engines, migration, models, nodes, session
from tests.database_suite.allocations import TestAllocations
from tests.database_suite.conditions import TestConditions
from tests.database_suite.conductors import TestConductors
from tests.database_suite.listing import TestPages
from tests.database_suite.migration import (
    TestAdoption,
    TestOnlineMigrations,
    TestSchema,
    TestUpgrade,
    TestVersionCheck,
    upstream_facts,
)
from tests.database_suite.nodes import (
    TestFilters,
    TestLock,
    TestReadingNodes,
    TestTraits,
    TestWritingNodes,
)
from tests.database_suite.resources import (
    TestBios,
    TestChassis,
    TestFirmware,
    TestHistory,
    TestInspectionRules,
    TestInventory,
    TestPortgroups,
    TestPorts,
    TestRunbooks,
    TestTemplates,
    TestVolumes,
)
from tests.database_suite.setup import (
    configured,
    drop_everything,
    empty_tables,
    in_threads,
    make_node,
)
from tests.harness import servers

__all__ = [
    "TestAdoption",
    "TestAllocations",
    "TestBios",
    "TestChassis",
    "TestConditions",
    "TestConductors",
    "TestFilters",
    "TestFirmware",
    "TestHistory",
    "TestInspectionRules",
    "TestInventory",
    "TestLock",
    "TestOnlineMigrations",
    "TestPages",
    "TestPortgroups",
    "TestPorts",
    "TestReadingNodes",
    "TestRunbooks",
    "TestSchema",
    "TestTemplates",
    "TestTraits",
    "TestUpgrade",
    "TestVersionCheck",
    "TestVolumes",
    "TestWritingNodes",
    "upstream_facts",
]

SERVERS = {
    "mariadb": servers.mariadb_database,
    "postgresql": servers.postgresql_database,
}


@pytest.fixture(scope="module", params=list(SERVERS))
def server_urls(request):
    """URLs of two databases on one server: with our schema, and without tables."""
    make = SERVERS[request.param]
    with make() as filled, make() as bare:
        with configured(filled):
            migration.upgrade()
        yield filled, bare


@pytest.fixture
def db(server_urls):
    """An empty database of our schema; its URL."""
    url, _ = server_urls
    with configured(url):
        yield url
        empty_tables()


@pytest.fixture
def empty_db(server_urls):
    """A database without tables; its URL."""
    _, url = server_urls
    with configured(url):
        yield url
        drop_everything()


@pytest.fixture
def mariadb():
    """A fresh MariaDB database of our schema."""
    with servers.mariadb_database() as url, configured(url):
        migration.upgrade()
        yield url


def test_the_narrow_character_set_of_an_old_url_still_takes_every_character(mariadb):
    with configured(mariadb.replace("charset=utf8mb4", "charset=utf8")):
        node = make_node(description="😀")
        assert nodes.get(node.id).description == "😀"
        assert engines.url_of(CONF).query["charset"] == "utf8mb4"


def test_ascii_json_fits_tables_of_a_narrow_character_set(mariadb):
    with session.writer() as connection:
        connection.execute(sa.text("ALTER TABLE chassis CONVERT TO CHARACTER SET utf8mb3"))
    node = make_node(extra={"emoji": "😀"})
    assert nodes.get(node.id).extra == {"emoji": "😀"}


def test_mariadb_sessions_are_strict_and_tables_are_utf8mb4(mariadb):
    with session.reader() as connection:
        mode = connection.execute(sa.text("SELECT @@sql_mode")).scalar_one()
        tables = connection.execute(
            sa.text(
                "SELECT table_name, engine, table_collation FROM information_schema.tables "
                "WHERE table_schema = DATABASE() AND table_name <> 'ironic_rs_version'"
            )
        ).all()
    assert "STRICT_TRANS_TABLES" in mode
    assert len(tables) == 21
    assert {row[1:] for row in tables} == {("InnoDB", "utf8mb4_unicode_ci")}


def test_a_json_value_over_64_kib_is_refused_with_400_where_the_column_ends(mariadb):
    big = {"blob": "x" * 70000}
    assert make_node(instance_info=big).instance_info == big
    with pytest.raises(Exception, match="does not fit its column in nodes") as refused:
        make_node(extra=big)
    assert refused.value.code == 400
    assert "xxxx" not in str(refused.value)


@pytest.mark.usefixtures("db")
def test_writers_that_deadlock_all_finish():
    """Each transaction takes the same two rows, half of them the other way round."""
    first, second = make_node(extra={"n": 0}), make_node(extra={"n": 0})
    rows = models.Node.__table__

    @session.writes
    def both(connection, *ids):
        for node_id in ids:
            connection.execute(
                sa.update(rows).where(rows.c.id == node_id).values(instance_name="x")
            )

    def work(place):
        ids = (first.id, second.id)
        for _ in range(3):
            both(*(ids if place % 2 else reversed(ids)))

    assert in_threads(4, work) == [None] * 4


@pytest.mark.usefixtures("db")
def test_a_connection_that_the_server_closed_is_replaced_unnoticed():
    node = make_node()
    nodes.get(node.id)
    with contextlib.ExitStack() as stack:
        # One connection of each pool is idle now; the server drops all of ours.
        victims = []
        for engine in (session.database().autocommit, session.database().transactions):
            connection = stack.enter_context(engine.connect())
            mysql = engine.dialect.name == "mysql"
            query = "SELECT CONNECTION_ID()" if mysql else "SELECT pg_backend_pid()"
            victims.append(connection.execute(sa.text(query)).scalar_one())
    kill = "KILL {}" if mysql else "SELECT pg_terminate_backend({})"
    other = engines.create(CONF)
    with other.autocommit.connect() as connection:
        for victim in victims:
            connection.execute(sa.text(kill.format(victim)))
    other.dispose()
    assert nodes.get(node.id).uuid == node.uuid
    nodes.reserve(node.id, "a")
    nodes.touch_provisioning(node.id, fence="a")
    nodes.release(node.id, "a")


@pytest.mark.usefixtures("db")
def test_reads_and_single_writes_leave_no_transaction_open():
    node = make_node()
    nodes.get(node.id)
    nodes.touch_provisioning(node.id)
    database = session.database()
    query = (
        "SELECT count(*) FROM information_schema.innodb_trx"
        if database.dialect == "mysql"
        else "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND state LIKE 'idle in transaction%'"
    )
    with session.reader() as connection:
        assert connection.execute(sa.text(query)).scalar_one() == 0

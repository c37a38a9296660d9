"""``ironic-rs-status upgrade check`` on databases of all kinds: field case K17/112."""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ironic_rs.cmd import status
from ironic_rs.conf import CONF, drivers
from ironic_rs.db import migration, nodes, readiness, runbooks, session
from ironic_rs.db.readiness import Chosen
from tests.database_suite.setup import (
    configured,
    create_upstream,
    drop_everything,
    empty_tables,
    make_node,
)
from tests.harness import servers

SUCCESS, WARNING, FAILURE = range(3)

SCHEMA = "Database Schema"
VERSIONS = "Object versions"
INDEXES = "Database Index Status"
ENCODING = "MySQL UTF8MB4 Encoding Check"
POLICY = "Policy File JSON to YAML Migration"
DRIVERS = "Hardware Types and Interfaces Check"
OWNERS = "Mismatch between Child and Parent Owners"

Checks = dict[str, tuple[int, str | None]]
Run = Callable[..., tuple[int, Checks]]


@pytest.fixture(autouse=True)
def own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out what connections to brokers of earlier tests log, from threads of their own."""
    library = logging.getLogger("oslo.messaging")
    monkeypatch.setattr(library, "propagate", False)
    monkeypatch.setattr(library, "handlers", [logging.NullHandler()])


@pytest.fixture(scope="module", params=["sqlite", "mariadb", "postgresql"])
def urls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """A database of our schema and one without tables."""
    with contextlib.ExitStack() as stack:
        if request.param == "sqlite":
            folder = tmp_path_factory.mktemp("sqlite")
            ours, bare = f"sqlite:///{folder}/ours", f"sqlite:///{folder}/bare"
        else:
            make = getattr(servers, f"{request.param}_database")
            ours, bare = stack.enter_context(make()), stack.enter_context(make())
        with configured(ours):
            migration.upgrade()
        yield ours, bare


@pytest.fixture
def ours(urls: tuple[str, str]) -> Iterator[str]:
    yield urls[0]
    with configured(urls[0]):
        empty_tables()


@pytest.fixture
def bare(urls: tuple[str, str]) -> Iterator[str]:
    yield urls[1]
    with configured(urls[1]):
        drop_everything()


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command on a database: the exit code, and {check: (result, details)}."""
    for option in drivers.OPTS:
        # The library takes what a test before has overridden and cleared for set still.
        CONF.set_default(option.dest, option.default)
        CONF.clear_default(option.dest)

    def run(url: str, **options: str) -> tuple[int, Checks]:
        config = tmp_path / "ironic.conf"
        lines = "\n".join(f"{name} = {value}" for name, value in options.items())
        config.write_text(
            f"[DEFAULT]\nstate_path = {tmp_path}\nenabled_hardware_types = fake-hardware\n"
            f"{lines}\n[database]\nconnection = {url}\n"
        )
        code = status.main(["--config-file", str(config), "upgrade", "check", "--json"])
        printed = json.loads(capsys.readouterr().out)
        return code, {c["check"]: (c["result"], c["details"]) for c in printed["checks"]}

    return run


def contains(text: str | None, *parts: str) -> bool:
    return text is not None and all(re.search(part, text) for part in parts)


def execute(*statements: str) -> None:
    with session.writer() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def test_112_a_database_in_order_passes(ours: str, check: Run) -> None:
    with configured(ours):
        make_node(owner="a")
    code, found = check(ours)
    assert set(found.values()) == {(SUCCESS, None)}
    assert (code, len(found)) == (0, 7)


def test_112_an_empty_database_fails(bare: str, check: Run) -> None:
    code, found = check(bare)
    assert code == FAILURE
    assert found[SCHEMA] == (FAILURE, "The database is empty: run 'ironic-rs-dbsync upgrade'.")
    assert found[DRIVERS][0] == WARNING


def test_112_a_database_of_the_previous_release_is_taken_over(bare: str, check: Run) -> None:
    with configured(bare):
        create_upstream()
        made = make_node(driver="ilo", power_interface="ilo")
        runbooks.create({"name": "CUSTOM_A", "traits": ["CUSTOM_A"]})
        execute("UPDATE runbooks SET version = '1.0'")
    code, found = check(bare)
    assert code == WARNING
    assert found[SCHEMA][0] == WARNING
    assert "takes the database over" in str(found[SCHEMA][1])
    listed = f"Hardware type 'ilo' is not part of this release: move its nodes.* {made.uuid}"
    assert found[DRIVERS][0] == WARNING
    assert contains(found[DRIVERS][1], listed)
    with configured(bare):
        migration.upgrade()
    code, found = check(bare)
    assert (code, found[SCHEMA]) == (WARNING, (SUCCESS, None))
    assert contains(found[DRIVERS][1], listed)


def test_112_databases_that_are_not_whole_or_not_of_this_release(bare: str, check: Run) -> None:
    mysql = bare.startswith("mysql")
    with configured(bare):
        migration.upgrade("0001")
        execute("CREATE INDEX ix_ports_node_id ON ports (node_id)")
    code, found = check(bare)
    assert code == WARNING, "half migrated"
    assert contains(found[SCHEMA][1], "revision 0001.*'ironic-rs-dbsync upgrade'.*again")

    with configured(bare):
        migration.upgrade()
        execute("DROP INDEX owner_idx" + (" ON nodes" if mysql else ""))
        if mysql:
            execute("ALTER TABLE chassis CONVERT TO CHARACTER SET utf8mb3")
    code, found = check(bare)
    assert (code, found[SCHEMA]) == (WARNING, (SUCCESS, None))
    assert contains(found[INDEXES][1], "no index on owner:")
    assert contains(found[ENCODING][1], "chassis") is mysql
    assert found[ENCODING][0] == (WARNING if mysql else SUCCESS)

    with configured(bare):
        make_node()
        execute("UPDATE nodes SET version = '1.99'")
        head = migration.head()
        execute("UPDATE ironic_rs_version SET version_num = '9999'")
    code, found = check(bare)
    assert code == FAILURE, "of a newer release"
    assert contains(found[SCHEMA][1], "9999, which this release does not know.*newer release")
    assert found[VERSIONS][0] == FAILURE
    assert contains(found[VERSIONS][1], "nodes: 1.99")

    with configured(bare):
        execute(f"UPDATE ironic_rs_version SET version_num = '{head}'", "DROP TABLE node_tags")
    code, found = check(bare)
    assert code == FAILURE
    assert contains(found[SCHEMA][1], "lacks the tables node_tags")

    with configured(bare):
        execute("DELETE FROM ironic_rs_version")
    code, found = check(bare)
    assert code == FAILURE
    assert contains(found[SCHEMA][1], "interrupted", "'ironic-rs-dbsync upgrade' again")


def test_112_a_very_old_database_is_examined_as_far_as_it_goes(bare: str, check: Run) -> None:
    with configured(bare):
        execute(
            "CREATE TABLE nodes (id INTEGER PRIMARY KEY, uuid VARCHAR(36), driver VARCHAR(255))",
            "INSERT INTO nodes VALUES (1, 'the-old-node', 'pxe_ipmitool')",
            "CREATE TABLE alembic_version (version_num VARCHAR(32))",
            "INSERT INTO alembic_version VALUES ('21b331f883ef')",
        )
    code, found = check(bare)
    assert code == FAILURE
    assert contains(found[SCHEMA][1], "21b331f883ef.*only.*39.0")
    assert contains(found[VERSIONS][1], "too old")
    assert contains(found[INDEXES][1], "no index on driver")
    assert contains(found[DRIVERS][1], "'pxe_ipmitool' is not part.*the-old-node")
    assert found[OWNERS] == (SUCCESS, None)


def test_112_rows_of_older_versions_are_told(ours: str, check: Run) -> None:
    with configured(ours):
        make_node()
        execute("UPDATE nodes SET version = '1.41'")
    code, found = check(ours)
    assert (code, found[VERSIONS][0]) == (WARNING, WARNING)
    assert contains(found[VERSIONS][1], "nodes: 1.41", "online_data_migrations")


def test_112_every_kind_of_unknown_interface_is_listed(ours: str, check: Run) -> None:
    with configured(ours):
        removed = make_node(power_interface="ilo")
        disabled = make_node(power_interface="ipmitool")
        foreign = make_node(driver="redfish", power_interface="fake")
        make_node(power_interface="fake")
    code, found = check(
        ours,
        enabled_hardware_types="fake-hardware,redfish",
        enabled_power_interfaces="fake,redfish",
    )
    assert code == WARNING
    assert contains(
        found[DRIVERS][1],
        rf"Power interface 'ilo' is not part of this release.* \(1\): {removed.uuid}\.",
        rf"'ipmitool' is not in \[DEFAULT\]enabled_power_interfaces.* \(1\): {disabled.uuid}\.",
        rf"'fake' is not supported by hardware type redfish.* \(1\): {foreign.uuid}\.",
    )


def test_112_many_nodes_of_a_removed_driver_are_counted_at_a_fixed_cost(
    ours: str, check: Run
) -> None:
    with configured(ours):
        made = [make_node(driver="ilo").uuid for _ in range(25)]
        with session.count_statements() as seen:
            assert [node["driver"] for node in readiness.drivers_in_use()] == ["ilo"]
            found = readiness.nodes_with([Chosen("ilo")], 20)
        assert sum("FROM nodes" in text for text in seen.statements) == 3
    assert found == {Chosen("ilo"): (25, made[:20])}
    _, checks = check(ours)
    assert contains(checks[DRIVERS][1], rf"\(25\): {', '.join(made[:20])} and 5 more\.")


def test_112_children_of_other_owners_are_listed(ours: str, check: Run) -> None:
    with configured(ours):
        parent = make_node(owner="a")
        children = [make_node(owner=o, parent_node=parent.uuid) for o in ("a", "b", None)]
        assert nodes.get(parent.id).owner == "a"
    code, found = check(ours)
    assert code == WARNING
    told = str(found[OWNERS][1])
    assert [child.uuid in told for child in children] == [False, True, True]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "ironic.conf"


def test_112_a_configuration_that_would_not_load_fails(tmp_path: Path, check: Run) -> None:
    url = f"sqlite:///{tmp_path}/ironic.sqlite"
    with configured(url):
        migration.create_schema()
    policy = tmp_path / "policy.json"
    policy.write_text('{"is_admin": "role:admin"}')
    code, found = check(url, enabled_hardware_types="fake-hardware,ilo")
    assert code == FAILURE
    assert contains(found[DRIVERS][1], "would not start.*ilo")
    code, found = check(url + f"\n[oslo_policy]\npolicy_file = {policy}")
    assert (code, found[POLICY][0]) == (FAILURE, FAILURE)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("[database]\nconnection = mysql+pymysql://root@127.0.0.1:1/none\n", "cannot be reached"),
        ("[conductor]\nsync_power_state_interval = often\n", "sync_power_state_interval"),
    ],
)
def test_112_what_can_not_be_checked_ends_with_255(
    config: Path, capsys: pytest.CaptureFixture[str], lines: str, said: str
) -> None:
    config.write_text(lines)
    assert status.main(["--config-file", str(config), "upgrade", "check"]) == 255
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err


def test_112_bad_arguments_end_with_2(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text("")
    for arguments in ([], ["upgrade"], ["upgrade", "all"]):
        with pytest.raises(SystemExit) as ended:
            status.main(["--config-file", str(config), *arguments])
        assert ended.value.code == 2
    assert "usage: ironic-rs-status" in capsys.readouterr().err


def test_112_the_table_is_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "ironic.conf"
    config.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    assert status.main(["--config-file", str(config), "upgrade", "check"]) == FAILURE
    out = capsys.readouterr().out
    assert "| Check: Database Schema " in out
    assert "| Result: Failure " in out

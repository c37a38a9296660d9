"""ironic-rs-dbsync: commands, output and exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

import ironic_rs
from ironic_rs.cmd import dbsync
from ironic_rs.db import migration, nodes, session
from tests.database_suite.setup import configured, create_upstream, make_node


@pytest.fixture
def run(tmp_path, capsys):
    """Run the command on a database of its own; (exit code, stdout, stderr)."""
    conf = tmp_path / "ironic.conf"
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")

    def run_command(*args):
        code = dbsync.main(["--config-file", str(conf), *args])
        return code, *capsys.readouterr()

    run_command.url = f"sqlite:///{tmp_path}/ironic.sqlite"
    return run_command


def change(url, *statements):
    with configured(url), session.writer() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def test_no_command_is_upgrade(run):
    assert run("version")[:2] == (0, "None\n")
    assert run()[:2] == (0, "")
    assert run("version")[:2] == (0, f"{migration.head()}\n")
    assert run("upgrade")[:2] == (0, "")


def test_upgrade_stops_at_a_revision(run):
    assert run("upgrade", "--revision", "0001")[0] == 0
    assert run("version")[1] == "0001\n"


def test_create_schema_refuses_a_database_with_a_version(run):
    assert run("create_schema")[0] == 0
    code, out, err = run("create_schema")
    assert (code, out) == (1, "")
    assert "already" in err


def test_stamp_records_the_newest_revision_or_the_one_given(run):
    run("upgrade")
    assert run("stamp", "--revision", "0001")[0] == 0
    assert run("version")[1] == "0001\n"
    assert run("stamp")[0] == 0
    assert run("version")[1] == f"{migration.head()}\n"


def test_rows_of_a_newer_release_stop_the_upgrade_with_2(run):
    run("upgrade")
    with configured(run.url):
        make_node()
    change(run.url, "UPDATE nodes SET version = '1.99'")
    for command in ("upgrade", "online_data_migrations"):
        code, out, err = run(command)
        assert (code, out) == (2, "")
        assert "nodes: 1.99" in err


def test_tables_without_versions_stop_the_upgrade_with_2(run):
    change(run.url, "CREATE TABLE nodes (id INTEGER)")
    code, _, err = run("upgrade")
    assert code == 2
    assert "too old" in err


def test_an_older_upstream_database_is_refused_with_1_and_the_way_out(run):
    with configured(run.url):
        create_upstream("163040c5513f")
    code, _, err = run("upgrade")
    assert code == 1
    assert "old release first" in err
    assert "Traceback" not in err


def test_a_database_of_a_newer_release_is_refused_with_its_revision(run):
    run("upgrade")
    change(run.url, f"UPDATE {migration.VERSION_TABLE} SET version_num = '9999'")
    code, out, err = run("upgrade")
    assert (code, out) == (1, "")
    assert "9999" in err
    assert "newer release" in err
    assert "Traceback" not in err
    assert run("version")[:2] == (0, "9999\n")


def test_a_revision_that_is_not_there_is_refused(run):
    code, _, err = run("upgrade", "--revision", "nosuch")
    assert code == 1
    assert "nosuch" in err
    assert "Traceback" not in err


def test_an_upstream_database_is_adopted(run):
    with configured(run.url):
        create_upstream()
        node = make_node(name="kept")
    assert run("upgrade")[0] == 0
    with configured(run.url):
        assert nodes.get(node.id).name == "kept"


def test_an_unforeseen_error_ends_with_1(run, monkeypatch):
    def explode():
        raise ZeroDivisionError

    monkeypatch.setattr(migration, "version", explode)
    assert run("version")[0] == 1


class TestOnlineDataMigrations:
    def test_all_is_done_in_batches(self, run, monkeypatch):
        run("upgrade")
        with configured(run.url):
            for _ in range(5):
                make_node()
        change(run.url, "UPDATE nodes SET version = '1.43'")
        monkeypatch.setattr(dbsync, "_BATCH", 2)
        code, out, _ = run("online_data_migrations")
        assert code == 0
        assert "update_to_latest_versions() migrated 2 of 5 objects.\n" in out
        assert "update_to_latest_versions() migrated 1 of 1 objects.\n" in out
        assert out.endswith("Data migrations have completed.\n")

    def test_a_limit_that_is_reached_is_1(self, run):
        run("upgrade")
        with configured(run.url):
            for _ in range(3):
                make_node()
        change(run.url, "UPDATE nodes SET version = '1.43'")
        code, out, _ = run("online_data_migrations", "--max-count", "2")
        assert code == 1
        assert out.endswith("Data migrations have not completed. Please re-run.\n")
        assert run("online_data_migrations", "--max-count", "2")[0] == 0

    def test_a_limit_used_up_by_the_first_migrations_is_1(self, run):
        run("upgrade")
        change(run.url, "INSERT INTO runbooks (name, version) VALUES ('CUSTOM_A', '1.2')")
        code, out, _ = run("online_data_migrations", "--max-count", "1")
        assert code == 1
        assert "migrate_runbook_names_to_traits() migrated 1 of 1 objects.\n" in out
        assert run("online_data_migrations", "--max-count", "1")[0] == 0

    @pytest.mark.parametrize(
        "args",
        [
            ["--max-count", "0"],
            ["--max-count", "-5"],
            ["--option", "x"],
            ["--option", "update_to_latest_versions=1"],
            ["--option", "update_to_latest_versions.=1"],
            ["--option", "no_such_migration.key=1"],
        ],
    )
    def test_bad_arguments_are_127(self, run, args):
        assert run("online_data_migrations", *args)[0] == 127

    def test_options_of_a_migration_are_accepted(self, run):
        run("upgrade")
        option = "update_to_latest_versions.force=true"
        assert run("online_data_migrations", "--option", option)[0] == 0


@pytest.mark.parametrize("args", [["bogus"], ["--bogus"], ["upgrade", "extra"]])
def test_bad_command_lines_are_2(run, args):
    with pytest.raises(SystemExit) as end:
        run(*args)
    assert end.value.code == 2


def test_a_revision_is_written_beside_the_others(run, monkeypatch, tmp_path):
    scripts = tmp_path / "scripts"
    (scripts / "versions").mkdir(parents=True)
    for file in ("env.py", "script.py.mako", *(f"versions/{n}" for n in _versions())):
        (scripts / file).write_text((migration.directory() / file).read_text())
    monkeypatch.setattr(migration, "directory", lambda: scripts)
    run("upgrade")
    change(run.url, "DROP INDEX ix_ports_node_id")
    code, out, _ = run("revision", "-m", "Test it", "--autogenerate")
    assert code == 0
    text = Path(out.strip()).read_text()
    assert "create_index" in text
    assert "ix_ports_node_id" in text
    assert f'down_revision = "{migration.head()}"' in text or "down_revision = '" in text
    assert run("upgrade")[0] == 0
    assert run("revision")[0] == 0


def _versions():
    return [file.name for file in (migration.directory() / "versions").glob("*.py")]


def test_migrations_are_found_in_an_installed_package(tmp_path, monkeypatch):
    """The wheel carries them as ironic_rs/alembic; a source checkout beside the package."""
    assert (migration.directory() / "env.py").exists()
    installed = tmp_path / "ironic_rs"
    (installed / "db").mkdir(parents=True)
    (installed / "alembic").mkdir()
    monkeypatch.setattr(migration, "__file__", str(installed / "db" / "migration.py"))
    assert migration.directory() == installed / "alembic"
    (installed / "alembic").rmdir()
    assert migration.directory() == tmp_path / "alembic"


def test_output_and_log_are_apart_from_any_directory(tmp_path):
    (tmp_path / "ironic.conf").write_text(f"[DEFAULT]\nstate_path = {tmp_path}\ndebug = true\n")
    program = "import sys; from ironic_rs.cmd import dbsync; sys.exit(dbsync.main())"
    root = str(Path(ironic_rs.__file__).parent.parent)

    def run(*args):
        return subprocess.run(
            [sys.executable, "-c", program, "--config-file", "ironic.conf", *args],
            cwd=tmp_path,
            env={"PYTHONPATH": root, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )

    upgraded = run()
    assert upgraded.stdout == ""
    assert "Running upgrade" in upgraded.stderr
    assert run("version").stdout == f"{migration.head()}\n"

"""Sessions: how they begin and end, what is retried, and what callers see of errors."""

from __future__ import annotations

import multiprocessing
import sqlite3
import stat
import threading
import uuid

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from ironic_rs.conf import CONF
from ironic_rs.db import engines, models, nodes, session
from ironic_rs.domain import errors
from tests.database_suite.setup import configured, in_threads, make_node


def file_of(url):
    return url.removeprefix("sqlite:///")


@pytest.fixture
def options():
    """Set options of [database] for one test."""
    names = []

    def set_options(**values):
        for name, value in values.items():
            CONF.set_override(name, value, group="database")
            names.append(name)
        session.configure()

    yield set_options
    for name in names:
        CONF.clear_override(name, group="database")


@pytest.fixture
def no_pauses(monkeypatch):
    pauses = []
    monkeypatch.setattr(session.time, "sleep", pauses.append)
    return pauses


class TestSqlite:
    @pytest.mark.usefixtures("db")
    @pytest.mark.parametrize("open_session", [session.reader, session.writer])
    def test_every_connection_has_the_pragmas(self, open_session):
        with open_session() as connection:
            pragma = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
                for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
            }
        assert pragma == {
            "journal_mode": "wal",
            "foreign_keys": 1,
            "busy_timeout": 10000,
            "synchronous": 1,
        }

    def test_commits_survive_a_power_cut_by_default(self, db):
        CONF.clear_override("sqlite_synchronous", group="database")
        session.configure()
        with session.writer() as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2

    def test_a_new_database_is_closed_to_others(self, tmp_path):
        file = tmp_path / "new.sqlite"
        with configured(f"sqlite:///{file}"), session.writer() as connection:
            connection.exec_driver_sql("CREATE TABLE t (a)")
        assert not stat.S_IMODE(file.stat().st_mode) & stat.S_IRWXO

    def test_a_database_in_memory_is_one_for_all_threads(self):
        with configured("sqlite://"):
            with session.writer() as connection:
                models.Base.metadata.create_all(connection)
            made = in_threads(4, lambda n: make_node(name=f"n{n}"))
            assert {nodes.get(node.id).name for node in made} == {"n0", "n1", "n2", "n3"}

    @pytest.mark.usefixtures("db")
    def test_fifty_threads_write_and_read_without_lock_errors(self):
        created = [make_node() for _ in range(5)]

        def work(place):
            node = created[place % 5]
            for number in range(4):
                nodes.touch_provisioning(node.id)
                make_node(name=f"n{place}-{number}")
                nodes.select(["uuid", "extra"], limit=10)
                try:
                    nodes.reserve(node.id, f"host-{place}")
                except errors.NodeLocked:
                    continue
                nodes.release(node.id, f"host-{place}")

        assert in_threads(50, work) == [None] * 50
        assert len(nodes.select(["id"])) == 205

    def test_several_processes_write_without_lock_errors(self, db):
        node = make_node()
        fork = multiprocessing.get_context("fork")
        workers = [fork.Process(target=_add_ten, args=(db, node.id)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0, 0, 0]
        assert len(nodes.get(node.id).traits) == 30

    def test_a_writer_of_another_process_is_waited_for(self, db):
        node = make_node()
        other = sqlite3.connect(file_of(db), isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.3, other.execute, ["COMMIT"])
        timer.start()
        nodes.touch_provisioning(node.id)
        timer.join()
        other.close()

    def test_a_lock_that_stays_is_a_temporary_failure(self, db, options):
        node = make_node()
        options(sqlite_max_wait_for_retry=0)
        other = sqlite3.connect(file_of(db), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert nodes.get(node.id).id == node.id
        with pytest.raises(errors.TemporaryFailure, match="locked"):
            nodes.touch_provisioning(node.id)
        with pytest.raises(errors.TemporaryFailure, match="locked"), session.writer():
            pass
        other.execute("COMMIT")
        other.close()
        nodes.touch_provisioning(node.id)

    def test_a_database_that_cannot_be_opened_is_unavailable(self, tmp_path):
        with (
            configured(f"sqlite:///{tmp_path}/none/ironic.sqlite"),
            pytest.raises(errors.ServiceUnavailable),
        ):
            nodes.get(1)

    def test_a_full_disk_is_a_temporary_failure_and_ends_with_it(self, db):
        node = make_node()
        with session.database().transactions.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(errors.TemporaryFailure, match="disk full"):
            nodes.update(node, {"description": "x" * 10**6}, fence=None)
        session.dispose()
        nodes.update(node, {"description": "x" * 10**6}, fence=None)

    @pytest.mark.usefixtures("empty_db")
    def test_missing_tables_ask_for_the_upgrade(self):
        with pytest.raises(errors.DatabaseVersionTooOld):
            nodes.get(1)


def _add_ten(url, node_id):
    with configured(url):
        for _ in range(10):
            nodes.touch_provisioning(node_id)
            nodes.add_traits(node_id, [f"CUSTOM_{uuid.uuid4().hex.upper()}"])


@pytest.mark.usefixtures("db")
class TestRetries:
    def failing(self, *failures):
        """A transaction that fails so often, then succeeds; and its attempts."""
        left, attempts = list(failures), []

        @session.writes
        def write(connection):
            attempts.append(connection)
            if left:
                raise left.pop(0)
            return "done"

        return write, attempts

    def test_a_deadlock_runs_the_transaction_again(self, no_pauses):
        write, attempts = self.failing(db_exc.DBDeadlock(), db_exc.DBConsistencyError())
        assert write() == "done"
        assert len(attempts) == 3
        assert len(no_pauses) == 2

    def test_what_the_failed_attempt_wrote_is_gone(self, no_pauses):
        names = iter(["first", "second"])
        table = models.Chassis.__table__
        failures = [db_exc.DBDeadlock()]

        @session.writes
        def write(connection):
            connection.execute(sa.insert(table).values(uuid=None, description=next(names)))
            if failures:
                raise failures.pop()

        write()
        with session.reader() as connection:
            assert connection.execute(sa.select(table.c.description)).scalars().all() == ["second"]

    def test_retries_are_bounded(self, no_pauses, options):
        options(db_max_retries=3)
        write, attempts = self.failing(*[db_exc.DBDeadlock()] * 9)
        with pytest.raises(errors.TemporaryFailure):
            write()
        assert len(attempts) == 4

    def test_pauses_start_short_and_never_exceed_the_option(self, no_pauses, options, monkeypatch):
        monkeypatch.setattr(session.random, "uniform", lambda low, high: high)
        options(db_max_retries=12, db_retry_interval=1, db_max_retry_interval=4)
        write, _ = self.failing(*[db_exc.DBDeadlock()] * 12)
        assert write() == "done"
        assert no_pauses[0] == 1 / 32
        assert no_pauses[-1] == 4

    def test_a_lost_connection_runs_it_again_at_once(self, no_pauses):
        write, attempts = self.failing(db_exc.DBConnectionError())
        assert write() == "done"
        assert len(attempts) == 2
        assert no_pauses == [0.0]

    def test_a_database_that_stays_away_is_unavailable_after_the_patience(self, monkeypatch):
        clock = iter(range(100))
        monkeypatch.setattr(session.time, "monotonic", lambda: next(clock))
        monkeypatch.setattr(session.time, "sleep", lambda seconds: None)
        session.configure(reconnect_seconds=5)
        write, attempts = self.failing(*[db_exc.DBConnectionError()] * 99)
        with pytest.raises(errors.ServiceUnavailable, match="cannot be reached"):
            write()
        assert 2 < len(attempts) < 10

    def test_a_commit_of_unknown_outcome_is_never_repeated(self, monkeypatch):
        write, attempts = self.failing()

        def broken(self):
            raise db_exc.DBConnectionError()

        monkeypatch.setattr(sa.engine.RootTransaction, "commit", broken)
        with pytest.raises(errors.ServiceUnavailable, match="may or may not"):
            write()
        assert len(attempts) == 1

    def test_errors_of_the_function_pass_unchanged_and_roll_back(self):
        @session.writes
        def write(connection):
            connection.execute(sa.insert(models.Chassis.__table__).values(description="x"))
            raise errors.NodeNotFound(node="n")

        with pytest.raises(errors.NodeNotFound):
            write()
        with session.reader() as connection:
            count = sa.select(sa.func.count()).select_from(models.Chassis.__table__)
            assert connection.execute(count).scalar_one() == 0


@pytest.mark.usefixtures("db")
class TestSessions:
    @pytest.mark.parametrize("outer", [session.reader, session.writer])
    def test_a_nested_session_is_a_programming_error(self, outer):
        with (
            pytest.raises(RuntimeError, match="already open"),
            outer(),
        ):
            make_node()
        make_node()

    def test_a_writer_commits_or_rolls_back(self):
        rows = models.Chassis.__table__
        with session.writer() as connection:
            connection.execute(sa.insert(rows).values(description="kept"))
        with pytest.raises(KeyError), session.writer() as connection:
            connection.execute(sa.insert(rows).values(description="gone"))
            raise KeyError
        with session.reader() as connection:
            assert connection.execute(sa.select(rows.c.description)).scalars().all() == ["kept"]

    def test_statements_are_counted_without_begin_and_commit(self):
        with session.count_statements() as seen:
            make_node()
        assert [s.split()[0] for s in seen.statements] == ["INSERT", "SELECT"]
        make_node()
        assert seen.count == 2

    def test_a_forked_process_opens_connections_of_its_own(self):
        node = make_node()
        fork = multiprocessing.get_context("fork")
        child = fork.Process(target=nodes.touch_provisioning, args=(node.id,))
        child.start()
        child.join()
        assert child.exitcode == 0
        assert nodes.get(node.id).provision_updated_at is not None

    def test_values_are_kept_out_of_error_texts(self):
        with pytest.raises(Exception) as refused, session.writer() as connection:
            connection.execute(sa.text("INSERT INTO nowhere VALUES (:a)"), {"a": "secret"})
        assert "secret" not in str(refused.value)

    def test_starting_waits_for_the_database_as_configured(self, options, no_pauses, monkeypatch):
        options(max_retries=3, retry_interval=7)
        answers = [errors.ServiceUnavailable("away")] * 2

        class Reader:
            def __enter__(self):
                if answers:
                    raise answers.pop()

            def __exit__(self, *error):
                return None

        monkeypatch.setattr(session, "reader", Reader)
        session.wait_until_reachable()
        assert no_pauses == [7, 7]
        answers += [errors.ServiceUnavailable("away")] * 9
        with pytest.raises(errors.ServiceUnavailable):
            session.wait_until_reachable()
        assert len(no_pauses) == 5


class TestUrls:
    @pytest.mark.parametrize(
        ("given", "used"),
        [
            (
                "mysql+pymysql://u:p@h/db?charset=utf8",
                "mysql+pymysql://u:p@h/db?charset=utf8mb4",
            ),
            ("mysql+pymysql://u:p@h/db", "mysql+pymysql://u:p@h/db?charset=utf8mb4"),
            ("mysql://u:p@h/db", "mysql+pymysql://u:p@h/db?charset=utf8mb4"),
            (
                "mysql+mysqldb://u:p@h/db?charset=latin1",
                "mysql+mysqldb://u:p@h/db?charset=latin1",
            ),
            ("postgresql://u:p@h/db", "postgresql+psycopg://u:p@h/db"),
            ("postgresql+psycopg2://u:p@h/db", "postgresql+psycopg://u:p@h/db"),
            ("sqlite:////var/lib/x.sqlite", "sqlite:////var/lib/x.sqlite"),
        ],
    )
    def test_urls_of_the_configuration(self, given, used, monkeypatch):
        # The drivers of our extras, whatever else this machine has.
        monkeypatch.setattr(engines, "_installed", lambda module: module == "pymysql")
        with configured(given):
            assert engines.url_of(CONF).render_as_string(hide_password=False) == used

    def test_parameters_are_appended(self, options):
        with configured("mysql+pymysql://u:p@h/db"):
            options(connection_parameters="ssl_ca=/ca.pem")
            assert engines.url_of(CONF).query["ssl_ca"] == "/ca.pem"

    @pytest.mark.parametrize(
        "url", ["mysql+none://u:secret@h/db", "oracle+none://u:secret@h/db", "nonsense"]
    )
    def test_a_database_that_cannot_be_used_names_the_option(self, url):
        with (
            configured(url),
            pytest.raises(errors.IncorrectConfiguration, match=r"\[database\]connection") as e,
        ):
            nodes.get(1)
        assert "secret" not in str(e.value)

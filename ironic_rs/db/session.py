"""Short database sessions, with bounded retries and errors of the product.

Query modules are functions whose first parameter is a connection, under one of
three decorators that supply it: :func:`reads`, :func:`writes` (a transaction) and
:func:`writes_once` (one idempotent statement).  No session outlives the call, so
none is ever open across a BMC or network call.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

from oslo_config import cfg
from oslo_db import exception as db_exc
from sqlalchemy import Connection, Engine, event
from sqlalchemy import exc as sa_exc

from ironic_rs.conf import CONF
from ironic_rs.db import engines
from ironic_rs.domain import errors

LOG = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()
_engines: engines.Engines | None = None
_conf: cfg.ConfigOpts = CONF
_reconnect_seconds = 3.0
_thread = threading.local()

_LOCKED = ("database is locked", "database table is locked")
_FULL = ("database or disk is full", "disk i/o error", "readonly database", "unable to open")
_NO_SCHEMA = (
    "no such table",
    "no such column",
    "doesn't exist",
    "does not exist",
    "unknown column",
)


class _Uncertain(Exception):
    """The connection broke during COMMIT: the transaction may or may not have happened."""


def configure(conf: cfg.ConfigOpts | None = None, *, reconnect_seconds: float = 3.0) -> None:
    """Use the database of ``conf`` (default: the process's) from now on.

    :param reconnect_seconds: how long a call waits for a database that can not be
        reached before it raises ServiceUnavailable.
    """
    global _conf, _reconnect_seconds
    dispose()
    _conf = CONF if conf is None else conf
    _reconnect_seconds = reconnect_seconds


def dispose() -> None:
    """Close the pools; the next call opens them anew."""
    global _engines
    with _lock:
        if _engines is not None:
            _engines.dispose()
            _engines = None


def _forget_after_fork() -> None:
    """The child opens its own connections and leaves the parent's alone."""
    global _engines, _lock
    _lock = threading.Lock()
    if _engines is not None:
        _engines.dispose(close=False)
        _engines = None


os.register_at_fork(after_in_child=_forget_after_fork)


def database() -> engines.Engines:
    """The engines in use, made at the first call."""
    global _engines
    found = _engines
    if found is None:
        with _lock:
            if _engines is None:
                _engines = engines.create(_conf)
            found = _engines
    return found


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One session a thread: a nested one would wait for its own writer."""
    if getattr(_thread, "busy", False):
        raise RuntimeError("a database session is already open in this thread")
    _thread.busy = True
    try:
        yield
    finally:
        _thread.busy = False


@contextlib.contextmanager
def _open(engine: Engine) -> Iterator[Connection]:
    with _alone():
        try:
            connection = engine.connect()
        except (sa_exc.OperationalError, db_exc.DBError) as e:
            if _says(e, _LOCKED) or isinstance(e, db_exc.DBNonExistentDatabase):
                raise
            raise db_exc.DBConnectionError(e) from e
        with connection:
            yield connection


@contextlib.contextmanager
def _transaction() -> Iterator[Connection]:
    with _open(database().transactions) as connection:
        transaction = connection.begin()
        try:
            yield connection
        except BaseException:
            with contextlib.suppress(Exception):
                transaction.rollback()
            raise
        try:
            transaction.commit()
        except db_exc.DBConnectionError as e:
            raise _Uncertain from e


@contextlib.contextmanager
def _autocommit() -> Iterator[Connection]:
    found = database()
    if found.autocommit is found.transactions:
        with _transaction() as connection:
            yield connection
    else:
        with _open(found.autocommit) as connection:
            yield connection


@contextlib.contextmanager
def _statement() -> Iterator[Connection]:
    # SQLite has no round trips to save, and its writers must queue.
    with _transaction() if database().dialect == "sqlite" else _autocommit() as connection:
        yield connection


def _says(error: BaseException, texts: tuple[str, ...]) -> bool:
    said = str(error).lower()
    return any(text in said for text in texts)


def _translate(error: Exception) -> Exception:
    """The error that a caller should see."""
    if isinstance(error, _Uncertain):
        return errors.ServiceUnavailable(
            "The connection to the database broke while a change was being committed; "
            "it may or may not have been stored. Check and retry."
        )
    if isinstance(error, db_exc.DBConnectionError):
        return errors.ServiceUnavailable("The database cannot be reached, please retry.")
    if isinstance(error, db_exc.DBNonExistentDatabase):
        return errors.ServiceUnavailable("The database does not exist or cannot be opened.")
    if isinstance(error, sa_exc.TimeoutError):
        return errors.TemporaryFailure("No database connection became free, please retry.")
    if isinstance(error, db_exc.DBDeadlock | db_exc.DBConsistencyError) or _says(error, _LOCKED):
        return errors.TemporaryFailure("The database stays locked, please retry.")
    if _says(error, _FULL):
        return errors.TemporaryFailure("The database cannot be written (disk full or read-only).")
    if isinstance(error, db_exc.DBNonExistentTable) or _says(error, _NO_SCHEMA):
        return errors.DatabaseVersionTooOld()
    return error


_DB_ERRORS = (db_exc.DBError, sa_exc.SQLAlchemyError, _Uncertain)


def _is_conflict(error: Exception) -> bool:
    """Another transaction won: this one did nothing and may run again."""
    return isinstance(error, db_exc.DBDeadlock | db_exc.DBConsistencyError) or _says(
        error, ("could not serialize access",)
    )


def _run(
    session: Callable[[], contextlib.AbstractContextManager[Connection]],
    fn: Callable[Concatenate[Connection, P], R],
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    options = _conf.database
    conflicts = 0
    give_up: float | None = None
    while True:
        try:
            with session() as connection:
                return fn(connection, *args, **kwargs)
        except _DB_ERRORS as e:
            if _is_conflict(e) and (
                options.db_max_retries < 0 or conflicts < options.db_max_retries
            ):
                # Starts far below the configured interval: most conflicts are
                # over within milliseconds.
                interval = options.db_retry_interval * 2.0 ** (conflicts - 5)
                pause = random.uniform(0, min(interval, options.db_max_retry_interval))
                conflicts += 1
            elif isinstance(e, db_exc.DBConnectionError):
                now = time.monotonic()
                # The first retry is at once: a restarted server leaves a pool of
                # dead connections, and a new one works.
                pause = 0.0 if give_up is None else random.uniform(0.1, 0.5)
                give_up = now + _reconnect_seconds if give_up is None else give_up
                if now > give_up:
                    raise _translate(e) from e
            else:
                translated = _translate(e)
                if translated is e:
                    raise
                raise translated from e
            LOG.debug("database call %s runs again: %s", fn.__qualname__, type(e).__name__)
            time.sleep(pause)


@contextlib.contextmanager
def _guarded(
    session: Callable[[], contextlib.AbstractContextManager[Connection]],
) -> Iterator[Connection]:
    try:
        with session() as connection:
            yield connection
    except _DB_ERRORS as e:
        translated = _translate(e)
        if translated is e:
            raise
        raise translated from e


def reader() -> contextlib.AbstractContextManager[Connection]:
    """A connection for reads, each statement on its own; not retried."""
    return _guarded(_autocommit)


def writer() -> contextlib.AbstractContextManager[Connection]:
    """A transaction: commit at the end, rollback on an exception; not retried."""
    return _guarded(_transaction)


def reads(fn: Callable[Concatenate[Connection, P], R]) -> Callable[P, R]:
    """Supply ``fn`` with a connection for reads; runs again when the connection breaks."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return _run(_autocommit, fn, *args, **kwargs)

    return call


def writes(fn: Callable[Concatenate[Connection, P], R]) -> Callable[P, R]:
    """Run ``fn`` in a transaction; runs again on deadlock and when the connection
    breaks before the commit."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return _run(_transaction, fn, *args, **kwargs)

    return call


def writes_once(fn: Callable[Concatenate[Connection, P], R]) -> Callable[P, R]:
    """Run ``fn``, which writes with one idempotent statement, in autocommit."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return _run(_statement, fn, *args, **kwargs)

    return call


def ping() -> None:
    """Ask the database for an answer, once.

    :raises ServiceUnavailable: it does not give one.
    """
    with reader() as connection:
        connection.exec_driver_sql("SELECT 1")


def wait_until_reachable() -> None:
    """Connect once, as often as ``[database]max_retries`` and ``retry_interval`` say.

    :raises ServiceUnavailable: still no connection after that.
    """
    left = _conf.database.max_retries
    while True:
        try:
            with reader():
                return
        except errors.ServiceUnavailable:
            if left == 0:
                raise
            LOG.warning("The database cannot be reached yet, %s attempts left.", left)
            left -= 1
            time.sleep(_conf.database.retry_interval)


class Statements:
    """What :func:`count_statements` saw, by all threads of the process."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.commits = 0

    @property
    def count(self) -> int:
        """Number of statements; BEGIN, COMMIT and PRAGMA are not counted."""
        return len(self.statements)

    @property
    def round_trips(self) -> int:
        """Most messages to a server and back: the statements and the ends of transactions.

        ``BEGIN`` goes with the first statement on MySQL and MariaDB, and a message of
        its own on PostgreSQL is not counted.  A single idempotent statement is counted
        with a ``COMMIT`` on SQLite, which servers do not need (:func:`writes_once`).
        """
        return self.count + self.commits


@contextlib.contextmanager
def count_statements() -> Iterator[Statements]:
    """Record the SQL statements issued while the block runs (for tests)."""
    seen = Statements()

    def record(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if not statement.startswith(("BEGIN", "PRAGMA")):
            seen.statements.append(statement)

    def end(connection: Any) -> None:
        seen.commits += 1

    found = database()
    wanted: list[tuple[Engine, str, Callable[..., None]]] = [
        (engine, "before_cursor_execute", record)
        for engine in {found.autocommit, found.transactions}
    ]
    # A connection in autocommit sends no COMMIT.
    wanted += [(found.transactions, name, end) for name in ("commit", "rollback")]
    for target in wanted:
        event.listen(*target)
    try:
        yield seen
    finally:
        for target in wanted:
            event.remove(*target)

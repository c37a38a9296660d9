"""SQLAlchemy engines, per database: how connections are made, pooled and begun.

Two engines a process: one whose connections are in autocommit (reads and single
idempotent writes cost one round trip each), one for transactions.

SQLite: WAL, foreign keys on, writers begin with ``BEGIN IMMEDIATE`` and share one
connection, so that threads queue in the pool instead of polling the file's lock.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from typing import Any

from oslo_config import cfg
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy import URL, Engine, create_engine, event, exc, make_url
from sqlalchemy.pool import QueuePool

from ironic_rs.domain import errors

# The character set that names BMP characters only; clients still name it in URLs.
_NARROW_CHARSETS = ("utf8", "utf8mb3")
# Longest wait of a SQLite writer for the others of its process.
_QUEUE_SECONDS = 30


@dataclasses.dataclass(frozen=True)
class Engines:
    """The engines of one database; the same one twice for SQLite in memory."""

    autocommit: Engine
    transactions: Engine

    @property
    def dialect(self) -> str:
        """``sqlite``, ``mysql`` (MariaDB too, by its URL) or ``postgresql``."""
        return self.transactions.dialect.name

    def dispose(self, close: bool = True) -> None:
        """Drop the pools; ``close=False`` after a fork, where the parent owns the sockets."""
        self.autocommit.dispose(close=close)
        self.transactions.dispose(close=close)


def url_of(conf: cfg.ConfigOpts) -> URL:
    """URL of ``[database]connection`` with its parameters and a full character set."""
    url = make_url(conf.database.connection)
    if conf.database.connection_parameters:
        url = url.update_query_string(conf.database.connection_parameters, append=True)
    is_mysql = url.get_backend_name() in ("mysql", "mariadb")
    if is_mysql and url.query.get("charset", "utf8") in _NARROW_CHARSETS:
        url = url.update_query_dict({"charset": "utf8mb4"})
    return url.set(drivername=_drivername(url.drivername))


def _drivername(given: str) -> str:
    """A driver that is installed, where the URL leaves the choice or names an older one."""
    if given in ("postgresql", "postgresql+psycopg2") and not _installed("psycopg2"):
        return "postgresql+psycopg"
    if given in ("mysql", "mariadb"):
        return f"{given}+pymysql" if _installed("pymysql") else f"{given}+mysqldb"
    return given


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def create(conf: cfg.ConfigOpts) -> Engines:
    """Make the engines of ``[database]``; connects to nothing yet.

    :raises IncorrectConfiguration: no such database, or its driver is not installed.
    """
    try:
        return _create(conf, url_of(conf))
    except (exc.ArgumentError, ImportError) as e:
        raise errors.IncorrectConfiguration(
            error=f"[database]connection can not be used: {e}. The drivers of MySQL, MariaDB "
            "and PostgreSQL come with the extras 'mysql' and 'postgresql' of ironic-rs."
        ) from e


def _create(conf: cfg.ConfigOpts, url: URL) -> Engines:
    if url.get_backend_name() == "sqlite":
        return _create_sqlite(conf, url)
    shared: dict[str, Any] = {
        "pool_size": conf.database.max_pool_size,
        "max_overflow": conf.database.max_overflow,
        "pool_recycle": conf.database.connection_recycle_time,
        # The ones used last first: what a busy hour opened can be closed by the server.
        "pool_use_lifo": True,
        # A transaction always ends by commit or rollback (see session), and
        # autocommit leaves none open: resetting would be a round trip for nothing.
        "pool_reset_on_return": None,
        "hide_parameters": True,
    }
    if conf.database.pool_timeout is not None:
        shared["pool_timeout"] = conf.database.pool_timeout
    autocommit = create_engine(
        url, isolation_level="AUTOCOMMIT", skip_autocommit_rollback=True, **shared
    )
    transactions = create_engine(url, **shared)
    for engine in (autocommit, transactions):
        exc_filters.register_engine(engine)
        if engine.dialect.name in ("mysql", "mariadb"):
            _prepare_mysql(engine, conf)
    return Engines(autocommit, transactions)


def _prepare_mysql(engine: Engine, conf: cfg.ConfigOpts) -> None:
    settings: dict[str, Any] = {}
    if conf.database.mysql_sql_mode is not None:
        settings["sql_mode"] = conf.database.mysql_sql_mode
    if conf.database.mysql_wsrep_sync_wait is not None:
        settings["wsrep_sync_wait"] = conf.database.mysql_wsrep_sync_wait
    if not settings:
        return
    statement = "SET " + ", ".join(f"SESSION {name} = %s" for name in settings)

    @event.listens_for(engine, "connect")
    def set_session(dbapi_connection: Any, record: Any) -> None:
        with dbapi_connection.cursor() as cursor:
            cursor.execute(statement, list(settings.values()))


def busy_seconds(conf: cfg.ConfigOpts) -> int:
    """How long a SQLite statement waits for the lock of another process."""
    return int(conf.database.sqlite_max_wait_for_retry) if conf.database.sqlite_retries else 5


def _make_private(path: str) -> None:
    """Create a missing database file closed to others: it holds BMC credentials.

    SQLite gives the files beside it the same mode.
    """
    file = Path(path)
    if not path.startswith("file:") and file.parent.is_dir() and not file.exists():
        file.touch(mode=0o640, exist_ok=True)


def _create_sqlite(conf: cfg.ConfigOpts, url: URL) -> Engines:
    in_memory = url.database in (None, "", ":memory:")
    if url.database and not in_memory:
        _make_private(url.database)
    connect_args = {"check_same_thread": False, "timeout": busy_seconds(conf)}
    shared: dict[str, Any] = {
        "poolclass": QueuePool,
        "pool_reset_on_return": None,
        "connect_args": connect_args,
        "hide_parameters": True,
    }
    # Here the writers of this process wait for each other.
    transactions = create_engine(
        url, pool_size=1, max_overflow=0, pool_timeout=_QUEUE_SECONDS, **shared
    )
    _prepare_sqlite(transactions, conf, in_memory)

    @event.listens_for(transactions, "begin")
    def begin_immediate(connection: Any) -> None:
        # A deferred transaction that reads first can not become a writer once
        # another one wrote: it would fail at once, whatever the busy timeout.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    if in_memory:
        return Engines(transactions, transactions)
    autocommit = create_engine(
        url,
        pool_size=conf.database.max_pool_size,
        max_overflow=conf.database.max_overflow,
        **shared,
    )
    _prepare_sqlite(autocommit, conf, in_memory)
    return Engines(autocommit, transactions)


def _prepare_sqlite(engine: Engine, conf: cfg.ConfigOpts, in_memory: bool) -> None:
    exc_filters.register_engine(engine)
    synchronous = "FULL" if conf.database.sqlite_synchronous else "NORMAL"

    @event.listens_for(engine, "connect")
    def set_pragmas(dbapi_connection: Any, record: Any) -> None:
        # The driver must not begin transactions by itself.
        dbapi_connection.isolation_level = None
        if not in_memory:
            dbapi_connection.execute("PRAGMA journal_mode=WAL")
        dbapi_connection.execute("PRAGMA foreign_keys=ON")
        dbapi_connection.execute(f"PRAGMA synchronous={synchronous}")

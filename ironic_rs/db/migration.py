"""Schema versions: creating, upgrading, and adopting a database that upstream made.

Our revisions are recorded in ``ironic_rs_version``; upstream's ``alembic_version``
is only read.  Specification operations.md section 2, data-model.md section 1.
"""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from alembic.autogenerate.api import AutogenContext
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from alembic import command
from ironic_rs.db import models, session
from ironic_rs.db.types import JsonDict, JsonList, UtcDateTime
from ironic_rs.domain import errors

VERSION_TABLE = "ironic_rs_version"
UPSTREAM_TABLE = "alembic_version"
UPSTREAM_HEAD = "9fb44677ef15"
ADOPTED = "0001"
"""Our revision whose schema is that of UPSTREAM_HEAD."""

_LOCK_NAME = "ironic_rs_schema"
_LOCK_NUMBER = 0x69726F6E
_LOCK_SECONDS = 600


class SchemaRefused(errors.IronicError):
    """The database is in a state that the command must not touch; the text says why."""

    template = "{reason}"


def directory() -> Path:
    """Directory of env.py and versions/: inside the wheel, or of the source checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "alembic"
    return installed if installed.is_dir() else package.parent / "alembic"


def is_ours(name: str | None, kind: str, parents: Any) -> bool:
    """What autogeneration compares: all but the tables that only hold versions."""
    return kind != "table" or name not in (VERSION_TABLE, UPSTREAM_TABLE)


def frozen_type(kind: str, item: Any, context: AutogenContext) -> str | Literal[False]:
    """Text of our column types in a migration, which must not change with the code."""
    if kind == "type" and isinstance(item, JsonDict | JsonList):
        if not item.long:
            return "sa.Text()"
        context.imports.add("from sqlalchemy.dialects.mysql import LONGTEXT")
        return 'sa.Text().with_variant(LONGTEXT(), "mysql", "mariadb")'
    if kind == "type" and isinstance(item, UtcDateTime):
        return "sa.DateTime()"
    return False


@contextlib.contextmanager
def _alone() -> Iterator[Connection]:
    """A transaction that no second run of a schema command shares."""
    with session.writer() as connection:
        dialect = connection.dialect.name
        if dialect == "postgresql":
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK_NUMBER})"))
            yield connection
        elif dialect in ("mysql", "mariadb"):
            name = f"{_LOCK_NAME}.{connection.engine.url.database}"[:64]
            took = connection.execute(
                sa.text("SELECT GET_LOCK(:name, :seconds)"),
                {"name": name, "seconds": _LOCK_SECONDS},
            ).scalar_one()
            if took != 1:
                raise SchemaRefused(reason="Another schema command is running on this database.")
            try:
                yield connection
                # Before the lock goes: the version row is not yet committed.
                connection.exec_driver_sql("COMMIT")
            finally:
                connection.execute(sa.text("SELECT RELEASE_LOCK(:name)"), {"name": name})
        else:
            # BEGIN IMMEDIATE of the writer holds off every other one.
            yield connection


def _config(connection: Connection) -> Config:
    # stdout belongs to our own commands.
    config = Config(stdout=io.StringIO(), cmd_opts=argparse.Namespace(quiet=True))
    config.set_main_option("script_location", str(directory()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["transactional"] = connection.dialect.name in ("sqlite", "postgresql")
    return config


def _recorded(connection: Connection, table: str) -> str | None:
    """Revision in a table of versions; None when there is no such table or row."""
    if not sa.inspect(connection).has_table(table):
        return None
    versions = sa.table(table, sa.column("version_num"))
    return connection.execute(sa.select(versions.c.version_num)).scalar()


def _check_known(recorded: str) -> None:
    known = ScriptDirectory(str(directory())).walk_revisions()
    if not any(script.revision == recorded for script in known):
        raise SchemaRefused(
            reason=f"The database is at schema revision {recorded}, which this release does "
            f"not know (its own is {head()}): it is of a newer release. Use the commands of "
            "that release."
        )


def head() -> str:
    """The newest revision of this release."""
    found = ScriptDirectory(str(directory())).get_current_head()
    assert found is not None
    return found


def version() -> str | None:
    """Revision recorded in the database; None for one of no version of ours."""
    with session.reader() as connection:
        return _recorded(connection, VERSION_TABLE)


def _missing_tables(connection: Connection) -> list[str]:
    present = set(sa.inspect(connection).get_table_names())
    return sorted(set(models.Base.metadata.tables) - present)


def _check_adoptable(connection: Connection) -> bool:
    """Whether this is a database of the upstream release that we continue.

    :raises SchemaRefused: tables are there that are neither ours nor that release's.
    """
    upstream = _recorded(connection, UPSTREAM_TABLE)
    tables = set(sa.inspect(connection).get_table_names())
    if upstream is None:
        if models.Node.__tablename__ in tables and VERSION_TABLE not in tables:
            raise SchemaRefused(
                reason="The database has tables but records no schema version. If they are of "
                f"the upstream release whose schema is {UPSTREAM_HEAD}, say so with "
                f"'stamp --revision {ADOPTED}' and run 'upgrade' again."
            )
        return False
    if upstream != UPSTREAM_HEAD:
        raise SchemaRefused(
            reason=f"This is an upstream Ironic database at schema revision {upstream}; only "
            f"revision {UPSTREAM_HEAD} (release 39.0, 2026.2) can be taken over. Upgrade it "
            "with the old release first: install Ironic 39.0 and run its 'ironic-dbsync "
            "upgrade' and 'ironic-dbsync online_data_migrations', then run this command again."
        )
    if missing := _missing_tables(connection):
        raise SchemaRefused(
            reason=f"The upstream database lacks the tables {', '.join(missing)}, which "
            f"its recorded revision {UPSTREAM_HEAD} has."
        )
    return True


def pending() -> str | None:
    """What :func:`upgrade` has to do, as a sentence; None when the schema is the newest.

    :raises SchemaRefused: the services can not use the database, and why: it is empty,
        tables are missing, or :func:`upgrade` would refuse it.
    """
    with session.reader() as connection:
        recorded = _recorded(connection, VERSION_TABLE)
        if recorded is not None:
            _check_known(recorded)
        elif _check_adoptable(connection):
            return (
                f"The schema is that of upstream revision {UPSTREAM_HEAD}: "
                "'ironic-rs-dbsync upgrade' takes the database over."
            )
        missing = _missing_tables(connection)
    if len(missing) == len(models.Base.metadata.tables):
        raise SchemaRefused(reason="The database is empty: run 'ironic-rs-dbsync upgrade'.")
    if recorded is None:
        raise SchemaRefused(
            reason="The first upgrade of the database was interrupted and no revision is "
            "recorded: run 'ironic-rs-dbsync upgrade' again."
        )
    if recorded != head():
        return (
            f"The schema is at revision {recorded}, that of this release is {head()}: run "
            "'ironic-rs-dbsync upgrade'; after an interruption, run it again."
        )
    if missing:
        raise SchemaRefused(
            reason=f"The database lacks the tables {', '.join(missing)}, which its recorded "
            f"revision {recorded} has: restore it from a backup."
        )
    return None


def upgrade(revision: str = "head") -> None:
    """Bring the schema to a revision; a database of upstream 39.0 is adopted first.

    Safe to run again after an interruption, and by two at a time.

    :raises SchemaRefused: not ours, and not to be adopted; of a newer release; or there
        is no such revision.
    """
    with _alone() as connection:
        config = _config(connection)
        recorded = _recorded(connection, VERSION_TABLE)
        if recorded is None and _check_adoptable(connection):
            command.stamp(config, ADOPTED)
        elif recorded is not None:
            _check_known(recorded)
        try:
            command.upgrade(config, revision)
        except CommandError as exc:
            raise SchemaRefused(reason=f"Revision {revision}: {exc}.") from exc


def create_schema() -> None:
    """Create all tables from the models and record the newest revision.

    :raises SchemaRefused: the database records a version already.
    """
    with _alone() as connection:
        recorded = _recorded(connection, VERSION_TABLE) or _recorded(connection, UPSTREAM_TABLE)
        if recorded is not None:
            raise SchemaRefused(
                reason=f"The database is at schema revision {recorded} already; use 'upgrade'."
            )
        models.Base.metadata.create_all(connection)
        command.stamp(_config(connection), "head")


def stamp(revision: str) -> None:
    """Record a revision without changing the schema."""
    with _alone() as connection:
        command.stamp(_config(connection), revision)


def revision(message: str | None, autogenerate: bool) -> Path:
    """Write a new migration file; with ``autogenerate`` from the models' differences."""
    with _alone() as connection:
        script = command.revision(_config(connection), message, autogenerate=autogenerate)
    path = getattr(script, "path", None)
    assert isinstance(path, str)
    return Path(path)

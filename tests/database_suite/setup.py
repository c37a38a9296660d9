"""Fixtures' helpers: a configured database, facts about its schema, upstream's schema."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import LONGTEXT

from ironic_rs.conf import CONF
from ironic_rs.db import nodes, session
from ironic_rs.db.models import Base, Node

UPSTREAM = json.loads((Path(__file__).parent.parent / "data" / "upstream_schema.json").read_text())
"""The 21 tables of upstream's revision 9fb44677ef15."""


@contextlib.contextmanager
def configured(url: str) -> Iterator[None]:
    """Use the database at ``url`` inside the block."""
    CONF.set_override("connection", url, group="database")
    # A test does not lose power.
    CONF.set_override("sqlite_synchronous", False, group="database")
    session.configure()
    try:
        yield
    finally:
        session.dispose()
        CONF.clear_override("connection", group="database")
        CONF.clear_override("sqlite_synchronous", group="database")
        session.configure()


def empty_tables() -> None:
    """Delete every row of our tables."""
    with session.writer() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(sa.delete(table))


def drop_everything() -> None:
    """Drop every table that is there."""
    with session.writer() as connection:
        found = sa.MetaData()
        found.reflect(connection)
        found.drop_all(connection)


def make_node(**values: Any) -> Node:
    """Store a node of the fake hardware type."""
    return nodes.create({"driver": "fake-hardware", **values})


def in_threads(number: int, work: Callable[[int], Any]) -> list[Any]:
    """Run ``work(0)``, ``work(1)``, … at once; results (or exceptions) in that order."""
    start = threading.Barrier(number)
    results: list[Any] = [None] * number

    def run(place: int) -> None:
        start.wait()
        try:
            results[place] = work(place)
        except Exception as e:
            results[place] = e

    threads = [threading.Thread(target=run, args=(place,)) for place in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


_LONG = sa.Text().with_variant(LONGTEXT(), "mysql", "mariadb")


def _type(text: str) -> sa.types.TypeEngine[Any]:
    if length := re.fullmatch(r"string\((\d+)\)", text):
        return sa.String(int(length[1]))
    if text.endswith("-long"):
        return _LONG
    if text.startswith(("json", "text")):
        return sa.Text()
    simple = {
        "integer": sa.Integer,
        "bigint": sa.BigInteger,
        "boolean": sa.Boolean,
        "datetime": sa.DateTime,
    }
    return simple[text]()


_SERVER_DEFAULTS = {"": "", "false": sa.false(), "true": sa.true()}


def upstream_metadata() -> sa.MetaData:
    """Upstream's tables, made from the recorded facts and not from our models."""
    metadata = sa.MetaData()
    for name, facts in UPSTREAM.items():
        table = sa.Table(name, metadata, mysql_engine="InnoDB", mysql_charset="utf8mb4")
        for column, (kind, nullable, *default) in facts["columns"].items():
            table.append_column(
                sa.Column(
                    column,
                    _type(kind),
                    primary_key=column in facts["primary_key"],
                    nullable=nullable,
                    server_default=_SERVER_DEFAULTS[default[0]] if default else None,
                )
            )
        for constraint, columns in facts["unique"].items():
            table.append_constraint(sa.UniqueConstraint(*columns, name=constraint))
        for column, target, *key in facts["foreign_keys"]:
            table.append_constraint(
                sa.ForeignKeyConstraint([column], [target], name=key[0] if key else None)
            )
        for index, columns in facts["indexes"].items():
            sa.Index(index, *(table.c[column] for column in columns))
    return metadata


def create_upstream(revision: str = "9fb44677ef15") -> None:
    """Make the database one that upstream's tools left."""
    with session.writer() as connection:
        upstream_metadata().create_all(connection)
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(
            sa.text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision}
        )


def schema_facts() -> dict[str, dict[str, Any]]:
    """Upstream's tables as the database reports them, without the indexes that we add.

    MySQL's own indexes of foreign keys are left out too: an index of ours on the
    same column takes their place.
    """
    facts = {}
    with session.reader() as connection:
        inspector = sa.inspect(connection)
        for table in UPSTREAM:
            unique = {u["name"]: u["column_names"] for u in inspector.get_unique_constraints(table)}
            foreign = {
                key["constrained_columns"][0]: (key["referred_table"], key["referred_columns"])
                for key in inspector.get_foreign_keys(table)
            }
            facts[table] = {
                "columns": {
                    c["name"]: (
                        str(c["type"].compile(connection.dialect)).split(" COLLATE")[0],
                        c["nullable"],
                        c["default"],
                    )
                    for c in inspector.get_columns(table)
                },
                "primary_key": inspector.get_pk_constraint(table)["constrained_columns"],
                "unique": unique,
                "foreign_keys": foreign,
                "indexes": {
                    i["name"]: i["column_names"]
                    for i in inspector.get_indexes(table)
                    if i["name"] in UPSTREAM[table]["indexes"]
                },
            }
    return facts


def index_names() -> set[str]:
    """Names of the indexes that are ours."""
    with session.reader() as connection:
        inspector = sa.inspect(connection)
        return {
            str(index["name"])
            for table in UPSTREAM
            for index in inspector.get_indexes(table)
            if str(index["name"]).startswith("ix_")
        }

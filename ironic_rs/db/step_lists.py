"""Step rows of deploy templates and runbooks: read for many parents, replaced in place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from ironic_rs.db import integrity, jsontext, values
from ironic_rs.db.base import Base, table
from ironic_rs.db.types import json_strings

# None of the parts but the last may hold it: interfaces are words, JSON escapes it.
_BETWEEN = "\n"


@dataclasses.dataclass(frozen=True)
class StepList:
    """The step table of one kind of parent.

    :param model: record class of the steps.
    :param parent: column that refers to the parent.
    :param position: column that a step is ranked by: ``priority`` or ``order``.
    """

    model: type[Base]
    parent: str
    position: str

    def of(
        self, connection: Connection, parent_ids: Sequence[int]
    ) -> dict[int, list[dict[str, Any]]]:
        """Steps (interface, step, args and the position) by parent, in order of creation."""
        rows = table(self.model)
        found: dict[int, list[dict[str, Any]]] = {parent_id: [] for parent_id in parent_ids}
        if parent_ids:
            query = sa.select(rows).where(rows.c[self.parent].in_(list(parent_ids)))
            for row in connection.execute(query.order_by(rows.c.id)).mappings():
                found[row[self.parent]].append(
                    {name: row[name] for name in ("interface", "step", "args", self.position)}
                )
        return found

    def in_row(self, parent: sa.Table) -> ColumnElement[str]:
        """SQL of the steps of a row of the parent's table, for :meth:`read`."""
        rows = table(self.model)
        parts = (
            rows.c.interface,
            sa.cast(rows.c[self.position], sa.String(12)),
            sa.func.coalesce(sa.type_coerce(rows.c.args, sa.Text()), ""),
            rows.c.step,
        )
        text: Any = parts[0]
        for part in parts[1:]:
            text = text + _BETWEEN + part
        query = sa.select(json_strings(text)).where(rows.c[self.parent] == parent.c.id)
        return query.scalar_subquery()

    def read(self, text: str | None) -> list[dict[str, Any]]:
        """Steps that :meth:`in_row` has selected, as those of :meth:`of`, in any order."""
        found = []
        for step in jsontext.loads(text) if text else []:
            interface, position, args, name = step.split(_BETWEEN, 3)
            found.append(
                {
                    "interface": interface,
                    "step": name,
                    "args": jsontext.loads(args) if args else {},
                    self.position: int(position),
                }
            )
        return found

    def _identity(self, step: Mapping[str, Any]) -> tuple[str, str, str, int]:
        args = jsontext.canonical(step.get("args") or {})
        return step["interface"], step["step"], args, step[self.position]

    def insert(
        self, connection: Connection, parent_id: int, steps: Iterable[Mapping[str, Any]]
    ) -> None:
        """Store steps of a parent, after those that it has.

        :raises InvalidParameterValue: arguments larger than the database takes.
        """
        rows = []
        for step in steps:
            row = {name: step[name] for name in ("interface", "step", self.position)} | {
                "args": step.get("args") or {},
                self.parent: parent_id,
            }
            rows.append(values.for_insert(self.model, row))
        if rows:
            with integrity.translated(self.model, {}):
                connection.execute(sa.insert(table(self.model)), rows)

    def replace(
        self, connection: Connection, parent_id: int, steps: Iterable[Mapping[str, Any]]
    ) -> None:
        """Make the steps those given, in this order.

        Steps are read by the age of their rows: equal ones at the beginning keep
        theirs, from the first new one on all are stored anew.
        """
        rows = table(self.model)
        query = sa.select(rows).where(rows.c[self.parent] == parent_id).order_by(rows.c.id)
        missing = list(steps)
        gone = []
        for row in connection.execute(query).mappings():
            if missing and self._identity(dict(row)) == self._identity(missing[0]):
                del missing[0]
            else:
                gone.append(row["id"])
        if gone:
            connection.execute(sa.delete(rows).where(rows.c.id.in_(gone)))
        self.insert(connection, parent_id, missing)

    def delete(self, connection: Connection, parent_id: int) -> None:
        """Delete all steps of a parent."""
        rows = table(self.model)
        connection.execute(sa.delete(rows).where(rows.c[self.parent] == parent_id))

"""The tables have what clients rely on: new rows are free, these change on purpose only."""

from __future__ import annotations

from pathlib import Path

import pytest

from ironic_rs.api.routes import ROUTES
from ironic_rs.domain.fields import TABLES

DATA = Path(__file__).resolve().parents[2] / "data"


def lines(name: str) -> list[str]:
    text = (DATA / name).read_text()
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("line", lines("api_operations.txt"))
def test_an_operation_is_there_as_clients_know_it(line: str) -> None:
    method, path, *rest = line.split()
    (route,) = [r for r in ROUTES if (r.method, r.path) == (method, path)]
    below = str(route.below) if route.since > 1 else "-"
    assert [str(int(route.since)), str(route.success), below] == rest


@pytest.mark.parametrize("line", lines("api_fields.txt"))
def test_a_field_is_there_as_clients_know_it(line: str) -> None:
    resource, _, rest = line.partition(": ")
    name, since, use = rest.split()
    row = TABLES[resource].by_name[name]
    assert (int(since), set(use)) == (row.since, set(row.use))

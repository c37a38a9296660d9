"""Fixtures: an empty SQLite database for each test, a copy of one that is made once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_rs.db import migration
from tests.database_suite.setup import configured


@pytest.fixture(scope="session")
def empty_schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with all tables and no records."""
    file = tmp_path_factory.mktemp("schema") / "empty.sqlite"
    with configured(f"sqlite:///{file}"):
        migration.create_schema()
    return file


@pytest.fixture
def database(empty_schema: Path, tmp_path: Path) -> Iterator[str]:
    """The configured database; its URL."""
    file = tmp_path / "database.sqlite"
    shutil.copy(empty_schema, file)
    with configured(f"sqlite:///{file}"):
        yield f"sqlite:///{file}"

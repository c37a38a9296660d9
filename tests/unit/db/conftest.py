"""SQLite databases: copies of one that is made once."""

from __future__ import annotations

import shutil

import pytest

from ironic_rs.db import migration
from tests.database_suite.setup import configured


@pytest.fixture(scope="session")
def template_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("db") / "template.sqlite"
    with configured(f"sqlite:///{file}"):
        migration.create_schema()
    return file


@pytest.fixture
def db(template_file, tmp_path):
    """An empty database of our schema; its URL."""
    file = tmp_path / "ironic.sqlite"
    shutil.copy(template_file, file)
    with configured(f"sqlite:///{file}"):
        yield f"sqlite:///{file}"


@pytest.fixture
def empty_db(tmp_path):
    """A database without tables; its URL."""
    url = f"sqlite:///{tmp_path / 'empty.sqlite'}"
    with configured(url):
        yield url

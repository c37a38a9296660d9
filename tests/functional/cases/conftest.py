"""Cases of operators are tried on the site of the tests of defects."""

from __future__ import annotations

from tests.functional.defects.conftest import conf, empty_database, site, transport

__all__ = ["conf", "empty_database", "site", "transport"]

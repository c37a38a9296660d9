"""Cases of operators are tried on the site of the tests of defects."""

from __future__ import annotations

from tests.functional.defects.conftest import (
    agent,
    conf,
    empty_database,
    site,
    site_with_agent,
    transport,
)

__all__ = ["agent", "conf", "empty_database", "site", "site_with_agent", "transport"]

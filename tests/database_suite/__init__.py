"""What every database must do: one suite, run on SQLite by tests/unit/db and on real
servers by tests/integration/test_databases.py.

The modules that import the classes supply the fixture ``db``: an empty database of
our schema that ``ironic_rs.db.session`` is configured with.
"""

import pytest

pytest.register_assert_rewrite(
    "tests.database_suite.conductors",
    "tests.database_suite.listing",
    "tests.database_suite.migration",
    "tests.database_suite.nodes",
    "tests.database_suite.resources",
    "tests.database_suite.setup",
)

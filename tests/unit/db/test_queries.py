"""The database suite on SQLite."""

from tests.database_suite.allocations import TestAllocations
from tests.database_suite.conditions import TestConditions
from tests.database_suite.conductors import TestConductors
from tests.database_suite.listing import TestPages
from tests.database_suite.migration import (
    TestAdoption,
    TestOnlineMigrations,
    TestSchema,
    TestUpgrade,
    TestVersionCheck,
    upstream_facts,
)
from tests.database_suite.nodes import (
    TestFilters,
    TestLock,
    TestReadingNodes,
    TestTraits,
    TestWritingNodes,
)
from tests.database_suite.resources import (
    TestBios,
    TestChassis,
    TestFirmware,
    TestHistory,
    TestInspectionRules,
    TestInventory,
    TestPortgroups,
    TestPorts,
    TestRunbooks,
    TestTemplates,
    TestVolumes,
)

__all__ = [
    "TestAdoption",
    "TestAllocations",
    "TestBios",
    "TestChassis",
    "TestConditions",
    "TestConductors",
    "TestFilters",
    "TestFirmware",
    "TestHistory",
    "TestInspectionRules",
    "TestInventory",
    "TestLock",
    "TestOnlineMigrations",
    "TestPages",
    "TestPortgroups",
    "TestPorts",
    "TestReadingNodes",
    "TestRunbooks",
    "TestSchema",
    "TestTemplates",
    "TestTraits",
    "TestUpgrade",
    "TestVersionCheck",
    "TestVolumes",
    "TestWritingNodes",
    "upstream_facts",
]

from tests.unit.conductor.flowkit import empty_database, world

__all__ = ["empty_database", "world"]

"""Writes under a condition, on every database."""

from __future__ import annotations

import pytest

from ironic_rs.db import (
    allocations,
    chassis,
    inspection_rules,
    nodes,
    revision,
    runbooks,
    templates,
)
from ironic_rs.domain import errors
from tests.database_suite.setup import in_threads, make_node


def describe(record):
    """A change that can be seen how often it was made."""
    return {"description": f"{record.description or ''}x"}


def described(record):
    return record.description


def count(record):
    """The same for what has no description."""
    return {"extra": {"n": record.extra.get("n", 0) + 1}}


def counted(record):
    return "x" * record.extra.get("n", 0)


STEP = {"interface": "deploy", "step": "s", "args": {}}
TEMPLATE = {"name": "CUSTOM_T", "steps": [{**STEP, "priority": 1}]}
RUNBOOK = {"name": "r", "steps": [{**STEP, "order": 1}], "traits": ["CUSTOM_A"]}
#: Module, what is created, a change, and what tells how often the change was made.
KINDS = {
    "chassis": (chassis, {}, describe, described),
    "rule": (inspection_rules, {"actions": [{"op": "fail"}]}, describe, described),
    "template": (templates, TEMPLATE, count, counted),
    "runbook": (runbooks, RUNBOOK, describe, described),
}


@pytest.mark.usefixtures("db")
class TestConditions:
    """Changes and deletions that need a revision (RFC 9110 If-Match)."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_change_needs_the_revision(self, kind):
        module, given, change, seen = KINDS[kind]
        record = module.create(given)
        first = revision.of_record(record)
        assert revision.of_record(module.get(record.uuid)) == first
        if hasattr(module, "REVISION_COLUMNS"):
            row = module.select(module.REVISION_COLUMNS, {"uuid": record.uuid})[0]
            assert module.revision_of(row) == first

        def write(if_match):
            return module.change(record.uuid, revision.guarded(change, if_match))

        second = revision.of_record(write(["x", first]))
        assert second != first
        for stale in ([], [first]):
            with pytest.raises(errors.PreconditionFailed):
                write(stale)
            with pytest.raises(errors.PreconditionFailed):
                module.destroy(record.uuid, stale)
        assert seen(module.get(record.uuid)) == "x"
        write(None)
        module.destroy(record.uuid, [revision.of_record(module.get(record.uuid))])
        with pytest.raises(errors.NotFound):
            module.destroy(record.uuid, ["x"])

    @pytest.mark.parametrize("kind", KINDS)
    def test_of_many_at_once_one_wins(self, kind):
        module, given, change, seen = KINDS[kind]
        record = module.create(given)
        guarded = revision.guarded(change, [revision.of_record(record)])
        results = in_threads(8, lambda place: module.change(record.uuid, guarded))
        lost = [r for r in results if isinstance(r, errors.PreconditionFailed)]
        assert len(lost) == 7, results
        assert seen(module.get(record.uuid)) == "x"

    def test_an_allocation_is_deleted_as_it_was_read(self):
        record = allocations.create({"resource_class": "x"})
        first = [revision.of_record(allocations.get(record.id))]
        allocations.change(record.uuid, lambda _: {"extra": {"a": 1}})
        with pytest.raises(errors.PreconditionFailed):
            allocations.destroy(record.uuid, if_match=first)
        assert allocations.destroy(
            record.uuid, if_match=[revision.of_record(allocations.get(record.id))]
        )

    def test_the_lock_of_a_node_leaves_its_revision_alone(self):
        node = make_node()
        first = revision.of_record(nodes.get(node.id))
        held = nodes.reserve(node.id, "h")
        assert revision.of_record(held) == first
        nodes.release(node.id, "h")
        assert revision.of_record(nodes.get(node.id)) == first
        nodes.reserve(node.id, "dead")
        nodes.take_over_lock(node.id, "dead", "h")
        nodes.clear_own("h")
        after = nodes.get(node.id)
        assert (after.reservation, revision.of_record(after)) == (None, first)
        row = nodes.select(nodes.REVISION_COLUMNS, {"id": node.id})[0]
        assert nodes.revision_of(row) == first
        nodes.set_traits(node.id, ["CUSTOM_A"])
        assert revision.of_record(nodes.get(node.id)) != first

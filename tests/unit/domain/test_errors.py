"""Errors: what they tell programs beside their text."""

from __future__ import annotations

import datetime

from ironic_rs.domain import errors

SINCE = datetime.datetime(2026, 11, 29, 12, 0, 5, 123456, tzinfo=datetime.UTC)


def test_a_lock_tells_its_holder_after_the_text_that_clients_know() -> None:
    error = errors.NodeLocked(node="n", host="h").held_by("n", "h", "node deployment", SINCE)
    assert str(error) == (
        "Node n is locked by host h, please retry after the current operation is completed. "
        "Lock of h: node deployment, since 2026-11-29T12:00:05+00:00."
    )
    assert error.details == {
        "lock": {
            "node": "n",
            "host": "h",
            "operation": "node deployment",
            "since": "2026-11-29T12:00:05+00:00",
        }
    }


def test_what_is_not_known_of_a_holder_is_null_and_not_in_the_text() -> None:
    error = errors.NodeLocked(node="n", host="h").held_by("n", "h")
    assert str(error).endswith("after the current operation is completed.")
    assert error.details["lock"] == {"node": "n", "host": "h", "operation": None, "since": None}


def test_the_lock_of_a_coupled_node_is_told_with_the_node_itself() -> None:
    cause = errors.NodeLocked(node="p", host="h").held_by("p", "h", "node update", SINCE)
    error = errors.ParentNodeLocked(parent="p", node="n").of(cause)
    assert error.details == cause.details
    assert "Parent node p of node n is locked" in str(error)
    assert "Lock of h: node update, since 2026" in str(error)
    assert errors.ChildNodeLocked(child="c", node="n").of(errors.NodeLocked("x")).details == {}

"""The state machine is the table of the specification."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ironic_rs.domain import errors, states, steps


def test_there_are_30_states_and_93_transitions():
    assert len(states.STATES) == 30
    assert sum(len(s.events) for s in states.STATES.values()) == 93


@pytest.mark.parametrize("state", list(states.STATES))
def test_every_transition_leads_to_a_known_state(state):
    for event, target in states.STATES[state].events.items():
        assert states.next_state(state, event) == target
        assert target in states.STATES


def test_an_illegal_event_names_state_event_and_what_is_possible():
    with pytest.raises(errors.InvalidState, match=r"'deploy'.*'enroll'.*manage"):
        states.next_state("enroll", "deploy")


def test_manual_cleaning_keeps_its_target_when_told_so():
    state, target = states.advance("manageable", None, "clean", "manageable")
    assert (state, target) == ("cleaning", "manageable")
    assert states.advance(state, target, "wait", "manageable") == ("clean wait", "manageable")


def test_automated_cleaning_aims_at_available():
    assert states.advance("manageable", None, "provide") == ("cleaning", "available")


def test_a_stable_state_has_no_target():
    assert states.advance("verifying", "manageable", "done") == ("manageable", None)


def test_an_unstable_target_is_refused():
    with pytest.raises(errors.InvalidState, match="not a stable"):
        states.advance("manageable", None, "clean", "clean wait")


@pytest.mark.parametrize("kind", steps.KINDS.values(), ids=list(steps.KINDS))
def test_the_state_tells_whose_step_runs_whatever_an_earlier_flow_left(kind):
    left = {k.field: {"interface": "raid", "step": "old"} for k in steps.KINDS.values()}
    for state in (kind.running, kind.wait, kind.hold, kind.failed):
        node = SimpleNamespace(uuid="u", provision_state=state, driver_internal_info={}, **left)
        assert steps.kind_of(node) is kind
        assert steps.wait_state(node) == kind.wait

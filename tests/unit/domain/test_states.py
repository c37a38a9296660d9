"""The state machine is the table of the specification."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors, states


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

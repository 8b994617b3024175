"""The transition table, walked whole: every state with every event."""

from __future__ import annotations

import itertools

import pytest

from settled.core.answer import STATUS_OF
from settled.core.states import FINAL, MAY_HAVE_EFFECT, TABLE, UNSETTLED, Event, IllegalTransition, State, next_state

EXPECTED = """
processing: claim>processing begin>processing ended>processing succeed>succeeded fail>failed absent>not_done \
park>parked split>partial doubt>unknown ask_leave>awaiting_approval
unknown: claim>processing succeed>succeeded fail>failed absent>not_done split>partial hold>unknown
not_done: claim>processing succeed>succeeded split>partial fail>failed ask_leave>awaiting_approval expire>expired
parked: claim>processing succeed>succeeded split>partial absent>not_done expire>expired ask_leave>awaiting_approval
succeeded: undo>compensating expire>expired
failed: expire>expired
partial: succeed>succeeded fail>failed undo>compensating expire>expired
awaiting_approval: grant>not_done refuse>refused succeed>succeeded expire>expired
refused: expire>expired
compensating: undone>compensated hold>compensating
compensated: expire>expired
expired:
"""


def expected() -> dict[tuple[State, Event], State]:
    """What may follow what; notes and disputes change no state, in any."""
    rows = {}
    for line in EXPECTED.strip().splitlines():
        name, _, steps = line.partition(":")
        for step in steps.split():
            event, _, after = step.partition(">")
            rows[State(name), Event(event)] = State(after)
    same = {(state, event): state for state in State for event in (Event.NOTE, Event.DISPUTE)}
    return rows | same


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_state_with_every_event(state: State, event: Event) -> None:
    after = expected().get((state, event))
    if after is None:
        with pytest.raises(IllegalTransition, match=f"{event} is not possible for a call that is {state}"):
            next_state(state, event)
    else:
        assert next_state(state, event) is after


def test_the_table_names_every_state() -> None:
    assert set(TABLE) == set(State) == set(STATUS_OF)


def test_final_states_are_left_only_by_expiry_and_undoing() -> None:
    leaving = {event for state in FINAL for event, after in TABLE[state].items() if after is not state}
    assert leaving == {Event.EXPIRE, Event.UNDO}


def test_nothing_leads_back_from_a_settled_call_to_doubt() -> None:
    into_doubt = {state for state, row in TABLE.items() if Event.DOUBT in row}
    assert into_doubt == {State.PROCESSING}
    assert {State.PROCESSING, State.UNKNOWN} == UNSETTLED
    assert State.NOT_DONE not in MAY_HAVE_EFFECT
    assert State.FAILED not in MAY_HAVE_EFFECT

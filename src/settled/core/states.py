"""The states of a recorded call and the one table of what may follow what.

``next_state`` is the only way to change a state. An event that has no row for a state is refused, never ignored.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a recorded call stands."""

    PROCESSING = "processing"
    """An owner is at work on it, or was when it died: its lease tells."""
    SUCCEEDED = "succeeded"
    """It happened."""
    FAILED = "failed"
    """Proved not done, and a repeat would fail again."""
    NOT_DONE = "not_done"
    """Proved not done; it may be tried again."""
    PARKED = "parked"
    """Proved not done so far, and to be tried not before a given time."""
    PARTIAL = "partial"
    """Done in part."""
    UNKNOWN = "unknown"
    """It may have happened, and nobody at work on it knows."""
    AWAITING_APPROVAL = "awaiting_approval"
    """It waits for a person: who approves it, or who does it by hand."""
    REFUSED = "refused"
    """A person refused it, or its run was undone or rewound while it waited."""
    COMPENSATING = "compensating"
    """It happened, and is being undone, or could not be undone so far."""
    COMPENSATED = "compensated"
    """It happened, and was undone."""
    EXPIRED = "expired"
    """Past its retention: this tombstone bars its key."""


class Event(StrEnum):
    """What can happen to a recorded call."""

    CLAIM = "claim"
    """An owner takes the call and puts the intent of an attempt on record, in one commit."""
    BEGIN = "begin"
    """The owner puts the intent of a further attempt on record."""
    ENDED = "ended"
    """An attempt's end is on record; the owner goes on."""
    SUCCEED = "succeed"
    """The effect happened: the attempt's own answer, late evidence, a probe or a person."""
    FAIL = "fail"
    """Proved not done, and repeating is pointless."""
    ABSENT = "absent"
    """Proved not done; it may be tried again."""
    PARK = "park"
    """Proved not done so far, and to be tried not before a given time."""
    SPLIT = "split"
    """Done in part."""
    DOUBT = "doubt"
    """It may have happened and nobody at work on it knows."""
    NOTE = "note"
    """Evidence was added that changes no state."""
    DISPUTE = "dispute"
    """Evidence speaks against a final state."""
    HOLD = "hold"
    """A person keeps it as it is."""
    ASK_LEAVE = "ask_leave"
    """A person is asked for approval, or to do it by hand."""
    GRANT = "grant"
    """A person approves it: whoever asks next makes it."""
    REFUSE = "refuse"
    """A person refuses it, or its run is undone or rewound while it waits."""
    UNDO = "undo"
    """Its compensation begins."""
    UNDONE = "undone"
    """It is undone: by its compensation, or by a person."""
    EXPIRE = "expire"
    """Past its retention: a tombstone stays."""


_S, _E = State, Event
_ANYTIME = (_E.NOTE, _E.DISPUTE)

TABLE: dict[State, dict[Event, State]] = {
    _S.PROCESSING: {
        _E.CLAIM: _S.PROCESSING,
        _E.BEGIN: _S.PROCESSING,
        _E.ENDED: _S.PROCESSING,
        _E.SUCCEED: _S.SUCCEEDED,
        _E.FAIL: _S.FAILED,
        _E.ABSENT: _S.NOT_DONE,
        _E.PARK: _S.PARKED,
        _E.SPLIT: _S.PARTIAL,
        _E.DOUBT: _S.UNKNOWN,
        _E.ASK_LEAVE: _S.AWAITING_APPROVAL,
    },
    _S.UNKNOWN: {
        _E.CLAIM: _S.PROCESSING,  # only for tools that may be repeated, and for an asker who is there
        _E.SUCCEED: _S.SUCCEEDED,
        _E.FAIL: _S.FAILED,
        _E.ABSENT: _S.NOT_DONE,
        _E.SPLIT: _S.PARTIAL,
        _E.HOLD: _S.UNKNOWN,
    },
    _S.NOT_DONE: {
        _E.CLAIM: _S.PROCESSING,
        _E.SUCCEED: _S.SUCCEEDED,  # late evidence; always disputed
        _E.SPLIT: _S.PARTIAL,  # same
        _E.FAIL: _S.FAILED,
        _E.ASK_LEAVE: _S.AWAITING_APPROVAL,
        _E.EXPIRE: _S.EXPIRED,
    },
    _S.PARKED: {
        _E.CLAIM: _S.PROCESSING,
        _E.SUCCEED: _S.SUCCEEDED,
        _E.SPLIT: _S.PARTIAL,
        _E.ABSENT: _S.NOT_DONE,
        _E.ASK_LEAVE: _S.AWAITING_APPROVAL,
        _E.EXPIRE: _S.EXPIRED,
    },
    _S.SUCCEEDED: {_E.UNDO: _S.COMPENSATING, _E.EXPIRE: _S.EXPIRED},
    _S.FAILED: {_E.EXPIRE: _S.EXPIRED},
    _S.PARTIAL: {
        _E.SUCCEED: _S.SUCCEEDED,
        _E.FAIL: _S.FAILED,  # once each of its items has
        _E.UNDO: _S.COMPENSATING,
        _E.EXPIRE: _S.EXPIRED,
    },
    _S.AWAITING_APPROVAL: {
        _E.GRANT: _S.NOT_DONE,
        _E.REFUSE: _S.REFUSED,
        _E.SUCCEED: _S.SUCCEEDED,  # a person did it by hand
        _E.EXPIRE: _S.EXPIRED,
    },
    _S.REFUSED: {_E.EXPIRE: _S.EXPIRED},
    _S.COMPENSATING: {_E.UNDONE: _S.COMPENSATED, _E.HOLD: _S.COMPENSATING},
    _S.COMPENSATED: {_E.EXPIRE: _S.EXPIRED},
    _S.EXPIRED: {},
}
for _state, _row in TABLE.items():
    _row.update(dict.fromkeys(_ANYTIME, _state))

FINAL = frozenset({_S.SUCCEEDED, _S.FAILED, _S.REFUSED, _S.COMPENSATED, _S.EXPIRED})
"""No evidence changes them: only undoing the call, or the end of its retention, does."""
UNSETTLED = frozenset({_S.PROCESSING, _S.UNKNOWN})
"""The outcome is open."""
MAY_HAVE_EFFECT = frozenset({_S.SUCCEEDED, _S.UNKNOWN, _S.PROCESSING, _S.PARTIAL})


class IllegalTransition(ValueError):  # noqa: N818 - the name says what is wrong
    """The table has no row for this event in this state."""


def next_state(state: State, event: Event) -> State:
    """Return the state that ``event`` leads to, or raise ``IllegalTransition``."""
    try:
        return TABLE[state][event]
    except KeyError:
        raise IllegalTransition(f"{event} is not possible for a call that is {state}") from None

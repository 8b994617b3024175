"""What a recorded call means to a person: why its outcome is unknown, what was seen, what may be decided.

Pure: facts and words made of records, for whoever shows them. Times are seconds since 1970; to show them in a time
zone is the shower's matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from settled.core import rules
from settled.core.approval import leave
from settled.core.instead.by_hand import BY_HAND, is_by_hand
from settled.core.model import Effect, Standing
from settled.core.runs.closing import BY_ROLLBACK
from settled.core.states import State
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.call import Call
    from settled.core.doubt.settling import Verdict
    from settled.core.model import Attempt, Moment

Waiting = Literal["unknown", "orphan", "disputed", "undo", "approval", "by_hand"]

_STANDING = {
    Standing.OPEN: "no end is on record: it may have been done",
    Standing.NONE: "proved: nothing was done",
    Standing.MAYBE: "it may have been done",
    Standing.SOME: "a part was done",
    Standing.DONE: "it was done",
}
_DECIDED = {
    "answer": "by the tool's own answer",
    "late": "by an answer that came late",
    "probe": "by the tool's probe",
    "owner_lost": "since its process ended before anything was sent",
    BY_ROLLBACK: "by the rollback of its run",
    "rewind": "when its run was rewound",
}
ELSEWHERE = ("", "undo_unknown", "undo_awaiting_approval")
"""It is being undone; or what is to be decided about that lives, and waits, in the compensation's own record."""
_NOT_UNDONE = {
    "irreversible": "nothing undoes it",
    "no_compensation": "its tool names no compensation",
    BY_HAND: "a person did it by hand, and no program undoes that",
    "tool_missing": "the tool that undoes it is not known to the process that rolls back",
    "may_arrive": "a request of an earlier attempt may still arrive and would do it anew: it is undone after that",
    "undo_not_filled": "the arguments of its compensation cannot be made of what is on record",
    "undo_not_made": "its compensation could not be made so far, and may be tried again",
    "undo_failed": "its compensation was refused for good",
    "undo_refused": "a person refused its compensation",
    "undo_not_done": "its compensation was not done so far, and may be tried again",
    "undo_rejected": "its compensation was not tried so far",
    "undo_paused": "the tool that undoes it is paused; it is undone once the tool is resumed",
    "undo_in_progress": "another process is at its compensation",
    "undo_unknown": "it is not known whether its compensation was done",
    "undo_awaiting_approval": "its compensation waits for a person's leave",
}
_PERSON = "person:"
_CLOSED = {
    "deadline": "no time was left for another attempt",
    "attempts": "all its attempts were used up",
    "breaker_open": "the tool was left alone after too many failures",
}


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether and when a negative answer of the probe proves that nothing happened."""

    ready: bool
    """A negative answer to a probe that begins now is proof."""
    since: float | None
    """From when on it is proof; ``None``: not known yet, or never."""
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One verdict that a person may give, and what follows from it."""

    verdict: Verdict
    open: bool
    """It can be taken now, without force."""
    meaning: str
    asserted: bool
    """It would rest on the person's word alone, and be marked so."""


def waiting(call: Call, now: Moment) -> Waiting | None:
    """Return why the call stands in a person's queue; ``None`` if it does not."""
    if call.state is State.UNKNOWN:
        return "unknown"
    if call.state is State.PROCESSING and rules.lease_over(call, now) and may_have_acted(call):
        return "orphan"
    if leave.waits(call, now):
        return "by_hand" if is_by_hand(call) else "approval"
    if call.state is State.COMPENSATING and call.reason not in ELSEWHERE and not call.held:
        return "undo"
    return "disputed" if call.disputed and not call.held else None


def may_have_acted(call: Call) -> bool:
    """Whether an attempt of it may have had an effect that nobody knows of."""
    return bool(call.doubtful) and call.terms.effect is not Effect.READ


def why(call: Call, now: Moment) -> str:
    """Return in one or two sentences why the call waits for somebody, or how it came to stand as it does."""
    match waiting(call, now):
        case "unknown":
            return _why_unknown(call)
        case "orphan":
            return (
                f"its process has not renewed its lease and may be dead; attempt {call.doubtful[-1].no} had begun, "
                "so it may have been done"
            )
        case "disputed":
            recorded = f"it is recorded as {call.state} ({decided(call)})"
            return f"{recorded}, and evidence against that came later: {_against(call)}"
        case "approval":
            return f"it waits for a person's leave: {_leave_words(call)}"
        case "by_hand":
            return f"it is left to a person, to be done by hand{_wanted(call)}. Before that: {_before(call)}"
        case "undo":
            return f"its run was rolled back, and it is not undone: {not_undone(call)}"
        case None:
            return _how_it_stands(call)


def _wanted(call: Call) -> str:
    return f": {call.leave.why}" if call.leave is not None and call.leave.why else ""


def _before(call: Call) -> str:
    return call.leave.by_hand if call.leave is not None else ""


def _leave_words(call: Call) -> str:
    if call.leave is None:
        return ""
    agreed = f"{' and '.join(call.leave.by)} agreed" if call.leave.by else "nobody has agreed so far"
    several = f"; {agreed}, {call.leave.persons} must" if call.leave.persons > 1 else ""
    return f"{call.leave.why}{several}"


def _in_brief(call: Call) -> str:
    """What was not tried says why; what the other side said may be long."""
    return not_undone(call) if call.reason == "undo_rejected" else not_undone(replace(call, note=""))


def not_undone(call: Call) -> str:
    """Return in words why a step of a run that was rolled back is not undone."""
    text = _NOT_UNDONE.get(call.reason, call.reason.replace("_", " "))
    return f"{text} ({call.note})" if call.note else text


def brief(call: Call, now: Moment) -> str:
    """Return in a few words why the call waits for somebody; empty if it does not."""
    match waiting(call, now):
        case "disputed":
            return f"recorded as {call.state}, with evidence against"
        case "unknown" | "orphan":
            last = next(reversed(call.doubtful), None)
            return (
                last.fault.code.replace("_", " ")
                if last is not None and last.fault is not None
                else "its process was lost"
            )
        case "approval":
            return call.leave.why if call.leave else ""
        case "by_hand":
            return f"left to a person{_wanted(call)}"
        case "undo":
            return f"not undone: {_in_brief(call)}"
        case None:
            return ""


def _why_unknown(call: Call) -> str:
    text = "; ".join(_doubt(attempt) for attempt in call.doubtful) or "it may have been done"
    if call.reason in _CLOSED:
        text += f"; {_CLOSED[call.reason]}"
    return f"{text}. {_person(call)} holds it as it is: {call.reason}" if call.held else text


def _doubt(attempt: Attempt) -> str:
    if attempt.fault is None:
        return f"attempt {attempt.no} began, and its process was lost before the end was on record"
    return f"attempt {attempt.no} ended with {fault_words(attempt)}, after which it may have been done"


def _against(call: Call) -> str:
    done = [attempt.no for attempt in call.attempts if attempt.standing is Standing.DONE]
    if is_by_hand(call) and not done:
        return "a person did it by hand all the same; if it is to be undone, that is done by hand too"
    if call.state is State.SUCCEEDED and len(done) > 1:
        return f"attempts {_listed(done)} both had their effect, so it was done more than once"
    if done:
        return f"attempt {_listed(done)} had its effect"
    return "see its attempts and its log"


def _listed(numbers: list[int]) -> str:
    return " and ".join(str(number) for number in numbers)


def _how_it_stands(call: Call) -> str:
    if call.state is State.PROCESSING:
        return "it is under way"
    if call.state is State.NOT_DONE and call.leave is not None and call.leave.given and not call.leave.used:
        return f"leave was given by {', '.join(call.leave.by)}; it is made when its program asks for it again"
    if call.state is State.PARKED:
        return "proved not done so far; it is to be tried again later"
    by = f" ({decided(call)})" if call.decided else ""
    because = f": {call.reason}" if call.reason else ""
    return f"it is recorded as {call.state}{by}{because}"


def decided(call: Call) -> str:
    """Return in words who or what settled the call; empty if nothing did yet."""
    if call.decided.startswith(_PERSON):
        return f"by {_person(call)}"
    return _DECIDED.get(call.decided, call.decided)


def _person(call: Call) -> str:
    return call.decided.removeprefix(_PERSON)


def fault_words(attempt: Attempt) -> str:
    """Return how an attempt ended: the fault's code and what the other side said."""
    if attempt.fault is None:
        return "success" if attempt.standing is Standing.DONE else "no end on record"
    return f"{attempt.fault.code}: {attempt.fault.message}" if attempt.fault.message else attempt.fault.code


def evidence(attempt: Attempt, call: Call) -> str:
    """Return what is known of an attempt's effect."""
    if (
        call.asserted
        and attempt.standing is Standing.NONE
        and (attempt.fault is None or attempt.fault.evidence != "none")
    ):
        return f"{_person(call)} said: nothing was done"
    return _STANDING[attempt.standing]


def still_at_work(attempt: Attempt, call: Call, now: Moment, alive: bool | None) -> str:  # noqa: FBT001 - three-valued
    """Return whether anything can still come of an attempt; ``alive``: whether its process lives."""
    if attempt.over is not None:
        return "its function has ended here, or its process is dead; what it sent before may still arrive"
    if rules.is_over(attempt, call, now):
        return "its declared lifetime has passed: it sends nothing more"
    match alive:
        case True:
            return "it may still be at work: its process lives"
        case False:
            return "its process is dead: it sends nothing more, which the next reconcile notes"
        case None:
            return "it may still be at work: whether its process lives cannot be seen from here"


def proof(call: Call, now: Moment) -> Proof:
    """Return whether and when a negative answer of the tool's probe is proof (see ``rules.proves_absence``)."""
    if call.terms.lifetime is None:
        return Proof(
            ready=False,
            since=None,
            why="never: the tool declares no max_request_lifetime, so a request may take effect at any later time",
        )
    since = rules.proof_time(call, now)
    if since is None:
        return Proof(ready=False, since=None, why=_not_over(call, now))
    if (passed := now.since(since)) is not None and passed >= 0:
        return Proof(
            ready=True, since=since.wall, why="now: every attempt is over, and max_request_lifetime has passed"
        )
    return Proof(
        ready=False, since=since.wall, why="once max_request_lifetime has passed after the last attempt was over"
    )


def _not_over(call: Call, now: Moment) -> str:
    rest = f"; max_request_lifetime ({call.terms.lifetime:g} s) counts from then"
    open_ones = [attempt.no for attempt in call.doubtful if not rules.is_over(attempt, call, now)]
    if open_ones:
        return f"not yet: attempt {_listed(open_ones)} is not known to be over{rest}"
    return f"not yet: the machine was started anew since the attempts ended, and the wait begins again{rest}"


def choices(call: Call, now: Moment) -> tuple[Choice, ...]:
    """Return the verdicts that a person may give on the call as it stands; none if it waits for nobody."""
    kind = waiting(call, now)
    if kind is None:
        return ()
    if kind == "disputed":
        return (Choice("hold", open=True, meaning="seen: leave it as recorded, and out of the queue", asserted=False),)
    if kind == "approval":
        return ()  # leave is given or refused, which is no verdict on what happened
    if kind == "by_hand":
        return (Choice("happened", open=True, meaning="it was done by hand", asserted=True),)
    if kind == "undo":
        return (
            Choice("undone", open=True, meaning="it was undone by hand, on your word", asserted=True),
            Choice("hold", open=True, meaning="leave its effect as it is, and out of the queue", asserted=False),
        )
    ripe = proof(call, now).ready
    return (
        Choice("happened", open=True, meaning="it was done", asserted=True),
        Choice(
            "did_not_happen",
            open=ripe,
            meaning=_absent(call, ripe=ripe),
            asserted=not ripe,
        ),
        Choice(
            "hold", open=True, meaning="leave it unknown, and in the queue, under a name and a reason", asserted=False
        ),
    )


def _absent(call: Call, *, ripe: bool) -> str:
    if ripe:
        return "it was not done"
    if call.terms.lifetime is None:
        return "it was not done, on your word, since it cannot be proved"
    return "it was not done, on your word, although a request on its way may still take effect: better wait"


def repeatable(call: Call, now: Moment) -> bool:
    """Whether asking for the call again may settle it, since a repeat does no harm."""
    return call.state is State.UNKNOWN and rules.repeatable(call, now)

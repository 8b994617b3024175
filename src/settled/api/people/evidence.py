"""All that is known of a call, as plain data: what a person needs in order to decide on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.api.people import explain, facts
from settled.api.people.queue import living, run_of
from settled.api.people.story import name_of
from settled.core.approval.drafts import LookAtDraft
from settled.core.parts import LookAtItems

if TYPE_CHECKING:
    from settled.api.guard import Guard
    from settled.api.people.facts import Facts
    from settled.core.call import Call


def evidence(guard: Guard, call: Call) -> Facts:
    """Return all that is known of a call, with stable names."""
    journal, alive = guard.journal, living(call)
    now = journal.now()
    arguments, hidden = facts.arguments_of(guard, call)
    result, note = facts.result_of(guard, call)
    return {
        **facts.of_call(call, now),
        "run": run_of(journal, call),
        "undoes_what": _undone(guard, call),
        "arguments": arguments,
        "arguments_note": hidden,
        "leave": facts.of_leave(call),
        "result": result,
        "result_note": note,
        "draft": _draft(guard, call),
        "items": facts.of_items(journal.perform(LookAtItems(call.operation_id))[1]),
        "attempts": [facts.of_attempt(attempt, call, now, alive[attempt.no]) for attempt in call.attempts],
        "doubt": facts.of_doubt(call, now) if explain.waiting(call, now) else None,
        "log": [facts.of_log(row) for row in journal.log(call.operation_id)],
    }


def _undone(guard: Guard, call: Call) -> str | None:
    """Return the step that a compensation undoes, as it could have been written."""
    step = guard.journal.get(facts.undone_by(call) or "")
    return None if step is None else name_of(guard, step)


def _draft(guard: Guard, call: Call) -> Facts | None:
    """Return the draft that the call confirms: what a person who gives leave gives it to."""
    draft = guard.journal.perform(LookAtDraft(call.operation_id))[1] if call.terms.drafted else None
    if draft is None:
        return None
    result, note = facts.result_of(guard, draft)
    return {"operation_id": draft.operation_id, "state": str(draft.state), "result": result, "note": note}

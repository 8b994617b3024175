"""Words for people and models: what an answer means, and what to do next. One place for all of them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from settled.core.instead.by_hand import BY_HAND
from settled.core.matching.match import HARMLESS
from settled.core.runs.closing import BY_ROLLBACK
from settled.core.runs.entering import run_of

if TYPE_CHECKING:
    from settled.api.calls.result import Next
    from settled.core.answer import Answer

_MESSAGES = {
    "succeeded": "done",
    "failed": "not done, and repeating it would fail again",
    "not_done": "not done; it may be tried again",
    "partial": "done in part; only what failed may be repeated",
    "unknown": "the outcome is unknown: it may have happened. Do not do it again in any other way. To ask for the same "
    "call again ",
    "in_progress": "this call is under way; ask for it again later, do not start another one",
    "awaiting_approval": "waits for a person's approval",
    "refused": "a person refused it",
    "compensating": "it is being undone",
    "compensated": "it was done and then undone, and is not done again under the same key",
    "expired": "this key was used for a call whose record has expired; nothing was executed",
    "conflict": "this key belongs to a call with other arguments; nothing was executed",
    "invalid": "the arguments do not fit the tool; nothing was executed",
    "rejected": "nothing was tried",
}
_REJECTED = {
    "breaker_open": "the tool fails too often at the moment; nothing was tried",
    "deadline": "there is no time left; nothing was tried",
    "superseded": "another process works on this run now; nothing was tried",
    "untold_before": "nothing was done now: this tool has made the calls listed here before. If one of them is what "
    "you want, do not make it again: it is done if it has succeeded, and may be done if it has not. Otherwise make "
    "your call again",
    "untold_blocked": "nothing was done: this tool has made the calls listed here before. If one of them is what you "
    "want, do not make it again: it is done if it has succeeded, and may be done if it has not. Another one is made "
    "only once somebody else says that it is meant",
    "unknown_before": "nothing was done: the outcome of the calls listed here is unknown, and until it is settled this "
    "tool is not called again",
    "unsettled_before": "nothing was done: it cannot be undone, and the calls listed here, made before it, are unknown "
    "or under way",
    "paused": "the tool is paused by those who look after it; nothing was tried",
    "rolled_back": "this run was rolled back; nothing was tried",
    "run_ended": "the run that this agent had joined has ended; nothing was tried",
    "not_in_token": "the token with which this agent has joined the run does not name this tool; nothing was tried",
}
_TURNED_AWAY = "not done, and not before a person has put right what stands in the way"
_BY_HAND = "not done yet: it is left to a person, who does it by hand; do not do it in any other way"
_NEXT: dict[str, Next] = {
    "succeeded": "done",
    "failed": "give_up",
    "not_done": "ask_again",
    "partial": "ask_human",
    "unknown": "ask_human",
    "in_progress": "wait",
    "awaiting_approval": "wait",
    "compensating": "wait",
    "conflict": "fix_arguments",
    "invalid": "fix_arguments",
}
_NEXT_REJECTED: dict[str, Next] = {
    "breaker_open": "wait",
    "untold_before": "ask_again",
    "untold_blocked": "ask_human",
    "unknown_before": "ask_human",
    "unsettled_before": "wait",
    "paused": "wait",
}
_TO_BE_LOOKED_AT = ("unknown", "partial", "awaiting_approval")
_LISTED = {
    "breaker_open": "settled breakers list",
    "paused": "settled tools list",
    "unknown_before": "settled queue list",
    "unsettled_before": "settled queue list",
}


def message(answer: Answer) -> str:
    """Return what the answer means; for a failure with what the other side said, for a refusal with its reason."""
    if answer.status == "succeeded":
        return _MESSAGES[answer.status]
    text = _REJECTED.get(answer.reason, "") if answer.status == "rejected" else ""
    text = text or (_BY_HAND if _is_left(answer) else "") or (_TURNED_AWAY if _is_turned_away(answer) else "")
    text = text or _MESSAGES[answer.status]
    if answer.status == "refused" and answer.call is not None and answer.call.decided == BY_ROLLBACK:
        text = "not done, and it never is"
    if answer.status == "unknown":
        harmless = answer.call is not None and answer.call.terms.effect in HARMLESS
        text += "does no harm, and may settle it" if harmless else "only looks it up"
    said = answer.fault.message if answer.fault and answer.status in ("failed", "not_done") else ""
    said = answer.reason if answer.status == "refused" else said
    said = answer.note if answer.reason == "paused" else said
    code = answer.fault.code if answer.fault and answer.status in ("failed", "not_done", "unknown") else ""
    head, mark, tail = text.partition(":") if answer.status == "unknown" else (text, "", "")
    return head + (f" ({code})" if code else "") + mark + tail + (f": {said}" if said else "")


def _is_left(answer: Answer) -> bool:
    return answer.status == "awaiting_approval" and answer.reason == BY_HAND


def _is_turned_away(answer: Answer) -> bool:
    """Whether it is not the call that failed, but something around it: credentials, a certificate."""
    fault = answer.fault
    if answer.status != "not_done" or fault is None or fault.final:
        return False
    return fault.kind == "permanent" and fault.evidence == "none"


def next_step(answer: Answer) -> Next:
    """Return what the asker should do."""
    if answer.status == "rejected":
        return _NEXT_REJECTED.get(answer.reason, "give_up")
    if answer.status == "failed" and answer.fault and answer.fault.kind == "invalid":
        return "fix_arguments"
    if answer.status == "not_done" and answer.retry_after is not None:
        return "wait"
    if _is_turned_away(answer):
        return "ask_human"
    if answer.status == "unknown" and answer.call is not None and answer.call.terms.probed:
        return "ask_again"
    return _NEXT.get(answer.status, "give_up")


def hint(answer: Answer) -> str:
    """Return what an operator can type; empty where there is nothing to look at."""
    call = answer.call
    run_id = run_of(call.scope) if answer.status == "conflict" and call is not None else None
    if call is not None and run_id is not None:
        return f"settled runs rewind {shlex.quote(run_id)} --from {call.operation_id}"
    if call is not None and answer.status == "conflict":
        return f"settled calls show {call.operation_id}"
    if call is not None and answer.status in _TO_BE_LOOKED_AT:
        return f"settled queue show {call.operation_id}"
    return _LISTED.get(answer.reason, "") if answer.status == "rejected" else ""


def may_retry(answer: Answer) -> bool:
    """Return whether asking again for the same call may bring another answer."""
    return (answer.status in ("not_done", "in_progress", "awaiting_approval") and not _is_turned_away(answer)) or (
        answer.status == "rejected" and answer.reason in _NEXT_REJECTED
    )

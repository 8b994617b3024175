"""A person's verdict: read from the command line, tried out, given; and the commands that would give one."""

import json
import shlex
from typing import Any

from settled.api.people import care, explain, facts
from settled.api.people.deciding_many import Ruling, rehearsed, rule
from settled.api.tools.schema import BadArguments
from settled.api.vault import SEALED
from settled.cli.exits import Exit, Problem, refusals
from settled.cli.target import Target
from settled.core.call import Call
from settled.core.encoding.strict_json import InvalidJson, parse
from settled.core.instead.by_hand import BY_HAND
from settled.core.model import Moment
from settled.core.runs.entering import run_of
from settled.core.states import State


def check_options(verdict: str, *, reason: str, result: str | None, then: object, force: bool) -> None:
    """Refuse options that do not go with the verdict, and a reason that is none."""
    if not any(character.isalnum() for character in reason):
        raise Problem(Exit.USAGE, "--reason says in words how you know; it stays on record with the verdict")
    if result is not None and verdict != "happened":
        raise Problem(Exit.USAGE, "--result goes with happened: only what happened has a result")
    if verdict != "did-not-happen" and (then is not None or force):
        raise Problem(Exit.USAGE, f"{'--then' if then is not None else '--force'} goes with did-not-happen")


def read_result(target: Target, call: Call, text: str | None) -> Any:
    """Return the result that was typed, checked against the tool's declared type where the tool is known."""
    if text is None:
        return care.NOT_GIVEN
    if call.arguments.startswith(SEALED) and not target.guard.vault.encrypts:
        raise Problem(
            Exit.REFUSED, "this record is encrypted, and so must its result be: give --app, whose guard has the key"
        )
    try:
        parse(text)  # strictly, whatever the type takes: of a name that is given twice one value would be dropped
        return care.tool_of(target.guard, call).schema.read_result(text)
    except (BadArguments, InvalidJson) as error:
        quoted = "; it is JSON: a text stands in quotes, as in --result '\"ord_17\"'" if not _is_json(text) else ""
        raise Problem(Exit.USAGE, f"--result does not fit {call.tool}: {error}{quoted}") from error


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def try_out(target: Target, call: Call, ruling: Ruling) -> Call:
    """Return how the call would stand, by the journal's own rules, without changing it."""
    after = rehearsed(target.guard, call, ruling)
    if after.why:
        raise Problem(Exit.REFUSED, f"{call.operation_id}: {after.why}")
    return after.call


def give(target: Target, call: Call, ruling: Ruling) -> Call:
    """Give the verdict; return how the call stands then."""
    with refusals():
        rule(target.guard, call, ruling)
    return target.call(call.operation_id)


def standing(call: Call, now: Moment) -> str:
    """Return how a call stands after a verdict, and whether it still waits."""
    if call.state is State.COMPENSATING and call.held:
        return "left as it is, and not undone; out of the queue"
    marks = " on a person's word (asserted)" if call.asserted else ""
    marks += "; what it returned was not said" if call.state is State.SUCCEEDED and call.result is None else ""
    still = "still in the queue" if explain.waiting(call, now) else "out of the queue"
    asks = "settled runs resume asks" if facts.undone_by(call) else "its program asks"
    waits = f"; it runs when {asks} for it again" if call.state is State.NOT_DONE else ""
    return f"{call.state}{marks}, {still}{waits}"


FOR_GOOD = ("undo_failed", "irreversible", "no_compensation", BY_HAND)
"""Why a step is not undone, where to try again brings nothing."""


def leave_words(call: Call) -> str:
    """Return how a call stands after a person's decision on it."""
    if call.state is State.REFUSED:
        return "refused; it is never made"
    if call.state is State.AWAITING_APPROVAL and call.leave is not None:
        return f"{len(call.leave.by)} of {call.leave.persons} have agreed; it still waits"
    return "leave is given; it is made when its program asks for it again, or now if it waits"


def commands(target: Target, call: Call) -> list[dict[str, str]]:
    """Return the commands that a person may type next, with what each means; ``...`` is to be filled in."""
    now, options, app = target.journal.now(), target.given.options(), target.given.app_wanted()
    found = []
    if call.terms.probed and call.state in (State.UNKNOWN, State.PROCESSING) and explain.waiting(call, now):
        found.append(("ask the tool's own system", f"settled queue probe {call.operation_id}{app}"))
    run = run_of(call.scope)
    if explain.waiting(call, now) == "approval":
        found.append(("give leave, for this call as it stands, once", f"settled queue approve {call.operation_id}"))
        found.append(("it is never made", f"settled queue refuse {call.operation_id} --reason '...'"))
    if explain.waiting(call, now) == "by_hand":
        found.append(("it is not done, and is not to be", f"settled queue refuse {call.operation_id} --reason '...'"))
    if explain.waiting(call, now):
        found.append(
            ("say that you look at it, so that nobody else decides", f"settled queue claim {call.operation_id}")
        )
    if explain.waiting(call, now) == "undo" and run is not None and call.reason not in FOR_GOOD:
        found.append(("try to undo it once more", f"settled runs resume {shlex.quote(run)}{app}"))
    for choice in explain.choices(call, now):
        name, forced = choice.verdict.replace("_", "-"), "" if choice.open else " --force --yes"
        for more, meaning in _WAYS[choice.verdict]:
            words = f"settled queue resolve {call.operation_id} {name}{more}{forced} --reason '...'"
            found.append((f"{choice.meaning}{meaning}", words))
    return [{"meaning": meaning, "command": f"{words}{options}"} for meaning, words in found]


_WAYS = {
    "happened": ((" --result '...'", " (its result as JSON: a program that needs it stops without it)"),),
    "did_not_happen": ((" --then rerun", "; it may run again"), (" --then fail", "; it has failed for good")),
    "hold": (("", ""),),
    "undone": (("", ""),),
}
"""Verdict -> further options, and what they add to its meaning."""

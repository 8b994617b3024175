"""Letters that are drafted, wait for leave, and are sent or thrown away; killed anywhere, by agent, person and worker.

The books hold what happened to each draft, and what persons did: ``leave`` before it is given, ``refusal`` once it is
on record.
"""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import settled
from settled.api.people.queue import waiting
from settled.core.encoding import codec
from settled.core.states import State
from settled.errors import DeclarationError
from settled.testing.kill import sagas
from settled.testing.kill.aftermath import dead, not_undone, order_of, state_of_run
from settled.testing.kill.ledger import Effect
from settled.testing.kill.sagas import GivenUp
from settled.testing.kill.script import Script, asked, by_order
from settled.testing.kill.service import Action, either

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.call import Call
    from settled.testing.kill.script import Flow
    from settled.testing.kill.stage import Stage

PATIENCE = 1800.0
"""Seconds that a person has to decide: less than the hour by which the clock is put forward for who comes later."""
WILLS = {"wanted": "give", "unwanted": "refuse", "disputed": "either", "forgotten": "none", "blind": "give"}
"""Letter -> what persons do about it; of the disputed one each says otherwise."""
LETTERS = tuple(Action("post" if order == "blind" else "mail", order) for order in WILLS)


# --- what a process does --------------------------------------------------------------------------


def declare(stage: Stage) -> None:
    """Declare letters, whose drafts and effects can be looked up but for one that cannot."""
    guard, is_async, office = stage.guard, stage.plan.is_async, Office(stage)
    probed: dict[str, Any] = {"probe": stage.service.find, "max_request_lifetime": 0.02, "max_attempt_lifetime": 600.0}
    alone: dict[str, Any] = {"effect": "write", "breaker": None, "identity": ("order",)}
    for name in ("write", "recall"):
        guard.tool(name=name, **alone, **probed)(either(getattr(office, name), is_async=is_async))
    own = {"effect": "write", "breaker": None, **probed}
    guard.tool(name="throw_away", **own)(either(office.throw_away, is_async=is_async))
    send = either(office.send, is_async=is_async)
    parts: dict[str, Any] = {"draft": "write", "confirm": send, "discard": "throw_away", "compensate": "recall"}
    waits: dict[str, Any] = {"approve": True, "approve_within": PATIENCE}
    guard.tool(name="mail", **alone, **probed, **parts, **waits)(either(_letter, is_async=is_async))
    guard.tool(name="post", **alone, **parts, **waits)(either(_letter, is_async=is_async))


def _letter(order: str) -> str:
    """Send a letter."""
    raise LookupError(f"{order}: the tool's own function is never called")


class Office:
    """Writes letters, sends them, throws them away and takes them back."""

    def __init__(self, stage: Stage) -> None:
        self._service = stage.service

    def write(self, order: str) -> str:
        """Return a new draft."""
        return self._do("write", order, f"{order}-{token_hex(4)}")

    def send(self, order: str, draft: str) -> str:
        """Send a draft."""
        return self._do("mail", order, draft)

    def throw_away(self, draft: str) -> str:
        """Throw a draft away."""
        return self._do("throw_away", draft.rpartition("-")[0], draft)

    def recall(self, order: str) -> str:
        """Take a letter back."""
        return self._do("recall", order, order)

    def _do(self, what: str, order: str, value: str) -> str:
        return self._service.happen(Effect(what, order, settled.current_call().key, value))


def asking(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask for each letter."""
    for action in actions:
        yield from asked(stage, action)


def deciding(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Decide on every letter that waits, as a person does."""
    del actions
    if stage.plan.is_async:
        asyncio.run(_decide_all(stage))
    else:
        for call in waiting(stage.journal):
            _decide(stage, call)
    yield from ()


async def _decide_all(stage: Stage) -> None:
    """Decide where a loop runs: then a worker throws away what was refused."""
    for call in waiting(stage.journal):
        _decide(stage, call)


def _decide(stage: Stage, call: Call) -> None:
    order = order_of(call)
    will = WILLS[order] if call.state is State.AWAITING_APPROVAL else "none"
    if will == "either":
        will = "give" if stage.plan.entry % 2 else "refuse"
    try:
        if will == "give":
            stage.ledger.write(Effect("leave", order, call.operation_id, stage.plan.name))
            stage.guard.approve(call.operation_id, by=stage.plan.name)
        elif will == "refuse":
            stage.guard.refuse(call.operation_id, by=stage.plan.name, reason="not now")
            stage.ledger.write(Effect("refusal", order, call.operation_id, stage.plan.name))
    except DeclarationError:  # another one was faster, or it was too late
        stage.fuse.cross("too late")


def giving_up(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask for each letter, and give up: what was sent is taken back, and drafts are thrown away."""
    yield from asking(stage, actions)
    raise GivenUp("wrong address")


# --- the judge ------------------------------------------------------------------------------------


def end(stage: Stage) -> list[str]:
    """Say what is wrong with the letters of a run that was not undone."""
    problems = _letters(stage)
    for order, will in WILLS.items():
        done = [effect.tool for effect in stage.ledger.of(order)]
        stands = "in the queue" if _queued(stage, order) else "nowhere"
        if will == "give" and "mail" not in done and stands == "nowhere":
            problems.append(f"{order}: leave was given, and it is neither sent nor in the queue")
        if will in ("refuse", "none") and "mail" in done:
            problems.append(f"{order}: sent, and nobody gave leave")
        if "recall" in done:
            problems.append(f"{order}: taken back, and nobody gave up")
    return problems


def end_undone(stage: Stage) -> list[str]:
    """Say what is wrong with the letters of a run that was undone."""
    state = state_of_run(stage)
    problems = _letters(stage, undone=True)
    for order in WILLS:
        done = [effect.tool for effect in stage.ledger.of(order)]
        if "mail" in done and "recall" not in done and not (_queued(stage, order) and state != "compensated"):
            problems.append(f"{order}: sent, and neither taken back nor in the queue of a run undone in part ({state})")
        if done.count("recall") > done.count("mail"):
            problems.append(f"{order}: taken back, and it was not sent")
    return problems + not_undone(state)


def _letters(stage: Stage, *, undone: bool = False) -> list[str]:
    problems = []
    for order in WILLS:
        books = stage.ledger.of(order)
        sent = [effect for effect in books if effect.tool == "mail"]
        problems += [f"{order}: {what}" for what in _of_one(books, sent)]
        problems += [f"{order}: draft {what}" for what in _drafts(stage, order, books, sent, undone=undone)]
        problems += _told(stage, order, sent)
    problems += [f"{order_of(call)} ({call.tool}) waits without a doubt" for call in _needless(stage)]
    return problems


def _of_one(books: Sequence[Effect], sent: Sequence[Effect]) -> list[str]:
    tools = [effect.tool for effect in books]
    before = tools[: tools.index("mail")] if sent else []
    found = [
        (len(sent) > 1, f"sent {len(sent)} times"),
        (bool(sent) and "leave" not in before, "sent without leave"),
        (bool(sent) and "refusal" in tools and not _same(books), "sent though it was refused"),
        (tools.count("recall") > 1, "taken back twice"),
    ]
    return [what for wrong, what in found if wrong]


def _same(books: Sequence[Effect]) -> bool:
    """Whether a leave and a refusal are of two asks: nobody had decided on the first in time."""
    leave = {effect.key for effect in books if effect.tool == "leave"}
    return not leave & {effect.key for effect in books if effect.tool == "refusal"}


def _drafts(stage: Stage, order: str, books: Sequence[Effect], sent: Sequence[Effect], *, undone: bool) -> list[str]:
    """Each draft is sent, or thrown away, or still there for a letter that waits: one of these."""
    problems, made = [], [effect.value for effect in books if effect.tool == "write"]
    thrown = [effect.value for effect in books if effect.tool == "throw_away"]
    confirmed = {effect.value for effect in sent}
    for draft in {*made, *thrown, *confirmed}:
        if draft not in made:
            problems.append(f"{draft} was never written")
        if draft in confirmed and draft in thrown:
            problems.append(f"{draft} was both sent and thrown away")
        if thrown.count(draft) > 1:
            problems.append(f"{draft} was thrown away twice")
    left = [draft for draft in made if draft not in confirmed and draft not in thrown]
    may_stay = _queued(stage, order) or (not undone and not sent and "refusal" not in {e.tool for e in books})
    if left and not may_stay:
        problems.append(f"{left} is left, and nothing waits for it")
    if len(left) > 1:
        problems.append(f"{left} are left, and only one can wait")
    return problems


def _told(stage: Stage, order: str, sent: Sequence[Effect]) -> list[str]:
    told = {each.status for each in stage.everything_told() if each.order == order}
    found = [
        ("succeeded" in told and not sent, f"{order}: told as sent, and it was not"),
        (bool({"failed", "refused", "not_done"} & told) and bool(sent) and "succeeded" not in told, f"{order}: {told}"),
        ("refused" in told and bool(sent), f"{order}: told as refused, and it was sent"),
    ]
    return [what for wrong, what in found if wrong]


def _queued(stage: Stage, order: str) -> list[Call]:
    return [call for call in waiting(stage.journal) if order in (order_of(call), _of_draft(call))]


def _of_draft(call: Call) -> str:
    """Return the letter whose draft a call throws away."""
    draft = str(codec.loads(call.arguments).get("draft", "")) if call.arguments else ""
    return draft.rpartition("-")[0]


def _needless(stage: Stage) -> list[Call]:
    """Return what waits though nothing is in doubt: that only can be where nobody can look, and somebody died."""
    calls = [call for call in waiting(stage.journal) if call.state is not State.AWAITING_APPROVAL]
    return [call for call in calls if not (call.tool == "post" and dead(stage.plan))]


def _script(flow: Any, end: Any, **more: Any) -> Script:
    return Script(LETTERS, flow, in_run=True, saga=True, declare=declare, end=end, given=by_order, patience=0.0, **more)


SCRIPTS = {
    "draft": _script(asking, end, then=("decider", "letters", "tidier")),
    "letters": _script(asking, end, again="draft"),
    "decider": _script(deciding, end, outside=True, again="draft"),
    "tidier": _script(sagas.undoing, end, outside=True, again="draft"),
    "undone draft": _script(asking, end_undone, then=("decider", "given up letters", "tidier")),
    "given up letters": _script(giving_up, end_undone, again="undone draft"),
}

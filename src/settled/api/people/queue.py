"""What waits for a person: found, asked again, and a verdict tried out before it is given."""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from settled import host
from settled.api import secrets
from settled.api.calls.binding import make_binding
from settled.api.people import explain, facts
from settled.core import rules
from settled.core.doubt.settle import settle
from settled.core.doubt.settling import Adopt, Refused
from settled.core.noted import notes
from settled.core.noted.looking import LookAt, LookAway, UnderClaim, counts
from settled.core.states import State
from settled.core.values import replace
from settled.core.verdicts import Happened, Inconclusive, NotHappened
from settled.drivers import aio
from settled.errors import DeclarationError
from settled.journals.memory import MemoryBooks
from settled.journals.unread import UnreadableError
from settled.ports import CallQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from settled.api.guard import Guard
    from settled.core.books import Books
    from settled.core.call import Call
    from settled.core.doubt.settling import Resolve
    from settled.core.model import Moment
    from settled.ports import Journal

PAGE = 500
_PASSED_ON = (Exception, KeyboardInterrupt, SystemExit, CancelledError)
"""Raised by a probe, and understood by whoever asks it."""


@dataclass(frozen=True, slots=True)
class ByKey:
    """Looks a call up by its key; changes nothing."""

    key: str

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Return the call with this key."""
        del now
        return books.by_key(self.key)


def find(journal: Journal, name: str) -> Call | None:
    """Return the call with this operation id, or with this key."""
    return journal.get(name) or journal.perform(ByKey(name))


def waiting(journal: Journal) -> list[Call]:
    """Return every call that waits for a person, oldest first.

    Unknown, left by a lost owner, disputed, a step of a run that could not be undone, or waiting for leave. Of one
    whose record cannot be read the log tells.
    """
    states = (State.UNKNOWN, State.COMPENSATING, State.AWAITING_APPROVAL)
    # In the order in which a call goes through them: what is taken from a lost owner meanwhile is not missed.
    wanted = (CallQuery(lease_over=True), CallQuery(states=states), CallQuery(disputed=True))
    queries = [replace(query, readable=True) for query in wanted]
    found = {call.operation_id: call for query in queries for call in pages(journal, query)}
    now = journal.now()
    return sorted(
        (c for c in found.values() if explain.waiting(c, now)), key=lambda c: (c.created.wall, c.operation_id)
    )


def pages(journal: Journal, query: CallQuery) -> Iterator[Call]:
    """Yield all calls that a query means, newest first, a page at a time; its ``limit`` is not heeded."""
    query, seen = replace(query, limit=PAGE), dict[str, None]()
    while True:
        page = journal.find(query)
        if not page and query.after is not None and not _is_there(journal, query.after):
            # It was pruned meanwhile, and the journal knows no more where that was: what is older is not to be missed.
            query = replace(query, after=next((op for op in reversed(seen) if _is_there(journal, op)), None))
            continue
        yield from [call for call in page if call.operation_id not in seen]
        if len(page) < PAGE:
            return
        seen.update((call.operation_id, None) for call in page)
        query = replace(query, after=page[-1].operation_id)


def _is_there(journal: Journal, operation_id: str) -> bool:
    try:
        return journal.get(operation_id) is not None
    except UnreadableError:
        return True


def run_of(journal: Journal, call: Call) -> str | None:
    """Return the run that a call belongs to: its own, that of the step that it undoes, or of the call around it."""
    found: Call | None = call
    while found is not None and facts.run_of(found.scope) is None:
        kind, _, name = found.scope.partition(":")
        found = journal.get(name) if kind in ("undo", "call") else None
    return None if found is None else facts.run_of(found.scope)


def living(call: Call) -> dict[int, bool | None]:
    """Return for each attempt whether its process lives; ``None`` where that cannot be told from here."""
    return {attempt.no: host.alive(attempt.owner) for attempt in call.attempts}


def adopted(guard: Guard, operation_id: str) -> Call | None:
    """Return a call as it stands, taken from its owner if that is lost: its lease is over, or it is seen dead."""
    call = guard.journal.get(operation_id)
    if call is None or call.state is not State.PROCESSING:
        return call
    dead = call.epoch if host.alive(call.owner) is False else None
    if dead is None and not rules.lease_over(call, guard.journal.now()):
        return call
    return guard.journal.perform(Adopt(operation_id, dead=dead))


@dataclass(frozen=True, slots=True)
class Probing:
    """What asking the tool's probe brought."""

    call: Call
    """The call as it stands then."""
    said: str
    """``happened``, ``not_happened``, ``inconclusive``, ``failed``; empty if it was not asked."""
    words: str = ""
    """What the probe told besides, or how it failed."""


async def aprobe(guard: Guard, operation_id: str, *, wait: float = 0.0) -> Probing:
    """Settle one call by its tool's probe, sync or async, waiting at most ``wait`` seconds for proof.

    Raises ``DeclarationError`` if there is no such call, tool or probe.
    """
    call = adopted(guard, operation_id)
    if call is None:
        raise DeclarationError(f"no call has the operation id {operation_id!r}")
    tool = guard.tools.get(call.tool)
    if tool is None:
        known = ", ".join(sorted(guard.tools)) or "none"
        raise DeclarationError(f"this guard has no tool {call.tool!r}; its tools are: {known}")
    binding = make_binding(guard, tool, None)
    if binding.probe is None:
        raise DeclarationError(f"{call.tool} declares no probe: a late answer or a person settles its calls")
    asked = Listening(binding.probe)
    hand = aio.Hand(replace(binding, probe=asked), guard.floor)
    call = await aio.drive(settle(call, tool.checked.policy, wait), hand)
    guard.floor.presence.wake(operation_id)
    return Probing(call, asked.said, asked.words)


class Listening:
    """A probe, with an ear for what it says last."""

    def __init__(self, probe: Callable[[Call], Any]) -> None:
        self._probe = probe
        self.said, self.words = "", ""

    def __call__(self, call: Call) -> Any:
        """Ask it."""
        try:
            said = self._probe(call)
        except _PASSED_ON as error:
            self._failed(error)
            raise
        except BaseException as error:  # a client's own, like gevent.Timeout: it ends this asking, and no more
            self._failed(error)
            raise RuntimeError(f"it raised {type(error).__name__}") from error
        return self._later(said) if inspect.isawaitable(said) else self._heard(said)

    async def _later(self, said: Any) -> Any:
        try:
            return self._heard(await said)
        except (*_PASSED_ON, GeneratorExit) as error:
            self._failed(error)
            raise
        except BaseException as error:
            self._failed(error)
            raise RuntimeError(f"it raised {type(error).__name__}") from error

    @property
    def failed(self) -> bool:
        """Whether it raised, or gave no verdict."""
        return self.said == "failed"

    def _failed(self, error: BaseException) -> None:
        self.said, self.words = "failed", type(error).__name__
        with suppress(Exception):  # its text is made by its own code
            self.words = f"{self.words}: {error}"

    def _heard(self, said: Any) -> Any:
        match said:
            case Happened():
                self.said, self.words = "happened", ""
            case NotHappened():
                self.said, self.words = "not_happened", ""
            case Inconclusive(words):
                self.said, self.words = "inconclusive", words
            case _:
                self.said, self.words = "failed", f"it returned a {type(said).__name__}, which is no verdict"
        return said


def rehearse(call: Call, verdict: Resolve, now: Moment, claim: Mapping[str, Any] | None = None) -> Call | Refused:
    """Return what a verdict would make of a call, by the very rules, without giving it; ``claim``: who looks at it."""
    books = MemoryBooks()
    books.calls[call.operation_id] = call
    books.keys[call.key] = call.operation_id
    if claim:
        notes.put(books, notes.LOOKED_AT, call.operation_id, dict(claim))
    after: Call | Refused = UnderClaim(verdict, call.operation_id, verdict.by).apply(books, now)
    return after


def look_at(guard: Guard, operation_id: str, *, by: str, seconds: float, take_over: bool = False) -> dict[str, Any]:
    """Claim a call for somebody who looks at it; nobody else decides on it meanwhile. Return the claim.

    Raises ``DeclarationError`` if somebody else looks at it, or it waits for nobody.
    """
    call, now = guard.journal.get(operation_id), guard.journal.now()
    if not by.strip() or not seconds > 0:
        raise DeclarationError("who looks at a call has a name (by=), and does so for some seconds")
    if call is None or explain.waiting(call, now) is None:
        raise DeclarationError(f"{operation_id}: it waits for nobody")
    claim: dict[str, Any] = _claimed(guard, LookAt(operation_id, secrets.clean(by.strip()), seconds, take_over))
    return claim


def look_away(guard: Guard, operation_id: str, *, by: str) -> bool:
    """Let go of a call; return whether it was claimed. Raises ``DeclarationError`` if it is somebody else's."""
    was: bool = _claimed(guard, LookAway(operation_id, secrets.clean(by.strip())))
    return was


def _claimed(guard: Guard, transition: LookAt | LookAway) -> Any:
    reply: Any = guard.journal.perform(transition)
    if isinstance(reply, Refused):
        raise DeclarationError(f"{transition.operation_id}: {reply.why}")
    return reply


def claims(journal: Journal) -> dict[str, dict[str, Any]]:
    """Return who looks at which call: ``by``, and ``until`` when, in seconds since 1970."""
    now = journal.now()
    found = {op: counts(notes.read(text), now) for op, text in journal.notes(notes.LOOKED_AT).items()}
    return {operation_id: claim for operation_id, claim in found.items() if claim}


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Calls at work whose lease runs, so that they do not stand in the queue."""

    dead: int = 0
    """Their process is seen dead: a reconciliation takes them in at once."""
    unseen: int = 0
    """Whether their process lives cannot be seen from here: a reconciliation takes them in once their lease is over."""


def under_way(journal: Journal, limit: int = 10_000) -> UnderWay:
    """Return how many calls are at work, may have acted, and have an owner that is not seen to live."""
    now = journal.now()
    at_work = islice(pages(journal, CallQuery(states=(State.PROCESSING,), readable=True)), limit)
    seen = [
        host.alive(call.owner) for call in at_work if explain.may_have_acted(call) and not explain.waiting(call, now)
    ]
    return UnderWay(seen.count(False), seen.count(None))


__all__ = [
    "ByKey",
    "Listening",
    "Probing",
    "UnderWay",
    "adopted",
    "aprobe",
    "claims",
    "find",
    "living",
    "look_at",
    "look_away",
    "pages",
    "rehearse",
    "run_of",
    "under_way",
    "waiting",
]

"""Comparing the journal with the tools' own lists of effects.

A call counts as missing in a ledger, or an unknown one as not done, only if two readings lack it, of which the first
began after every attempt was over and ``max_request_lifetime`` had passed since. An effect counts as nobody's only if
no call on record explains it when the journal is read after the ledger: each call is on record before its effect.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from settled.api import secrets
from settled.api.calls.binding import encoder
from settled.api.people import care
from settled.api.people.queue import ByKey, pages
from settled.api.tools.batches import item_keys
from settled.api.tools.schema import BadArguments
from settled.core.doubt.late import Evidence
from settled.core.doubt.ledger import SKEW, Effect, Entry, Known, Match, distinct, match
from settled.core.doubt.settling import Settle
from settled.core.encoding import codec
from settled.core.encoding.keys import fingerprint, format_key, without_defaults
from settled.core.noted.findings import Finding, Note, TakeLedger, ledger_name
from settled.core.noted.notes import LEDGER, read
from settled.core.parts import is_item, part_of, split_of
from settled.core.states import State
from settled.drivers.floor import LOG
from settled.drivers.loops import aside, leaked
from settled.errors import DeclarationError, JournalError
from settled.ports import CallQuery

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from settled.api.guard import Guard
    from settled.api.tools.tool import Tool
    from settled.core.call import Call
    from settled.core.model import Moment

WINDOW: Final = 86400.0
"""Seconds back from now that are compared unless something else is asked for."""
LIMIT: Final = 600.0
"""Seconds after which another worker may take up a comparison that has not ended."""
NOT_DONE: Final = (State.NOT_DONE, State.FAILED, State.PARKED)


@dataclass(frozen=True, slots=True)
class Compared:
    """What the comparison of one tool's ledger brought."""

    tool: str
    effects: int = 0
    calls: int = 0
    happened: int = 0
    """Unknown calls that the ledger shows as done."""
    did_not_happen: int = 0
    """Unknown calls that it proves not done."""
    contradicted: int = 0
    """Calls recorded as not done whose effect is there: they are disputed now."""
    findings: tuple[Finding, ...] = ()
    new: int = 0
    """Of the findings: those that were not in the queue or seen before."""
    gone: int = 0
    """Earlier findings that are so no longer."""
    trouble: str = ""
    """Why it could not be compared; then nothing was concluded."""

    def count(self, kind: str) -> int:
        """Return the number of findings of a kind."""
        return sum(finding.kind == kind for finding in self.findings)


def with_ledger(guard: Guard) -> list[Tool[Any, Any]]:
    """Return the tools that offer a ledger."""
    return [tool for tool in guard.tools.values() if tool.checked.options.ledger is not None]


def checked_since(since: object) -> None:
    """Refuse a stretch of time that holds nothing: to compare none of it and find nothing looks like agreement.

    Raises ``DeclarationError``.
    """
    if since is not None and (not isinstance(since, int | float) or not since > 0):
        raise DeclarationError(f"since={since!r} is no stretch of time: write seconds back from now, above 0")


async def acompare_all(guard: Guard, since: float | None = None) -> tuple[Compared, ...]:
    """Compare every ledger; ``since``: seconds back from now (see ``checked_since``). Raises ``JournalError``."""
    return tuple([await acompare(guard, tool, since) for tool in with_ledger(guard)])


async def acompare_due(guard: Guard, every: float) -> tuple[Compared, ...]:
    """Compare the ledgers whose turn it is, and that no other worker is at. Raises ``JournalError``."""
    done = []
    for tool in with_ledger(guard):
        take = TakeLedger(tool.name, guard.tenant, every, LIMIT, token_hex(8))
        if await guard.journal.aperform(take) is not None:
            done.append(await acompare(guard, tool, None))
    return tuple(done)


async def acompare(guard: Guard, tool: Tool[Any, Any], since: float | None) -> Compared:
    """Compare one ledger. A ledger that fails concludes nothing. Raises ``JournalError``."""
    comparison = Comparison(guard, tool, since)
    try:
        entries = await comparison.read()
        work = await aside(comparison.look, entries)
        if work.lacking():
            entries = distinct([*entries, *await comparison.read()])  # an entry that one page missed, or just arrived
            work = await aside(comparison.look, entries)
    except JournalError:
        raise
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # the tool's own: it has told nothing
        if isinstance(error, asyncio.CancelledError) and not leaked(error):
            raise
        LOG.warning("the ledger of %s failed: %s", tool.name, type(error).__name__)
        return Compared(tool.name, trouble=f"its ledger failed: {_told(error)}")
    return await aside(work.conclude)


def _told(error: BaseException) -> str:
    own = isinstance(error, ValueError | TypeError | DeclarationError)
    return f"{type(error).__name__}: {secrets.clean(str(error))}" if own else type(error).__name__


class Comparison:
    """One tool's ledger, over one stretch of time."""

    def __init__(self, guard: Guard, tool: Tool[Any, Any], since: float | None) -> None:
        self.guard, self.tool = guard, tool
        self.asked = since is not None
        """Somebody says that the journal covers this stretch."""
        self.began: Moment = guard.journal.now()
        lifetime, retention = tool.checked.policy.terms.lifetime or 0.0, tool.checked.options.retention
        self.start = self.began.wall - (WINDOW if since is None else since)
        self.known_since = 0.0 if retention is None else self.began.wall - retention + lifetime + SKEW
        """Calls of effects from then on are still on record."""
        self.lifetime = lifetime

    async def read(self) -> list[Entry]:
        """Ask the tool for its effects, some more than are compared: its clock may differ.

        One that does not answer is left: its thread goes on, and the worker with other things.
        """
        since = datetime.fromtimestamp(max(0.0, self.start - SKEW), UTC)
        ledger: Any = self.tool.checked.options.ledger
        if inspect.iscoroutinefunction(ledger) or inspect.isasyncgenfunction(ledger):
            effects = await asyncio.wait_for(_gathered(ledger(since)), LIMIT)
        else:
            effects = await asyncio.wait_for(aside(lambda: list(ledger(since)) if ledger else []), LIMIT)
        return distinct(self._entry(effect) for effect in effects)

    def _entry(self, effect: Any) -> Entry:
        if not isinstance(effect, Effect):
            raise TypeError(f"a ledger lists settled.Effect(…), not {type(effect).__name__}")
        return Entry(effect, "" if effect.arguments is None else self._identity(dict(effect.arguments)))

    def _identity(self, arguments: dict[str, Any]) -> str:
        """Return the digest that a call with these arguments has."""
        checked = self.tool.checked
        try:
            bound = self.tool.schema.bind((), arguments)
        except BadArguments as error:
            raise ValueError(f"an effect's arguments do not fit the tool: {error}") from error
        counted = without_defaults(bound.plain, bound.defaults, checked.rules)
        return fingerprint(counted, identity=checked.options.identity, rules=checked.rules)

    # --- the journal's side ---

    def look(self, entries: Sequence[Entry]) -> Work:
        """Read the journal, as far back as it takes to explain every effect."""
        calls: list[Known] = []
        far = self.start - SKEW - self.lifetime
        for call in pages(self.guard.journal, CallQuery(tool=self.tool.name)):
            if call.created.wall < far:
                if not self._unexplained(entries, calls):
                    break
                far = self.began.wall - 2 * (self.began.wall - far)
            calls.append(self._known(call))
        return Work(self, entries, calls, match(entries, calls))

    def _unexplained(self, entries: Sequence[Entry], calls: Sequence[Known]) -> bool:
        """Whether an older call may explain what none has explained so far."""
        return any(self.judged(entry) for entry, _ in match(entries, calls).strangers)

    def judged(self, entry: Entry) -> bool:
        """Whether an effect's call, if there ever was one, is surely on record."""
        return entry.effect.wall >= max(self.start, self.known_since)

    def _known(self, call: Call) -> Known:
        key = format_key(call.outward, self.tool.checked.options.key_format)
        other = call.scope.startswith("undo:") or part_of(call)
        return Known(call, key, self._as_given(call) if other else call.identity, self._items(call))

    def _items(self, call: Call) -> tuple[str, ...]:
        """Return the keys that a batch has given its items; none where its arguments cannot be read as they were."""
        batch, split = self.tool.checked.batch, split_of(call)
        if batch is None or is_item(call):
            return ()
        if split is not None:
            return tuple(item.key for item in split[1])
        try:
            items = codec.loads(self.guard.vault.unlock(call.arguments))[batch.parameter]
            return tuple(item_keys(self.guard, self.tool, batch, call.operation_id, items))
        except Exception:  # noqa: BLE001 - item_key is the tool's own code
            return ()

    def _as_given(self, call: Call) -> str:
        """Return the identity of what it was given: on record it bears that of the step it undoes, or of its items."""
        try:
            given = codec.loads(self.guard.vault.unlock(call.arguments))
            return self._identity(dict(given))
        except (ValueError, TypeError, JournalError):
            return call.identity


async def _gathered(effects: Any) -> list[Any]:
    if isinstance(effects, AsyncIterable):
        return [effect async for effect in effects]
    return list(await effects)


class Work:
    """What follows from a match."""

    def __init__(self, of: Comparison, entries: Sequence[Entry], calls: Sequence[Known], found: Match) -> None:
        self.of, self.entries, self.found = of, entries, found
        self.guard, self.tool = of.guard, of.tool
        self.calls = [known.call for known in calls]

    def _own(self, call: Call) -> bool:
        return call.tenant == self.guard.tenant

    def lacking(self) -> bool:
        """Whether something may follow from what the ledger does not show."""
        return bool(self._missing()) or any(True for _ in self._absent())

    def _missing(self) -> list[Call]:
        """Return calls that count as done, for so long that their effect must show, within what was read."""
        settled = self.of.began.wall - self.of.lifetime
        return [
            call
            for call in self.calls
            if call.state in (State.SUCCEEDED, State.PARTIAL)
            and self._own(call)
            and call.first_intent.wall >= self.of.start
            and call.changed.wall <= settled
            and not self.found.has(call)
            and self._would_show(call)
        ]

    def _absent(self) -> Iterable[Call]:
        for call in self.calls:
            open_here = call.state is State.UNKNOWN and self._own(call) and not call.held
            lacks = open_here and call.first_intent.wall >= self.of.start and not self.found.has(call)
            if lacks and self._would_show(call):
                yield call

    def _would_show(self, call: Call) -> bool:
        """Whether the ledger shows effects under such keys as the call's: of batches they may be those of items.

        By arguments alone nobody can say whether a list of items is listed as such, or item by item.
        """
        if self.tool.checked.batch is None:
            return True
        if is_item(call):
            return bool(self.found.item_keys)
        return any(other.operation_id in self.found.by_key for other in self.calls if not is_item(other))

    def conclude(self) -> Compared:
        """Settle what can be settled, and put on record what was found. Raises ``JournalError``."""
        happened = sum(self._settle(call, entry) for call, entry in self._shown(State.UNKNOWN))
        absent = sum(self._settle(call, None) for call in self._absent())
        against = sum(self._contradict(call, entry) for call, entry in self._shown(*NOT_DONE))
        findings = tuple(self._findings())
        strangers_since = max(self.of.known_since, self._covered())
        note = Note(self.tool.name, self.guard.tenant, findings, self.of.start, strangers_since)
        new, gone = self.guard.journal.perform(note)
        self.guard.floor.attend()
        return Compared(
            self.tool.name,
            len(self.entries),
            len(self.calls),
            happened,
            absent,
            against,
            findings,
            new,
            gone,
        )

    def _shown(self, *states: State) -> list[tuple[Call, Entry]]:
        """Return own calls in these states whose key the ledger has: a like effect may be somebody else's."""
        by_key = self.found.by_key
        mine = [call for call in self.calls if call.state in states and self._own(call)]
        return [(call, by_key[call.operation_id]) for call in mine if call.operation_id in by_key]

    def _settle(self, call: Call, entry: Entry | None) -> bool:
        """Take the ledger's word as a probe's; whether that was proof, the journal's rule decides."""
        result, note = self._result(entry)
        today = self.tool.checked.policy.terms
        verdict = Settle(call.operation_id, call.epoch, entry is not None, self.of.began, result, note, today=today)
        settled = self.guard.journal.perform(verdict)
        if settled is None or settled.state is State.UNKNOWN:
            return False
        self.guard.floor.presence.wake(call.operation_id)
        care.heed(self.guard, settled)
        return True

    def _result(self, entry: Entry | None) -> tuple[bytes | None, str]:
        if entry is None or not entry.effect.has_result:
            return None, ""
        return encoder(self.guard, self.tool)(entry.effect.result)

    def _contradict(self, call: Call, entry: Entry) -> bool:
        """Bring the effect as evidence against a record that says: not done."""
        if not call.attempts or call.disputed:
            return False
        result, note = self._result(entry)
        self.guard.journal.perform(Evidence(call.operation_id, len(call.attempts), None, result, note))
        return True

    # --- findings ---

    def _findings(self) -> Iterable[Finding]:
        for call in self._missing():
            yield self._finding("missing", call.operation_id, call, None)
        for entry, call in self.found.doubled:
            if entry.effect.wall >= self.of.start and self._own(call):
                yield self._finding("doubled", repr(entry.name), call, entry)
        batch = self.tool.checked.batch is not None
        for entry, like in self.found.strangers:
            if batch and not entry.effect.key:
                continue  # one item of a list, perhaps
            if self.of.judged(entry) and entry.effect.wall >= self._covered() and not self._known_elsewhere(entry):
                yield self._finding("orphaned", repr(entry.name), like, entry)

    def _covered(self) -> float:
        """Return from when on calls were surely put on record here, rather than made by what was there before."""
        if self.of.asked:
            return self.of.start
        noted = self.guard.journal.notes(LEDGER).get(ledger_name(self.guard.tenant, self.tool.name))
        first = read(noted).get("first", self.of.began.wall)
        return SKEW + min([float(first), *(call.created.wall for call in self.calls)])

    def _known_elsewhere(self, entry: Entry) -> bool:
        """Whether a call of another tool has this key."""
        key = entry.effect.key
        return bool(key) and self.guard.journal.perform(ByKey(key)) is not None

    def _finding(self, kind: Any, name: str, call: Call | None, entry: Entry | None) -> Finding:
        digest = sha256(f"{kind} {self.guard.tenant} {self.tool.name} {name}".encode("utf-8", "replace")).hexdigest()
        effect = entry.effect if entry else None
        return Finding(
            f"fd_{digest[:20]}",
            kind,
            self.tool.name,
            self.guard.tenant,
            call.operation_id if call else "",
            secrets.clean(effect.key if effect else call.key if call else ""),
            secrets.clean(effect.ref if effect else ""),
            effect.wall if effect else call.changed.wall if call else 0.0,
        )


__all__ = ["Compared", "acompare", "acompare_all", "acompare_due", "checked_since", "with_ledger"]

"""What tests of journals are made of: a clock, asks, and calls brought to where a test begins."""

from __future__ import annotations

import itertools
import time
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any

from settled.core.ask import Ask, Begun
from settled.core.attempts.progress import End
from settled.core.call import Call
from settled.core.doubt.settling import Adopt
from settled.core.matching.claim import Claim
from settled.core.matching.entry import Entry
from settled.core.model import Evidence as Proof
from settled.core.model import Fault, FaultClass, KeyKind, Moment, Owner, Terms
from settled.core.runs.entering import EnterRun, scope_of_run
from settled.ports import CallQuery

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.core.books import Books
    from settled.core.states import State
    from settled.ports import Journal

OWNER = Owner("host", "boot", "space", 4711, "100")
OTHER = Owner("host", "boot", "space", 4712, "200")
LOST = Fault(FaultClass.UNKNOWN, Proof.MAYBE, "timeout", "no answer")
REFUSED = Fault(FaultClass.RETRYABLE, Proof.NONE, "connect_refused")
AWKWARD = "NUL \0, lone \ud83d, split \ud83d\ude00, line\nend, \\u0000 as text, \x1f, 'quoted', \u00e9 and e\u0301"
"""A text that a careless store damages or refuses."""


class FakeClock:
    """A journal's clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.wall, self.boot, self.mono = 1_700_000_000.0, "boot", 1000.0

    def __call__(self) -> Moment:
        """Read it."""
        return Moment(self.wall, self.boot, self.mono)

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self.wall += seconds
        self.mono += seconds


_numbers = itertools.count(1)


def make_ask(**changes: Any) -> Ask:
    """Return an ask for a new action with a business key; every field can be set."""
    number = next(_numbers)
    fields: dict[str, Any] = {
        "tenant": "acme",
        "tool": "pay",
        "terms": Terms(),
        "kind": KeyKind.BUSINESS,
        "identity": f"identity-{number}",
        "words": f"words-{number}",
        "fingerprint": f"1:{number}",
        "arguments": b'{"amount":%d}' % number,
        "operation_id": f"op_{number:06}",
        "owner": OWNER,
        "lease": 30.0,
        "key": f"pay:{number}",
    }
    return Ask(**{**fields, **changes})


class Look:
    """Not a rule: looks into the books, or puts something there."""

    def __init__(self, look: Callable[[Books], Any]) -> None:
        self.look = look

    def apply(self, books: Books, now: Moment) -> Any:
        """Look."""
        del now
        return self.look(books)


class Raising:
    """Claims, then raises: the claim must not stay."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask

    def apply(self, books: Books, now: Moment) -> Any:
        """Raise an error that names the call."""
        Claim(self.ask).apply(books, now)
        raise ArithmeticError(self.ask.operation_id)


class PutNote:
    """Notes a text; returns what was noted before, and what is then."""

    def __init__(self, kind: str, name: str, text: str | None, *, raises: bool = False) -> None:
        self.kind, self.name, self.text, self.raises = kind, name, text, raises

    def apply(self, books: Books, now: Moment) -> tuple[str | None, str | None]:
        """Note it; then raise, if that is wanted."""
        del now
        before = books.note(self.kind, self.name)
        books.put_note(self.kind, self.name, self.text)
        if self.raises:
            raise ArithmeticError(self.name)
        assert self.name in books.notes(self.kind) or self.text is None
        return before, books.note(self.kind, self.name)


def begun(journal: Journal, ask: Ask) -> Call:
    """Claim; it must begin."""
    reply = journal.perform(Claim(ask))
    assert isinstance(reply, Begun), reply
    return reply.call


def ended(journal: Journal, call: Call, result: bytes | None = None) -> Call:
    """End the last attempt with success."""
    reply = journal.perform(End(call.operation_id, call.epoch, len(call.attempts), None, result))
    assert isinstance(reply, Call), reply
    return reply


def unknown_call(journal: Journal, *, over: bool = True, **changes: Any) -> Call:
    """Make a call whose answer was lost."""
    call = begun(journal, make_ask(**changes))
    reply = journal.perform(End(call.operation_id, 1, 1, LOST, over=over))
    assert isinstance(reply, Call), reply
    return reply


def unknown(journal: Journal, operation_id: str) -> Call:
    """Adopt a call."""
    call = journal.perform(Adopt(operation_id))
    assert call is not None
    return call


def stands(journal: Journal, operation_id: str) -> State | None:
    """Return the state of a call."""
    call = journal.get(operation_id)
    return None if call is None else call.state


def entered(journal: Journal, run_id: str, tenant: str = "acme", **options: Any) -> Entry:
    """Enter a run that is free."""
    entry = journal.perform(EnterRun(run_id, tenant, **options))
    assert isinstance(entry, Entry)
    return entry


def scoped(run_id: str, entry: Entry, **changes: Any) -> Ask:
    """Return an ask of a run."""
    fields = {
        "kind": KeyKind.SCOPED,
        "key": "",
        "scope": scope_of_run("acme", run_id),
        "run_id": run_id,
        "entry": entry,
        "run_entry": entry.no,
    }
    return make_ask(**{**fields, **changes})


def ids(journal: Journal, **query: Any) -> set[str]:
    """Return the ids of the calls that a query finds."""
    return {call.operation_id for call in journal.find(CallQuery(limit=100_000, **query))}


def at_once(number: int, work: Callable[[int], Any]) -> list[Any]:
    """Run ``work`` in so many threads at once; return what each gave. None may hang."""
    results: list[Any] = [None] * number
    barrier = Barrier(number)

    def run(i: int) -> None:
        barrier.wait()
        results[i] = work(i)

    threads = [Thread(target=run, args=(i,), daemon=True) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return results


def sealed(journal: Journal) -> bool:
    """Seal what is new; return whether there was any within ten seconds.

    On PostgreSQL any transaction that has written holds it up until it ends, also the server's own (autovacuum).
    """
    until = time.monotonic() + 10.0
    while not journal.seal():
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)
    return True


class Timed:
    """A clock for a class of tests and its journal."""

    clock = FakeClock()

    def pass_time(self, seconds: float) -> None:
        """Let the journal's clock go on by so many seconds."""
        self.clock.advance(seconds)

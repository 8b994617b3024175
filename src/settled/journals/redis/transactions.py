"""One batch of transitions as one transaction: look, apply the rules, commit if all that was looked at still stands.

Each member ends alone, and nobody is told before the commit. What is guessed or known already need not be looked at
first: then the commit is the only trip, and should the guess be wrong it brings what stands instead.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from functools import lru_cache
from random import uniform
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from settled.core.ask import Begun
from settled.core.attempts.progress import Begin
from settled.core.call import Call
from settled.core.model import Effect
from settled.core.states import State
from settled.errors import JournalError
from settled.journals.clock import FRESH
from settled.journals.redis.attempt import Attempt
from settled.journals.redis.cells import Stored
from settled.journals.redis.foresight import Hints, guess
from settled.journals.redis.request import CHANGES, CLOCK, LOOKED, looking, named, short, standing, written
from settled.journals.redis.trouble import Conflict, Fault, away, explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from settled.core.model import Moment
    from settled.journals.clock import ServerClock
    from settled.journals.commit import Member
    from settled.journals.redis.books import RedisBooks
    from settled.journals.redis.connections import Connections
    from settled.journals.redis.sight import Sight

    Request = tuple[str, bytes, list[bytes]]
    """A script, numbers, among them counts, and the words that are counted."""

_WELL: Final = (b"shown", b"written", b"done", b"seen")
"""What a script says first if the journal is whole."""
_MOST_OWN: Final = 10_000
"""Own calls at work that are remembered as they stand."""


class Transactions:
    """Performs batches on the connection that writes.

    A transaction that met a conflict, or lost its connection - before, during or after its commit -, is made once
    more. Each commit bears a number of this client: one whose answer was lost is recognised by it, and not made twice.
    """

    def __init__(self, connections: Connections, clock: ServerClock, given: Callable[[], Moment] | None) -> None:
        self._connections = connections
        self.clock = clock
        self._given = given
        self._heard: tuple[Moment, float] | None = None
        """The last reading of the clock, and when it was asked for on this process's own clock: both at once, since
        other threads read too."""
        self.clock_record: Sequence[Any] | None = None
        """What is to be put on record of the clock with the next commit."""
        self._own: OrderedDict[str, Stored] = OrderedDict()
        self._doubted: set[str] = set()
        """Tools whose last call was there already."""
        self.begin_anew()

    def begin_anew(self) -> None:
        """Be another client: at first, and in a forked child."""
        self._client, self._number = f"client {token_hex(8)}", 0
        self._names = short(self._connections.identity.journal_id) + short(self._client)
        self._own.clear()

    def run(self, batch: Sequence[Member]) -> None:
        """Perform a batch; every member gets its reply or its error. Raises only what interrupts the thread."""
        groups: list[Sequence[Member]] = [batch]
        try:
            while groups:
                group = groups.pop(0)
                trouble = self._patiently(group)
                if trouble is None:
                    continue
                if len(group) > 1 and not isinstance(trouble, JournalError) and not away(trouble):
                    groups[:0] = [[member] for member in group]  # whose it is shows when each goes alone
                else:
                    self._fail(group, trouble)
        except BaseException:
            self._connections.drop_line()
            raise

    def _fail(self, group: Sequence[Member], trouble: Exception) -> None:
        doing = "it is not known to be recorded; perform again" if away(trouble) else "nothing was recorded"
        for member in group:
            member.fail(explained(trouble, self._connections.address.shown, doing=doing))

    def _patiently(self, group: Sequence[Member]) -> Exception | None:
        """Make the transaction until it is done; return what stands against it, after which nothing of it stands."""
        deadline = time.monotonic() + self._connections.patience
        while True:
            try:
                Attempt(self, group).make(deadline)
            except Conflict as conflict:
                trouble: Exception = conflict
                again = len(group) == 1
            except (Fault, OSError, JournalError) as fault:
                self._connections.drop_line()
                trouble, again = fault, away(fault)
            else:
                return None
            if not again or time.monotonic() >= deadline:
                return trouble
            time.sleep(uniform(0, 0.05))  # noqa: S311 - spreads those that wait; no secret

    # --- asking ---

    def ask(self, request: Request) -> tuple[Sequence[Any], float]:
        """Ask once; return a word, how far the journal has come and what else is said, and when it was asked.

        Raises:
            RedisError: The server did not answer.
            JournalError: It is not the journal that it was.
        """
        before = self.clock.mono()
        return self.checked(self._connections.line().run(*request)), before

    def look(self, asked: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Ask several things at one moment on the connection that writes. Raises as ``ask`` does."""
        if not asked:
            return []
        answer, _ = self.ask(looking(self._connections.identity, asked))
        return list(answer[2])

    def checked(self, answer: Sequence[Any]) -> Sequence[Any]:
        """Take note of how far the journal has come. Raises ``JournalError`` if it is not the one that it was."""
        identity = self._connections.identity
        error = None if answer[0] in _WELL else identity.error_for(answer)
        if error is not None:
            raise error
        identity.saw(int(answer[1]))
        return answer

    def ask_surely(self, request: Request, deadline: float) -> tuple[Sequence[Any], float]:
        """Ask; where the answer is lost, ask the same again: what was done is recognised by its number."""
        while True:
            try:
                return self.ask(request)
            except (Fault, OSError) as fault:
                self._connections.drop_line()
                if not away(fault) or time.monotonic() >= deadline:
                    raise
            time.sleep(uniform(0, 0.05))  # noqa: S311 - spreads those that wait; no secret

    # --- time ---

    def hear(self, answer: Sequence[Any], before: float) -> Moment:
        """Return the journal's time by an answer that was asked for at ``before``."""
        if self._given is not None:
            return self._given()
        seconds, micros, record = answer[2].split(b"\n", 2)
        row = int(seconds) + int(micros) / 1e6, *_clock_record(record)
        reading = self.clock.read(row, before, self.clock.mono())
        self._heard, self.clock_record = (reading.moment, before), reading.record
        return reading.moment

    def hear_now_and_then(self, answer: Sequence[Any], before: float) -> None:
        """Read the time of an answer if the last reading has aged."""
        if self._heard is None or before - self._heard[1] > FRESH / 4:
            self.hear(answer, before)

    def about_now(self) -> Moment | None:
        """Return the journal's time as it may be guessed: never early; ``None``: it is too long since it was read."""
        if self._given is not None:
            return self._given()
        if self._heard is None:
            return None
        last, asked = self._heard
        passed = self.clock.mono() - asked
        return last.plus(passed) if passed < FRESH else None

    # --- what the attempts share ---

    def foretold(self, transitions: Sequence[Any], hints: Hints) -> Sight | None:
        """Return what these transitions will find, if that can be guessed."""
        return guess(transitions, hints, self._own, self._doubted)

    def request(self, hints: Hints) -> Request:
        """Return the request to look at what the hints name."""
        looked, words = named(hints)
        return "see", LOOKED(self._connections.identity.seen, 0, *looked) + self._names, words

    def commit(self, hints: Hints, books: RedisBooks, now: Moment | None) -> Request:
        """Return the request to commit, which bears the next number of this client; ``now``: the time if guessed.

        Of the names the first are those that were looked at.
        """
        self._number += 1
        looked, words = named(hints)
        must_stand, versions = standing(books.read)
        words += versions
        counts = written(books.pages, words)
        head = LOOKED(self._connections.identity.seen, self._number, *looked) + self._names
        about = 0.0 if now is None or self._given is not None else now.mono
        head += CHANGES(about, books.pages.trim, *must_stand, *counts)
        if self.clock_record is not None:
            wall, steady, boot, mono, was_wall, was_steady = self.clock_record
            head += CLOCK(wall, steady, mono, was_wall, was_steady) + boot.encode()
        return "commit", head, words

    def wrote(self, books: RedisBooks, number: bytes | None) -> None:
        """Remember own calls at work as they stand now; without the number of their commit, forget them."""
        if number is None:
            self.forget_own(books.pages.calls)
            return
        for i, (operation_id, to) in enumerate(books.pages.calls.items(), 1):
            if to is None or to.call.state is not State.PROCESSING:
                self._own.pop(operation_id, None)
                continue
            self._own[operation_id] = Stored(to.call, number, to.place or number + b"%04d" % i, to.found_by)
            self._own.move_to_end(operation_id)
        while len(self._own) > _MOST_OWN:
            self._own.popitem(last=False)

    def learn(self, group: Sequence[Member]) -> None:
        """A tool that has just made a new call may make another."""
        for member in group:
            if isinstance(member.reply, Begun):
                self._doubted.discard(member.reply.call.tool)

    def doubt(self, transitions: Sequence[Any]) -> None:
        """A tool's call was there already, against the guess: look first, the next time."""
        asks = (getattr(transition, "ask", None) for transition in transitions)
        self._doubted.update(ask.tool for ask in asks if ask is not None)

    def forget_own(self, calls: Iterable[str]) -> None:
        """What was thought to stand does not."""
        for operation_id in calls:
            self._own.pop(operation_id, None)

    def refused(self, transition: Any, reply: Any) -> JournalError | None:
        """Return the error for what may not begin here: an intent that may be lost, unless that is accepted."""
        losses = self._connections.settings.losses
        if not losses or self._connections.identity.accept_loss:
            return None
        begins = isinstance(reply, Begun) or (isinstance(transition, Begin) and isinstance(reply, Call))
        if not begins or transition.ask.terms.effect is not Effect.WRITE:
            return None
        return refusal(self._connections.address.shown, losses)


@lru_cache(maxsize=16)
def _clock_record(said: bytes) -> tuple[float, float, str, float]:
    """Return what is on record of a journal's clock, which answers repeat for about a second."""
    wall, steady, mono, boot = said.split(b"\n", 3)
    return float(wall), float(steady), boot.decode(), float(mono)


LOST_IF_FORGOTTEN: Final = {
    "write": "the record of a write, and then it would be made once more",
    "compensate": "the record of a step, and then it would not be undone",
}
"""What must not be forgotten, and why."""


def refusal(shown: str, losses: Sequence[str], what: str = "write") -> JournalError:
    """Return the error for what a server that may lose records is not trusted with."""
    return JournalError(
        f"the journal {shown} may lose {LOST_IF_FORGOTTEN[what]}: {'; '.join(losses)}. Nothing was executed. Change "
        "that, declare the tool idempotent or deduplicated if it is, or accept the loss with "
        "Guard(..., accept_loss=True)"
    )

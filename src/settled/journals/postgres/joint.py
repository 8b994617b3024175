"""A tool's rows and their record in one transaction, on a connection of its own.

Where it can be told what the call will find (``foresight``) that takes three trips: one that sees whether it is so, and
begins; the tool's own; and one that puts the call on record and commits, behind which travels what tidies the session.
Else the rules are applied to what is looked up, before the tool and after it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from random import uniform
from typing import TYPE_CHECKING, Any

import psycopg
from msgspec import Struct

from settled.core.call import Call
from settled.journals.commit import Member
from settled.journals.postgres.clock import FRESH, SET, asking_also
from settled.journals.postgres.foresight import OwnBooks, Unforeseen
from settled.journals.postgres.lending import run_in, tidy
from settled.journals.postgres.statements import BECAME, STILL, WHICH
from settled.journals.postgres.transactions import worth_repeating
from settled.journals.postgres.trouble import Conflict, explained
from settled.transaction import EndedByTool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from settled.core.books import Transition
    from settled.core.model import Moment
    from settled.journals.clock import Reading, ServerClock
    from settled.journals.postgres.books import PostgresBooks
    from settled.journals.postgres.connections import Connections
    from settled.journals.postgres.foresight import Foresight
    from settled.journals.postgres.lending import Lending
    from settled.journals.postgres.line import Answer, Line
    from settled.journals.postgres.transactions import Transactions
    from settled.ports import Joint

    Record = Sequence[Any] | None
    """What the clock's record is to be."""


class Started(Struct):
    """A transaction that was begun for a tool."""

    number: str
    """The server's."""
    at: float
    """When, on this process's own clock."""
    guess: OwnBooks | None = None
    reading: Reading | None = None
    """Of the journal's clock, where it was asked for."""
    right: bool = True
    """Whether the guess was, if there is one."""
    still: Answer | None = None
    """What fails where the tool has ended it."""


class JointTransactions:
    """Makes them. ``perform`` performs a transition by itself."""

    def __init__(
        self,
        connections: Connections,
        lending: Lending,
        transactions: Transactions,
        clock: ServerClock,
        perform: Callable[[Transition[Any]], Any],
    ) -> None:
        self._connections, self._lending, self._transactions = connections, lending, transactions
        self._clock, self._given, self._perform = clock, transactions.given, perform

    def do(self, work: Joint) -> Any:
        """Do a tool's work and put it on record; return as ``TransactionalJournal.together`` does."""
        if self._lending.free:  # who finds that nothing is to be done does not wait for a connection
            foresight = self._transactions.known.foresee((work.first,))
            if foresight is not None:
                with suppress(Unforeseen):
                    return self._patiently(work, foresight)
        reply = self._perform(work.look)
        return self._patiently(work, None) if reply is None else reply

    def _patiently(self, work: Joint, foresight: Foresight | None) -> Any:
        """Make the transaction; once more while the server is away, as long as the tool was not called."""
        deadline = time.monotonic() + self._connections.patience
        while True:
            try:
                line = self._lending.take()
                try:
                    return self._together(line, work, foresight)
                finally:
                    self._lending.give_back(line)
            except (psycopg.Error, Conflict) as trouble:
                if work.ended is not None:
                    return None  # whether it was committed shows when its end is put on record: by the same id
                if not worth_repeating(trouble) or time.monotonic() >= deadline:
                    raise explained(trouble, self._connections.address.shown) from trouble
            time.sleep(uniform(0, 0.05))  # noqa: S311 - spreads those that wait; no secret

    def _together(self, line: Line, work: Joint, foresight: Foresight | None) -> Any:
        """Make the transaction. The tool works before anything is locked that others of this process may want.

        Raises:
            Unforeseen: What was foretold is not so; the tool was not called.
            Conflict: Others were faster. ``psycopg.Error``: nothing of it stands, unless that is ``away``.
            EndedByTool: The tool has ended the transaction itself.
        """
        guess = None if foresight is None else self._guess(line, work, foresight)
        try:
            started = self._begin(line, guess)
            if started.right:
                made = run_in(line, work)
                reply = None if made is None else self._put(line, made, started, work)
                if not work.committed:
                    _take_back(line, started.number)
                return reply
            line.send("ROLLBACK")
            line.push()
        except BaseException:
            line.close()  # whatever state it is in
            raise
        self._transactions.known.doubted.add(work.first.ask.tool)
        raise Unforeseen

    def _begin(self, line: Line, guess: OwnBooks | None) -> Started:
        """Begin a transaction; before it, in the same trip, see whether what was guessed is so.

        Not within it: a look would keep others from pausing the tool as long as it works.
        """
        before = self._clock.mono()
        asked = line.begin(None if guess is None else guess.assumed(asking_also))
        which = line.send(WHICH)
        line.settle()
        number, at = which.text(), self._clock.mono()
        if asked is None:
            return Started(number, at)
        *row, found = asked.fetchone() or (True,)
        reading = None if found or self._given else self._clock.read(row, before, at)
        return Started(number, at, guess, reading, right=not found)

    def _guess(self, line: Line, work: Joint, foresight: Foresight) -> OwnBooks:
        """Return books by which nothing stands in the way. Raises ``Unforeseen`` if something does, or may."""
        now = self._given() if self._given else self._clock.last
        books = OwnBooks(line, self._connections.identity.journal_id, foresight)
        with suppress(Exception):  # whatever it is, it shows when it has been looked first
            if now is not None and work.look.apply(books, now) is None:
                return books
        raise Unforeseen

    def _put(self, line: Line, made: Any, started: Started, work: Joint) -> Any:
        """Put work on record, and commit."""
        try:
            reply, books, record = self._foretold(line, made, started) or self._looked_up(line, made, started)
            if isinstance(reply, Call) and books.changed:
                self._end(line, books, record)
                self._transactions.known.doubted.discard(work.first.ask.tool)
                work.committed = True
        except psycopg.errors.DivisionByZero:
            if started.still is not None and started.still.failed:
                raise EndedByTool from None
            raise
        return reply

    def _foretold(self, line: Line, made: Any, started: Started) -> tuple[Any, PostgresBooks, Record] | None:
        """Send what puts work on record if all is as was foretold; ``None``: nothing was sent."""
        now, books, member = self._now(started), started.guess, Member(made)
        if now is None or books is None:
            return None
        books.within(started.number)
        try:
            books.apply(member, now)
        except Exception:  # noqa: BLE001 - whatever it is, it shows when it has been looked first
            return None
        answers = line.send_all(books.statements)
        started.still = answers[0]  # the insertion
        books.sent(answers)
        return member.reply, books, started.reading.record if started.reading else None

    def _now(self, started: Started) -> Moment | None:
        """Return the journal's time as it may be told without asking; ``None``: the tool took too long.

        A little late does no harm, for whose lease begins and ends in one commit.
        """
        if self._given is not None:
            return self._given()
        passed = self._clock.mono() - started.at
        return started.reading.moment.plus(passed) if started.reading and passed < FRESH else None

    def _looked_up(self, line: Line, made: Any, started: Started) -> tuple[Any, PostgresBooks, Record]:
        started.still = line.send(STILL, (started.number,))
        books, now, record = self._transactions.opened(line, [made], set())
        reply = made.apply(books, now)
        if isinstance(reply, Call):
            books.keep()
        return reply, books, record

    def _end(self, line: Line, books: PostgresBooks, record: Record) -> None:
        """Commit, and let the session be tidied meanwhile."""
        if record is not None:
            line.send(SET, record)
        commit = line.send("COMMIT")
        ended = line.sync()
        tidy(line)
        line.reach(ended)
        if commit.command != "COMMIT":
            raise Conflict
        self._transactions.see(books)


def _take_back(line: Line, number: str) -> None:
    """Roll back, and see that the tool has not committed by itself."""
    if not line.roll_back():
        line.close()
        return
    became = line.send(BECAME, (number,)).fetchone()
    if became is None or became[0] != "aborted":
        raise EndedByTool

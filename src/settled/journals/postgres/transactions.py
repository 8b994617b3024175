"""One batch of transitions as one transaction: each member ends alone, and nobody is told before the commit."""

from __future__ import annotations

import time
from random import uniform
from typing import TYPE_CHECKING, Any, Final

import psycopg

from settled.errors import JournalError
from settled.journals.postgres.books import PostgresBooks
from settled.journals.postgres.clock import ASK, FRESH, SET, SURELY, surely
from settled.journals.postgres.foresight import ForetoldBooks, Known
from settled.journals.postgres.locks import hints_of
from settled.journals.postgres.parameters import Numbers
from settled.journals.postgres.statements import LOCK
from settled.journals.postgres.trouble import Conflict, again, away, explained, worth_waiting
from settled.journals.stored import Errand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from settled.core.model import Moment
    from settled.journals.commit import Member
    from settled.journals.postgres.clock import ServerClock
    from settled.journals.postgres.connections import Connections
    from settled.journals.postgres.line import Answer, Line

LATE: Final = 0.25
EARLY: Final = 1.0
"""Seconds that the server's clock may be behind a guess of its time, and ahead of it: what the way there takes."""
_MOST_TOGETHER: Final = 3
"""Conflicts after which the members of a batch go on one by one."""


class Transactions:
    """Performs batches on the connection that writes.

    A transaction that met a conflict, or lost its connection - before, during or after its commit -, is made once
    more: each transition recognises its own repetition, so one whose commit was not answered is looked up that way.
    """

    def __init__(self, connections: Connections, clock: ServerClock, given: Callable[[], Moment] | None) -> None:
        self._connections = connections
        self._clock = clock
        self.given = given
        self.begin_anew()

    def begin_anew(self) -> None:
        """Know nothing: at first, and in a forked child."""
        self.known = Known()
        self._heard: tuple[Moment, float] | None = None
        """A reading of the journal's clock, and when it was asked for on this process's own; ``None``: look first."""

    def run(self, batch: Sequence[Member]) -> None:
        """Perform a batch; every member gets its reply or its error. Raises only what interrupts the thread."""
        groups = _together(batch)
        while groups:
            group = groups.pop(0)
            try:
                trouble = self._patiently(group)
            except BaseException:
                self._connections.drop_line()
                raise
            if trouble is None:
                continue
            if len(group) > 1 and not _concerns_all(trouble):
                groups[:0] = [[member] for member in group]  # whose it is shows when each goes alone
                continue
            for member in group:
                member.fail(_told(trouble, self._connections.address.shown))

    def _patiently(self, group: list[Member]) -> Exception | None:
        """Make the transaction until it is done; return what stands against it."""
        deadline = time.monotonic() + self._connections.patience
        locks: set[int] = set()
        conflicts = 0
        while True:
            trouble = self._once(group, locks)
            if trouble is None or not worth_repeating(trouble):
                return trouble
            if isinstance(trouble, Conflict) and trouble.lock is not None:
                locks.add(trouble.lock)
            conflicts += not _concerns_all(trouble)
            if time.monotonic() >= deadline or (conflicts >= _MOST_TOGETHER and len(group) > 1):
                return trouble
            time.sleep(uniform(0, 0.002 if conflicts else 0.05))  # noqa: S311 - spreads those that wait; no secret

    def _once(self, group: list[Member], locks: set[int]) -> Exception | None:
        """Make the transaction once; return what went wrong, after which nothing of it stands - or all of it does."""
        line: Line | None = None
        try:
            line = self._connections.line()
            line.pushed()  # trouble with what was done before is told apart from trouble with this
            group[:] = self._foretold(line, group)
            if group:
                self._perform(line, group, locks)
        except Conflict as conflict:
            self._roll_back(line)
            return conflict
        except psycopg.Error as fault:
            self._roll_back(line)
            return fault
        except JournalError as fault:
            self._roll_back(line)
            return fault
        return None

    def _foretold(self, line: Line, group: list[Member]) -> list[Member]:
        """Perform the members without looking first, where it can be told what they would see.

        Returns:
            Those who are still to be performed: something was there that had not been foretold.
        """
        now = self._about_now()
        foresight = None if now is None else self.known.foresee([member.transition for member in group])
        if now is None or foresight is None:
            return group
        books = ForetoldBooks(line, self._connections.identity.journal_id, foresight)
        try:
            if len(group) > 1:
                self._send_all(line, books, group, now)
            else:
                books.apply(group[0], now)
            self._commit(line, books, now)
        except (psycopg.Error, Conflict):
            self.known.forget(foresight)
            self._heard = None
            raise
        except Exception:  # noqa: BLE001 - whatever it is, it shows when it has been looked first
            line.roll_back()
            return group
        wrong = books.wrong()
        self.known.learn(books.written)
        self.known.doubt(wrong)
        return wrong

    def _send_all(self, line: Line, books: ForetoldBooks, group: list[Member], now: Moment) -> None:
        """Send what each of several writes as soon as it is said: the server works while the next rule is applied."""
        before = self._clock.mono()
        line.begin()
        if self.given is None:
            books.asked = line.send(SURELY, _about(now)), before
        for member in group:
            books.apply(member, now)
            books.sent(line.send_all(books.statements))

    def _commit(self, line: Line, books: ForetoldBooks, now: Moment) -> None:
        """Commit what was sent, or else write what is held back, unless the time is not about ``now``."""
        statements, before = books.statements, self._clock.mono()
        lately = self._heard is not None and before - self._heard[1] < FRESH / 4
        if not statements:
            line.send("COMMIT")
            line.settle()
        elif self.given is not None:
            books.sent(line.at_once(statements))
        elif lately and len(statements) == 1:
            statement, values = statements[0]
            books.sent(line.at_once([(surely(statement), (*values, *_about(now)))]))
        else:
            asked, *answers = line.at_once([(SURELY, _about(now)), *statements])
            books.asked = asked, before
            books.sent(answers)
        if books.asked is not None and not lately:
            self._hear(*books.asked)
        self.see(books)

    def _hear(self, asked: Answer, before: float) -> None:
        """Read the time of an answer."""
        reading = self._clock.read(asked.fetchone()[:-1], before, self._clock.mono())
        self._heard = None if reading.record is not None else (reading.moment, before)

    def see(self, books: PostgresBooks) -> None:
        """Remember how far the journal has come."""
        if books.log_row is not None:
            identity = self._connections.identity
            identity.seen = max(identity.seen, books.log_row.number())

    def _about_now(self) -> Moment | None:
        """Return the journal's time as it may be told without asking: never early; ``None``: not heard of late."""
        if self.given is not None:
            return self.given()
        if self._heard is None:
            return None
        last, asked = self._heard
        passed = self._clock.mono() - asked
        return last.plus(passed) if passed < FRESH else None

    def _perform(self, line: Line, group: list[Member], locks: set[int]) -> None:
        line.begin()
        books, now, record = self.opened(line, [member.transition for member in group], locks)
        for member in group:
            _apply(member, books, now)
        self._end(line, books, record)
        self.known.learn(books.written, group)

    def opened(
        self, line: Line, transitions: Sequence[Any], locks: set[int]
    ) -> tuple[PostgresBooks, Moment, Sequence[Any] | None]:
        """Ask for what transitions will look at; return the books, the time, and what the clock's record is to be."""
        hints = hints_of(transitions)
        held = hints.locks(self._connections.identity.journal_id) | locks
        if held:
            line.send(LOCK, (Numbers(sorted(held)),))
        before = self._clock.mono()
        asked = line.send(ASK) if self.given is None else None
        books = PostgresBooks(line, self._connections.identity.journal_id, held)
        books.prefetch(hints)
        record: Sequence[Any] | None = None
        if asked is None:
            assert self.given is not None  # noqa: S101 - for the type checker: one of the two there is
            now = self.given()
        else:
            reading = self._clock.read(asked.fetchone() or (), before, self._clock.mono())
            now, record = reading.moment, reading.record
            self._heard = now, before
        return books, now, record

    def _end(self, line: Line, books: PostgresBooks, record: Sequence[Any] | None) -> None:
        if record is not None:
            line.send(SET, record)  # at the end: others wait for this row no longer than the commit takes
        if record is None and not books.changed:
            line.send("COMMIT")  # only read: there is nothing to make durable, or to wait for
            line.push()
            return
        ended = line.send("COMMIT")
        line.settle()
        if ended.command != "COMMIT":
            raise Conflict
        self.see(books)

    def _roll_back(self, line: Line | None) -> None:
        if line is not None and (line.connection.closed or not line.roll_back()):
            self._connections.drop_line()


def _together(batch: Sequence[Member]) -> list[list[Member]]:
    """Return the members in groups, one for each transaction."""
    alone = [member for member in batch if isinstance(member.transition, Errand) and member.transition.alone]
    others = [member for member in batch if member not in alone]
    return [group for group in (others, *([member] for member in alone)) if group]


def _apply(member: Member, books: PostgresBooks, now: Moment) -> None:
    member.reply, member.error = None, None
    try:
        member.reply = member.transition.apply(books, now)
    except (psycopg.Error, Conflict):
        raise  # the transaction is over
    except Exception as error:  # noqa: BLE001 - the rule's own; its caller gets it, the others go on
        books.undo()
        member.fail(error)
    else:
        books.keep()


def _about(now: Moment) -> tuple[float, float]:
    return now.mono - LATE, now.mono + EARLY


def worth_repeating(trouble: Exception) -> bool:
    """Whether the same transaction may succeed when it is made once more."""
    if isinstance(trouble, psycopg.Error):
        return again(trouble) or worth_waiting(trouble)
    return isinstance(trouble, Conflict)


def _concerns_all(trouble: Exception) -> bool:
    """Whether it has nothing to do with what the members wrote."""
    return isinstance(trouble, JournalError) or (isinstance(trouble, psycopg.Error) and away(trouble))


def _told(trouble: Exception, shown: str) -> JournalError:
    """Return an error for one member; each waiting thread raises one of its own."""
    if isinstance(trouble, JournalError):
        error = JournalError(*trouble.args)
        error.__cause__ = trouble.__cause__
        return error
    lost = isinstance(trouble, psycopg.Error) and away(trouble)
    return explained(trouble, shown, doing="it is not known to be recorded; perform again" if lost else NOTHING)


NOTHING: Final = "nothing was recorded"

"""What a batch of transitions will find where that can be told beforehand: then one trip asks, writes and commits.

That a new call is like no other, and that a call at work stands as this process has left it. The rules are applied to
that at once; and what they took for granted travels with what they write, for the server to see whether it holds: an
insertion that does nothing if there is anything like it, a fence on what is changed. Nothing else is guessed.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from settled.core.ask import Begun
from settled.core.attempts.progress import Close, End
from settled.core.matching.claim import Claim
from settled.core.model import KeyKind
from settled.core.noted.notes import PAUSED
from settled.core.states import State
from settled.journals.books import BY_KEY, NOTE, TableBooks, log_values
from settled.journals.postgres.books import PostgresBooks
from settled.journals.postgres.locks import looked_for_outside
from settled.journals.postgres.statements import inserted_unless, inserted_whole
from settled.journals.rows import changing, fixed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from settled.core.ask import Ask
    from settled.core.call import Call, LogRow
    from settled.core.model import Moment
    from settled.journals.commit import Member
    from settled.journals.postgres.line import Answer, Line, Statement

    LookUp = tuple[str, tuple[Any, ...]]
    """A statement and its values."""

_MOST_OWN: Final = 10_000
"""Own calls at work that are remembered as they stand."""


class Unforeseen(Exception):  # noqa: N818 - it never leaves the journal: the guess is given up
    """A rule looks at something, or answers by something, that cannot be told beforehand."""


class _Nothing:
    """What a look-up finds that finds nothing."""

    rowcount = 0

    def fetchone(self) -> None:
        """Return that there is no row."""

    def fetchall(self) -> list[Any]:
        """Return no rows."""
        return []

    def __iter__(self) -> Iterator[Any]:
        return iter(())


_NOTHING: Final = _Nothing()


class Foresight:
    """What some transitions will find."""

    __slots__ = ("calls", "nothing", "tools")

    def __init__(self) -> None:
        self.calls: dict[str, Call | None] = {}
        self.tools: set[str] = set()
        """Of which there are new calls."""
        self.nothing: dict[LookUp, Any] = {}
        """Look-ups that will find nothing."""

    def add(self, transition: Any, known: Known) -> bool:
        """Take in what one more will find; return whether that can be told."""
        kind = type(transition)
        if kind is End or kind is Close:
            if kind is End and transition.checkpoint is not None:
                return False  # a run's state is kept under the lock of its scope
            operation_id = transition.operation_id
            self.calls[operation_id] = call = known.own.get(operation_id)
            return call is not None
        if kind is Claim:
            return _is_simple(transition) and self._add_ask(transition.ask, known)
        inside = getattr(transition, "transition", None)
        return inside is not None and self.add(inside, known)

    def _add_ask(self, ask: Ask, known: Known) -> bool:
        if ask.tool in known.doubted:
            return False
        nothing: Sequence[LookUp] = looked_for_outside(ask)
        if ask.kind is not KeyKind.RANDOM:
            nothing = ((BY_KEY, (ask.key,)),)
        if not self.nothing.keys().isdisjoint(nothing):
            return False  # two like ones: the second will find the first
        self.calls[ask.operation_id] = None
        self.tools.add(ask.tool)
        self.nothing.update(dict.fromkeys(nothing, _NOTHING))
        self.nothing[NOTE, (PAUSED, ask.tool)] = _NOTHING
        return True


_SAID: Final = attrgetter(
    *("begin", "pinned", "charge"),
    *(f"ask.{name}" for name in ("scope", "run_id", "entry", "told", "leave", "falls_to", "instead")),
)
_OF_A_SIMPLE_ONE: Final = (True, "", None, "", "", None, "", None, (), None)


def _is_simple(claim: Claim) -> bool:
    """Whether it begins a call outside of any run and other call, of which nothing is known in its process."""
    ask = claim.ask
    return _SAID(claim) == _OF_A_SIMPLE_ONE and ask.kind is not KeyKind.SCOPED and ask.while_unknown != "any"


class Known:
    """What this process knows of the journal."""

    def __init__(self) -> None:
        self.own: OrderedDict[str, Call] = OrderedDict()
        """Calls at work that it has put on record itself, as they stand."""
        self.doubted: set[str] = set()
        """Tools whose last call was not like no other."""

    def foresee(self, transitions: Iterable[Any]) -> Foresight | None:
        """Return what these transitions will find; ``None``: not all of it can be told."""
        foresight = Foresight()
        for each in transitions:
            if not foresight.add(each, self):
                return None
        return foresight

    def learn(self, written: Mapping[str, Call | None], members: Iterable[Member] = ()) -> None:
        """What these members have written was committed."""
        own = self.own
        for operation_id, call in written.items():
            if call is None or call.state is not State.PROCESSING:
                own.pop(operation_id, None)
            else:
                own[operation_id] = call
        while len(own) > _MOST_OWN:
            own.popitem(last=False)
        for member in members:
            if isinstance(member.reply, Begun):
                self.doubted.discard(member.reply.call.tool)

    def doubt(self, members: Iterable[Member]) -> None:
        """Something like these new calls was there already: look first, the next time."""
        for member in members:
            claim: Any = getattr(member.transition, "transition", member.transition)
            self.doubted.add(claim.ask.tool)

    def forget(self, foresight: Foresight) -> None:
        """This may not have been true: look first, the next time."""
        self.doubted |= foresight.tools
        for operation_id in foresight.calls:
            self.own.pop(operation_id, None)


class ForetoldBooks(PostgresBooks):
    """Books that are not looked up but foretold; what is written is held back until all members have been applied.

    Every verb raises ``Unforeseen`` for what was not foretold.
    """

    asked: tuple[Answer, float] | None = None
    """What will tell the time, and when it was asked for on this process's own clock."""
    _new = ""
    """The call that the member under way has inserted."""
    _last_put = -1

    def __init__(self, line: Line, journal_id: str, foresight: Foresight) -> None:
        super().__init__(line, journal_id, set())
        self._calls = dict(foresight.calls)
        self._foreseen = foresight.nothing
        self._assumed: list[str] = []
        """What the member under way took for granted to find nothing, and what its insertion is bound to."""
        self._values: list[Any] = []
        """The values of that."""
        self._insertions: list[tuple[Member, int, str]] = []
        """Of whom, by which statement, of which call."""
        self._answers: list[Answer] = []

    def look(self, statement: str, *values: Any) -> Any:
        """Find nothing, if that was foretold."""
        look_up = statement, values
        if look_up not in self._foreseen:
            raise Unforeseen
        self._assumed.append(statement)
        self._values += values
        return _NOTHING

    def note(self, kind: str, name: str) -> str | None:
        """Return that nothing is noted, if that was foretold: each insertion is bound to it by itself."""
        return TableBooks.note(self, kind, name)

    def put(self, call: Call, row: LogRow) -> None:
        """Keep a call and the log row of its change; what was foretold is not forgotten: the server looks anyway."""
        before = self._calls.get(call.operation_id)
        if row.no == 1:
            self._insert(call, row)
        elif before is None or before.log_no != row.no - 1:
            raise Unforeseen
        else:
            self._update(before, call, row)
        self._now_stands(call.operation_id, call, call.key)

    def _insert(self, call: Call, row: LogRow) -> None:
        """Let the insertion do nothing if anything is found by what was looked for."""
        statement, values = self.assumed(inserted_unless)
        self._new = call.operation_id
        self.statements.append((statement, (*fixed(call), *changing(call), *values, *log_values(row)[1:])))

    def assumed(self, statement: Callable[..., str]) -> Statement:
        """Return a statement over what was taken for granted since the last one, and the values of that."""
        made, values = statement(*self._assumed), self._values
        self._assumed, self._values = [], []
        return made, values

    def _now_stands(self, operation_id: str, call: Call | None, key: str) -> None:
        """What a member has written nobody else of its batch may build on: it may not be written."""
        del key
        self._calls.pop(operation_id, None)
        self.written[operation_id] = call
        self._last_put = len(self._answers) + len(self.statements) - 1

    def apply(self, member: Member, now: Moment) -> None:
        """Apply the rule of one member. Raises ``Unforeseen``, or what the rule raises."""
        before = self._last_put
        member.reply, member.error = member.transition.apply(self, now), None
        if self._assumed or self._values or self._last_put == before:
            raise Unforeseen  # nothing would see whether it was right
        if self._new:
            self._insertions.append((member, self._last_put, self._new))
            self._new = ""

    def sent(self, answers: list[Answer]) -> None:
        """What was held back was sent, and these are the answers."""
        self.changed = True
        self.statements.clear()
        self._answers += answers
        self.log_row = self._answers[self._last_put]

    def wrong(self) -> list[Member]:
        """Return the members whose insertion has found something, after all; nothing of them was written."""
        found = []
        for member, number, operation_id in self._insertions:
            if self._answers[number].empty:
                del self.written[operation_id]
                found.append(member)
        return found


class OwnBooks(ForetoldBooks):
    """Of one member that is alone in its transaction: whatever becomes of its new call there is inserted at once."""

    def __init__(self, line: Line, journal_id: str, foresight: Foresight) -> None:
        super().__init__(line, journal_id, foresight)
        self._call: Call | None = None
        """As it stands in the end."""
        self._rows: list[LogRow] = []
        """Of its log."""

    def within(self, number: str) -> None:
        """Bind the insertion to a transaction of the server, too."""
        self._values = [number]

    def put(self, call: Call, row: LogRow) -> None:
        """Keep the call and a log row of its change. Nobody waits for a call that nobody has seen: nobody is told."""
        if row.no != len(self._rows) + 1 or (self._call and self._call.operation_id != call.operation_id):
            raise Unforeseen
        self._rows.append(row)
        self._call = self._calls[call.operation_id] = self.written[call.operation_id] = call

    def apply(self, member: Member, now: Moment) -> None:
        """Apply the rule of the member. Raises ``Unforeseen``, or what the rule raises."""
        member.reply, call = member.transition.apply(self, now), self._call
        if call is None:
            raise Unforeseen
        statement, values = self.assumed(partial(inserted_whole, len(self._rows)))
        rows = [value for row in self._rows for value in log_values(row)[1:]]
        self.statements.insert(0, (statement, (*fixed(call), *changing(call), *values, *rows)))
        self._last_put = 0

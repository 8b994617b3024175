"""One transaction on its way: look, apply the rules, commit if all that was looked at still stands."""

from __future__ import annotations

import time
from random import uniform
from typing import TYPE_CHECKING, Any, Final

from settled.journals.redis.books import RedisBooks
from settled.journals.redis.cells import text_of
from settled.journals.redis.foresight import Hints, hints_of
from settled.journals.redis.sight import Sight
from settled.journals.redis.trouble import Conflict, Fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.model import Moment
    from settled.journals.commit import Member
    from settled.journals.redis.transactions import Transactions

_MOST_TOGETHER: Final = 5
"""Conflicts after which the members of a batch go on one by one."""


class _Unforeseen(Exception):  # noqa: N818 - it never leaves this module: the guess is given up
    """A guess does not cover what a rule looks at."""


def _refuse(_: Sight, wanted: Sight) -> None:
    raise _Unforeseen(wanted)


def _refuse_look(asked: Sequence[tuple[Any, ...]]) -> list[Any]:
    raise _Unforeseen(asked)


class Attempt:
    """One transaction on its way."""

    trips: int
    """How often the journal was looked at for what stands in the sight."""
    _deadline: float

    def __init__(self, common: Transactions, group: Sequence[Member]) -> None:
        self.common, self.group = common, group
        self.transitions = [getattr(each.transition, "transition", each.transition) for each in group]
        """Without what wraps them."""
        self.hints = hints_of(self.transitions)
        self._found: tuple[Sight, Moment] | None = None
        """What stands, where a commit by a guess has found something else."""

    def make(self, deadline: float) -> None:
        """Make it. Raises ``Conflict`` if others keep changing what it looks at."""
        self._deadline = deadline
        if self._guessing():
            return
        sight, now = self._found or self._shown(self.hints)
        conflicts = 0
        while True:
            self.trips = 1
            books = RedisBooks(sight, self._fetch, self.common.look)
            self._apply(books, now)
            if not books.pages.changed and self.trips == 1 and self.common.clock_record is None:
                return
            found = self._commit(books, None)
            if found is None:
                self.common.learn(self.group)
                return
            conflicts += 1
            if time.monotonic() >= deadline or (conflicts >= _MOST_TOGETHER and len(self.group) > 1):
                raise Conflict
            if conflicts > 1:
                time.sleep(uniform(0, 0.0005 * min(conflicts, 20)))  # noqa: S311 - spreads those that wait; no secret
            sight, now = found

    def _guessing(self) -> bool:
        """Commit by what may be guessed, without looking first; return whether that was right."""
        common = self.common
        sight = common.foretold(self.transitions, self.hints)
        now = None if sight is None else common.about_now()
        if sight is None or now is None:
            return False
        books = RedisBooks(sight, _refuse, _refuse_look)
        try:
            self._apply(books, now)
        except _Unforeseen:
            return False
        found = self._commit(books, now)
        if found is None:
            return True
        common.doubt(self.transitions)
        common.forget_own(sight.calls)
        self._found = found
        return False

    def _fetch(self, sight: Sight, wanted: Sight) -> None:
        """Look once more, at what was not foreseen. Raises ``Conflict`` if what was seen before has changed."""
        hints = Hints()
        hints.put_first(wanted)
        self.hints.put_first(wanted)
        self.trips += 1
        found, _ = self._shown(hints)
        if not sight.add(found):
            raise Conflict

    def _shown(self, hints: Hints) -> tuple[Sight, Moment]:
        shown, before = self.common.ask(self.common.request(hints))
        return self._read(hints, shown, before)

    def _read(self, hints: Hints, shown: Sequence[Any], before: float) -> tuple[Sight, Moment]:
        at = 3 + len(hints.fields)
        rows = dict(zip(hints.fields, shown[3:at], strict=True))
        ranges: dict[bytes, Sequence[bytes]] = {}
        for prefix in hints.prefixes:
            end = at + 1 + shown[at]
            ranges[prefix], at = shown[at + 1 : end], end
        records = at + (len(shown) - at - len(hints.ids)) // 2
        calls = dict(zip((*hints.ids, *map(text_of, shown[at:records])), shown[records:], strict=True))
        return Sight(calls, rows, ranges), self.common.hear(shown, before)

    def _apply(self, books: RedisBooks, now: Moment) -> None:
        """Apply the rules of all members, each by itself."""
        for member, transition in zip(self.group, self.transitions, strict=True):
            member.reply, member.error = None, None
            try:
                member.reply = member.transition.apply(books, now)
            except (Fault, OSError, Conflict, _Unforeseen):
                raise
            except Exception as error:  # noqa: BLE001 - the rule's own; its caller gets it, the others go on
                books.undo()
                member.fail(error)
            else:
                if books.member_wrote:
                    self._keep(books, member, transition)

    def _keep(self, books: RedisBooks, member: Member, transition: Any) -> None:
        refused = self.common.refused(transition, member.reply)
        if refused is None:
            books.keep()
        else:
            books.undo()
            member.fail(refused)

    def _commit(self, books: RedisBooks, about: Moment | None) -> tuple[Sight, Moment] | None:
        """Commit; return what stands if that is not what was looked at."""
        self.hints.put_first(books.read)
        common = self.common
        answer, before = common.ask_surely(common.commit(self.hints, books, about), self._deadline)
        if answer[0] == b"shown":
            return self._read(self.hints, answer, before)
        common.hear_now_and_then(answer, before)
        common.wrote(books, answer[1] if answer[0] == b"written" else None)
        return None

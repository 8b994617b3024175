"""Sealing and checking the log. Its rows are numbered in their commits, so none can come before one that is there."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from settled.core.call import chain
from settled.core.states import Event
from settled.core.values import replace
from settled.journals.audit import (
    MOST_IN_SEAL,
    broken_chains,
    broken_seals,
    head_of,
    missing_head,
    off_its_log,
    seal_over,
)
from settled.journals.redis.cells import VERSION, log_of, packed, raw, stored, unpack
from settled.journals.redis.lists import CALLS, LOG, META, ROWS, values_of
from settled.ports import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from settled.core.call import Call, LogRow
    from settled.core.model import Moment
    from settled.journals.redis.books import RedisBooks
    from settled.journals.redis.lists import Look

_SEALED: Final = b"sealed"
"""The row that says how many seals there are, how far the newest goes, and its text."""
_ROOT: Final = b"root"
"""The same of the newest one whose rows are gone."""
_PAGE: Final = 500
_MOST_PROBLEMS: Final = 100


def rows_after(look: Look, number: int, most: int | None = None) -> Iterator[tuple[int, LogRow]]:
    """Yield the rows of the log behind the one with a number, with their own numbers, at most so many."""
    left = most
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        (entries,) = look([(b"XRANGE", LOG, b"%d" % (number + 1), b"+", b"COUNT", b"%d" % size)])
        for entry, (_, data, *_) in entries:
            number = int(entry.split(b"-")[0])
            yield number, log_of(data)
        if len(entries) < size:
            return
        left = None if left is None else left - len(entries)


def seal(books: RedisBooks, look: Look, now: Moment) -> int:
    """Chain the heads that are new since the last seal, ``MOST_IN_SEAL`` at most; return how many there were."""
    number, upto, previous = _sealed(books.row(_SEALED))
    new = list(rows_after(look, upto, MOST_IN_SEAL))
    if not new:
        return 0
    last, text = new[-1][0], seal_over(previous, (head_of(row) for _, row in new))
    books.set_row(_SEALED, packed((number + 1, last, text)))
    books.set_row(b"seal %d" % (number + 1), packed((last, now.wall, text)))
    return len(new)


def trim(books: RedisBooks, look: Look, now: Moment, kept: float) -> bool:
    """Let the rows go that the oldest seal covers, if it is older than so many seconds; return whether there were any.

    The seal stays as the root of those behind it. With the last row of a call that is forgotten its name goes too.
    """
    number, upto, _ = _sealed(books.row(_ROOT))
    found = books.row(b"seal %d" % (number + 1))
    last, at, text = unpack(found) if found else (0, now.wall, "")
    if not found or now.wall - at < kept:
        return False
    names = dict.fromkeys(b"log " + raw(row.operation_id) for _, row in rows_after(look, upto, last - upto))
    books.see_rows(list(names))
    for name in names:
        if int(books.row(name) or last + 1) <= last:
            books.set_row(name, None)
    books.set_row(_ROOT, packed((number + 1, last, text)))
    books.set_row(b"seal %d" % (number + 1), None)
    books.trim(last)
    return True


def _sealed(value: bytes | None) -> tuple[int, int, str]:
    """Return how many seals there are, how far the newest goes, and its text."""
    number, upto, text = unpack(value) if value else (0, 0, "")
    return number, upto, text


def _newest(value: bytes | None) -> tuple[int, int, str]:
    return _sealed(value[VERSION:] if value else None)


def unsealed(look: Look) -> bool:
    """Whether there are rows that no seal covers."""
    rows, sealed = look([(b"HGET", META, b"rows"), (b"HGET", ROWS, _SEALED)])
    return int(rows) > _newest(sealed)[1]


def head(look: Look) -> str:
    """Return the newest seal; empty before the first."""
    (sealed,) = look([(b"HGET", ROWS, _SEALED)])
    return _newest(sealed)[2]


def verify(look: Look, kept: str | None) -> Report:
    """Check chains, seals and calls, while others go on writing.

    Calls are read before their log, which is at least as new then: its newer rows are left out. Of the log what went
    while it was read is left out, too: its oldest rows, seal by seal.
    """
    (newest,) = look([(b"HGET", META, b"rows")])
    calls = {call.operation_id: call for call in _all_calls(look)}
    (_, since, first), *known_seals = _seals(look)
    found = list(rows_after(look, since))
    (root,) = look([(b"HGET", ROWS, _ROOT)])
    number, upto, text = _newest(root)
    rows, logs, later = [], defaultdict(list), set()
    for no, row in found:
        if no > upto:
            rows.append(row)
            logs[row.operation_id].append(row)
            if row.no == 1 and no > int(newest):
                later.add(row.operation_id)
    seals = [(last, own) for last, own in known_seals if last > upto]
    whole = [log for log in logs.values() if log[0].no == 1 or not upto]
    problems = [*broken_chains(row for log in whole for row in log), *broken_seals(rows, seals, (upto, text))]
    problems += [each for log in logs.values() if log[0].no > 1 and upto for each in _broken_rest(log)]
    known = [(op, call) for op, call in calls.items() if not upto or _rows_of(call, logs.get(op, [])) > 0]
    problems += filter(None, (off_its_log(call, logs[op][: _rows_of(call, logs[op])]) for op, call in known))
    problems += filter(None, (_left_behind(op, log) for op, log in logs.items() if op not in calls and op not in later))
    absent = missing_head(kept, {first, text, *(own for _, own in known_seals)})
    problems += [absent] if absent else []
    more = len(problems) - _MOST_PROBLEMS
    shown = [*problems[:_MOST_PROBLEMS], f"and {more} more"] if more > 0 else problems
    facts = {"rows": len(rows), "seals": len(seals)} | ({"rows_let_go": upto} if number else {})
    return Report(ok=not problems, facts=facts, problems=shown)


def _broken_rest(log: list[LogRow]) -> Iterator[str]:
    """Yield a line for each row that does not follow from the one before, in a log whose first rows are gone."""
    for before, row in pairwise(log):
        if row.no != before.no + 1 or chain(before.head, replace(row, head="")) != row.head:
            yield f"{row.operation_id}: log row {row.no} does not follow from row {before.no}: rows were changed"


def _rows_of(call: Call, log: list[LogRow]) -> int:
    """Return how many rows of its log a call had when it was read; of one that was cut off the first are not there."""
    return call.log_no - (log[0].no - 1) if log else 0


def _left_behind(operation_id: str, log: list[LogRow]) -> str | None:
    """Say that a call is gone although its log does not end with that."""
    if not log or log[-1].event is Event.EXPIRE:
        return None
    return f"{operation_id}: the call was deleted; its log ends at {log[-1].state}, row {log[-1].no}"


def _all_calls(look: Look) -> Iterator[Call]:
    cursor: Any = b"0"
    while True:
        (answer,) = look([(b"HSCAN", CALLS, cursor, b"COUNT", b"%d" % _PAGE)])
        cursor, found = answer
        for i in range(0, len(found), 2):
            yield stored(found[i], found[i + 1]).call
        if cursor == b"0":
            return


def _seals(look: Look) -> list[Any]:
    """Return the root - number, row and text -, then row and text of each seal behind it."""
    sealed, root = look([(b"HGET", ROWS, _SEALED), (b"HGET", ROWS, _ROOT)])
    first = _newest(root)
    names = [b"seal %d" % number for number in range(first[0] + 1, _newest(sealed)[0] + 1)]
    found = (unpack(value[VERSION:]) for value in values_of(look, ROWS, names) if value)
    return [first, *((int(upto), str(text)) for upto, _, text in found)]

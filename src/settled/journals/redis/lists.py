"""Lists and small states: what people and background threads look at. No rule is here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from settled.core.states import State
from settled.journals.audit import matches
from settled.journals.redis.cells import (
    ALERTS,
    PLACE,
    PREFIX,
    VERSION,
    last_row,
    log_of,
    moment_text,
    name,
    note_row,
    packed,
    prefix,
    raw,
    run_of,
    stored,
    text_of,
    unpack,
)
from settled.journals.rows import from_json, plain, to_json
from settled.journals.unread import readable
from settled.ports import Alert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from settled.core.books import RunRecord
    from settled.core.call import Call, LogRow
    from settled.core.model import Moment
    from settled.journals.redis.books import RedisBooks
    from settled.journals.redis.cells import Stored
    from settled.ports import CallQuery

    Look = Callable[[Sequence[tuple[Any, ...]]], list[Any]]
    """Asks the server several things at one moment: each a command, the part that it reads, and its arguments."""

META, CALLS, ROWS, INDEX, LOG = b"1", b"2", b"3", b"4", b"5"
"""The parts of the journal, as numbers of the scripts' keys."""

_PAGE: Final = 256
_MOST_AT_ONCE: Final = 500
"""Values that one script reads: while it runs the server answers nobody else."""
_PIECE: Final = 64
"""Records, each with all that a call was given and gave, that are in memory at once."""
_MOST_DUE: Final = 1000
_BREAKERS: Final = b"breakers"


def get(look: Look, operation_id: str) -> Call | None:
    """Return one call."""
    name = raw(operation_id)
    (value,) = look([(b"HGET", CALLS, name)])
    return None if value is None else stored(name, value).call


def log(look: Look, operation_id: str) -> list[LogRow]:
    """Return the log of one call, oldest first: each row knows the one before it."""
    name = raw(operation_id)
    value, gone = look([(b"HGET", CALLS, name), (b"HGET", ROWS, b"log " + name)])
    number, rows = last_row(value) if value else (gone or b"")[VERSION:], []
    while number:
        (entries,) = look([(b"XRANGE", LOG, number, number)])
        if not entries:  # it was older than the log is kept for
            break
        ((_, (_, data, _, number)),) = entries
        rows.append(log_of(data))
    return rows[::-1]


def values_of(look: Look, part: bytes, names: Sequence[bytes]) -> list[Any]:
    """Return what lies under these names in one part; of very many not at one moment."""
    pieces = (names[i : i + _MOST_AT_ONCE] for i in range(0, len(names), _MOST_AT_ONCE))
    return [value for piece in pieces for value in look([(b"HGET", part, each) for each in piece])]


# --- finding ---


def find(look: Look, query: CallQuery, now: Moment) -> list[Call]:
    """List calls, newest first."""
    states = _states(query)
    if states == [] or query.limit <= 0:
        return []
    before = _place_of(look, query.after)
    if before is None:
        return []
    if query.past_retention:
        return _due(look, query, now, before)
    found: list[Call] = []
    for operation_ids in _pages(look, _starts(query, states), before):
        found += [each.call for each in _stored(look, operation_ids, query) if matches(each.call, query, now)]
        if len(found) >= query.limit:
            break
    return found[: query.limit]


def _states(query: CallQuery) -> list[State] | None:
    """Return the states that are possible; ``None``: any."""
    if not query.lease_over:
        return None if query.states is None else list(dict.fromkeys(query.states))
    return [State.PROCESSING] if query.states is None or State.PROCESSING in query.states else []


def _starts(query: CallQuery, states: list[State] | None) -> list[bytes]:
    """Return prefixes whose members hold all that is asked for: few calls among many, where that is possible."""
    if states is not None and State.SUCCEEDED not in states:
        return [prefix("state", state.value) for state in states]
    return [prefix("disputed" if query.disputed else "all")]


def _place_of(look: Look, operation_id: str | None) -> bytes | None:
    if operation_id is None:
        return b"~"
    (value,) = look([(b"HGET", CALLS, raw(operation_id))])
    return None if value is None else bytes(value[VERSION : VERSION + PLACE])


def _pages(look: Look, starts: list[bytes], before: bytes) -> Iterator[list[bytes]]:
    """Yield what members lead to by pages, the newest first over all prefixes, made before the place ``before``."""
    while True:
        asked = [
            (b"ZREVRANGEBYLEX", INDEX, b"(" + start + before, b"[" + start, b"LIMIT", b"0", b"%d" % _PAGE)
            for start in starts
        ]
        members = [member[PREFIX:] for found in look(asked) for member in found]
        page = sorted(members, reverse=True)[:_PAGE]
        yield [member[PLACE:] for member in page]
        if len(page) < _PAGE:
            return
        before = page[-1][:PLACE]


def _stored(look: Look, operation_ids: Sequence[bytes], query: CallQuery) -> list[Stored]:
    """Return those of these calls that are there - and that can be read, where that is asked for."""
    values = values_of(look, CALLS, operation_ids)
    there = [(name, value) for name, value in zip(operation_ids, values, strict=True) if value]
    return readable(lambda pair: stored(*pair), there) if query.readable else [stored(*pair) for pair in there]


def oldest_first(look: Look, start: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the calls that are found by a prefix, with their values, the oldest first; fetched piece by piece.

    There may be very many, of which few are looked for: the server is never held up for all of them.
    """
    after = b"[" + start
    while True:
        (members,) = look([(b"ZRANGEBYLEX", INDEX, after, b"(" + start + b"\xff", b"LIMIT", b"0", b"%d" % _PIECE)])
        names = [member[PREFIX + PLACE :] for member in members]
        pairs = zip(names, values_of(look, CALLS, names), strict=True)
        yield from [(text_of(each), value) for each, value in pairs if value]
        if len(members) < _PIECE:
            return
        after = b"(" + members[-1]


def _due(look: Look, query: CallQuery, now: Moment, before: bytes) -> list[Call]:
    """Return calls that are due, newest first; where there are very many, of those that have been due for longest."""
    start = prefix("due")
    until = b"(" + start + moment_text(now.wall + 0.001)
    (members,) = look(
        [(b"ZRANGEBYLEX", INDEX, b"[" + start, until, b"LIMIT", b"0", b"%d" % max(_MOST_DUE, query.limit))]
    )
    calls = _stored(look, [member[PREFIX + PLACE :] for member in members], query)
    found = sorted(calls, key=lambda each: each.place, reverse=True)
    return [each.call for each in found if each.place < before and matches(each.call, query, now)][: query.limit]


def count(look: Look) -> dict[State, int]:
    """Return how many calls stand in each state."""
    others = [state for state in State if state is not State.SUCCEEDED]
    spans = [(b"ZLEXCOUNT", INDEX, b"[" + (p := prefix("state", s.value)), b"(" + p + b"\xff") for s in others]
    total, *numbers = look([(b"HLEN", CALLS), *spans])
    counts: dict[State, int] = {state: number for state, number in zip(others, numbers, strict=True) if number}
    succeeded = total - sum(counts.values())
    return {**counts, State.SUCCEEDED: succeeded} if succeeded else counts


def runs(look: Look, limit: int) -> list[RunRecord]:
    """List runs, newest first."""
    start = prefix("runs")
    most = (b"LIMIT", b"0", b"%d" % max(0, limit))
    return _runs(look, (b"ZREVRANGEBYLEX", INDEX, b"(" + start + b"\xff", b"[" + start, *most))


def undoing(look: Look, limit: int) -> list[RunRecord]:
    """Return the runs that are being undone, or are undone in part, the oldest first."""
    start = prefix("undoing")
    most = (b"LIMIT", b"0", b"%d" % max(0, limit))
    return _runs(look, (b"ZRANGEBYLEX", INDEX, b"[" + start, b"(" + start + b"\xff", *most))


def runs_named(look: Look, run_id: str, limit: int) -> list[RunRecord]:
    """List the runs with this id, of whatever tenant, newest first: no index leads to them, so all names are read."""
    end = name("", run_id)  # a run's name is made of its tenant and of this
    pages = _pages(look, [prefix("runs")], b"~")
    found = _records(look, [row for page in pages for row in page if row.endswith(end)])
    return [run for run in found if run.run_id == run_id][:limit]


def _runs(look: Look, listing: tuple[Any, ...]) -> list[RunRecord]:
    (members,) = look([listing])
    return _records(look, [member[PREFIX + PLACE :] for member in members])


def _records(look: Look, names: Sequence[bytes]) -> list[RunRecord]:
    return [run_of(value[VERSION:]) for value in values_of(look, ROWS, names) if value]


def run(look: Look, tenant: str, run_id: str) -> RunRecord | None:
    """Return the record of a run."""
    (value,) = look([(b"HGET", ROWS, name("run", tenant, run_id))])
    return None if value is None else run_of(value[VERSION:])


# --- alerts and breakers ---


def alerts(look: Look, limit: int) -> list[Alert]:
    """Return the outbox, oldest first."""
    (members,) = look(
        [(b"ZRANGEBYLEX", INDEX, b"[" + ALERTS, b"(" + ALERTS + b"\xff", b"LIMIT", b"0", b"%d" % max(0, limit))]
    )
    numbers = [member[PREFIX:] for member in members]
    values = values_of(look, ROWS, [b"alert " + number for number in numbers])
    pairs = zip(numbers, values, strict=True)
    return [Alert(int(number), *map(plain, unpack(value[VERSION:]))) for number, value in pairs if value]


def notes(look: Look, kind: str) -> dict[str, str]:
    """Return what is noted of a kind, by name."""
    start = prefix("notes", kind)
    (members,) = look([(b"ZRANGEBYLEX", INDEX, b"[" + start, b"(" + start + b"\xff")])
    names = sorted(text_of(member[PREFIX + PLACE :]) for member in members)
    values = values_of(look, ROWS, [note_row(kind, each) for each in names])
    return {each: text_of(value[VERSION:]) for each, value in zip(names, values, strict=True) if value}


def _known(value: bytes | None) -> dict[str, tuple[Any, int]]:
    listed = unpack(value) if value else ()
    return {text_of(breaker): (text_of(snapshot), resets) for breaker, snapshot, resets in listed}


def _keep(books: RedisBooks, known: Mapping[str, tuple[Any, int]]) -> None:
    books.set_row(_BREAKERS, packed([(raw(name), raw(text), resets) for name, (text, resets) in known.items()]))


def save_breakers(
    books: RedisBooks, snapshots: Mapping[str, Mapping[str, Any]], opened: Sequence[str] = ()
) -> dict[str, int]:
    """Keep the breakers' states; return how often each was reset from outside."""
    known = _known(books.row(_BREAKERS))
    saved = {name: (to_json(dict(snapshot)), known.get(name, ("", 0))[1]) for name, snapshot in snapshots.items()}
    if saved:
        _keep(books, {**known, **saved})
    for each in opened:
        books.alert_of("breaker", each, float(snapshots[each].get("at", 0.0)))
    return {name: resets for name, (_, resets) in {**known, **saved}.items() if resets}


def breakers(look: Look) -> dict[str, Mapping[str, Any]]:
    """Return the breakers' last kept states."""
    (value,) = look([(b"HGET", ROWS, _BREAKERS)])
    return {name: from_json(text) for name, (text, _) in _known(value and value[VERSION:]).items()}


def reset_breakers(books: RedisBooks, names: Sequence[str] | None) -> list[str]:
    """Ask every process to reset these breakers; return the names of those that are known."""
    known = _known(books.row(_BREAKERS))
    chosen = [name for name in known if names is None or name in names]
    if chosen:
        _keep(books, {name: (text, resets + (name in chosen)) for name, (text, resets) in known.items()})
    return chosen


def agree(books: RedisBooks, breaker: str, seen: int, text: str) -> tuple[int, str]:
    """Change the shared state of a breaker if it has changed ``seen`` times so far; return how it stands."""
    found = books.row(b"agreed")
    stands = _agreed(found)
    if stands.get(breaker, (0, ""))[0] == seen:
        stands[breaker] = (seen + 1, text)
        books.set_row(b"agreed", packed([(raw(each), changes, raw(own)) for each, (changes, own) in stands.items()]))
    return stands.get(breaker, (0, ""))


def _agreed(value: bytes | None) -> dict[str, tuple[int, str]]:
    listed = unpack(value) if value else ()
    return {text_of(breaker): (changes, text_of(text)) for breaker, changes, text in listed}


def agreed(look: Look) -> dict[str, tuple[int, str]]:
    """Return the shared states of breakers: how often each has changed, and how it stands."""
    (value,) = look([(b"HGET", ROWS, b"agreed")])
    return _agreed(value and value[VERSION:])

"""Lists and small states: what people and background threads look at. No rule is here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from settled.core.states import State
from settled.journals.audit import matches
from settled.journals.books import BY_ID, NOTES, OF_FEW, SELECT_CALL, SELECT_LOG, read_call, read_log
from settled.journals.rows import from_json, plain, to_json
from settled.journals.runs import RUN, SELECT_RUN, UNDOING, read_run
from settled.journals.unread import UnreadableError, readable
from settled.ports import Alert

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from settled.core.books import RunRecord
    from settled.core.call import Call, LogRow
    from settled.core.model import Moment
    from settled.journals.books import Look, TableBooks
    from settled.ports import CallQuery

LOG_OF_CALL: Final = f"{SELECT_LOG} WHERE operation_id = ? ORDER BY no"
COUNT: Final = (
    "SELECT '', count(*) FROM calls UNION ALL "
    "SELECT state, count(*) FROM calls INDEXED BY calls_open WHERE state <> 'succeeded' GROUP BY state"
)
_SLACK: Final = 0.001
"""Seconds; the rule itself decides to the last bit, the index only finds candidates."""


def get(look: Look, operation_id: str) -> Call | None:
    """Return one call."""
    row = look.execute(BY_ID, (operation_id,)).fetchone()
    return None if row is None else read_call(row)


def log(look: Look, operation_id: str) -> list[LogRow]:
    """Return the log of one call, oldest first."""
    return [read_log(row) for row in look.execute(LOG_OF_CALL, (operation_id,))]


def find(look: Look, query: CallQuery, now: Moment) -> list[Call]:
    """List calls, newest first."""
    if _states(query) == []:
        return []
    found: list[Call] = []
    before = _place_of(look, query.after)
    while before is not None and len(found) < query.limit:
        statement, values = page(query, now, before)
        rows = look.execute(statement, values).fetchall()
        calls = (
            readable(read_call, (row[1:] for row in rows)) if query.readable else [read_call(row[1:]) for row in rows]
        )
        found += [call for call in calls if matches(call, query, now)]
        before = rows[-1][0] if len(rows) == query.limit else None
    return found[: query.limit]


def _place_of(look: Look, operation_id: str | None) -> int | None:
    if operation_id is None:
        return 2**63 - 1
    row = look.execute("SELECT seq FROM calls WHERE operation_id = ?", (operation_id,)).fetchone()
    return None if row is None else int(row[0])


def page(query: CallQuery, now: Moment, before: int) -> tuple[str, list[Any]]:
    """Return the statement for the next candidates: at most ``limit``, made before the call at place ``before``."""
    by = _index_for(query)
    seq = OF_FEW if by else "seq"
    terms, values = [f"{seq} < ?"], [before]
    for term, value in _terms(query, now):
        terms.append(term)
        values += value
    wanted = " AND ".join(terms)
    chosen = f"SELECT seq FROM calls {by} WHERE {wanted} ORDER BY {seq} DESC LIMIT ?"  # noqa: S608 - made of constants
    columns = SELECT_CALL.replace("SELECT ", "SELECT seq, ", 1)
    return f"{columns} WHERE seq IN ({chosen}) ORDER BY seq DESC", [*values, query.limit]


def _index_for(query: CallQuery) -> str:
    """Return the index of what waits for somebody, where that is asked for: few calls among many."""
    states = _states(query)
    if query.past_retention:
        return "INDEXED BY calls_due"
    if states and State.SUCCEEDED not in states:
        return "INDEXED BY calls_open"
    return "INDEXED BY calls_disputed" if query.disputed else ""


def _states(query: CallQuery) -> list[State] | None:
    """Return the states that are possible; ``None``: any."""
    if not query.lease_over:
        return None if query.states is None else list(query.states)
    return [State.PROCESSING] if query.states is None or State.PROCESSING in query.states else []


def _terms(query: CallQuery, now: Moment) -> Iterator[tuple[str, list[Any]]]:
    states = _states(query)
    if states is not None:
        if State.SUCCEEDED not in states:
            yield "state <> 'succeeded'", []  # what the index of open calls is for
        yield f"state IN ({', '.join('?' * len(states))})", [state.value for state in states]
    for name in ("tool", "tenant", "scope"):
        if getattr(query, name) is not None:
            yield f"{name} = ?", [getattr(query, name)]
    if query.disputed is not None:
        yield f"disputed = {int(query.disputed)}", []
    if query.past_retention:
        yield "due_at <= ?", [now.wall + _SLACK]


def count(look: Look) -> dict[State, int]:
    """Return how many calls stand in each state."""
    others = dict(look.execute(COUNT).fetchall())  # in any order: a server may count both parts at once
    total = others.pop("")
    try:
        counts = {State(state): number for state, number in others.items()}
    except ValueError as fault:
        raise UnreadableError("some calls", str(fault)) from fault
    succeeded = total - sum(counts.values())
    return {**counts, State.SUCCEEDED: succeeded} if succeeded else counts


def runs(look: Look, limit: int, named: str | None) -> list[RunRecord]:
    """List runs, newest first; ``named``: those with this id, of whatever tenant. What cannot be read is told of."""
    if named is None:
        rows = look.execute(f"{SELECT_RUN} ORDER BY seq DESC LIMIT ?", (limit,))
    else:
        rows = look.execute(f"{SELECT_RUN} WHERE run_id = ? ORDER BY seq DESC LIMIT ?", (named, limit))
    return readable(read_run, rows)


def run(look: Look, tenant: str, run_id: str) -> RunRecord | None:
    """Return the record of a run."""
    row = look.execute(RUN, (tenant, run_id)).fetchone()
    return None if row is None else read_run(row)


def undoing(look: Look, limit: int) -> list[RunRecord]:
    """Return the runs that are being undone, or are undone in part, the oldest first."""
    return readable(read_run, look.execute(UNDOING, (limit,)))


def alerts(look: Look, limit: int) -> list[Alert]:
    """Return the outbox, oldest first."""
    rows = look.execute("SELECT alert_id, kind, operation_id, at FROM outbox ORDER BY alert_id LIMIT ?", (limit,))
    return [Alert(*map(plain, row)) for row in rows]


def delivered(books: TableBooks, alert_ids: Sequence[int]) -> None:
    """Take delivered alerts out of the outbox."""
    for alert_id in alert_ids:
        books.write("DELETE FROM outbox WHERE alert_id = ?", alert_id)


def notes(look: Look, kind: str) -> dict[str, str]:
    """Return what is noted of a kind, by name."""
    return {plain(name): plain(text) for name, text in look.execute(NOTES, (kind,))}


def save_breakers(
    books: TableBooks, snapshots: Mapping[str, Mapping[str, Any]], opened: Sequence[str] = ()
) -> dict[str, int]:
    """Keep the breakers' states; return how often each was reset from outside."""
    for name, snapshot in snapshots.items():
        books.write(
            "INSERT INTO breakers (name, snapshot, resets) VALUES (?, ?, 0) "
            "ON CONFLICT (name) DO UPDATE SET snapshot = excluded.snapshot",
            name,
            to_json(dict(snapshot)),
        )
    for name in opened:
        books.alert_of("breaker", name, float(snapshots[name].get("at", 0.0)))
    return {plain(name): resets for name, resets in books.look("SELECT name, resets FROM breakers WHERE resets > 0")}


def breakers(look: Look) -> dict[str, Mapping[str, Any]]:
    """Return the breakers' last kept states."""
    rows = look.execute("SELECT name, snapshot FROM breakers ORDER BY seq")
    return {plain(name): from_json(plain(snapshot)) for name, snapshot in rows}


def reset_breakers(books: TableBooks, names: Sequence[str] | None) -> list[str]:
    """Ask every process to reset these breakers; return the names of those that are known."""
    known = [plain(name) for (name,) in books.look("SELECT name FROM breakers ORDER BY seq")]
    chosen = [name for name in known if names is None or name in names]
    for name in chosen:
        books.write("UPDATE breakers SET resets = resets + 1 WHERE name = ?", name)
    return chosen


def agree(books: TableBooks, name: str, seen: int, text: str) -> tuple[int, str]:
    """Change the shared state of a breaker if it has changed ``seen`` times so far; return how it stands.

    ``text`` is like no other: so whoever asks again, since the answer was lost, finds its own.
    """
    books.write("INSERT INTO agreed (name, changes, text) VALUES (?, 0, '') ON CONFLICT DO NOTHING", name)
    books.write("UPDATE agreed SET text = ?, changes = changes + 1 WHERE name = ? AND changes = ?", text, name, seen)
    changes, stands = books.look("SELECT changes, text FROM agreed WHERE name = ?", name).fetchone()
    return changes, plain(stands)


def agreed(look: Look) -> dict[str, tuple[int, str]]:
    """Return the shared states of breakers: how often each has changed, and how it stands."""
    rows = look.execute("SELECT name, changes, text FROM agreed")
    return {plain(name): (changes, plain(text)) for name, changes, text in rows}

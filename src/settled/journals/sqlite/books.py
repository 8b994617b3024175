"""The books of one SQLite transaction, and what is known from the ones before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from settled.core.noted.notes import PAUSED
from settled.core.states import MAY_HAVE_EFFECT
from settled.errors import JournalError
from settled.journals.books import SELECT_CALL, UNSETTLED, TableBooks
from settled.journals.sqlite.known import LONGEST_SCOPE, MOST_OUTSIDE, Known

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from settled.core.books import RunRecord
    from settled.core.call import Call, LogRow
    from settled.journals.sqlite.known import Shelf

# A row of many columns costs time before it is known whether there is one; most often there is none.
HAS_ID: Final = "SELECT 1 FROM calls WHERE operation_id = ?"
HAS_KEY: Final = "SELECT 1 FROM calls WHERE key = ?"
SCOPE: Final = f"{SELECT_CALL} INDEXED BY calls_alike WHERE scope = ? AND scope <> '' ORDER BY seq LIMIT ?"


class SqliteBooks(TableBooks):
    """The look-ups and changes of one transaction.

    Args:
        connection: Where it was begun.
        known: How calls and runs stand in the file; kept up to date with what is written here.
    """

    def __init__(self, connection: sqlite3.Connection, known: Known | None = None) -> None:
        self.connection = connection
        self.known = known or Known()
        self.changed = False
        """Whether something was written."""

    def write(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement that changes the journal."""
        self.changed = True
        return execute(self.connection, statement, values)

    def look(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement that only reads."""
        return execute(self.connection, statement, values)

    def by_id(self, operation_id: str) -> Call | None:
        """Return the call with this operation id."""
        known = self.known.calls.get(operation_id)
        if known is not None or self.look(HAS_ID, operation_id).fetchone() is None:
            return known
        return super().by_id(operation_id)

    def by_key(self, key: str) -> Call | None:
        """Return the call with this key."""
        return None if self.look(HAS_KEY, key).fetchone() is None else super().by_key(key)

    def owed(self, tenant: str, tool: str, fingerprint: str) -> Sequence[str]:
        """Return the operation ids of like calls whose outcome is owed, the oldest first."""
        known = self.known
        if known.owes is None:
            known.owes = self.look("SELECT 1 FROM owed LIMIT 1").fetchone() is not None
        return super().owed(tenant, tool, fingerprint) if known.owes else ()

    def put_owed(self, call: Call) -> None:
        """Owe the outcome of a call to whoever asks for a like one; harmless when repeated."""
        super().put_owed(call)
        self.known.owes = True

    # --- the calls of one scope ---

    def _shelf(self, scope: str) -> Shelf | None:
        """Return the scope's calls, all read in one query; ``None``: they have to be looked for in the file."""
        known = self.known
        if scope not in known.shelves and scope:
            known.learn(scope, self.calls(SCOPE, scope, LONGEST_SCOPE + 1))
        return known.shelves.get(scope)

    def alike(self, scope: str, lane: str, tool: str, identity: str, entries: Sequence[int]) -> Sequence[Call]:
        """Return the calls of one identity made in ``entries``, in order of creation."""
        shelf = self._shelf(scope) if entries else None
        if shelf is None:
            return super().alike(scope, lane, tool, identity, entries)
        found = self.known.those(shelf.alike.get((tool, lane, identity), ()))
        return [call for call in found if call.entry in entries]

    def made(self, scope: str, tool: str, entries: Sequence[int]) -> Sequence[Call]:
        """Return the calls of one tool made in ``entries`` that may have had an effect."""
        shelf = self._shelf(scope) if entries else None
        if shelf is None:
            return super().made(scope, tool, entries)
        found = self.known.those(shelf.of_tool.get(tool, ()))
        return [call for call in found if call.entry in entries and call.state in MAY_HAVE_EFFECT]

    def unsettled(self, tenant: str, scope: str, tool: str, identity: str | None = None) -> Sequence[Call]:
        """Return the calls of one tool in one scope whose outcome is open, in order of creation; of one identity."""
        shelf = self._shelf(scope)
        if shelf is None:
            if identity is not None and not scope:
                return self._open_outside(tenant, tool, identity)
            return super().unsettled(tenant, scope, tool, identity)
        found = self.known.those(shelf.open_of(tool))
        return [call for call in found if call.tenant == tenant and identity in (None, call.identity)]

    def _open_outside(self, tenant: str, tool: str, identity: str) -> Sequence[Call]:
        known = self.known
        if (tenant, tool) not in known.outside:
            try:
                open_ones = self.calls(f"{UNSETTLED} LIMIT ?", tool, "", tenant, MOST_OUTSIDE + 1)
            except JournalError:  # one that cannot be read is in the way of those alike only
                return super().unsettled(tenant, "", tool, identity)
            known.learn_outside(tenant, tool, open_ones)
        calls = known.outside[tenant, tool]
        return super().unsettled(tenant, "", tool, identity) if calls is None else calls.alike(identity)

    def last_n(self, scope: str, lane: str, tool: str, identity: str) -> int:
        """Return the highest number given to a call of this identity; 0 if none."""
        shelf = self._shelf(scope)
        if shelf is None:
            return super().last_n(scope, lane, tool, identity)
        return max((call.n for call in self.known.those(shelf.alike.get((tool, lane, identity), ()))), default=0)

    # --- runs ---

    def run(self, tenant: str, run_id: str) -> RunRecord | None:
        """Return the record of a run."""
        found = self.known.runs.get((tenant, run_id)) or super().run(tenant, run_id)
        if found is not None:
            self.known.keep_run(found)
        return found

    def put_run(self, run: RunRecord) -> None:
        """Keep the record of a run."""
        super().put_run(run)
        self.known.keep_run(run)

    # --- notes ---

    def note(self, kind: str, name: str) -> str | None:
        """Return what was noted of this kind under a name."""
        if kind != PAUSED:
            return super().note(kind, name)
        if self.known.paused is None:
            self.known.paused = self.notes(PAUSED)
        return self.known.paused.get(name)

    def put_note(self, kind: str, name: str, text: str | None) -> None:
        """Note a text under a name; ``None``: nothing any more."""
        super().put_note(kind, name, text)
        if kind == PAUSED:
            self.known.paused = None

    # --- changes ---

    def put(self, call: Call, row: LogRow) -> None:
        """Keep a call and the log row of its change."""
        super().put(call, row)
        self.known.keep(call)

    def put_key(self, call: Call) -> None:
        """Keep the key that a call has now: the one that it had is free."""
        super().put_key(call)
        self.known.keep(call)

    def prolong(self, call: Call) -> None:
        """Keep a longer lease; no log row, since no state changes."""
        super().prolong(call)
        self.known.keep(call)

    def forget(self, call: Call) -> None:
        """Remove a call that nothing can ask for any more; its log stays."""
        super().forget(call)
        self.known.drop(call)


class Reader:
    """A connection that only looks."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> sqlite3.Cursor:
        """Execute one statement."""
        return execute(self.connection, statement, values)


def execute(connection: sqlite3.Connection, statement: str, values: Sequence[Any]) -> sqlite3.Cursor:
    """Execute a statement; a text that UTF-8 cannot hold (a lone surrogate) goes as bytes, and never equals another."""
    try:
        return connection.execute(statement, values)
    except UnicodeEncodeError:
        return connection.execute(statement, [_storable(value) for value in values])


def _storable(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value

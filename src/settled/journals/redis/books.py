"""The books of one transaction on Redis: calls, what is owed, notes and alerts, over cells and members (``held``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settled.core.model import KeyKind
from settled.core.rules import lease_over
from settled.core.states import MAY_HAVE_EFFECT, Event, State
from settled.errors import JournalError
from settled.journals.redis.cells import (
    ALERTS,
    ANYWHERE,
    NEW,
    Stored,
    key_row,
    log_data,
    name,
    note_row,
    packed,
    prefix,
    raw,
    stored,
    text_of,
    unpack,
)
from settled.journals.redis.found_by import as_it_stands, of_the_whole_life
from settled.journals.redis.lists import oldest_first
from settled.journals.redis.runs import RedisRuns
from settled.journals.unread import UnreadableError, tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from settled.core.call import Call, LogRow
    from settled.core.model import Moment


class RedisBooks(RedisRuns):
    """The look-ups and changes of one transaction."""

    def __getattr__(self, verb: str) -> Any:
        """Refuse what needs more than calls, runs and breakers."""
        if verb.startswith("_"):
            raise AttributeError(verb)
        raise JournalError(
            f"a journal in Redis or Valkey does not keep what this needs ({verb}): use a journal in SQL "
            "(sqlite:///agent.db or postgresql://host/database); nothing was executed"
        )

    # --- looking ---

    def by_key(self, key: str) -> Call | None:
        """Return the call with this key."""
        found = self.row(key_row(key))
        return None if found is None else self.by_id(text_of(found))

    def by_step(self, scope: str, step: str) -> str | None:
        """Return the operation id that a step stands for in a scope."""
        found = self.row(name("step", scope, step))
        return None if found is None else text_of(found)

    def alike(self, scope: str, lane: str, tool: str, identity: str, entries: Sequence[int]) -> Sequence[Call]:
        """Return the calls of one identity made in ``entries``, in order of creation."""
        if not entries:
            return ()
        return [call for call in self.calls(prefix("alike", scope, lane, tool, identity)) if call.entry in entries]

    def made(self, scope: str, tool: str, entries: Sequence[int]) -> Sequence[Call]:
        """Return the calls of one tool made in ``entries`` that may have had an effect."""
        if not entries:
            return ()
        found = self.calls(prefix("made", scope, tool))
        return [call for call in found if call.entry in entries and call.state in MAY_HAVE_EFFECT]

    def unsettled(self, tenant: str, scope: str, tool: str, identity: str | None = None) -> Sequence[Call]:
        """Return the calls of one tool in one scope whose outcome is open, in order of creation; of one identity."""
        parts = (tenant, scope, tool) if identity is None else (tenant, scope, tool, identity)
        return self.calls(prefix("open", *parts))

    def last_n(self, scope: str, lane: str, tool: str, identity: str) -> int:
        """Return the highest number given to a call of this identity; 0 if none."""
        return max((call.n for call in self.calls(prefix("alike", scope, lane, tool, identity))), default=0)

    def owed(self, tenant: str, tool: str, fingerprint: str) -> Sequence[str]:
        """Return the operation ids of like calls whose outcome is owed, the oldest first."""
        found = self.row(name("owed", tenant, tool, fingerprint))
        return tuple(text_of(each) for each in unpack(found)) if found else ()

    def adrift(self, state: State, tenant: str, tools: Sequence[str] | None, now: Moment, limit: int) -> Sequence[Call]:
        """Return the oldest calls in a state whose lease is over, at most ``limit``; ``tools``: of these alone.

        What cannot be read is passed over, and told of.
        """
        found: list[Call] = []
        for operation_id, value in oldest_first(self._look, prefix("state", state._value_)):
            if len(found) == limit:
                break
            try:
                if not lease_over(stored(raw(operation_id), value).call, now):
                    continue
            except UnreadableError as error:
                tell(error)
                continue
            self.sight.calls.setdefault(operation_id, value)
            call = self.by_id(operation_id)
            theirs = call is not None and call.tenant == tenant and (tools is None or call.tool in tools)
            if call is not None and theirs and call.state is state and lease_over(call, now):
                found.append(call)
        return found

    def turn(self, tenant: str, run_id: str, turn: str) -> Sequence[int]:
        """Return the entries in which one turn of a run was worked on, in order."""
        found = self.row(name("turn", tenant, run_id, turn))
        return tuple(unpack(found)) if found else ()

    # --- writing ---

    def put(self, call: Call, row: LogRow) -> None:
        """Keep a call and the log row of its change."""
        operation_id, own = raw(call.operation_id), self._own
        before, found_by = self.stored(call.operation_id), as_it_stands(call)
        if (before.call.log_no if before else 0) != row.no - 1:
            raise ValueError(f"{call.operation_id} does not stand at log row {row.no - 1}")
        if before is None:
            self._put_first(call, operation_id, found_by)
        else:
            self._change(operation_id, before, found_by)
        own.calls[call.operation_id] = Stored(call, NEW, before.place if before else NEW, found_by)
        own.log += operation_id, log_data(row)
        if before is not None and call.kind is not KeyKind.RANDOM and row.event in (Event.CLAIM, Event.BEGIN):
            self.enter(prefix("intents", call.operation_id), b"%d" % row.attempt)  # one made with it has its own place

    def _put_first(self, call: Call, operation_id: bytes, found_by: Mapping[bytes, bytes]) -> None:
        key = key_row(call.key)
        self.sight.rows.setdefault(key, NEW)  # not fetched: the commit finds out
        if self.row(key) is not None:
            raise ValueError(f"{call.operation_id} is not the first call with its key")
        self._own.rows[key] = operation_id
        places = self._own.places(operation_id)
        places.update(dict.fromkeys(of_the_whole_life(call), NEW))
        places.update(found_by)

    def _change(self, operation_id: bytes, before: Stored, found_by: Mapping[bytes, bytes]) -> None:
        """Let a call be found by what it is now. What a member sorts by, if not by its call's place, stands with it."""
        was, own = before.found_by or as_it_stands(before.call), self._own
        own.leave(operation_id, {at: by for at, by in was.items() if found_by.get(at) != by}, before.place)
        entered = {at: by or before.place for at, by in found_by.items() if was.get(at) != by}
        if entered:
            own.places(operation_id).update(entered)

    def put_key(self, call: Call) -> None:
        """Keep the key that a call has now: the one that it had is free."""
        before = self.stored(call.operation_id)
        if before is not None:
            self._own.rows[key_row(before.call.key)] = None
            self._own.rows[key_row(call.key)] = raw(call.operation_id)
            self._own.calls[call.operation_id] = Stored(call, NEW, before.place, before.found_by)

    def prolong(self, call: Call) -> None:
        """Keep a longer lease; no log row, since no state changes."""
        before = self.stored(call.operation_id)
        if before is not None:
            self._own.calls[call.operation_id] = Stored(call, NEW, before.place, before.found_by)

    def forget(self, call: Call) -> None:
        """Remove a call that nothing can ask for any more; its log stays."""
        before = self.stored(call.operation_id)
        self.drop_owed(call)
        if before is None:
            return
        operation_id = raw(call.operation_id)
        found_by = dict.fromkeys(of_the_whole_life(call), NEW) | as_it_stands(before.call)
        self._own.leave(operation_id, found_by, before.place)
        self._own.rows[key_row(call.key)] = None
        self._own.calls[call.operation_id] = None

    def put_step(self, scope: str, step: str, operation_id: str) -> None:
        """Let a step stand for a call; the first one wins."""
        if self.by_step(scope, step) is None:
            self._own.rows[name("step", scope, step)] = raw(operation_id)

    def put_owed(self, call: Call) -> None:
        """Owe the outcome of a call to whoever asks for a like one; harmless when repeated."""
        owed = self.owed(call.tenant, call.tool, call.fingerprint)
        if call.operation_id not in owed:
            self._owe(call, (*owed, call.operation_id))

    def drop_owed(self, call: Call) -> None:
        """Owe it no longer."""
        owed = self.owed(call.tenant, call.tool, call.fingerprint)
        if call.operation_id in owed:
            self._owe(call, tuple(each for each in owed if each != call.operation_id))

    def _owe(self, call: Call, owed: tuple[str, ...]) -> None:
        field = name("owed", call.tenant, call.tool, call.fingerprint)
        self._own.rows[field] = packed([raw(each) for each in owed]) if owed else None

    def put_turn(self, tenant: str, run_id: str, turn: str, entry: int) -> None:
        """Note that a turn of a run is worked on in an entry."""
        entries = self.turn(tenant, run_id, turn)
        self._own.rows[name("turn", tenant, run_id, turn)] = packed([*entries, entry])

    def alert(self, call: Call, kind: str) -> None:
        """Put an alert into the outbox, in the same commit."""
        self.alert_of(kind, call.operation_id, call.changed.wall)

    def alert_of(self, kind: str, subject: str, at: float) -> None:
        """Put an alert that is about no call into the outbox, in the same commit."""
        self._own.alerts.append(packed((kind, subject, at)))

    # --- notes ---

    def note(self, kind: str, name: str) -> str | None:
        """Return what was noted of this kind under a name."""
        found = self.row(note_row(kind, name))
        return None if found is None else text_of(found)

    def notes(self, kind: str) -> Mapping[str, str]:
        """Return all that was noted of this kind, by name."""
        names = sorted(each for _, each in self.members(prefix("notes", kind)))
        self.see_rows([note_row(kind, each) for each in names])
        return {each: text for each in names if (text := self.note(kind, each)) is not None}

    def put_note(self, kind: str, name: str, text: str | None) -> None:
        """Note a text under a name; ``None``: nothing any more."""
        self.set_row(note_row(kind, name), None if text is None else raw(text))
        if text is None:
            self.leave(prefix("notes", kind), raw(name), ANYWHERE)
        else:
            self.enter(prefix("notes", kind), raw(name), ANYWHERE)

    def delivered(self, alert_ids: Iterable[int]) -> None:
        """Take alerts out of the outbox."""
        for alert_id in alert_ids:
            number = b"%020d" % alert_id
            self._own.rows[b"alert " + number] = None
            self._own.leave(NEW, {ALERTS: number}, NEW)

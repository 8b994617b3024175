"""The books of one transaction on Redis: what is looked at is remembered, what is written is held back.

The commit checks that everything that was looked at still stands, and writes, in one script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from settled.core.model import KeyKind
from settled.core.rules import lease_over
from settled.core.states import MAY_HAVE_EFFECT, UNSETTLED, Event, State
from settled.errors import JournalError
from settled.journals.redis.cells import (
    ANYWHERE,
    NEW,
    PLACE,
    PREFIX,
    Row,
    Stored,
    call_data,
    key_row,
    log_data,
    moment_text,
    name,
    note_row,
    packed,
    prefix,
    raw,
    text_of,
    unpack,
)
from settled.journals.redis.runs import RedisRuns
from settled.journals.redis.sight import Pages, Sight
from settled.journals.rows import due_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from settled.core.call import Call, LogRow
    from settled.core.model import Moment

ALERTS: Final = prefix("alerts")


class RedisBooks(RedisRuns):
    """The look-ups and changes of one transaction, member by member.

    ``fetch`` shows what was not foreseen; where it may not, it raises.
    """

    def __init__(self, sight: Sight, fetch: Callable[[Sight], None]) -> None:
        self.sight = sight
        self._fetch = fetch
        self.read = Sight()
        """All that was looked at: it must still stand at the commit."""
        self.pages = Pages()
        """What is to be written by members that are kept."""
        self._own = Pages()

    def __getattr__(self, verb: str) -> Any:
        """Refuse what needs more than calls, runs and breakers."""
        if verb.startswith("_"):
            raise AttributeError(verb)
        raise JournalError(
            f"a journal in Redis or Valkey does not keep what this needs ({verb}): use a journal in SQL "
            "(sqlite:///agent.db or postgresql://host/database); nothing was executed"
        )

    # --- members ---

    def keep(self) -> None:
        """End a member whose writes are to stand."""
        if not (self._own.changed or self._own.trim):
            return
        if self.pages.changed or self.pages.trim:
            self.pages.take_in(self._own)
        else:
            self.pages = self._own
        self._own = Pages()

    def undo(self) -> None:
        """End a member that raised: nothing of it stays."""
        self._own = Pages()

    @property
    def member_wrote(self) -> bool:
        """Whether the member under way has written."""
        return self._own.changed

    # --- looking ---

    def _stored(self, operation_id: str) -> Stored | None:
        for pages in (self._own, self.pages):
            if operation_id in pages.calls:
                return pages.calls[operation_id]
        if operation_id not in self.sight.calls:
            self._see(Sight(calls={operation_id: None}))
        found = self.read.calls[operation_id] = self.sight.calls[operation_id]
        return found

    def row(self, field: bytes) -> bytes | None:
        """Return a row."""
        for pages in (self._own, self.pages):
            if field in pages.rows:
                return pages.rows[field]
        if field not in self.sight.rows:
            self._see(Sight(rows={field: None}))
        found = self.read.rows[field] = self.sight.rows[field]
        return None if found is None else found.value

    def members(self, start: bytes, *, sure: bool = True) -> list[tuple[bytes, str]]:
        """Return place and name of the members with a prefix, in the order of their places.

        One that this transaction makes has the last places. ``sure``: that it stays so until the commit is checked.
        """
        if start not in self.sight.ranges:
            self._see(Sight(ranges={start: ()}))
        listed = self.sight.ranges[start]
        if sure:
            self.read.ranges[start] = listed
        found = {member[PREFIX + PLACE :]: member[PREFIX : PREFIX + PLACE] for member in listed}
        for pages in (self.pages, self._own):
            for number, ((at, member), place) in enumerate(pages.index.items()):
                if at == start:
                    found.pop(member, None)
                    if place is not None:
                        found[member] = place or b"9%019d" % (number + (pages is self._own) * 10**9)
        return [(found[each], text_of(each)) for each in sorted(found, key=lambda each: found[each])]

    def _see(self, wanted: Sight) -> None:
        self._fetch(wanted)

    def calls(self, start: bytes) -> list[Call]:
        """Return the calls with a prefix, in the order of their creation."""
        return [call for _, operation_id in self.members(start) if (call := self.by_id(operation_id)) is not None]

    def by_id(self, operation_id: str) -> Call | None:
        """Return the call with this operation id."""
        found = self._stored(operation_id)
        return None if found is None else found.call

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
        """Return the oldest calls in a state whose lease is over, at most ``limit``; ``tools``: of these alone."""
        found: list[Call] = []
        for _, operation_id in self.members(prefix("state", state._value_), sure=False):
            stands = self.sight.calls.get(operation_id)
            if len(found) == limit or stands is None or not lease_over(stands.call, now):
                continue
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
        operation_id = call.operation_id
        before = self._stored(operation_id)
        if (before.call.log_no if before else 0) != row.no - 1:
            raise ValueError(f"{operation_id} does not stand at log row {row.no - 1}")
        if before is None:
            self.sight.rows.setdefault(key_row(call.key), None)  # not fetched: the commit finds out
            if self.row(key_row(call.key)) is not None:
                raise ValueError(f"{operation_id} is not the first call with its key")
            self._own.rows[key_row(call.key)] = raw(operation_id)
            self._enter(call, NEW, _of_the_whole_life(call))
        place = before.place if before else NEW
        self._own.calls[operation_id] = Stored(call, NEW, place)
        self._change(call, place, _as_it_stands(before.call) if before else {}, _as_it_stands(call))
        self._own.log.append((raw(operation_id), log_data(row)))
        if call.kind is not KeyKind.RANDOM and row.event in (Event.CLAIM, Event.BEGIN):
            self.enter(prefix("intents", operation_id), b"%d" % row.attempt)

    def _enter(self, call: Call, place: bytes, found_by: Iterable[bytes]) -> None:
        for start in found_by:
            self._own.index[start, raw(call.operation_id)] = place

    def _change(self, call: Call, place: bytes, before: dict[bytes, bytes], after: dict[bytes, bytes]) -> None:
        """Let a call be found by what it is now. What a member sorts by, if not by its call's place, stands with it."""
        operation_id = raw(call.operation_id)
        for start, own in before.items():
            if after.get(start) != own or start not in after:
                self._own.leave(start, own or place, operation_id)
        for start, own in after.items():
            if before.get(start) != own:
                self._own.index[start, operation_id] = own or place

    def put_key(self, call: Call) -> None:
        """Keep the key that a call has now: the one that it had is free."""
        before = self._stored(call.operation_id)
        if before is not None:
            self._own.rows[key_row(before.call.key)] = None
            self._own.rows[key_row(call.key)] = raw(call.operation_id)
            self._own.calls[call.operation_id] = Stored(call, NEW, before.place)

    def prolong(self, call: Call) -> None:
        """Keep a longer lease; no log row, since no state changes."""
        before = self._stored(call.operation_id)
        if before is not None:
            self._own.calls[call.operation_id] = Stored(call, NEW, before.place)

    def forget(self, call: Call) -> None:
        """Remove a call that nothing can ask for any more; its log stays."""
        before = self._stored(call.operation_id)
        self.drop_owed(call)
        if before is None:
            return
        operation_id = raw(call.operation_id)
        for start in _of_the_whole_life(call):
            self._own.leave(start, before.place, operation_id)
        for start, own in _as_it_stands(before.call).items():
            self._own.leave(start, own or before.place, operation_id)
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

    # --- the journal's own ---

    def enter(self, start: bytes, name: bytes, place: bytes = NEW) -> None:
        """Let a name be found by a prefix; without a place, behind all that are there."""
        self._own.index[start, name] = place

    def leave(self, start: bytes, name: bytes, place: bytes) -> None:
        """Let it be found there no more."""
        self._own.leave(start, place, name)

    def see_rows(self, fields: Sequence[bytes]) -> None:
        """Fetch rows that will be looked at, all in one trip."""
        wanted = {field: None for field in fields if field not in self.sight.rows}
        if wanted:
            self._see(Sight(rows=dict(wanted)))

    def see_ranges(self, starts: Sequence[bytes]) -> None:
        """Fetch members that will be looked at, all in one trip."""
        wanted: dict[bytes, Sequence[bytes]] = {start: () for start in starts if start not in self.sight.ranges}
        if wanted:
            self._see(Sight(ranges=wanted))

    def set_row(self, field: bytes, value: bytes | None) -> None:
        """Keep a row."""
        self.row(field)
        self._own.rows[field] = value

    def trim(self, last: int) -> None:
        """Cut the log off behind its row with this number."""
        self._own.trim = last

    def delivered(self, alert_ids: Iterable[int]) -> None:
        """Take alerts out of the outbox."""
        for alert_id in alert_ids:
            number = b"%020d" % alert_id
            self._own.rows[b"alert " + number] = None
            self._own.leave(ALERTS, number, b"")


def _of_the_whole_life(call: Call) -> Iterable[bytes]:
    """Return by what a call is found as long as it is there."""
    yield prefix("all")
    if call.scope:
        yield prefix("alike", call.scope, call.lane, call.tool, call.identity)
        yield prefix("made", call.scope, call.tool)
        yield prefix("in", call.scope)


def _as_it_stands(call: Call) -> dict[bytes, bytes]:
    """Return by what a call is found as it stands, and what it sorts by there if not by its place."""
    found: dict[bytes, bytes] = {}
    if call.state in UNSETTLED:
        found[prefix("open", call.tenant, call.scope, call.tool)] = NEW
        found[prefix("open", call.tenant, call.scope, call.tool, call.identity)] = NEW
        if call.scope:
            found[prefix("open in", call.scope)] = NEW
    if call.state is not State.SUCCEEDED:
        found[prefix("state", call.state._value_)] = NEW
    if call.disputed:
        found[prefix("disputed")] = NEW
    due = due_at(call)
    if due is not None:
        found[prefix("due")] = moment_text(due)
    return found


def conditions(read: Sight) -> tuple[list[int], list[bytes]]:
    """Return what must still stand at a commit: how many of each, and the bytes, as the script takes them."""
    words: list[bytes] = []
    for operation_id, stored in read.calls.items():
        words += raw(operation_id), stored.version if stored else NEW
    for field, row in read.rows.items():
        words += field, row.version if row else NEW
    for start, members in read.ranges.items():
        words += start, b"\n".join(members)
    return [len(read.calls), len(read.rows), len(read.ranges)], words


def writes(pages: Pages) -> tuple[list[int], list[bytes]]:
    """Return what a commit writes: how many of each, and the bytes, as the script takes them."""
    words = [each for pair in pages.log for each in pair]
    drop: list[bytes] = []
    kept: list[bytes] = []
    unset: list[bytes] = []
    enter: list[bytes] = []
    new: dict[bytes, bytes] = {}
    for operation_id, to in pages.calls.items():
        if to is None:
            drop.append(raw(operation_id))
        else:
            words += raw(operation_id), to.place, call_data(to.call)
    for field, value in pages.rows.items():
        if value is None:
            unset.append(field)
        else:
            kept += field, value
    for (start, member), place in pages.index.items():
        if place:
            enter.append(start + place + member)
        elif place is not None:
            new[member] = new.get(member, b"") + start
    words += (*drop, *kept, *unset, *[start + place + member for start, place, member in pages.left], *enter)
    for pair in new.items():
        words += pair
    for alert in pages.alerts:
        words += ALERTS, alert
    n_put, n_drop = len(pages.calls) - len(drop), len(drop)
    counts = [len(pages.log), n_put, n_drop, len(kept) // 2, len(unset), len(pages.left), len(enter), len(new)]
    return [*counts, len(pages.alerts)], words


__all__ = ["ALERTS", "RedisBooks", "Row", "conditions", "writes"]

"""What one transaction on Redis looks at, which is remembered, and what it writes, which is held back.

The commit checks that everything that was looked at still stands, and writes, in one script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.journals.redis.cells import GONE, NEW, PLACE, PREFIX, VERSION, Stored, known, text_of
from settled.journals.redis.sight import Pages, Read, Sight

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from settled.core.call import Call
    from settled.journals.redis.lists import Look


class Held:
    """Cells and members as one transaction sees them, member by member of its batch.

    ``fetch`` adds to the sight what was not foreseen; where it may not, it raises. ``look`` asks for what need not stay
    as it is.
    """

    def __init__(self, sight: Sight, fetch: Callable[[Sight, Sight], None], look: Look) -> None:
        self.sight = sight
        self._fetch, self._look = fetch, look
        self.read = Read()
        """All that was looked at: it must still stand at the commit."""
        self.pages = self._own = Pages()
        """What is to be written by members that are kept; and by the one under way, at first the same."""

    # --- members of the batch ---

    def keep(self) -> None:
        """End a member whose writes are to stand."""
        if self._own is not self.pages:
            self.pages.take_in(self._own)
        self._own = Pages()

    def undo(self) -> None:
        """End a member that raised: nothing of it stays."""
        own, self._own = self._own, Pages()
        if own is self.pages:
            self.pages = self._own

    @property
    def member_wrote(self) -> bool:
        """Whether the member under way has written."""
        return self._own.changed

    # --- looking ---

    def stored(self, operation_id: str) -> Stored | None:
        """Return a call as it stands. Raises ``JournalError`` if its record cannot be read."""
        if operation_id in self._own.calls:
            return self._own.calls[operation_id]
        if operation_id in self.pages.calls:
            return self.pages.calls[operation_id]
        read = self.read.calls
        if operation_id not in read:
            if operation_id not in self.sight.calls:
                self._fetch(self.sight, Sight(calls={operation_id: NEW}))
            read[operation_id] = self.shown(operation_id)
        return read[operation_id]

    def shown(self, operation_id: str) -> Stored | None:
        """Return a call as it was shown, if it was, without a promise that it stays so. Raises as ``stored`` does."""
        found = self.sight.calls.get(operation_id)
        if not found:
            return None
        return found if isinstance(found, Stored) else known(operation_id, found)

    def row(self, field: bytes) -> bytes | None:
        """Return a row."""
        if field in self._own.rows:
            return self._own.rows[field]
        if field in self.pages.rows:
            return self.pages.rows[field]
        if field not in self.sight.rows:
            self._fetch(self.sight, Sight(rows={field: NEW}))
        found = self.read.rows[field] = self.sight.rows[field]
        return found[VERSION:] if found else None

    def members(self, start: bytes) -> list[tuple[bytes, str]]:
        """Return place and name of the members with a prefix, in the order of their places.

        One that this transaction makes has the last places.
        """
        if start not in self.sight.ranges:
            self._fetch(self.sight, Sight(ranges={start: ()}))
        listed = self.read.ranges[start] = self.sight.ranges[start]
        found = {member[PREFIX + PLACE :]: member[PREFIX : PREFIX + PLACE] for member in listed}
        for pages in (self.pages, self._own):
            for number, (member, places) in enumerate(pages.index.items()):
                if start in places:
                    found.pop(member, None)
                    place = places[start]
                    if place != GONE:
                        found[member] = place or b"9%019d" % (number + (pages is self._own) * 10**9)
        return [(found[each], text_of(each)) for each in sorted(found, key=lambda each: found[each])]

    def calls(self, start: bytes) -> list[Call]:
        """Return the calls with a prefix, in the order of their creation."""
        return [call for _, operation_id in self.members(start) if (call := self.by_id(operation_id)) is not None]

    def by_id(self, operation_id: str) -> Call | None:
        """Return the call with this operation id."""
        found = self.stored(operation_id)
        return None if found is None else found.call

    def see_rows(self, fields: Sequence[bytes]) -> None:
        """Fetch rows that will be looked at, all in one trip."""
        wanted = {field: NEW for field in fields if field not in self.sight.rows}
        if wanted:
            self._fetch(self.sight, Sight(rows=wanted))

    def see_ranges(self, starts: Sequence[bytes]) -> None:
        """Fetch members that will be looked at, all in one trip."""
        wanted: dict[bytes, Sequence[bytes]] = {start: () for start in starts if start not in self.sight.ranges}
        if wanted:
            self._fetch(self.sight, Sight(ranges=wanted))

    # --- writing ---

    def set_row(self, field: bytes, value: bytes | None) -> None:
        """Keep a row."""
        self.row(field)
        self._own.rows[field] = value

    def enter(self, start: bytes, name: bytes, place: bytes = NEW) -> None:
        """Let a name be found by a prefix; without a place, behind all that are there."""
        self._own.places(name)[start] = place

    def leave(self, start: bytes, name: bytes, place: bytes) -> None:
        """Let it be found there no more."""
        self._own.leave(name, {start: place}, NEW)

    def trim(self, last: int) -> None:
        """Cut the log off behind its row with this number."""
        self._own.trim = last

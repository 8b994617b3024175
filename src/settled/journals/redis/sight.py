"""What a transaction sees of the journal, and the pages on which it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from settled.journals.redis.cells import GONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from settled.journals.redis.cells import Stored


class Sight(Struct, eq=False):
    """Calls, rows and ranges of the index as they stand, as the script shows them; what is not there is empty."""

    calls: dict[str, bytes | Stored] = field(default_factory=dict)
    """Read only when a rule looks at it: a record that cannot be read stands in the way of that rule alone."""
    rows: dict[bytes, bytes] = field(default_factory=dict)
    ranges: dict[bytes, Sequence[bytes]] = field(default_factory=dict)

    def add(self, more: Sight) -> bool:
        """Take in what was seen later; return whether all that is in both stands as before."""
        same = all(self.calls.get(each, found) == found for each, found in more.calls.items())
        same &= all(self.rows.get(each, found) == found for each, found in more.rows.items())
        same &= all(self.ranges.get(each, found) == found for each, found in more.ranges.items())
        self.calls.update(more.calls)
        self.rows.update(more.rows)
        self.ranges.update(more.ranges)
        return same


class Read(Struct, eq=False):
    """What of a sight was looked at."""

    calls: dict[str, Stored | None] = field(default_factory=dict)
    rows: dict[bytes, bytes] = field(default_factory=dict)
    ranges: dict[bytes, Sequence[bytes]] = field(default_factory=dict)


class Pages(Struct, eq=False):
    """What is written: nothing of it is seen by others before the commit."""

    calls: dict[str, Stored | None] = field(default_factory=dict)
    rows: dict[bytes, bytes | None] = field(default_factory=dict)
    index: dict[bytes, dict[bytes, bytes]] = field(default_factory=dict)
    """Name -> prefix -> what it sorts by; ``NEW``: the place of its call, made by this commit; ``GONE``: it leaves."""
    left: dict[bytes, None] = field(default_factory=dict)
    """Members that leave."""
    log: list[bytes] = field(default_factory=list)
    """Of each row the name of its call, and its data."""
    alerts: list[bytes] = field(default_factory=list)
    trim: int = 0
    """The number of the last row of the log that goes."""

    @property
    def changed(self) -> bool:
        """Whether anything is written."""
        return bool(self.calls or self.rows or self.index or self.log or self.alerts)

    def places(self, name: bytes) -> dict[bytes, bytes]:
        """Return what a name is found by from now on, to be added to."""
        found = self.index.get(name)
        if found is None:
            found = self.index[name] = {}
        return found

    def leave(self, name: bytes, found_by: Mapping[bytes, bytes], place: bytes) -> None:
        """Let a name go from these prefixes, where it sorts by what is said or else by ``place``.

        What only this transaction has made has no place yet, and was never there.
        """
        places = self.places(name)
        for start, own in found_by.items():
            if own or place:
                self.left[start + (own or place) + name] = None
            places[start] = GONE

    def take_in(self, more: Pages) -> None:
        """Write what ``more`` holds behind what is here."""
        self.calls.update(more.calls)
        self.rows.update(more.rows)
        for name, places in more.index.items():
            self.places(name).update(places)
        self.left.update(more.left)
        self.log += more.log
        self.alerts += more.alerts
        self.trim = max(self.trim, more.trim)

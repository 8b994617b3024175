"""What the scripts are asked: numbers, among them counts, and the words that are counted."""

from __future__ import annotations

from struct import Struct, pack
from typing import TYPE_CHECKING, Any, Final

from settled.journals.redis.cells import ALERTS, GONE, VERSION, call_data, raw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.journals.redis.foresight import Hints
    from settled.journals.redis.identity import Identity
    from settled.journals.redis.sight import Pages, Read

LOOKED: Final = Struct(">dd3I").pack
"""How far the journal had come, the number of the commit, and how many calls, rows and ranges are named."""
CHANGES: Final = Struct(">dd12I").pack
"""What time it may be, how far the log is cut off, how many of each kind must stand, and are written; 0: nothing."""
CLOCK: Final = Struct(">5d").pack
_ABSENT: Final = b"-"
"""In place of what would be empty."""


def short(text: str) -> bytes:
    """Return a name of less than 256 bytes among the numbers."""
    name = text.encode()
    return b"%c%b" % (len(name), name)


def looking(identity: Identity, asked: Sequence[tuple[Any, ...]]) -> tuple[str, bytes, list[bytes]]:
    """Return the request for several commands that read, each with the part that it reads before its arguments."""
    head = pack(">d", identity.seen) + short(identity.journal_id) + pack(f">{len(asked)}I", *map(len, asked))
    return "look", head, [word for each in asked for word in each]


def named(hints: Hints) -> tuple[tuple[int, int, int], list[bytes]]:
    """Return how many calls, rows and ranges are named, and their names."""
    ids, fields, prefixes = hints.ids, hints.fields, hints.prefixes
    return (len(ids), len(fields), len(prefixes)), [*map(raw, ids), *fields, *prefixes]


def standing(read: Read) -> tuple[list[int], list[bytes]]:
    """Return how many of each kind must stand as they were looked at, and how: versions, and lists of members."""
    words: list[bytes] = []
    for stored in read.calls.values():
        words.append(_ABSENT if stored is None else stored.version)  # noqa: PERF401 - mostly one: quicker so
    for row in read.rows.values():
        words.append(row[:VERSION] or _ABSENT)  # noqa: PERF401 - as above
    for members in read.ranges.values():
        words.append(b"\n".join(members))  # noqa: PERF401 - as above
    return [len(read.calls), len(read.rows), len(read.ranges)], words


def written(pages: Pages, words: list[bytes]) -> tuple[int, ...]:
    """Add what is written; return how much of each kind that is."""
    words += pages.log
    dropped: list[bytes] = []
    for operation_id, to in pages.calls.items():
        if to is None:
            dropped.append(raw(operation_id))
        else:
            words += raw(operation_id), to.place or _ABSENT, call_data(to.call)
    words += dropped
    n_unset = _rows(pages, words) if pages.rows else 0
    words += pages.left
    n_entered, n_new = _entered(pages, words)
    for alert in pages.alerts:
        words += ALERTS, alert
    n_put, n_set = len(pages.calls) - len(dropped), len(pages.rows) - n_unset
    n_changed = n_put, len(dropped), n_set, n_unset
    return len(pages.log) // 2, *n_changed, len(pages.left), n_entered, n_new, len(pages.alerts)


def _rows(pages: Pages, words: list[bytes]) -> int:
    """Add rows that are set, then those that go; return how many go."""
    unset: list[bytes] = []
    for field, value in pages.rows.items():
        if value is None:
            unset.append(field)
        else:
            words += field, value
    words += unset
    return len(unset)


def _entered(pages: Pages, words: list[bytes]) -> tuple[int, int]:
    """Add members with a place; then, of those whose place this commit makes, each name and all that it is found by."""
    n_words = len(words)
    new: list[bytes] = []
    for name, places in pages.index.items():
        found_by = b"" if any(places.values()) else b"".join(places)
        if not found_by:
            for start, place in places.items():
                if not place:
                    found_by += start
                elif place != GONE:
                    words.append(start + place + name)
        if found_by:
            new += name, found_by
    n_entered = len(words) - n_words
    words += new
    return n_entered, len(new) // 2

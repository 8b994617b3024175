"""What the scripts are asked: names, numbers and counts, and the words that are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.journals.redis.cells import ALERTS, GONE, NEW, VERSION, call_data, raw

if TYPE_CHECKING:
    from settled.journals.redis.foresight import Hints
    from settled.journals.redis.sight import Pages, Read


def named(hints: Hints) -> tuple[list[int], list[bytes]]:
    """Return how many calls, rows and ranges are named, and their names."""
    ids, fields, prefixes = hints.ids, hints.fields, hints.prefixes
    return [len(ids), len(fields), len(prefixes)], [*map(raw, ids), *fields, *prefixes]


def standing(read: Read) -> tuple[list[int], list[bytes]]:
    """Return how many of each kind must stand as they were looked at, and how: versions, and lists of members."""
    words: list[bytes] = []
    for stored in read.calls.values():
        words.append(NEW if stored is None else stored.version)  # noqa: PERF401 - mostly one: quicker so
    for row in read.rows.values():
        words.append(row[:VERSION])  # noqa: PERF401 - as above
    for members in read.ranges.values():
        words.append(b"\n".join(members))  # noqa: PERF401 - as above
    return [len(read.calls), len(read.rows), len(read.ranges)], words


def written(pages: Pages) -> tuple[list[int], list[bytes]]:
    """Return how many of each kind are written, and what."""
    words = pages.log.copy()
    dropped: list[bytes] = []
    for operation_id, to in pages.calls.items():
        if to is None:
            dropped.append(raw(operation_id))
        else:
            words += raw(operation_id), to.place, call_data(to.call)
    words += dropped
    n_unset = _rows(pages, words)
    words += pages.left
    n_entered, n_new = _entered(pages, words)
    for alert in pages.alerts:
        words += ALERTS, alert
    n_put, n_set = len(pages.calls) - len(dropped), len(pages.rows) - n_unset
    kinds = n_put, len(dropped), n_set, n_unset, len(pages.left), n_entered, n_new
    return [len(pages.log) // 2, *kinds, len(pages.alerts)], words


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

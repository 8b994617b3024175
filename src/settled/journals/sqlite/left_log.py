"""A write-ahead log that a killed process has left: whether it goes on from the file that it lies beside.

SQLite joins the two without a look. An older copy of the file that was put under the name, with the log left where it
was, so becomes a journal that stands at the newest commit and lacks what was folded into the former file before the log
began: its calls would be made once more. File format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import sqlite3
import struct
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from settled.errors import JournalError
from settled.journals.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER: Final = struct.Struct(">8I")
"""Of the log: magic number, version, size of a page, checkpoints, two salts, two checksums."""
_FRAME: Final = struct.Struct(">6I")
"""Before each page in it: its number, the size of the file after a commit, the salts, two checksums."""
_MAGIC: Final = (0x377F0682, 0x377F0683)
_LEAF: Final = 0x0D
_NUMBERS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
"""How a whole number is stored -> bytes; 8 and 9 are the numbers 0 and 1."""
_TEXT: Final = 13
_PAUSES: Final = (0.01, 0.03, 0.1)
"""Seconds between looks; only what every one of them finds is told."""


def check_log(path: str) -> None:
    """Compare the log beside a journal's file with the file alone, before SQLite has joined them.

    Raises:
        JournalError: The log does not go on from this file.
    """
    found = _apart(path)
    for pause in _PAUSES:
        if found is None:
            return
        time.sleep(pause)  # a process at work may have begun its log anew between two looks
        found = _apart(path)
    if found is None:
        return
    first, file = found
    raise JournalError(
        f"the journal {path} stands at commit {file.commits} of {file.journal_id}, and the write-ahead log beside it "
        f"(the file ending in -wal) begins with commit {first.commits} of {first.journal_id} and does not go on from "
        "there: another copy was put in the place of the file that it was written for; nothing was executed. Put the "
        "right file back; if the copy is to count, move the files ending in -wal and -shm away, and run "
        "`settled journal accept`"
    )


def _apart(path: str) -> tuple[Mark, Mark] | None:
    """Return the first commit in the log, and what the file says alone, if they do not belong together."""
    with suppress(OSError, struct.error, IndexError, StopIteration):
        log = _marks(f"{path}-wal")
        first = next(log)  # before the file is looked at, which goes on meanwhile
        file = _alone(path)
        if file is not None and not _goes_on(first, file, log):
            return first, file
    return None


def _goes_on(first: Mark, file: Mark, rest: Iterator[Mark]) -> bool:
    """Whether a log that begins with this commit goes on from the file, or has been folded into it in part."""
    if first.journal_id != file.journal_id or first.commits > file.commits + 1:
        return False
    return file.commits < first.commits or max((mark.commits for mark in rest), default=first.commits) >= file.commits


def _alone(path: str) -> Mark | None:
    """Return how far the file has come without its log; ``None``: it does not say."""
    with suppress(sqlite3.Error, TypeError), closing(_reading(path)) as connection:
        return Mark(*connection.execute("SELECT journal_id, commits FROM meta").fetchone())
    return None


def _reading(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{Path(path).as_uri()}?mode=ro&immutable=1", uri=True)


def _marks(path: str) -> Iterator[Mark]:
    """Yield what each commit in a log says of the journal."""
    return (mark for mark in map(_mark_on, _pages(path)) if mark is not None)


def _pages(path: str) -> Iterator[bytes]:
    """Yield the pages in a log, in the order in which they were written, as far as they are of one time."""
    with Path(path).open("rb") as file:
        magic, _, size, _, *salts, _, _ = _HEADER.unpack(file.read(_HEADER.size))
        while magic in _MAGIC and len(frame := file.read(_FRAME.size)) == _FRAME.size:
            _, _, *own, _, _ = _FRAME.unpack(frame)
            page = file.read(size)
            if own != salts or len(page) < size:
                return
            yield page


def _mark_on(page: bytes) -> Mark | None:
    """Return what a page says if it holds the one row of the table ``meta``."""
    if page[0] != _LEAF or page[3:5] != b"\0\1":
        return None
    _, at = _varint(page, int.from_bytes(page[8:10], "big"))  # the row's size
    _, start = _varint(page, at)  # its number
    values = _values(page, start)
    match values:
        case [None, str(journal_id), int(), int(commits), str()] if journal_id.startswith("jn_"):
            return Mark(journal_id, commits)
        case _:
            return None


def _values(page: bytes, start: int) -> list[Any]:
    """Return the values of a row: its header lists their kinds."""
    size, at = _varint(page, start)
    place, values = start + size, list[Any]()
    while at < start + size:
        kind, at = _varint(page, at)
        value, length = _value(page, place, kind)
        values.append(value)
        place += length
    return values


def _value(page: bytes, place: int, kind: int) -> tuple[Any, int]:
    if kind in _NUMBERS:
        length = _NUMBERS[kind]
        return (int.from_bytes(page[place : place + length], "big", signed=True) if length else kind - 8), length
    if kind >= _TEXT and kind % 2:
        length = (kind - _TEXT) // 2
        return page[place : place + length].decode("utf-8", "replace"), length
    return None, (kind - _TEXT + 1) // 2 if kind >= _TEXT - 1 else 0


def _varint(page: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it: seven bits a byte, the last one below 128."""
    number = 0
    while page[at] >= 128:  # noqa: PLR2004 - see above
        number, at = (number << 7) | (page[at] & 127), at + 1
    return (number << 7) | page[at], at + 1


__all__ = ["check_log"]

"""The spill file: evidence that the journal could not take, one line each, until it can.

Lines are appended and synced under a lock, so that processes may share the file. Each carries a checksum; a line that
was torn or damaged harms no other, and stays where it is for a person to look at.
"""

from __future__ import annotations

import os
import stat
import time
from base64 import b64decode, b64encode
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from settled.core.doubt.late import Evidence
from settled.errors import JournalError
from settled.journals.file_lock import try_lock, unlock
from settled.journals.mark import replace_whole, share, sync_folder
from settled.journals.rows import fault_list, fault_of, from_json, to_json
from settled.journals.unread import passing_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE: Final = 10.0
"""Seconds to wait for the lock; each holder keeps it for one write."""


class FileSpill:
    """A spill file at ``path``; who may use the file ``like`` may use it, else its owner alone.

    Raises:
        JournalError: What is there is no file: it would be noticed only when there is evidence to keep.
    """

    def __init__(self, path: str | os.PathLike[str], *, like: str = "") -> None:
        self.path, self._like = os.path.realpath(path), like
        why = _unfit(self.path)
        if why:
            raise JournalError(
                f"evidence that the journal cannot take is to be kept in {self.path}, {why}: name a file with spill= "
                "(it need not exist yet); nothing was executed"
            )

    def keep(self, evidence: Evidence) -> None:
        """Keep it durably, whatever is in it.

        Raises:
            OSError: The disk does not take it either; the file is as it was.
        """
        line = _line(evidence)
        with self._locked() as descriptor:
            size = os.fstat(descriptor).st_size
            try:
                _write(descriptor, line if _ends_well(descriptor, size) else b"\n" + line)
                os.fsync(descriptor)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise
        if not size:
            sync_folder(self.path)

    def drain(self, take: Callable[[Evidence], None]) -> int:
        """Hand each piece to ``take``, oldest first; forget those that it took without raising.

        What belongs to a record that cannot be read stays, and holds up no other.
        The lock is not held meanwhile: evidence is safe to take twice, and others must be able to keep theirs.
        Raises what ``take`` raised, once the pieces before are forgotten.
        """
        taken: list[bytes] = []
        try:
            for line in self._lines():
                evidence = _evidence(line)
                if evidence is not None:
                    with passing_over():
                        take(evidence)
                        taken.append(line)
        finally:
            if taken:
                self._forget(Counter(taken))
        return len(taken)

    def damaged(self) -> int:
        """Return how many lines cannot be read."""
        return sum(_evidence(line) is None for line in self._lines())

    def _lines(self) -> list[bytes]:
        try:
            return [line for line in Path(self.path).read_bytes().split(b"\n") if line]
        except FileNotFoundError:
            return []

    def _forget(self, taken: Counter[bytes]) -> None:
        with self._locked() as descriptor:
            rest = []
            for line in self._lines():
                if taken[line] > 0:
                    taken[line] -= 1
                else:
                    rest.append(line + b"\n")
            if rest:
                replace_whole(self.path, b"".join(rest), like=self.path)
            else:
                os.ftruncate(descriptor, 0)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        descriptor = self._open_locked()
        try:
            yield descriptor
        finally:
            unlock(descriptor)
            os.close(descriptor)

    def _open_locked(self) -> int:
        """Open and lock the file that has the name now; another process may just have replaced it."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600)
            try:
                try_lock(descriptor)
                if os.path.samestat(os.fstat(descriptor), os.stat(self.path)):  # noqa: PTH116 - beside fstat
                    if not os.fstat(descriptor).st_size:
                        share(descriptor, self._like)
                    return descriptor
                unlock(descriptor)
            except OSError:
                if time.monotonic() >= deadline:
                    os.close(descriptor)
                    raise
            os.close(descriptor)
            time.sleep(0.002)


def _unfit(path: str) -> str:
    """Say why no file can be at ``path``; nothing if there is one, or may be."""
    try:
        return "" if stat.S_ISREG(Path(path).stat().st_mode) else "which is no file"
    except FileNotFoundError:
        return ""
    except OSError as fault:
        return f"which cannot be reached ({fault.strerror})"


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _ends_well(descriptor: int, size: int) -> bool:
    """Whether the file ends with a whole line: a process may have died while it wrote one."""
    if not size:
        return True
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"


def _line(evidence: Evidence) -> bytes:
    result = None if evidence.result is None else b64encode(evidence.result).decode("ascii")
    values = [
        evidence.operation_id,
        evidence.no,
        fault_list(evidence.fault),
        result,
        evidence.note,
        evidence.over,
        evidence.claim,
    ]
    body = to_json(values).encode("utf-8", "surrogatepass")
    return b"%08x %s\n" % (crc32(body), body)


def _evidence(line: bytes) -> Evidence | None:
    """Return what a line holds; ``None`` if it is damaged, or a later release's."""
    checksum, _, body = line.partition(b" ")
    if checksum != b"%08x" % crc32(body):
        return None
    try:
        values: list[Any] = from_json(body.decode("utf-8", "surrogatepass"))
        operation_id, no, fault, result, note, over, claim = values
        data = None if result is None else b64decode(result)
        return Evidence(operation_id, no, fault_of(fault), data, note, over=over, claim=claim)
    except (TypeError, ValueError):
        return None

"""This process's connections: one that writes, and a small pool of those that look."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from random import uniform
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from settled.errors import JournalError
from settled.journals.mark import not_there
from settled.journals.redis.identity import FORMAT, GAP
from settled.journals.redis.line import Line
from settled.journals.redis.settings import Settings, read_settings
from settled.journals.redis.trouble import Fault, away, explained

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from settled.journals.mark import Mark
    from settled.journals.redis.address import Address
    from settled.journals.redis.identity import Identity

_abandoned: Final[list[Line]] = []
"""Inherited over a fork: never used again."""


class Connections:
    """Connections to one journal."""

    def __init__(self, address: Address, identity: Identity, *, pool: int, patience: float) -> None:
        self.address, self.identity, self.patience = address, identity, patience
        self.settings = Settings()
        self._pool = pool
        self._begin(closed=False)

    def _begin(self, *, closed: bool) -> None:
        self._line: Line | None = None
        self._idle: list[Line] = []
        self._lent = 0
        self._free = threading.Condition()
        self._closed = closed

    def forget(self, *, closed: bool) -> None:
        """Begin without any, in a forked child."""
        inherited = (*self._idle, *([self._line] if self._line else ()))
        for line in inherited:
            line.leave_to_parent()
        _abandoned.extend(inherited)
        self._begin(closed=closed)

    # --- opening ---

    def open(self, *, journal_id: str | None, must_exist: bool) -> None:
        """Connect; make the journal if it may be made; check that it is the right one.

        Raises:
            JournalError: It cannot be used; the message says what to do.
        """
        mark = self.identity.look_first(journal_id)
        fresh = "" if mark or must_exist or journal_id is not None else f"jn_{token_hex(16)}"
        try:
            self._line = self._enter(fresh, mark, journal_id)
        except Fault as fault:
            raise explained(fault, self.address.shown, doing="it cannot be opened; nothing was executed") from fault
        self.identity.leave_mark(must=mark is None)

    def _enter(self, fresh: str = "", mark: Mark | None = None, wanted: str | None = None) -> Line:
        """Connect and recognise the journal, or make it. Raises ``RedisError``, ``JournalError``."""
        line = Line(self.address, self.patience)
        try:
            info = line.info()
            self._check_role(info)
            run = f"{info.get('run_id')} {info.get('master_replid')}"
            about = fresh, run, str(self.identity.seen), str(GAP), FORMAT
            self._take(line.run("enter", b"", [word.encode() for word in about]), mark, wanted)
            self.settings = read_settings(line, info)
        except BaseException:
            line.close()
            raise
        return line

    def _check_role(self, info: Mapping[str, str]) -> None:
        if info.get("role") == "slave":
            raise JournalError(
                f"the journal {self.address.shown}: its server is a replica; let the address lead to the primary; "
                "nothing was executed"
            )

    def _take(self, answer: Sequence[Any], mark: Mark | None, wanted: str | None) -> None:
        if answer[0] == b"none" and mark is None and not self.identity.journal_id:
            raise not_there(self.address.shown)
        error = self.identity.error_for(answer)
        if error is not None:
            raise error
        _, found, commits, lost, form = answer
        if form.decode() != FORMAT:
            raise JournalError(
                f"the journal {self.address.shown} is kept in format {form.decode()}, and this release keeps {FORMAT}: "
                "upgrade settled; nothing was executed"
            )
        self.identity.recognise(found.decode(), mark, wanted)
        if lost:
            self.identity.lost(lost)
        self.identity.saw(int(commits))

    # --- the one that writes ---

    def line(self) -> Line:
        """Return the line that writes; only the leader of the group commit may ask. Raises ``RedisError``."""
        if self._line is None:
            self._line = self._enter()
        return self._line

    def drop_line(self) -> None:
        """Close the line that writes; the next transaction opens another."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    # --- those that look ---

    @contextmanager
    def reader(self, *, patient: bool = True) -> Iterator[Line]:
        """Lend a connection that only looks; ``patient``: waiting for one where all are lent, or the server is away.

        Raises:
            JournalError: None can be had, or the server ended it.
        """
        patience = self.patience if patient else 0.0
        self._take_place(patience)
        line: Line | None = None
        try:
            line = self._ready(patience)
            yield line
            with self._free:
                if not self._closed:
                    self._idle.append(line)
                    line = None
        except Fault as fault:
            raise explained(fault, self.address.shown, doing="it cannot be read") from fault
        finally:
            with self._free:
                self._lent -= 1
                self._free.notify()
            if line is not None:
                line.close()

    def _take_place(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        with self._free:
            while self._lent >= self._pool and not self._closed:
                if not self._free.wait(deadline - time.monotonic()):
                    raise JournalError(
                        f"the journal {self.address.shown}: all {self._pool} connections are in use; raise pool="
                    )
            if self._closed:
                raise self.closed_error()
            self._lent += 1

    def _ready(self, patience: float) -> Line:
        """Return a connection that answers: the server may have been restarted since it was used."""
        while True:
            with self._free:
                line = self._idle.pop() if self._idle else None
            if line is None:
                return self._patiently(patience)
            try:
                line.call("PING")
            except Fault:
                line.close()
            else:
                return line

    def _patiently(self, patience: float) -> Line:
        deadline = time.monotonic() + patience
        while True:
            try:
                return self._enter()
            except Fault as fault:
                if not away(fault) or time.monotonic() >= deadline:
                    raise
            time.sleep(uniform(0.01, 0.05))  # noqa: S311 - spreads those that wait; no secret

    # --- the end ---

    def closed_error(self) -> JournalError:
        """Return the error for work on a journal that was closed."""
        return JournalError(f"the journal {self.address.shown} was closed; nothing was executed: open it anew")

    def close(self) -> None:
        """Close those that are idle; the others as they come back."""
        with self._free:
            self._closed = True
            self._free.notify_all()
            while self._idle:
                self._idle.pop().close()

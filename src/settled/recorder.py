"""The requests of one attempt, as its transports report them: they only record, ``core.exchanges`` judges.

Threads and tasks of one attempt write here side by side; whoever judges takes a ``sight`` of it.
"""

from __future__ import annotations

import threading
import time
import zlib
from typing import TYPE_CHECKING, Final

from settled.core.faults.exchanges import READING, Seen, Sight
from settled.core.model import Phase
from settled.errors import AttemptLeft

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LARGEST_BODY: Final = 16384
"""Bytes of an answer that are looked at."""
MOST_BODIES: Final = 20
"""Of more requests in one attempt only the heads of the answers are looked at."""


class Hooks:
    """Whether any transport is watched in this process: where none is, nothing is recorded."""

    __slots__ = ("live",)

    def __init__(self) -> None:
        self.live = 0


hooks: Final = Hooks()


class Recorder:
    """Takes down the requests of one attempt.

    ``key`` goes with requests that change something, where they bring none of their own; empty: none does.
    ``bodies``: the beginnings of answers may be kept.
    """

    __slots__ = ("_barred", "_bodies", "_late", "_left", "_lock", "_requests", "key", "turned_away")

    def __init__(self, key: str = "", *, bodies: bool = True) -> None:
        self.key, self._bodies = key, bodies
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._left = self._barred = False
        self._late: Callable[[], None] | None = None
        self.turned_away: AttemptLeft | None = None
        """By what a request was held back."""

    def begin(self, method: str, target: str, *, key: str = "") -> Request:
        """Take down a request that is about to be made. ``target``: scheme, host and path."""
        request = Request(self, method.upper(), target, key, bodies=len(self._requests) < MOST_BODIES)
        with self._lock:
            self._requests.append(request)
        return request

    def leave(self, late: Callable[[], None] | None = None, *, cut: bool = False) -> None:
        """The attempt has ended for its caller: a first request that changes something is let through no more.

        What has begun goes on, so that no work is broken off in its middle. ``late`` is called, from any thread, once
        more becomes known of a request that was under way. ``cut``: the attempt was cut off inside of them.
        """
        with self._lock:
            self._left, self._late = True, late or self._late
            self._barred = all(each.phase is Phase.NOT_SENT for each in self._requests if each.method not in READING)
            for each in self._requests:
                each.cut = each.cut or (cut and not each.ended)

    def sight(self) -> Sight:
        """Return what has been seen so far."""
        with self._lock:
            return Sight(tuple(each.seen() for each in self._requests), self._barred, self._bodies)

    def let_through(self, request: Request, phase: Phase) -> None:
        """Let a request begin to leave. Raises ``AttemptLeft`` where its attempt may send nothing more."""
        with self._lock:
            if self._barred and request.method not in READING:
                words = "the attempt was over before this request could be sent: nothing was sent"
                self.turned_away = self.turned_away or AttemptLeft(words)
                raise self.turned_away
            request.phase = max(request.phase, phase, key=_ORDER.__getitem__)

    def heard(self) -> None:
        """Tell whoever waits for late news of a request."""
        with self._lock:
            late = self._late if self._left else None
        if late is not None:
            late()


_ORDER = {phase: place for place, phase in enumerate(Phase)}


class Request:
    """One request, as its transport reports it."""

    __slots__ = (
        *(
            "_begun",
            "_body",
            "_bodies",
            "_coding",
            "_errors",
            "_headers",
            "_recorder",
            "_started",
            "_status",
            "_took",
            "_whole",
        ),
        *("cut", "ended", "key", "lingers", "method", "phase", "target", "written"),
    )

    def __init__(self, recorder: Recorder, method: str, target: str, key: str, *, bodies: bool) -> None:
        self.method, self.target, self.key = method, target, key
        self.phase = Phase.NOT_SENT
        self.written = False
        """All of it has been written: what is awaited is the answer alone."""
        self.ended = self.cut = False
        self.lingers = False
        """Its asker was cancelled; the answer is awaited all the same."""
        self._recorder, self._bodies = recorder, bodies
        self._begun, self._started, self._took = time.time(), time.monotonic(), 0.0
        self._status: int | None = None
        self._headers: Mapping[str, str] = {}
        self._body, self._whole, self._coding = bytearray(), False, "identity"
        self._errors: list[BaseException] = []

    def sending(self, phase: Phase = Phase.SENDING) -> None:
        """Its bytes may leave from now on. Raises ``AttemptLeft`` if they may not."""
        self._recorder.let_through(self, phase)

    def sent(self, *, written: bool = False) -> None:
        """Bytes have left; ``written``: all of them."""
        self.phase = max(self.phase, Phase.SENT, key=_ORDER.__getitem__)
        self.written = self.written or written

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """The head of the answer has come; names of headers in lower case."""
        self.phase, self._status, self._headers = Phase.ANSWERED, status, headers
        self._coding = headers.get("content-encoding", "identity").lower()
        self._took = time.monotonic() - self._started

    def plain(self) -> None:
        """What comes of the body has been decoded already."""
        self._coding = "identity"

    def part(self, data: bytes) -> None:
        """A part of the body has come."""
        if self._bodies and len(self._body) <= LARGEST_BODY:
            self._body += data[: LARGEST_BODY + 1 - len(self._body)]

    def complete(self) -> None:
        """All of the answer has come."""
        self._whole = self._bodies and len(self._body) <= LARGEST_BODY
        self.close()

    def replied(self) -> None:
        """The answer has come, in a tongue without statuses: it is the error that follows, or a success."""
        self.phase, self._took = Phase.ANSWERED, time.monotonic() - self._started

    def failed(self, error: BaseException) -> None:
        """It ended with this error; told again by outer layers that make another one of it."""
        self.troubled(error)
        self.close()

    def troubled(self, error: BaseException) -> None:
        """Something on its way ended with this error; it may still be sent."""
        if not any(known is error for known in self._errors):
            self._errors.append(error)

    def close(self) -> None:
        """Nothing more is sent of it, and no more is looked at."""
        if not self.ended:
            self.ended, self._took = True, time.monotonic() - self._started
            if self._status is not None:
                self._recorder.heard()

    def seen(self) -> Seen:
        """Return what has been seen of it so far."""
        body, whole = self._body, self._whole
        if body and self._coding != "identity":
            body, whole = _decoded(body, self._coding), whole and self._coding in _CODINGS
        return Seen(
            self.method,
            self.target,
            self.phase,
            self._status,
            self._headers,
            bytes(body[:LARGEST_BODY]),
            whole,
            tuple(self._errors),
            self.ended,
            self.cut,
            self._begun,
            self._took,
            self.key,
        )


_CODINGS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Codings that the standard library reads, by zlib's ``wbits``."""


def _decoded(body: bytearray, coding: str) -> bytearray:
    """Return as much of a body as can be read; nothing of one whose coding is not known."""
    try:
        return bytearray(zlib.decompressobj(_CODINGS[coding]).decompress(bytes(body), LARGEST_BODY + 1))
    except (KeyError, zlib.error):
        return bytearray()

"""httpx, sync and async, and its successor httpx2: also beneath openai, anthropic and stripe.

How far a request came is told by the ``trace`` extension of httpcore. Under a transport that is not httpx's own it is
not known: then its error decides. One that a transport of whatever kind sends again by itself counts as several.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from settled.core.faults import classify
from settled.core.faults.exchanges import READING
from settled.core.model import Phase
from settled.errors import AttemptLeft
from settled.transports.lingering import leavable, on_asyncio
from settled.transports.watching import Patches, Watch, ended, keyed, lowered, target, wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from settled.recorder import Recorder, Request

LIBRARIES: Final = ("httpx", "httpx2")


def install(client: object | None = None) -> None:
    """Watch one ``Client`` or ``AsyncClient``, or all of this process. Raises ``ImportError`` without httpx."""
    _watch.install(client)


def uninstall(client: object | None = None) -> None:
    """Watch one client no more, or none at all."""
    _watch.uninstall(client)


def _patch(patches: Patches) -> None:
    if not any(name in sys.modules for name in LIBRARIES):
        import httpx  # noqa: F401, PLC0415 - an extra: loaded only when it is to be watched
    for library in (sys.modules[name] for name in LIBRARIES if name in sys.modules):
        patches.wrap(library.Client, "_send_single_request", partial(_sync, library=library))
        patches.wrap(library.AsyncClient, "_send_single_request", partial(_async, library=library))


_watch: Final = Watch(_patch)


def _sync(original: Callable[..., Any], library: Any) -> Callable[..., Any]:
    class Body(library.SyncByteStream):  # type: ignore[misc]  # the library is known at run time only
        """The body of an answer, taken down as it is read."""

        def __init__(self, stream: Any, seen: Request) -> None:
            self._stream, self._seen = stream, seen

        def __iter__(self) -> Iterator[bytes]:
            try:
                for part in self._stream:
                    self._seen.part(part)
                    yield part
            except BaseException as error:
                ended(self._seen, error)
                raise
            self._seen.complete()

        def close(self) -> None:
            self._stream.close()
            self._seen.close()

    def send(client: Any, request: Any) -> Any:
        recorder = wire() if _watch.on(client) else None
        if recorder is None:
            return original(client, request)
        made = Made(request, recorder)
        try:
            request.extensions["trace"] = _trace(made, request)
            if not _tells(client, request, library.HTTPTransport, "handle_request"):
                made.last.sending(Phase.UNSEEN)
            response = original(client, request)
        except BaseException as error:
            made.failed(error)
            raise
        return _answered(response, made.last, Body)

    return send


def _async(original: Callable[..., Any], library: Any) -> Callable[..., Any]:
    class Body(library.AsyncByteStream):  # type: ignore[misc]  # the library is known at run time only
        """The body of an answer, taken down as it is read."""

        def __init__(self, stream: Any, seen: Request) -> None:
            self._stream, self._seen = stream, seen

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for part in self._stream:
                    self._seen.part(part)
                    yield part
            except BaseException as error:
                ended(self._seen, error)
                raise
            self._seen.complete()

        async def aclose(self) -> None:
            await self._stream.aclose()
            self._seen.close()

    async def send(client: Any, request: Any) -> Any:
        recorder = wire() if _watch.on(client) else None
        if recorder is None:
            return await original(client, request)
        made = Made(request, recorder)
        try:
            request.extensions["trace"] = _atrace(made, request)
            if not _tells(client, request, library.AsyncHTTPTransport, "handle_async_request"):
                made.last.sending(Phase.UNSEEN)
            sending = original(client, request)
            response = await (leavable(sending, lambda: made.last, made.linger) if _may_linger(made.last) else sending)
        except BaseException as error:
            if not made.last.lingers:
                made.failed(error)
            raise
        return _answered(response, made.last, Body)

    return send


class Made:
    """What is sent for one request of a client's: it once, or several times where a transport repeats it by itself."""

    def __init__(self, request: Any, recorder: Recorder) -> None:
        url, key = request.url, keyed(request.method, request.headers, recorder)
        self._recorder = recorder
        self.last = recorder.begin(request.method, target(url.scheme, url.host, url.port, url.path), key=key)
        self._out = self._to_proxy = self._any = False
        self._head: Any = None

    def failed(self, error: BaseException) -> None:
        """Take down how it ended; where httpcore told of nothing, somebody else has sent it, or made it up (a mock)."""
        ours = self._any or not isinstance(error, Exception) or isinstance(error, AttemptLeft)
        if not ours and self.last.phase is Phase.NOT_SENT:
            self.last.phase = Phase.UNSEEN
        self.last.failed(error)

    def heard(self, name: str, info: Any) -> None:
        """Take down an event of httpcore. A ``CONNECT`` to a proxy comes before the request, under the same trace."""
        self._any = True
        event, _, stage = name.rpartition(".")
        if "request" in info:
            self._to_proxy = getattr(info["request"], "method", b"") == b"CONNECT"
        if not self._to_proxy:
            self._heard(event.rpartition(".")[2], stage, info)

    def _heard(self, event: str, stage: str, info: Any) -> None:
        match event, stage:
            case "send_request_headers", "started":
                self._leaves()
            case "send_request_body", "started":
                self.last.sent()
            case "receive_response_headers", "started":
                self.last.sent(written=True)
            case "receive_response_headers", "complete":
                self._head = info.get("return_value")
            case _, "failed" if type(info.get("exception")).__name__ == "ConnectionNotAvailable":
                self._out = False  # over HTTP/2 the other side has said that it leaves it alone: httpcore sends it anew
            case "receive_response_headers", "failed" if _left_alone(info.get("exception")):
                self._out, self.last.phase = False, Phase.UNSEEN  # it has said so in another way, which its error tells
            case _:
                pass

    def _leaves(self) -> None:
        if self._out:
            self._again()
        self._out, self._head = True, None
        self.last.sending()

    def _again(self) -> None:
        before = self.last
        if self._head is not None:
            status = next(part for part in self._head if isinstance(part, int))
            before.answered(status, lowered((_text(name), _text(value)) for name, value in self._head[-1]))
        before.close()
        self.last = self._recorder.begin(before.method, before.target, key=before.key)

    async def linger(self, response: Any, _: Request) -> None:
        """Take down an answer that nobody waits for any more."""
        seen = self.last
        seen.answered(response.status_code, lowered(response.headers.multi_items()))
        try:
            async for part in response.stream:
                seen.part(part)
            seen.complete()
        finally:
            await response.aclose()


def _left_alone(error: object) -> bool:
    return isinstance(error, BaseException) and classify(error).code == "stream_refused"


def _text(word: bytes) -> str:
    return word.decode("latin-1")


def _tells(client: Any, request: Any, own: type, handles: str) -> bool:
    """Whether the transport tells how far a request has come: httpx's own, with its own way to send."""
    transport = type(client._transport_for_url(request.url))  # noqa: SLF001 - httpx has no other place for it
    return next((kind for kind in transport.__mro__ if handles in vars(kind)), None) is own


def _answered(response: Any, seen: Request, body: type) -> Any:
    seen.answered(response.status_code, lowered(response.headers.multi_items()))
    bound = response.stream
    bound._stream = body(bound._stream, seen)  # noqa: SLF001 - beneath what httpx measures the time of an answer by
    return response


def _trace(made: Made, request: Any) -> Callable[[str, Any], None]:
    inner = _inner(request)

    def trace(name: str, info: Any) -> None:
        made.heard(name, info)
        if inner is not None:
            inner(name, info)

    trace.inner = inner  # type: ignore[attr-defined]  # marks it as ours
    return trace


def _atrace(made: Made, request: Any) -> Callable[[str, Any], Coroutine[Any, Any, None]]:
    inner = _inner(request)

    async def trace(name: str, info: Any) -> None:
        made.heard(name, info)
        if inner is not None:
            await inner(name, info)

    trace.inner = inner  # type: ignore[attr-defined]  # marks it as ours
    return trace


def _inner(request: Any) -> Any:
    """Return the user's own trace: a request that is sent once more carries ours of the time before."""
    known = request.extensions.get("trace")
    return getattr(known, "inner", known)


def _may_linger(seen: Request) -> bool:
    return seen.method not in READING and on_asyncio()

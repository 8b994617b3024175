"""aiohttp's client.

A request counts as beginning to leave once its connection stands. Of the answer's body only what ``read()``, ``text()``
and ``json()`` bring is taken down.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from settled.core.model import Phase
from settled.transports.lingering import leavable
from settled.transports.watching import Patches, Watch, keyed, lowered, target, wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.recorder import Recorder, Request


def install(client: object | None = None) -> None:
    """Watch one ``ClientSession``, or all of this process. Raises ``ImportError`` without aiohttp."""
    _watch.install(client)


def uninstall(client: object | None = None) -> None:
    """Watch one session no more, or none at all."""
    _watch.uninstall(client)


@dataclass(slots=True, eq=False)
class Making:
    """What one call of a session's method makes: several requests, where it is redirected."""

    recorder: Recorder | None
    requests: list[Request] = field(default_factory=list)
    error: BaseException | None = None
    """By which its last request failed without an answer."""
    writes: Callable[[], bool] | None = None
    """Whether the last request is still being written; ``None`` as long as it has no connection."""

    def under_way(self) -> Request | None:
        """Return the request whose answer is awaited."""
        last = self.requests[-1] if self.requests else None
        if last is not None and last.ended:
            return None
        if last is not None and self.writes is not None and not self.writes():
            last.sent(written=True)
        return last


_TUNNEL: Final = "CONNECT"
"""What asks a proxy for a way to the other side, before the request."""
_making: ContextVar[Making | None] = ContextVar("settled_aiohttp_making", default=None)


def _patch(patches: Patches) -> None:
    from aiohttp import BaseConnector, ClientRequest, ClientResponse, ClientSession  # noqa: PLC0415 - an extra, loaded when watched

    patches.wrap(ClientSession, "_request", _request)
    patches.wrap(BaseConnector, "connect", _connect)
    patches.wrap(ClientRequest, "send", _send)
    patches.wrap(ClientResponse, "start", _start)
    patches.wrap(ClientResponse, "read", _read)


_watch: Final = Watch(_patch)


def _request(original: Callable[..., Any]) -> Callable[..., Any]:
    async def request(session: Any, *args: Any, **kwargs: Any) -> Any:
        if not _watch.on(session):
            return await original(session, *args, **kwargs)
        making = Making(wire())
        token = _making.set(making)
        try:
            if making.recorder is None:
                return await original(session, *args, **kwargs)
            return await leavable(original(session, *args, **kwargs), making.under_way, _linger)
        except BaseException as error:
            for last in making.requests[-1:]:
                if not last.lingers:
                    last.failed(error)
            raise
        finally:
            _making.reset(token)

    return request


def _connect(original: Callable[..., Any]) -> Callable[..., Any]:
    async def connect(connector: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
        making = _making.get()
        if making is None:
            return await original(connector, req, *args, **kwargs)
        if (
            making.error is not None
        ):  # its own repeat over a fresh connection: of those settled makes the ones that may be
            raise making.error
        if making.recorder is None:
            return await original(connector, req, *args, **kwargs)
        url = req.url
        key = keyed(req.method, req.headers, making.recorder)
        path = target(url.scheme, url.host or "", url.port, url.raw_path)
        seen = making.recorder.begin(req.method, path, key=key)
        making.requests.append(seen)
        making.writes = None
        try:
            if not _tells(type(req)):
                seen.sending(Phase.UNSEEN)
            return await original(connector, req, *args, **kwargs)
        except BaseException as error:
            seen.failed(error)
            raise

    return connect


def _sends_as_aiohttp(kind: type) -> bool:
    return next(each for each in kind.__mro__ if "send" in vars(each)).__module__.startswith("aiohttp.")


_tells = cast("Callable[[type], bool]", lru_cache(256)(_sends_as_aiohttp))
"""Whether requests of a class (a session's ``request_class``) are sent by the function that is watched."""


def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    async def send(req: Any, *args: Any, **kwargs: Any) -> Any:
        making = _making.get()
        if making is None or req.method == _TUNNEL:
            return await original(req, *args, **kwargs)
        if not making.requests:
            return await _failing(making, original(req, *args, **kwargs))
        seen = making.requests[-1]
        making.writes = lambda: getattr(req, "_writer", True) is not None
        seen.sending()
        response = await _failing(making, original(req, *args, **kwargs))
        seen.sent()
        return response

    return send


def _start(original: Callable[..., Any]) -> Callable[..., Any]:
    async def start(response: Any, *args: Any, **kwargs: Any) -> Any:
        making = _making.get()
        if making is None or response.method == _TUNNEL:
            return await original(response, *args, **kwargs)
        started = await _failing(making, original(response, *args, **kwargs))
        if making.requests:
            seen = making.requests[-1]
            seen.answered(response.status, lowered(response.headers.items()))
            seen.plain()
            response.settled = seen
        return started

    return start


async def _failing(making: Making, doing: Any) -> Any:
    try:
        return await doing
    except Exception as error:
        making.error = error
        raise


def _read(original: Callable[..., Any]) -> Callable[..., Any]:
    async def read(response: Any) -> Any:
        seen: Request | None = vars(response).get("settled")
        if seen is None or seen.ended:
            return await original(response)
        try:
            body = await original(response)
        except BaseException as error:
            seen.failed(error)
            raise
        seen.part(body)
        seen.complete()
        return body

    return read


async def _linger(response: Any, _: Request) -> None:
    """Take down an answer that nobody waits for any more."""
    await response.read()

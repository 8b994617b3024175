"""urllib3 2: its pools, and with them requests, botocore and stripe's default client.

A request counts as beginning to leave when its first bytes are handed to the socket; connecting, the TLS handshake and
a ``CONNECT`` to a proxy come before. Of a connection that writes in its own way (urllib3's own over HTTP/2) it is not
known: then its error decides.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import lru_cache
from http.client import HTTPConnection
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, cast

from settled.core.model import Phase
from settled.transports.watching import Patches, Watch, ended, keyed, lowered, target, wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.recorder import Request

watched: ContextVar[bool] = ContextVar("settled_urllib3_watched", default=False)
"""Set by the client above (requests, botocore) while it makes a request that is to be watched."""
made: ContextVar[list[Request] | None] = ContextVar("settled_urllib3_made", default=None)
"""What such a client gets to know: the requests that were made for it."""


def install(client: object | None = None) -> None:
    """Watch one ``PoolManager`` or connection pool, or all of this process. Raises ``ImportError`` without urllib3."""
    watch.install(client)


def uninstall(client: object | None = None) -> None:
    """Watch one pool no more, or none at all."""
    watch.uninstall(client)


def _patch(patches: Patches) -> None:
    from urllib3 import connection  # noqa: PLC0415 - an extra, loaded when watched
    from urllib3.connectionpool import HTTPConnectionPool  # noqa: PLC0415 - same
    from urllib3.poolmanager import PoolManager  # noqa: PLC0415 - same
    from urllib3.response import HTTPResponse  # noqa: PLC0415 - same

    patches.wrap(PoolManager, "urlopen", _manager)
    patches.wrap(HTTPConnectionPool, "urlopen", _pool)
    patches.wrap(HTTPConnectionPool, "_make_request", _request)
    patches.wrap(connection.HTTPConnection, "send", _send)
    patches.wrap(connection.HTTPConnection, "connect", _connect)
    patches.wrap(connection.HTTPSConnection, "connect", _connect)
    patches.wrap(HTTPResponse, "_raw_read", _read)
    patches.wrap(HTTPResponse, "read_chunked", _read_chunked)


watch: Final = Watch(_patch)


def _manager(original: Callable[..., Any]) -> Callable[..., Any]:
    def urlopen(manager: Any, *args: Any, **kwargs: Any) -> Any:
        if not watch.on(manager):
            return original(manager, *args, **kwargs)
        token = watched.set(True)
        try:
            return original(manager, *args, **kwargs)
        finally:
            watched.reset(token)

    return urlopen


def watching(send: Callable[[], Any]) -> Any:
    """Send by a client that stands above: the errors that it makes of ours count as ours."""
    on, requests = watched.set(True), made.set([])
    try:
        return send()
    except BaseException as error:
        for last in (made.get() or [])[-1:]:
            last.failed(error)
        raise
    finally:
        watched.reset(on)
        made.reset(requests)


def _on(pool: object) -> bool:
    return watched.get() or watch.on(pool)


def _pool(original: Callable[..., Any]) -> Callable[..., Any]:
    def urlopen(
        pool: Any, method: str, url: str, body: Any = None, headers: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        if not _on(pool):
            return original(pool, method, url, body, headers, *args, **kwargs)
        own, *rest = args or (kwargs.pop("retries", None),)
        once = _once(pool, own, redirect=kwargs.get("redirect", rest[0] if rest else True))
        return original(pool, method, url, body, headers, once, *rest, **kwargs)

    return urlopen


def _once(pool: Any, own: Any, *, redirect: Any) -> Any:
    """Return the client's own rules for repeats, without the repeats: only redirects are left."""
    from urllib3.util.retry import Retry  # noqa: PLC0415 - as above

    rules = own if isinstance(own, Retry) else Retry.from_int(own, redirect=redirect, default=pool.retries)
    if rules.total is False:  # no rules: whatever happens is raised as it is
        return rules
    redirects = rules.redirect if rules.redirect is not None else rules.total
    read = False if rules.read is False else 0  # False: raised as it is
    return rules.new(
        total=None,
        connect=0,
        read=read,
        status=0,
        other=0,
        redirect=redirects,
        status_forcelist=frozenset(),
        respect_retry_after_header=False,
    )


def _request(original: Callable[..., Any]) -> Callable[..., Any]:
    def make_request(pool: Any, conn: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        recorder = wire() if _on(pool) else None
        if recorder is None:
            return original(pool, conn, method, url, *args, **kwargs)
        # body and headers may come by place; both stand before the rest
        args, headers = _headers(args, kwargs)
        key = "" if headers is None else keyed(method, headers, recorder)
        conn.settled = seen = recorder.begin(method, target(pool.scheme, pool.host, pool.port, url), key=key)
        mine = made.get()
        if mine is not None:
            mine.append(seen)
        try:
            if not _tells(type(conn)):
                seen.sending(Phase.UNSEEN)
            response = original(pool, conn, method, url, *args, **kwargs)
        except BaseException as error:
            seen.failed(error)
            raise
        finally:
            conn.settled = None
        seen.answered(response.status, lowered(response.headers.items()))
        read = vars(response).get("_body", vars(response).get("_data"))  # the second: over HTTP/2
        if isinstance(read, bytes):  # and decoded already (preload_content)
            seen.plain()
            seen.part(read)
            seen.complete()
        else:
            response.settled = seen
        return response

    return make_request


_WRITING: Final = ("send", "endheaders", "_send_output")
_BY_SEND: Final = frozenset({"urllib3.connection", "botocore.awsrequest"})
"""Modules whose connections have functions of those names, and go on to the one that is watched."""


def _goes_by_send(kind: type) -> bool:
    if not issubclass(kind, HTTPConnection):  # as in urllib3-future, which takes urllib3's place and its name
        return False
    own = takewhile(lambda each: each is not HTTPConnection, kind.__mro__)
    return all(each.__module__ in _BY_SEND or not any(name in vars(each) for name in _WRITING) for each in own)


_tells = cast("Callable[[type], bool]", lru_cache(256)(_goes_by_send))
"""Whether all that connections of a class send goes by the function that is watched."""


def _headers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    """Give the request headers of its own that can be added to; return them with the arguments."""
    if len(args) > 1:
        own = None if args[1] is None else args[1].copy()
        return (args[0], own, *args[2:]), own
    own = kwargs.get("headers")
    kwargs["headers"] = own = None if own is None else own.copy()
    return args, own


def _seen(holder: Any) -> Request | None:
    found: Request | None = vars(holder).get("settled")
    return found


def _connect(original: Callable[..., Any]) -> Callable[..., Any]:
    def connect(conn: Any) -> None:
        seen = _seen(conn)
        if seen is None:
            original(conn)
            return
        conn.settled = None  # what is sent while it connects is a CONNECT to a proxy, not the request
        try:
            original(conn)
        finally:
            conn.settled = seen

    return connect


def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    def send(conn: Any, data: Any) -> None:
        seen = _seen(conn)
        if seen is None:
            original(conn, data)
            return
        if conn.sock is None and conn.auto_open:
            conn.connect()
        seen.sending()
        original(conn, data)
        seen.sent()

    return send


# --- bodies -------------------------------------------------------------------------------


def _read(original: Callable[..., Any]) -> Callable[..., Any]:
    def raw_read(response: Any, *args: Any, **kwargs: Any) -> Any:
        seen = _seen(response)
        if seen is None:
            return original(response, *args, **kwargs)
        try:
            data = original(response, *args, **kwargs)
        except BaseException as error:
            ended(seen, error)
            raise
        if data:
            seen.part(data)
        if not data or response.length_remaining == 0:
            seen.complete()
        return data

    return raw_read


def _read_chunked(original: Callable[..., Any]) -> Callable[..., Any]:
    def read_chunked(response: Any, amt: int | None = None, decode_content: bool | None = None) -> Any:  # noqa: FBT001 - theirs
        seen = _seen(response)
        if seen is None:
            yield from original(response, amt, decode_content)
            return
        if response.decode_content if decode_content is None else decode_content:
            seen.plain()
        try:
            for part in original(response, amt, decode_content):
                seen.part(part)
                yield part
        except BaseException as error:
            ended(seen, error)
            raise
        seen.complete()

    return read_chunked

"""Clients whose transport or connection works in its own way: it repeats by itself, or writes past what is watched."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from contextlib import closing

import aiohttp
import h2.config
import h2.connection
import h2.errors
import h2.events
import httpx
import httpx2
import pytest
import urllib3.connection
import urllib3.http2.connection
from botocore.awsrequest import AWSHTTPConnection, AWSHTTPSConnection

from settled import transports
from settled.core.model import Phase
from settled.transports import urllib3 as hooks
from tests.transports.rows import serving
from tests.transports.side import Leaving, answer
from tests.waiting import until


class Scripted(Leaving):
    """Ends one request after another as told: ``drop`` and 502 come after the effect. A context manager."""

    def __init__(self, *ends):
        super().__init__(ends)

    def _serve(self):
        with contextlib.suppress(OSError):
            for end in self._ends:
                sock, _ = self._listener.accept()
                sock.settimeout(20)
                with contextlib.closing(sock), sock.makefile("rb") as came:
                    self._end(sock, came, end)

    def _end(self, sock, came, end):
        while came.readline().strip():
            pass
        came.read(len(b"{}"))
        self.done += end in ("drop", 502)
        if end != "drop":
            sock.sendall(answer(end, headers="Connection: close\r\n"))


# --- transports that send again -----------------------------------------------------------


def again(library):
    """As many write it: one of httpx's transports that sends anew what gets no answer, or one that may pass."""

    class Again(library.HTTPTransport):
        def handle_request(self, request):
            with contextlib.suppress(library.TransportError):
                first = super().handle_request(request)
                if first.status_code not in (429, 502):
                    return first
                first.read()
            return super().handle_request(request)

    class Around(library.BaseTransport):
        def __init__(self):
            self.inner = Again()

        def handle_request(self, request):
            return self.inner.handle_request(request)

    return Again, Around


def again_async(library):
    class Again(library.AsyncHTTPTransport):
        async def handle_async_request(self, request):
            with contextlib.suppress(library.TransportError):
                first = await super().handle_async_request(request)
                if first.status_code not in (429, 502):
                    return first
                await first.aread()
            return await super().handle_async_request(request)

    return Again


def posted(library, transport):
    def send(url):
        with library.Client(transport=transport(), timeout=20) as client:
            client.post(url, content=b"{}").raise_for_status()

    return send


def posted_async(library, transport):
    async def play(url):
        async with library.AsyncClient(transport=transport(), timeout=20) as client:
            (await client.post(url, content=b"{}")).raise_for_status()

    return lambda url: asyncio.run(play(url))


REPEATERS = {
    "httpx": posted(httpx, again(httpx)[0]),
    "httpx, around another": posted(httpx, again(httpx)[1]),
    "httpx async": posted_async(httpx, again_async(httpx)),
    "httpx2": posted(httpx2, again(httpx2)[0]),
}


def tried(guard, send):
    """Make one guarded call; return its status, and the phases and statuses of what was sent."""

    @guard.tool(effect="write", attempts=1, breaker=None)
    def act() -> str:
        send()
        return "done"

    result = act.call()
    last = guard.journal.get(result.operation_id).attempts[-1]
    return result.status, [(seen.phase, seen.status) for seen in last.fault.seen]


@pytest.mark.parametrize("name", REPEATERS)
@pytest.mark.parametrize(("first", "seen"), [("drop", (Phase.SENT, None)), (502, (Phase.ANSWERED, 502))])
def test_a_refusal_of_a_transports_own_repeat_is_none_of_what_it_sent_first(guard, hooked, name, first, seen):
    with Scripted(first, 400) as other:
        status, exchanges = tried(guard, lambda: REPEATERS[name](other.url))
        assert (other.done, status) == (1, "unknown")
        assert exchanges == [seen, (Phase.ANSWERED, 400)]


@pytest.mark.parametrize("name", REPEATERS)
def test_a_transport_may_send_anew_what_was_turned_away(guard, hooked, name):
    with Scripted(429, 400) as other:
        status, exchanges = tried(guard, lambda: REPEATERS[name](other.url))
        assert (other.done, status) == (0, "failed")
        assert exchanges == [(Phase.ANSWERED, 429), (Phase.ANSWERED, 400)]


class Elsewhere(httpx.HTTPTransport):
    """One of httpx's by name, which sends by other means."""

    def handle_request(self, request):
        host, port = request.url.host, request.url.port
        with socket.create_connection((host, port), timeout=20) as own:
            own.sendall(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
            if not own.recv(1):
                raise httpx.ReadError("no answer")


def test_a_transport_that_sends_by_other_means_leaves_no_proof(guard, hooked):
    with Scripted("drop") as other:
        status, exchanges = tried(guard, lambda: posted(httpx, Elsewhere)(other.url))
        assert (other.done, status, exchanges) == (1, "unknown", [(Phase.UNSEEN, None)])


def test_what_was_held_back_of_a_transport_that_sends_by_other_means_was_not_sent(guard, hooked):
    go = threading.Event()
    with Scripted("drop") as other:

        @guard.tool(effect="write", attempts=1, timeout=0.1)
        def act() -> None:
            go.wait(20)
            posted(httpx, Elsewhere)(other.url)

        result = act.call()
        assert result.status == "unknown"
        go.set()
        until(lambda: guard.journal.get(result.operation_id).state == "not_done", "the late news")
        assert other.done == 0


@pytest.mark.parametrize(
    ("error", "known"),
    [(httpx.ReadTimeout, "unknown"), (httpx.PoolTimeout, "not_done"), (httpx.ConnectError, "not_done")],
)
def test_what_a_mock_raises_in_the_place_of_a_transport_is_believed_as_it_is(guard, hooked, monkeypatch, error, known):
    def mocked(*_):
        raise error("as if")

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", mocked)
    status, exchanges = tried(guard, lambda: httpx.post("http://shop.test/", json={}))
    assert (status, exchanges) == (known, [(Phase.UNSEEN, None)])


class Traced:
    """Around a function of a class, as tracers put it: each look finds another one."""

    def __init__(self, original):
        self._original = original

    def __get__(self, transport, kind=None):
        return lambda *args: self._original(*(args if transport is None else (transport, *args)))


def test_a_tracer_around_httpxs_transport_does_not_hide_how_far_it_came(guard, hooked, monkeypatch):
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", Traced(httpx.HTTPTransport.handle_request))
    with closing(socket.create_server(("127.0.0.1", 0))) as mute:

        @guard.tool(effect="write", attempts=1, breaker=None, timeout=2)  # enough for it to connect
        def act() -> None:
            httpx.post(f"https://127.0.0.1:{mute.getsockname()[1]}/", timeout=20)  # which says nothing to a handshake

        assert act.call().status == "not_done"


class Own(aiohttp.ClientRequest):
    """Sends in its own way."""

    async def send(self, conn):
        conn.transport.write(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        await asyncio.sleep(0.2)
        raise aiohttp.ServerDisconnectedError


def test_a_request_of_aiohttps_that_is_sent_in_its_own_way_leaves_no_proof(guard, hooked):
    async def play(url):
        async with aiohttp.ClientSession(request_class=Own) as session:
            await session.post(url, data=b"{}")

    with Scripted("drop") as other:
        status, exchanges = tried(guard, lambda: asyncio.run(play(other.url)))
        assert (other.done, status, exchanges) == (1, "unknown", [(Phase.UNSEEN, None)])


# --- connections that write past the hook -------------------------------------------------


REFUSALS = {
    "refused": lambda speaks, stream: speaks.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM),
    "cancelled": lambda speaks, stream: speaks.reset_stream(stream, h2.errors.ErrorCodes.CANCEL),
    "gone 0": lambda speaks, _: speaks.close_connection(last_stream_id=0),
    "gone 1": lambda speaks, _: speaks.close_connection(last_stream_id=1),
}


class Frames:
    """Speaks HTTP/2 over TLS to one client, does the effect, and answers with a status or not at all.

    Or it does nothing and says so: ``refused`` (and ``cancelled``, which says nothing), ``gone`` after no stream or
    after the first, ``gone 0`` and ``gone 1``.
    """

    def __init__(self, path, status):
        self.done, self._status = 0, status
        self._tls = serving(path)
        self._tls.set_alpn_protocols(["h2"])
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._listener.close()
        self._thread.join(10)

    def _serve(self):
        with contextlib.suppress(OSError):
            plain, _ = self._listener.accept()
            with closing(self._tls.wrap_socket(plain, server_side=True)) as sock:
                sock.settimeout(20)
                speaks = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
                speaks.initiate_connection()
                sock.sendall(speaks.data_to_send())
                while self._heard(sock, speaks, speaks.receive_data(sock.recv(65536))):
                    sock.sendall(speaks.data_to_send())

    def _heard(self, sock, speaks, events):
        for event in events:
            if isinstance(event, h2.events.StreamEnded):
                if self._status in REFUSALS:
                    REFUSALS[self._status](speaks, event.stream_id)
                    sock.sendall(speaks.data_to_send())
                    self._over.wait(10)
                    return False
                self.done += 1
                if self._status is None:
                    self._over.wait(10)
                    return False
                speaks.send_headers(event.stream_id, [(":status", str(self._status))])
                speaks.send_data(event.stream_id, b"{}", end_stream=True)
        return not self._over.is_set()


@pytest.fixture
def speaking_frames(hooked):
    urllib3.http2.inject_into_urllib3()
    yield
    urllib3.http2.extract_from_urllib3()


@pytest.mark.parametrize(("status", "known"), [(200, None), (None, "unknown")])
def test_what_urllib3_sends_over_http_2_is_not_taken_for_unsent(guard, speaking_frames, tmp_path, status, known):
    with Frames(tmp_path / "side.pem", status) as other:

        @guard.tool(effect="write", attempts=1, breaker=None)
        def act() -> int:
            wait = 1 if status is None else 20
            pool = urllib3.PoolManager(ca_certs=str(tmp_path / "side.pem"), timeout=wait, retries=False)
            with pool:
                return pool.request("POST", other.url, json={}).status

        result = act.call()
        assert (other.done, result.value, result.status) == (1, status, known or "succeeded")


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("says", REFUSALS)
def test_a_stream_that_the_other_side_leaves_alone(guard, tmp_path, watched, asynchronous, says):
    path = tmp_path / "side.pem"
    with Frames(path, says) as other:
        options = {"verify": ssl.create_default_context(cafile=path), "http2": True, "timeout": 2}
        if watched:
            transports.install()

        async def play():
            async with httpx.AsyncClient(**options) as client:
                await client.post(other.url, json={})

        @guard.tool(effect="write", attempts=1, breaker=None)
        def act() -> None:
            if asynchronous:
                asyncio.run(play())
            with httpx.Client(**options) as client:
                client.post(other.url, json={})

        result = act.call()
        left_alone = says in {"refused", "gone 0"}
        assert (result.status, other.done) == ("not_done" if left_alone else "unknown", 0)
        assert (result.reason == "stream_refused") is left_alone


class Quiet(urllib3.connection.HTTPConnection):
    """Writes to its socket itself."""

    def send(self, data):
        if self.sock is None:
            self.connect()
        self.sock.sendall(data)


class Counting(urllib3.connection.HTTPConnection):
    """Connects in its own way, and leaves the writing to urllib3."""

    def connect(self):
        self.connected = time.monotonic()
        super().connect()


def by(connection):
    class Pool(urllib3.HTTPConnectionPool):
        ConnectionCls = connection

    def send(url):
        with Pool("127.0.0.1", int(url.rpartition(":")[2]), timeout=20, retries=False) as pool:
            pool.request("POST", "/", body=b"{}")

    return send


@pytest.mark.parametrize(("kind", "phase"), [(Quiet, Phase.UNSEEN), (Counting, Phase.SENT)])
def test_a_connection_that_writes_in_its_own_way_leaves_no_proof(guard, hooked, kind, phase):
    with Scripted("drop") as other:
        status, exchanges = tried(guard, lambda: by(kind)(other.url))
        assert (other.done, status, exchanges) == (1, "unknown", [(phase, None)])


def test_connections_that_go_on_to_urllib3s_are_known():
    assert all(map(hooks._tells, (AWSHTTPConnection, AWSHTTPSConnection, urllib3.connection.HTTPSConnection)))
    assert not hooks._tells(urllib3.http2.connection.HTTP2Connection)
    # urllib3-future has classes of those names in modules of those names, and writes a head by no send
    theirs = type("HTTPConnection", (type("HfaceBackend", (), {"endheaders": None}),), {"send": None})
    theirs.__module__ = "urllib3.connection"
    assert not hooks._tells(theirs)

"""What breaks before the request: in TLS's handshake, or as a proxy is asked for its tunnel. Nobody watches."""

import asyncio
import socket
import ssl
import struct
import threading
import urllib.request

import aiohttp
import httpx
import pytest
import requests
import urllib3

from settled.core.faults import classify
from settled.core.model import Evidence
from tests.transports.once import Once
from tests.transports.rows import serving

# clients that were cut off leave sockets and tasks behind, whose end is nobody's
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

WAIT = 0.5
WAYS = ["closes", "resets", "hangs", "says nonsense"]


class Breaking(Once):
    """Takes what comes first, be it a handshake or CONNECT, and breaks off in some way."""

    def __init__(self, way):
        super().__init__()
        self.way, self.over, self.url = way, threading.Event(), f"http://127.0.0.1:{self.port}"

    def __exit__(self, *_):
        self.over.set()
        super().__exit__()

    def talk(self, sock):
        sock.recv(65536)
        match self.way:
            case "hangs":
                self.over.wait(5)
            case "resets":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case int(status):
                sock.sendall(f"HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n".encode())
            case "says nonsense":
                sock.sendall(b"nonsense\r\n\r\n" * 20)
            case "closes":
                pass


def trusting(path):
    return ssl.create_default_context(cafile=path)


def by_httpx(url, path, proxy=None):
    with httpx.Client(verify=trusting(path), proxy=proxy, timeout=WAIT, follow_redirects=True) as client:
        client.post(url, json={}).raise_for_status()


def by_httpx_async(url, path, proxy=None):
    async def send():
        async with httpx.AsyncClient(verify=trusting(path), proxy=proxy, timeout=WAIT, follow_redirects=True) as client:
            (await client.post(url, json={})).raise_for_status()

    asyncio.run(send())


def by_requests(url, path, proxy=None):
    requests.post(url, json={}, proxies={"https": proxy}, verify=str(path), timeout=WAIT).raise_for_status()


def by_urllib3(url, path, proxy=None):
    options = {"ca_certs": str(path), "timeout": WAIT, "retries": False}
    with urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options) as pool:
        pool.request("POST", url, json={})


def by_urllib(url, path, proxy=None):
    proxies = urllib.request.ProxyHandler({"https": proxy} if proxy else {})
    opener = urllib.request.build_opener(proxies, urllib.request.HTTPSHandler(context=trusting(path)))
    with opener.open(urllib.request.Request(url, data=b"{}"), timeout=WAIT) as answer:
        answer.read()


def by_aiohttp(url, path, proxy=None):
    async def send():
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=WAIT)) as session,
            session.post(url, json={}, ssl=trusting(path), proxy=proxy) as answer,
        ):
            answer.raise_for_status()

    asyncio.run(send())


CLIENTS = [by_httpx, by_httpx_async, by_requests, by_urllib3, by_urllib, by_aiohttp]


@pytest.fixture
def path(tmp_path):
    serving(tmp_path / "side.pem")
    return tmp_path / "side.pem"


def fault_of(send, *args):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the client raises
        send(*args)
    return classify(caught.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("send", CLIENTS)
def test_a_handshake_that_breaks_proves_that_nothing_was_sent(send, way, path):
    with Breaking(way) as other:
        fault = fault_of(send, f"https://localhost:{other.port}/pay", path)
    assert (fault.kind, fault.evidence) == ("retryable", Evidence.NONE), fault


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("send", CLIENTS)
def test_so_does_a_proxy_that_breaks_off_instead_of_making_a_tunnel(send, way, path):
    with Breaking(way) as proxy:
        fault = fault_of(send, "https://localhost:1/pay", path, proxy.url)
    assert (fault.kind, fault.evidence) == ("retryable", Evidence.NONE), fault


@pytest.mark.parametrize(
    ("status", "kind"), [(407, "permanent"), (403, "permanent"), (502, "retryable"), (503, "retryable")]
)
@pytest.mark.parametrize("send", CLIENTS)
def test_a_tunnel_that_is_refused_to_everybody_is_not_asked_for_again(send, status, kind, path):
    with Breaking(status) as proxy:
        fault = fault_of(send, "https://localhost:1/pay", path, proxy.url)
    assert (fault.kind, fault.evidence, fault.local) == (kind, Evidence.NONE, kind == "permanent"), fault


class Wanting(Once):
    """Speaks TLS 1.3 and wants a certificate, which it says once its client thinks that all is well."""

    def __init__(self, path):
        super().__init__()
        self.context, self.over = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), threading.Event()
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.load_cert_chain(path)
        self.context.verify_mode = ssl.CERT_REQUIRED

    def __exit__(self, *_):
        self.over.set()
        super().__exit__()

    def talk(self, sock):
        with self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False) as shaking:
            with pytest.raises(ssl.SSLError):
                shaking.do_handshake()
            self.over.wait(5)  # a connection that is closed at once may lose what it has said


@pytest.mark.parametrize("send", CLIENTS)
def test_who_is_not_let_in_for_want_of_a_certificate_has_sent_nothing_that_was_looked_at(send, path):
    with Wanting(path) as other:
        fault = fault_of(send, f"https://127.0.0.1:{other.port}/pay", path)
    assert (fault.kind, fault.evidence, fault.code) == ("permanent", Evidence.NONE, "tls_client_certificate"), fault


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("send", CLIENTS)
def test_the_same_in_the_place_of_an_answer_proves_nothing(send, way, path):
    with Breaking(way) as other:
        fault = fault_of(send, f"http://127.0.0.1:{other.port}/pay", path)
    assert fault.evidence is Evidence.MAYBE, fault


class Redirecting(Once):
    """Does what it is asked for, and sends its client elsewhere."""

    def __init__(self, place):
        super().__init__()
        self.place, self.done = place, 0

    def talk(self, sock):
        sock.recv(65536)
        self.done += 1
        sock.sendall(f"HTTP/1.1 307 Said\r\nLocation: {self.place}\r\nContent-Length: 0\r\n\r\n".encode())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("send", [by_httpx, by_httpx_async, by_requests, by_aiohttp])
def test_a_handshake_after_a_redirect_says_nothing_of_the_request_before(send, way, path):
    with Breaking(way) as second, Redirecting(f"https://localhost:{second.port}/there") as first:
        fault = fault_of(send, f"http://127.0.0.1:{first.port}/pay", path)
        assert first.done == 1
    assert fault.evidence is Evidence.MAYBE, fault


# --- a time limit around all of it ---


@pytest.mark.parametrize(("scheme", "proved"), [("https", Evidence.NONE), ("http", Evidence.MAYBE)])
@pytest.mark.parametrize("way", ["timeout", "wait_for"])
def test_where_a_time_limit_broke_in(scheme, way, proved, path):
    async def post(url):
        async with aiohttp.ClientSession() as session, session.post(url, json={}, ssl=trusting(path)) as answer:
            answer.raise_for_status()

    async def send(url):
        if way == "wait_for":
            await asyncio.wait_for(post(url), WAIT)
        async with asyncio.timeout(WAIT):
            await post(url)

    with Breaking("hangs") as other:
        fault = fault_of(lambda url: asyncio.run(send(url)), f"{scheme}://localhost:{other.port}/pay")
    assert fault.evidence is proved, fault

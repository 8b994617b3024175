"""Clients that nobody watches, and that make several requests by themselves: the end of the last proves nothing.

Each sends once, or once more after a look; the other side does the effect, lets the connection go, and is gone.
"""

import asyncio
import socket
import ssl
import struct
import urllib.request
import xmlrpc.client
from contextlib import closing

import aiohttp
import botocore.session
import httpx
import pytest
import requests
import stripe
import tenacity
import urllib3

from tests.transports.rows import serving
from tests.transports.side import Leaving, Side

TRIES = {"allowed_methods": None, "status_forcelist": [502], "backoff_factor": 0}


def pool(method, **rules):
    def send(url):
        with urllib3.PoolManager(timeout=20, retries=urllib3.Retry(3, **rules) if rules else None) as manager:
            manager.request(method, url, json={})

    return send


def session(**rules):
    def send(url):
        with requests.Session() as made:
            made.mount("http://", requests.adapters.HTTPAdapter(max_retries=urllib3.Retry(3, **rules) if rules else 0))
            made.post(url, json={}, timeout=20).raise_for_status()

    return send


def followed(url):
    httpx.post(url, json={}, timeout=20, follow_redirects=True).raise_for_status()


def table(mode):
    def send(url):
        config = botocore.config.Config(retries={"mode": mode, "max_attempts": 3}, connect_timeout=20, read_timeout=20)
        aws = botocore.session.Session()
        aws.set_credentials("id", "secret")
        aws.create_client("dynamodb", "us-east-1", endpoint_url=url, config=config).put_item(
            TableName="orders", Item={"id": {"S": "ord_1"}}
        )

    return send


def customer(url):
    http = stripe.RequestsClient(timeout=20)
    client = stripe.StripeClient("sk_test_none", base_addresses={"api": url}, http_client=http, max_network_retries=1)
    client.v1.customers.create({"name": "Ann"})


AGAIN = {"stop": tenacity.stop_after_attempt(2), "reraise": True}


def repeated(url):
    tenacity.Retrying(**AGAIN)(httpx.post, url, json={}, timeout=20)


def repeated_in_a_loop(url):
    for attempt in tenacity.Retrying(**AGAIN):
        with attempt:
            requests.post(url, json={}, timeout=20)


def repeated_async(url):
    async def play():
        async with httpx.AsyncClient(timeout=20) as client:
            await tenacity.AsyncRetrying(**AGAIN)(client.post, url, json={})

    asyncio.run(play())


def on_a_kept_connection(url):
    async def play():
        async with aiohttp.ClientSession() as client:
            await (await client.get(url)).read()
            await client.put(url, json={})

    asyncio.run(play())


def followed_async(url):
    async def play():
        async with aiohttp.ClientSession() as client:
            await client.post(url, json={})

    asyncio.run(play())


def bare(url):
    urllib.request.urlopen(urllib.request.Request(url, data=b"{}"), timeout=20)


def remote(url):
    with xmlrpc.client.ServerProxy(url) as server:
        server.create("ord_1")


SENT = {
    "urllib redirected": (bare, "303"),
    "xmlrpc": (remote, "reset"),
    "urllib3 PUT": (pool("PUT"), "reset"),
    "urllib3 DELETE": (pool("DELETE"), "reset"),
    "urllib3 POST, told to repeat it": (pool("POST", **TRIES), "reset"),
    "urllib3 POST, told to repeat a 502": (pool("POST", **TRIES), "502"),
    "urllib3 redirected": (pool("POST"), "307"),
    "requests told to repeat": (session(**TRIES), "reset"),
    "requests told to repeat a 502": (session(**TRIES), "502"),
    "requests redirected": (session(), "307"),
    "httpx redirected": (followed, "307"),
    "aiohttp redirected": (followed_async, "307"),
    "aiohttp PUT on a kept connection": (on_a_kept_connection, "reset"),
    "botocore legacy": (table("legacy"), "reset"),
    "botocore standard": (table("standard"), "reset"),
    "botocore 502": (table("standard"), "502"),
    "stripe": (customer, "reset"),
    "stripe 502": (customer, "502"),
    "tenacity": (repeated, "reset"),
    "tenacity in a loop": (repeated_in_a_loop, "reset"),
    "tenacity async": (repeated_async, "reset"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore")
@pytest.mark.parametrize("name", SENT)
def test_a_refused_connection_does_not_unsay_what_the_client_sent_before(guard, name):
    send, ends = SENT[name]
    with Leaving(ends) as other:

        @guard.tool(effect="write", attempts=1, breaker=None)
        def act() -> str:
            send(other.url)
            return "done"

        result = act.call()
        last = guard.journal.get(result.operation_id).attempts[-1]
        assert (other.done, result.status, last.standing) == (1, "unknown", "maybe")
        assert last.fault.code in ("connect_refused", "connect_failed"), "the last request met no closed port"


def test_an_answer_that_breaks_the_protocol_is_no_request_that_was_never_sent(guard):
    """Over HTTP/2 httpx calls both a LocalProtocolError."""
    with Leaving("broken frame") as other:

        @guard.tool(effect="write", attempts=1, breaker=None)
        def act() -> str:
            with httpx.Client(http1=False, http2=True, timeout=20) as client:
                client.post(other.url, json={})
            return "done"

        result = act.call()
        assert (other.done, result.status) == (1, "unknown")


def test_a_head_that_httpx_refuses_to_write_was_not_sent(guard):
    with Leaving("reset") as other:

        @guard.tool(effect="write", attempts=1, breaker=None)
        def act() -> str:
            httpx.post(other.url, headers={"x-name": "a\nb"}, timeout=20)
            return "done"

        assert (act.call().status, other.done) == ("failed", 0)


def test_a_first_refused_connection_is_proof(guard):
    with Leaving("reset") as other:
        pass

    @guard.tool(effect="write", attempts=1, breaker=None)
    def act(name: str) -> str:
        SENT[name][0](other.url)
        return "done"

    for name in ("urllib3 PUT", "requests told to repeat", "httpx redirected", "aiohttp redirected"):
        assert act.call(name).status == "not_done"


def test_an_answer_to_a_refused_redirect_is_none_to_the_request(guard, side):
    @guard.tool(effect="write", attempts=1, breaker=None)
    def act() -> str:
        bare(f"{side.url}/see_what_is_gone/urllib")
        return "done"

    assert (act.call().status, side.done["urllib"]) == ("unknown", 1)


@pytest.mark.parametrize("gives_up", ["at once", "after a while"])
def test_a_bare_socket_that_waits_no_longer_has_sent_what_it_sent(guard, side, gives_up):
    @guard.tool(effect="write", attempts=1, breaker=None)
    def act() -> str:
        with socket.create_connection(
            ("127.0.0.1", side.port), timeout=None if gives_up == "after a while" else 5
        ) as own:
            own.sendall(b"POST /slow/bare HTTP/1.1\r\n\r\n")
            if gives_up == "at once":
                own.setblocking(False)
            else:
                own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 100_000))
            own.recv(1)
        return "done"

    result = act.call()
    assert (result.status, result.reason) == ("unknown", "would_block")


@pytest.mark.parametrize("client", ["requests", "urllib3", "httpx", "httpx async", "urllib"])
def test_plain_text_after_the_request_is_no_handshake(guard, tmp_path, client):
    """A server that falls out of TLS has a wrong version number, as one that never spoke it."""
    path = tmp_path / "side.pem"
    with closing(Side(tls=serving(path))) as other:
        url, trusting = f"{other.url}/plain_after_tls/tls", ssl.create_default_context(cafile=path)
        clients = {
            "requests": lambda: requests.post(url, json={}, verify=str(path), timeout=20),
            "urllib3": lambda: urllib3.PoolManager(ssl_context=trusting, retries=False).request("POST", url, json={}),
            "httpx": lambda: httpx.post(url, json={}, verify=trusting, timeout=20),
            "httpx async": lambda: asyncio.run(_posted(url, trusting)),
            "urllib": lambda: urllib.request.urlopen(url, b"{}", 20, context=trusting),
        }

        @guard.tool(effect="write", attempts=1, breaker=None)
        def act() -> str:
            clients[client]()
            return "done"

        assert (act.call().status, other.done["tls"]) == ("unknown", 1)


async def _posted(url, trusting):
    async with httpx.AsyncClient(verify=trusting, timeout=20) as client:
        await client.post(url, json={})

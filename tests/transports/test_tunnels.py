"""Through a proxy's tunnel: what the proxy says to CONNECT is no answer to the request, and proves that none left."""

import asyncio
import contextlib
import socket
import ssl
import threading
from contextlib import closing

import aiohttp
import httpx
import pytest
import requests

from settled import transports
from tests.transports.once import Once
from tests.transports.rows import serving
from tests.transports.side import Side


class Proxy(Once):
    """Opens a tunnel to the port that is asked for, or answers CONNECT by ``status``; for one connection."""

    def __init__(self, status=200):
        super().__init__()
        self.status, self.url = status, f"http://127.0.0.1:{self.port}"

    def talk(self, sock):
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(1)
        wait = "" if self.status == 200 else "Retry-After: 1"
        sock.sendall(f"HTTP/1.1 {self.status} Said\r\n{wait}\r\n\r\n".encode())
        if self.status == 200:
            self._pass_on(sock, int(head.split(b" ")[1].rpartition(b":")[2]))

    def _pass_on(self, sock, port):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as other:
            there = threading.Thread(target=_copy, args=(sock, other), daemon=True)
            there.start()
            _copy(other, sock)
            sock.shutdown(socket.SHUT_RDWR)
            there.join(20)


def _copy(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def by_httpx(url, proxy, path):
    with httpx.Client(proxy=proxy, verify=ssl.create_default_context(cafile=path), timeout=20) as client:
        client.post(url, json={}).raise_for_status()


def by_requests(url, proxy, path):
    requests.post(url, json={}, proxies={"https": proxy}, verify=str(path), timeout=20).raise_for_status()


def by_aiohttp(url, proxy, path):
    async def send():
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
            trusting = ssl.create_default_context(cafile=path)
            async with session.post(url, json={}, proxy=proxy, ssl=trusting) as answer:
                answer.raise_for_status()

    asyncio.run(send())


ROWS = {
    "opened, and reset after the effect": (200, "reset_after_effect", "unknown"),
    "opened, and refused": (200, "refused_422", "failed"),
    "407": (407, "ok", "not_done"),
    "502": (502, "ok", "not_done"),
}


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("send", [by_httpx, by_requests, by_aiohttp])
@pytest.mark.parametrize("row", ROWS)
def test_a_tunnel_that_was_not_opened_carried_nothing(guard, tmp_path, row, send, watched):
    status, asks, comes_to = ROWS[row]
    if watched:
        transports.install()
    path = tmp_path / "side.pem"
    with closing(Side(tls=serving(path))) as other, Proxy(status) as proxy:

        @guard.tool(effect="write", attempts=1, breaker=None)
        def act() -> str:
            send(f"{other.url}/{asks}/t", proxy.url, path)
            return "done"

        assert act.call().status == comes_to
        assert other.done["t"] == (comes_to == "unknown")

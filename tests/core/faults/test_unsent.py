"""What was never sent, told by a plain error: too long a name, a body that is no JSON, a client that is closed."""

import asyncio
import datetime as dt
import math
import os
import signal
import socket
import subprocess
from contextlib import closing
from unittest import mock

import aiohttp
import httpx
import openai
import pytest
import requests

import settled
from settled.core.faults import classify, classify_mcp
from settled.core.model import Evidence, FaultClass
from tests.core.faults.fakes import answered, made, through
from tests.transports.test_own_ways import Scripted

HANDSHAKE = "websockets.exceptions.InvalidHandshake"
NOWHERE = "http://127.0.0.1:9"
LONG = f"http://{'a' * 70}.test"


async def by_aiohttp(url, **body):
    async with aiohttp.ClientSession() as session:
        await session.post(url, **body)


def by_a_closed_client():
    client = httpx.Client()
    client.close()
    client.post(NOWHERE)


async def by_a_closed_session():
    session = aiohttp.ClientSession()
    await session.close()
    await session.post(NOWHERE)


NEVER_SENT = {
    "httpx, no JSON": (lambda: httpx.post(NOWHERE, json={"at": dt.datetime.now(dt.UTC)}), "invalid_request"),
    "httpx, NaN": (lambda: httpx.post(NOWHERE, json={"amount": math.nan}), "invalid_request"),
    "httpx, half a character": (lambda: httpx.post(NOWHERE, json={"text": "\ud83d"}), "invalid_request"),
    "httpx, header": (lambda: httpx.post(NOWHERE, headers={"x-name": "\u2028"}), "invalid_request"),
    "httpx, long name": (lambda: httpx.post(LONG), "invalid_request"),
    "requests, no JSON": (lambda: requests.post(NOWHERE, json={"at": object()}, timeout=1), "invalid_request"),
    "requests, NaN": (lambda: requests.post(NOWHERE, json={"amount": math.nan}, timeout=1), "invalid_request"),
    "requests, no such certificates": (
        lambda: requests.post("https://127.0.0.1:9", verify="/none.pem", timeout=1),
        "tls_certificate",
    ),
    "aiohttp, no JSON": (lambda: asyncio.run(by_aiohttp(NOWHERE, json={"at": object()})), "invalid_request"),
    "aiohttp, long name": (lambda: asyncio.run(by_aiohttp(LONG)), "invalid_request"),
    "a process, too much": (lambda: subprocess.run(["/bin/true", "x" * 3_000_000], check=True), "e2big"),
    "a process, a zero": (lambda: subprocess.run(["/bin/true", "a\0b"], check=True), "invalid_request"),
    "httpx, closed": (by_a_closed_client, "client_closed"),
    "aiohttp, closed": (lambda: asyncio.run(by_a_closed_session()), "client_closed"),
}


@pytest.mark.parametrize("name", NEVER_SENT)
def test_a_plain_error_before_there_was_a_request(name):
    act, code = NEVER_SENT[name]
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one it is, is what is read
        act()
    fault = classify(caught.value)
    assert (fault.kind, fault.evidence, fault.code) == (FaultClass.PERMANENT, Evidence.NONE, code)
    assert fault.gate or fault.local


REFUSED_BEFORE = {
    "url": lambda: httpx.post("http://[::"),
    "header": lambda: requests.post(NOWHERE, headers={"x-token": "rotated\n"}, timeout=1),
    "body": lambda: httpx.post(NOWHERE, json={"at": object()}),
    "process": lambda: subprocess.run(["/bin/true", "x" * 3_000_000], check=True),
    "handshake": lambda: shaken(403),
}


def shaken(status):
    raise answered("websockets.exceptions.InvalidStatus", status, bases=(type(made(HANDSHAKE)),))


@pytest.mark.parametrize("name", REFUSED_BEFORE)
def test_what_never_came_to_the_other_side_says_nothing_of_an_earlier_try(name):
    """Also where its refusals are kept under our key, and so would clear the doubt of a first try."""
    tries = [lambda: through("httpx._client.send", httpx.ReadTimeout("late")), REFUSED_BEFORE[name]]
    terms = {"effect": "deduplicated", "remote_errors": "stored", "remote_retention": 3600, "max_request_lifetime": 0.0}
    with settled.Guard("memory://") as guard:

        @guard.tool(**terms, attempts=2)
        def pay() -> None:
            error = tries.pop(0)()
            if error is not None:
                raise error

        result = pay.call()
    assert (tries, result.status, result.reason) == ([], "unknown", "read_timeout")


def test_the_same_errors_elsewhere_prove_nothing():
    for error in (
        TypeError("not JSON serializable"),
        RuntimeError("Session is closed"),
        UnicodeError("label too long"),
    ):
        assert classify(error).evidence is Evidence.MAYBE
        assert classify(through("shop.client.build_request", error)).evidence is Evidence.MAYBE
    assert classify(through("aiohttp.client._request", TypeError(), req=object())).evidence is Evidence.MAYBE
    assert classify(through("httpx._client.send", RuntimeError("Event loop is closed"))).evidence is Evidence.MAYBE


class TooLongError(Exception):
    pass


def test_what_breaks_in_on_the_start_of_a_process_comes_as_that_runs(tmp_path):
    """A time limit by a signal: the process has made its mark, and its parent is told of no start."""

    def ring(*_):
        raise TooLongError

    fork, done, before = subprocess._fork_exec, tmp_path / "done", signal.signal(signal.SIGALRM, ring)

    def forked(*given):
        pid = fork(*given)
        os.waitpid(pid, 0)
        signal.raise_signal(signal.SIGALRM)
        return pid

    try:
        with mock.patch.object(subprocess, "_fork_exec", forked), pytest.raises(TooLongError) as caught:
            subprocess.run(["/bin/sh", "-c", f"echo > {done}"], check=True)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert done.exists()
    assert classify(caught.value).evidence is Evidence.MAYBE
    for error in (TooLongError(), TimeoutError(), ValueError("too long")):
        thrown = through("subprocess._execute_child", through("shop.watch.ring", error))
        assert classify(thrown).evidence is Evidence.MAYBE


def test_a_try_that_cannot_be_put_together_says_nothing_of_the_one_before():
    """The token has expired meanwhile, or a file of the form was closed: the first try may have been executed."""
    with Scripted("drop") as other:

        class Client(openai.OpenAI):
            asked = 0

            @property
            def default_headers(self):
                Client.asked += 1
                if Client.asked > 1:
                    raise ValueError("no token")
                return super().default_headers

        client = Client(api_key="k", base_url=other.url, max_retries=1)
        with closing(client), pytest.raises(ValueError, match="no token") as caught:
            client.post("/pay", cast_to=object, body={})
        assert other.done == 1
    assert classify(caught.value).evidence is Evidence.MAYBE


@pytest.mark.parametrize("package", ["openai", "anthropic", "groq"])
@pytest.mark.parametrize(("taken", "evidence"), [(0, Evidence.NONE), (1, Evidence.MAYBE)])
def test_of_each_sdk_that_stainless_makes(package, taken, evidence):
    error = through("httpx._client.build_request", TypeError("not JSON serializable"))
    way = through(f"{package}._base_client._build_request", error, retries_taken=taken)
    assert classify(way).evidence is evidence


def test_a_redirect_to_what_is_no_name_says_nothing_of_the_first_request():
    error = through("socket.getaddrinfo", UnicodeError("label too long"))
    assert classify(error).evidence is Evidence.NONE
    went_on = through("requests.sessions.resolve_redirects", error)
    assert classify(went_on).evidence is Evidence.MAYBE


def test_a_connection_that_was_given_up_before_it_stood():
    with closing(socket.create_server(("127.0.0.1", 0), backlog=0)) as full:
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        with pytest.raises(TimeoutError) as caught:
            socket.create_connection(address, timeout=0.2)
        for each in waiting:
            each.close()
    fault = classify(caught.value)
    assert (fault.kind, fault.evidence, fault.code) == (FaultClass.RETRYABLE, Evidence.NONE, "connect_timeout")
    assert classify(through("shop.net.create_connection", TimeoutError("timed out"))).evidence is Evidence.MAYBE


@pytest.mark.parametrize("name", ["websockets.exceptions.InvalidStatus", "websocket.WebSocketBadStatusException"])
@pytest.mark.parametrize(("status", "kind"), [(403, "permanent"), (401, "permanent"), (503, "retryable")])
def test_a_handshake_comes_before_any_message(name, status, kind):
    base = () if name.startswith("websocket.") else (type(made(HANDSHAKE)),)
    error = answered(name, status, bases=base)
    fault = classify(error)
    assert (str(fault.kind), fault.evidence, fault.refresh) == (kind, Evidence.NONE, status == 401)


def test_a_client_that_connects_anew_may_have_sent_messages_before():
    error = made(HANDSHAKE)
    assert classify(error).evidence is Evidence.NONE
    assert classify(through("websockets.asyncio.client.__aiter__", error)).evidence is Evidence.MAYBE


@pytest.mark.parametrize("way", ["connect", "start_client"])
def test_a_session_of_ssh_that_never_came_about(way):
    error = made("paramiko.ssh_exception.SSHException", "Error reading SSH protocol banner")
    assert classify(error).evidence is Evidence.MAYBE
    fault = classify(through(f"paramiko.client.{way}", error))
    assert (fault.kind, fault.evidence) == (FaultClass.RETRYABLE, Evidence.NONE)


def test_messages_that_a_queue_has_not_taken():
    assert classify(BufferError("Local: Queue full")).evidence is Evidence.MAYBE  # of this call's other messages
    assert classify(made("kafka.errors.NoBrokersAvailable")).kind is FaultClass.RETRYABLE
    assert classify(made("kafka.errors.MessageSizeTooLargeError")).evidence is Evidence.NONE
    assert (
        classify(made("kafka.errors.KafkaTimeoutError", "Timeout after waiting for 10 secs")).evidence is Evidence.MAYBE
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (32600, "Session terminated"),  # modelcontextprotocol/python-sdk#1676
        (-32600, "Session terminated"),
        (-32600, "Session not found"),  # samanhappy/mcphub#742
        (-32001, "Session not found"),  # punkpeye/mcp-remote#106
    ],
)
def test_a_session_of_mcp_that_is_gone_has_run_nothing_and_a_new_one_may(code, words):
    fault = classify_mcp({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": words}})
    assert (fault.kind, fault.evidence) == (FaultClass.RETRYABLE, Evidence.NONE)
    error = made("mcp.shared.exceptions.McpError", words, error=made("mcp.types.ErrorData", code=code))
    assert classify(error).code == "mcp_session_gone"
    other = classify_mcp({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "sessions are held weekly"}})
    assert other.code != "mcp_session_gone"


def test_a_stream_that_began_well_may_have_been_paid_for():
    said = {"body": b'{"type": "error", "error": {"type": "overloaded_error", "message": "words"}}'}
    for status, evidence in ((529, Evidence.NONE), (200, Evidence.MAYBE)):
        assert classify(answered("anthropic.APIStatusError", status, **said)).evidence is evidence

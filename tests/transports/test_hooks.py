"""What a watched client does inside of a guarded call, and that it does nothing outside of one."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import aiohttp
import httpx
import openai
import pytest
import requests
import urllib3
from cryptography.fernet import Fernet

import settled
from settled import transports
from settled.api.people import facts
from settled.cli import show
from settled.core.model import Phase
from settled.core.values import replace
from settled.errors import AttemptLeft
from settled.ports import CallQuery
from tests.transports.clients import ASYNC, CLIENTS, SYNC
from tests.transports.side import closed_port
from tests.waiting import auntil, until

HTTP = ("httpx", "httpx async", "requests", "urllib3", "aiohttp")
GETS = {
    "httpx": lambda client, url, **more: client.get(url, **more).status_code,
    "requests": lambda client, url, **more: client.get(url, timeout=2, **more).status_code,
    "urllib3": lambda client, url, **more: client.request("GET", url, **more).status,
}


def call_of(guard, result):
    return guard.journal.get(result.operation_id)


def seen_by(guard, result):
    return call_of(guard, result).attempts[-1].fault.seen


def made(guard, client, url, *, around=None, **options):
    """Make one guarded call by a client; ``around`` installs on it."""
    options = {"effect": "write", "attempts": 1, "breaker": None} | options
    if client in SYNC:
        with CLIENTS[client](url) as (thing, send):
            if around:
                around(thing)
            return guard.tool(**options, name=f"t{id(send)}")(lambda: send() and None).call()

    async def play():
        async with ASYNC[client](url) as (thing, send):
            if around:
                around(thing)

            @guard.tool(**options, name=f"t{id(send)}")
            async def act() -> None:
                await send()

            return await act.acall()

    return asyncio.run(play())


# --- what is recorded ---------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_a_failed_attempt_keeps_what_was_answered(guard, side, hooked, client):
    result = made(guard, client, f"{side.url}/refused_422/{client[:5]}-kept?token=abc")
    (seen,) = seen_by(guard, result)
    assert (seen.method, seen.phase, seen.status) == ("POST", Phase.ANSWERED, 422)
    assert seen.target.startswith(f"{side.url}/refused_422/")
    assert "token" not in seen.target
    assert ("no such customer" in seen.body) is (client != "aiohttp")  # which leaves the body of an error unread
    assert ("content-type", "application/json") in seen.headers
    assert abs(seen.begun - time.time()) < 60
    assert 0 < seen.took < 60


@pytest.mark.parametrize("client", CLIENTS)
def test_a_request_without_an_answer_keeps_how_far_it_came(guard, side, hooked, client):
    (seen,) = seen_by(guard, made(guard, client, f"{side.url}/close_after_effect/far"))
    assert (seen.phase, seen.status) == (Phase.SENT, None)
    assert seen.error
    (seen,) = seen_by(guard, made(guard, client, f"http://127.0.0.1:{closed_port()}/ok"))
    assert (seen.phase, seen.status) == (Phase.NOT_SENT, None)


def test_secrets_stay_off_the_record(tmp_path, side, hooked):
    path = tmp_path / "agent.db"
    with settled.Guard(f"sqlite:///{path}") as guard:

        @guard.tool(effect="write", attempts=1, redact=("card",))
        def pay(card: str) -> None:
            url = f"http://ann:pass_1@127.0.0.1:{side.port}/refused_400/card_4242?api_key=key_1"
            httpx.post(url, headers={"Authorization": "Bearer tok_9"}, cookies={"s": "jar_1"}).raise_for_status()

        result = pay.call(card="card_4242")
        (seen,) = seen_by(guard, result)
        assert seen.target == f"{side.url}/refused_400/[redacted]"
    with closing(sqlite3.connect(path)) as database:
        everything = "".join(database.iterdump())
    assert "/refused_400/" in everything
    for secret in ("card_4242", "pass_1", "key_1", "tok_9", "jar_1"):
        assert secret not in everything


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/sendMessage", "/[redacted]/sendMessage"),
        ("/services/T00000000/B00000000/XXXXXXXXxxxx1234XXXXXXXX", "/services/T00000000/B00000000/[redacted]"),
        ("/v1/orders/0b9cf2f4-7c52-4f0e-9d2f-2ab1d3a5f0aa", "/v1/orders/0b9cf2f4-7c52-4f0e-9d2f-2ab1d3a5f0aa"),
        ("/v1/charges?expand=customer#top", "/v1/charges"),
    ],
)
def test_a_path_keeps_ids_and_loses_credentials(path, kept):
    assert transports.watching.target("https", "h.test", 443, path) == f"https://h.test{kept}"
    assert transports.watching.target("http", "::1", 8080, path) == f"http://[::1]:8080{kept}"


def test_of_a_redirect_is_kept_where_it_leads_and_not_what_lets_in():
    signed = "https://bucket.test/letters/1?X-Amz-Signature=abc&X-Amz-Credential=AKIA#top"
    lowered = transports.watching.lowered
    assert lowered([("Location", signed)]) == {"location": "https://bucket.test/letters/1"}
    hook = "/hooks/123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/go"
    assert lowered([("location", hook)]) == {"location": "/hooks/[redacted]/go"}
    assert lowered([("Date", "now?")]) == {"date": "now?"}


def test_an_encrypted_journal_keeps_no_bodies(side, hooked):
    with settled.Guard("memory://", encryption_key=Fernet.generate_key()) as guard:
        (seen,) = seen_by(guard, made(guard, "httpx", f"{side.url}/refused_422/sealed"))
        assert (seen.status, seen.body) == (422, "")


@pytest.mark.parametrize("client", HTTP)
def test_a_compressed_answer_is_read_as_what_it_says(guard, side, hooked, client):
    result = made(guard, client, f"{side.url}/gzipped_402/zip")
    (seen,) = seen_by(guard, result)
    assert seen.body == ("" if client == "aiohttp" else '{"error": {"code": "card_declined"}}')
    assert call_of(guard, result).attempts[-1].standing == "none"


# --- keys ---------------------------------------------------------------------------------


@pytest.mark.parametrize("client", HTTP)
def test_the_key_of_a_deduplicated_tool_goes_along(guard, side, hooked, client):
    more = {"effect": "deduplicated", "remote_retention": 3600}
    result = made(guard, client, f"{side.url}/failed_500/key", **more)
    (seen,) = seen_by(guard, result)
    assert seen.key == "ours"
    assert side.keys[-1] == call_of(guard, result).key
    made(guard, client, f"{side.url}/failed_500/key")
    assert side.keys[-1] is None


def test_a_tool_s_own_key_is_left_alone(guard, side, hooked):
    @guard.tool(effect="deduplicated", remote_retention=3600, attempts=1)
    def act() -> None:
        httpx.get(f"{side.url}/ok/own-key")
        assert side.keys[-1] is None
        httpx.post(f"{side.url}/failed_500/own-key", headers={"idempotency-key": "mine"}).raise_for_status()

    result = act.call()
    assert side.keys[-1] == "mine"
    assert [each.key for each in seen_by(guard, result)] == ["", "own"]


# --- one layer of repeats -----------------------------------------------------------------


@pytest.mark.parametrize("client", GETS)
def test_a_client_s_own_repeats_are_off_inside_of_guarded_calls_alone(guard, side, hooked, client):
    tag = f"repeats-{client}"
    with CLIENTS[client](side.url) as (thing, _):

        @guard.tool(effect="read", attempts=1)
        def look() -> None:
            GETS[client](thing, f"{side.url}/close_before_effect/{tag}")

        assert look.call().status == "not_done"
        assert side.came[tag] == 1
        with pytest.raises((httpx.HTTPError, requests.RequestException, urllib3.exceptions.HTTPError)):
            GETS[client](thing, f"{side.url}/close_before_effect/{tag}")
        assert side.came[tag] == (5 if client == "urllib3" else 2)


def test_aiohttp_sends_a_get_once_inside_and_twice_outside(guard, side, hooked):
    async def play():
        async with aiohttp.ClientSession() as session:

            @guard.tool(effect="read", attempts=1)
            async def look() -> None:
                await session.get(f"{side.url}/close_before_effect/aiohttp-get")

            assert (await look.acall()).status == "not_done"
            assert side.came["aiohttp-get"] == 1
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await session.get(f"{side.url}/close_before_effect/aiohttp-get")
            assert side.came["aiohttp-get"] == 3

    asyncio.run(play())


def test_an_sdk_keeps_its_number_of_repeats(guard, side, hooked):
    with openai.OpenAI(api_key="sk-none", base_url=f"{side.url}/failed_500/sdk", max_retries=5) as client:
        assert client.max_retries == 5
        inside = guard.tool(effect="read", name="inside")(lambda: client.max_retries)
        assert inside() == 0
        transports.uninstall()
        assert client.max_retries == 5
        client.max_retries = 7
        assert client.max_retries == client.with_options(timeout=1).max_retries == 7


def test_settled_s_own_repeats_go_on(guard, side, hooked):
    @guard.tool(effect="idempotent", attempts=3, retry=settled.Backoff(base=0.001), breaker=None)
    def act() -> None:
        httpx.post(f"{side.url}/done_502/ours").raise_for_status()

    result = act.call()
    assert result.attempts == side.came["ours"] == 3
    assert [len(attempt.fault.seen) for attempt in call_of(guard, result).attempts] == [1, 1, 1]


# --- several requests in one attempt ------------------------------------------------------


def test_a_refused_second_request_does_not_unsay_the_first(guard, side, hooked):
    @guard.tool(effect="write", attempts=1)
    def act() -> None:
        httpx.post(f"{side.url}/ok/two").raise_for_status()
        httpx.post(f"http://127.0.0.1:{closed_port()}/ok")

    result = act.call()
    assert (result.status, side.done["two"]) == ("unknown", 1)
    assert [each.phase for each in seen_by(guard, result)] == [Phase.ANSWERED, Phase.NOT_SENT]


@pytest.mark.parametrize("second", ["requests", "httpx"])
def test_clients_side_by_side_are_seen_together(guard, side, hooked, second):
    @guard.tool(effect="write", attempts=1)
    def act() -> None:
        requests.post(f"{side.url}/ok/mixed-{second}", timeout=2)
        {"requests": requests, "httpx": httpx}[second].post(f"http://127.0.0.1:{closed_port()}/ok", timeout=2)

    assert act.call().status == "unknown"


def test_a_look_before_the_request_does_no_harm(guard, side, hooked):
    @guard.tool(effect="write", attempts=1)
    def act() -> None:
        httpx.get(f"{side.url}/ok/look").raise_for_status()
        httpx.post(f"http://127.0.0.1:{closed_port()}/ok")

    assert act.call().status == "not_done"


@pytest.mark.parametrize(("requests_are", "status"), [("one", "unknown"), ("several", "unknown"), ("hooked", "failed")])
def test_where_a_tool_says_that_nothing_goes_unseen_any_error_will_do(guard, side, hooked, requests_are, status):
    @guard.tool(effect="write", attempts=1, requests=requests_are)
    def act() -> None:
        if httpx.post(f"{side.url}/refused_422/any-error").status_code != 200:
            raise RuntimeError("it did not work")

    assert act.call().status == status


def test_a_call_inside_a_call_keeps_its_own_requests(guard, side, hooked):
    @guard.tool(effect="write", attempts=1)
    def inner() -> None:
        httpx.post(f"{side.url}/done_500/inner").raise_for_status()

    @guard.tool(effect="write", attempts=1)
    def outer() -> None:
        assert inner.call().status == "unknown"
        httpx.post(f"http://127.0.0.1:{closed_port()}/ok")

    result = outer.call()
    assert result.status == "not_done"
    assert [each.phase for each in seen_by(guard, result)] == [Phase.NOT_SENT]


# --- attempts that were cut off -----------------------------------------------------------


def test_an_attempt_that_was_cut_off_before_its_request_sends_nothing(guard, side, hooked):
    go, told = threading.Event(), []

    @guard.tool(effect="write", attempts=1, timeout=0.1)
    def act() -> str:
        go.wait(20)
        try:
            httpx.post(f"{side.url}/ok/held-back")
        except AttemptLeft as error:
            told.append(error)
        return "as if all were well"

    result = act.call()
    assert result.status == "unknown"  # it had made no request: whether it would go by another way is not known
    go.set()
    until(lambda: call_of(guard, result).state == "not_done", "the probe's verdict")
    assert told
    assert side.came["held-back"] == 0


def test_what_had_begun_before_the_cut_goes_on(guard, side, hooked):
    go = threading.Event()

    @guard.tool(effect="write", attempts=1, timeout=2)
    def act() -> str:
        requests.post(f"{side.url}/ok/first-half", timeout=20)
        go.wait(20)
        requests.post(f"{side.url}/ok/second-half", timeout=20)
        return "both"

    result = act.call()
    assert (result.status, side.done["first-half"]) == ("unknown", 1)
    go.set()
    until(lambda: call_of(guard, result).state == "succeeded", "the late answer")
    assert side.done["first-half"] == side.done["second-half"] == 1


@pytest.mark.parametrize("client", ASYNC)
def test_a_late_answer_of_a_cancelled_request_is_kept(guard, side, hooked, client):
    async def play():
        async with ASYNC[client](f"{side.url}/slow/late-{client[:4]}", 60) as (_, send):

            @guard.tool(effect="write", attempts=1, timeout=1)  # enough to send it
            async def act() -> None:
                await send()

            result = await act.acall()
            assert [each.phase for each in seen_by(guard, result)] == [Phase.SENT]
            side.answers_late.set()
            await auntil(lambda: seen_by(guard, result)[0].phase is Phase.ANSWERED, "its answer on record")
            return result

    result = asyncio.run(play())
    (seen,) = seen_by(guard, result)
    assert (seen.status, seen.body) == (200, '{"id": "ord_1"}')
    assert call_of(guard, result).state == "unknown"  # an answer is no end of a tool that was cut off


# --- where hooks are ----------------------------------------------------------------------

INSTALL = {
    "httpx": transports.httpx,
    "httpx async": transports.httpx,
    "requests": transports.requests,
    "urllib3": transports.urllib3,
    "aiohttp": transports.aiohttp,
    "botocore": transports.botocore,
    "openai": transports.sdks,
    "anthropic": transports.sdks,
    "openai async": transports.sdks,
}


@pytest.mark.parametrize("client", INSTALL)
def test_one_client_is_watched_and_no_other(guard, side, client):
    url = f"{side.url}/refused_422/one-client"

    def install(thing):
        INSTALL[client].install(thing)
        INSTALL[client].install(thing)

    assert len(seen_by(guard, made(guard, client, url, around=install))) == 1
    assert seen_by(guard, made(guard, client, url)) == ()
    INSTALL[client].uninstall()


@pytest.mark.parametrize("client", INSTALL)
def test_a_client_is_watched_no_more(guard, side, client):
    url = f"{side.url}/refused_422/no-more"

    def install(thing):
        INSTALL[client].install(thing)
        INSTALL[client].uninstall(thing)
        INSTALL[client].uninstall(thing)

    assert seen_by(guard, made(guard, client, url, around=install)) == ()


def test_all_is_put_back_as_it_was():
    owners = [httpx.Client, httpx.AsyncClient, requests.Session, urllib3.PoolManager, urllib3.HTTPConnectionPool]
    owners += [urllib3.connection.HTTPConnection, urllib3.connection.HTTPSConnection, urllib3.HTTPResponse]
    owners += [aiohttp.ClientSession, aiohttp.ClientRequest, aiohttp.ClientResponse, aiohttp.BaseConnector]
    owners += [openai._base_client.BaseClient]
    before = [dict(vars(owner)) for owner in owners]
    names = transports.install()
    assert set(names) <= set(transports.SUPPORTED)
    assert [dict(vars(owner)) for owner in owners] != before
    transports.install()
    transports.uninstall()
    assert [dict(vars(owner)) for owner in owners] == before


def test_reads_that_need_no_record_take_none_down(guard, side, hooked):
    wires = []

    @guard.tool(effect="read")
    def look() -> int:
        wires.append(settled.current_call().wire)
        return httpx.get(f"{side.url}/ok/read").status_code

    assert look() == 200
    assert wires == [None]


def test_without_hooks_nothing_is_made_for_an_attempt(guard):
    wires = []

    @guard.tool(effect="write")
    def act() -> None:
        wires.append(settled.current_call().wire)

    act()
    assert wires == [None]
    (call,) = guard.journal.find(CallQuery())
    assert call.state == "succeeded"


def test_no_client_is_loaded_for_settled():
    code = (
        "import sys, settled, settled.transports\n"
        "found = {'httpx', 'requests', 'urllib3', 'aiohttp', 'botocore', 'openai', 'anthropic'} & set(sys.modules)\n"
        "assert not found, found\n"
        "assert settled.transports.install() == ()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- transports that do not tell ----------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status"),
    [(httpx.ConnectError("no"), "not_done"), (httpx.ReadTimeout("slow"), "unknown")],
    ids=["never connected", "no answer"],
)
def test_under_a_transport_of_one_s_own_the_error_decides(guard, hooked, error, status):
    def answer(request):
        raise error

    client = httpx.Client(transport=httpx.MockTransport(answer))
    result = guard.tool(effect="write", attempts=1, name="act")(lambda: client.post("http://side.test/")).call()
    assert result.status == status
    assert [each.phase for each in seen_by(guard, result)] == [Phase.UNSEEN]


def test_a_trace_of_the_user_s_own_is_kept(guard, side, hooked):
    events = []

    @guard.tool(effect="write", attempts=1)
    def act() -> None:
        own = {"trace": lambda name, info: events.append(name)}
        with httpx.Client() as client:
            client.post(f"{side.url}/refused_422/trace", extensions=own).raise_for_status()

    assert len(seen_by(guard, act.call())) == 1
    assert "http11.send_request_headers.started" in events


def test_what_a_client_refuses_to_write_was_not_sent(guard, side, hooked):
    @guard.tool(effect="write", attempts=1)
    def act() -> None:
        httpx.post(f"{side.url}/ok/illegal", headers={"X": "a\r\nb"})

    result = act.call()
    assert (result.status, side.came["illegal"]) == ("failed", 0)


# --- shown to people ----------------------------------------------------------------------


def test_what_was_seen_is_shown_with_its_attempt(guard, side, hooked):
    call = call_of(guard, made(guard, "httpx", f"{side.url}/done_500/shown"))
    (attempt,) = call.attempts
    (request,) = facts.of_attempt(attempt, call, guard.journal.now(), None)["requests"]
    assert (request["method"], request["phase"], request["status"]) == ("POST", "answered", 500)
    assert "after it was done" in request["body"]
    words = show._exchange(attempt.fault.seen[0])
    assert words.startswith(f"POST {side.url}/done_500/shown: answered 500, {{")
    assert show._exchange(replace(attempt.fault.seen[0], status=None, phase=Phase.NOT_SENT, body="")).endswith(
        "not sent"
    )

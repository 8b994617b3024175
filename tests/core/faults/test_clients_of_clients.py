"""Clients that stand on others: forks that took over their errors, and what is built around one."""

import asyncio
import errno

import aiohttp
import pytest

from settled.core.faults import classify, requests, urllib3
from settled.core.model import Evidence
from tests.core.faults.fakes import answered, client_error, fake, made, raised_during, through


@pytest.mark.parametrize(
    ("source", "name", "fork"), [(requests, "requests", "niquests"), (urllib3, "urllib3", "urllib3_future")]
)
def test_a_fork_is_read_as_what_it_took_over(source, name, fork):
    own = {kind: rule for (root, kind), rule in source.RULES.items() if root == name}
    assert own
    assert own == {kind: rule for (root, kind), rule in source.RULES.items() if root == fork}


def test_a_fork_and_its_redirects():
    error = answered("niquests.exceptions.HTTPError", 422)
    assert classify(error).evidence is Evidence.NONE
    error.response.history = [made("niquests.Response", status_code=307)]
    assert classify(error).evidence is Evidence.MAYBE
    never = made("urllib3_future.exceptions.NewConnectionError")
    for seen, proved in ((never, Evidence.NONE), (made("urllib3_future.exceptions.ProtocolError"), Evidence.MAYBE)):
        history = type("Retries", (), {"history": (type("Entry", (), {"error": seen})(),)})()
        late = through("urllib3_future.connectionpool.urlopen", never, retries=history)
        assert classify(late).evidence is proved
        never.__traceback__ = None


# --- boto3's uploads ---


def upload_failed(why):
    return raised_during(made("boto3.exceptions.S3UploadFailedError", "Failed to upload"), why)


def test_an_upload_that_failed_is_read_by_what_boto3_handled():
    assert classify(upload_failed(client_error("AccessDenied", 403))).evidence is Evidence.NONE
    assert classify(upload_failed(client_error("NoSuchBucket", 404))).code == "NoSuchBucket"
    assert classify(upload_failed(client_error("SlowDown", 503))).throttled is True


@pytest.mark.parametrize(
    "why", [None, ValueError(), client_error("InternalError", 500), client_error("NoSuchUpload", 404, retries=1)]
)
def test_an_upload_of_which_nothing_is_proved(why):
    assert classify(upload_failed(why)).evidence is Evidence.MAYBE


# --- around aiohttp ---


class NoWayError(Exception):
    """A connector's own error, of which nobody here knows."""


class Connector(aiohttp.TCPConnector):
    """As connectors for SOCKS do."""

    async def _create_connection(self, *_, **__):
        raise NoWayError


def test_whatever_a_connector_raises_came_before_the_request():
    async def send():
        async with aiohttp.ClientSession(connector=Connector()) as session, session.post("http://127.0.0.1:1/"):
            pass

    with pytest.raises(NoWayError) as caught:
        asyncio.run(send())
    fault = classify(caught.value)
    assert (fault.kind, fault.evidence) == ("retryable", Evidence.NONE)
    assert classify(NoWayError()).evidence is Evidence.MAYBE


# --- a handshake, and what is asked for before it ---


@pytest.mark.parametrize("error", [ConnectionResetError(errno.ECONNRESET, ""), TimeoutError("timed out"), EOFError()])
def test_a_file_is_asked_for_before_the_handshake_of_its_own_connection(error):
    """Where the other side makes room for it: what was there is gone."""
    shaken = through("ssl.do_handshake", error)
    assert classify(shaken).evidence is (Evidence.MAYBE if isinstance(error, EOFError) else Evidence.NONE)
    assert classify(through("ftplib.ntransfercmd", shaken)).evidence is Evidence.MAYBE


def test_an_error_that_names_two_causes_is_not_told_by_the_phase_of_one():
    shaken = through("ssl.do_handshake", ConnectionResetError(errno.ECONNRESET, ""))
    lost = ConnectionResetError(errno.ECONNRESET, "")
    protocol = fake("urllib3.exceptions.ProtocolError")
    assert classify(protocol("words", shaken)).evidence is Evidence.NONE
    assert classify(protocol("words", shaken, lost)).evidence is Evidence.MAYBE
    assert classify(ExceptionGroup("words", [shaken, lost])).evidence is Evidence.MAYBE
    assert classify(protocol("words", ExceptionGroup("words", [shaken, lost]))).evidence is Evidence.MAYBE


# --- a time limit that broke in on an SDK ---


def cut_off(path, **variables):
    """Return what a time limit becomes that was over as a client connected, beneath this function."""
    cancelled = through(path, through("anyio._core._sockets.connect_tcp", asyncio.CancelledError()), **variables)
    error = TimeoutError()
    error.__cause__ = cancelled
    return error


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("openai._base_client.request", "retries_taken"),
        ("any_one._base_client.request", "retries_taken"),
        ("mistralai.utils.retries.retry_with_backoff_async", "retries"),
        ("aiohttp_retry.client._do_request", "current_attempt"),
    ],
)
def test_as_it_connected_for_a_later_try_an_earlier_one_may_have_been_executed(path, name):
    first = 1 if name == "current_attempt" else 0
    assert classify(cut_off(path, **{name: first})).evidence is Evidence.NONE
    assert classify(cut_off(path, **{name: first + 1})).evidence is Evidence.MAYBE


def test_elsewhere_a_time_limit_proves_nothing():
    error = TimeoutError()
    error.__cause__ = through("httpx._client.send", asyncio.CancelledError())
    assert classify(error).evidence is Evidence.MAYBE


def test_what_was_handled_as_it_connected_may_have_been_done():
    error = cut_off("shop.send")
    assert classify(error).evidence is Evidence.NONE
    error.__cause__.__context__ = made("httpx.ReadTimeout")
    assert classify(error).evidence is Evidence.MAYBE


def lost():
    raise ConnectionResetError(errno.ECONNRESET, "")


def test_a_real_time_limit_around_a_hand_written_repeat():
    async def send():
        async with asyncio.timeout(0.1):
            try:
                lost()
            except OSError:
                async with aiohttp.ClientSession(connector=Hanging()) as session:
                    await session.post("http://127.0.0.1:1/")

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(send())
    assert classify(caught.value).evidence is Evidence.MAYBE


class Hanging(aiohttp.TCPConnector):
    """Never connects."""

    async def _create_connection(self, *_, **__):
        await asyncio.sleep(60)


class Gone:
    """What a task at work beside another does: its request was sent, and the answer is awaited."""

    async def pay(self):
        await asyncio.sleep(60)

    async def tell(self):
        async with aiohttp.ClientSession(connector=Hanging()) as session:
            await session.post("http://127.0.0.1:1/")

    async def gathered(self):
        async with asyncio.timeout(0.1):
            await asyncio.gather(self.tell(), self.pay())

    async def waited_for(self):
        await asyncio.wait_for(asyncio.gather(self.tell(), self.pay()), 0.1)

    async def in_turn(self):
        async with asyncio.timeout(0.1):
            tasks = [asyncio.create_task(self.tell()), asyncio.ensure_future(self.pay())]
            for task in tasks:
                await task

    async def as_they_come(self):
        async with asyncio.timeout(0.1):
            for each in asyncio.as_completed([self.tell()]):
                await each


@pytest.mark.parametrize("way", [Gone.gathered, Gone.waited_for, Gone.in_turn, Gone.as_they_come])
@pytest.mark.parametrize("swapped", [False, True])
def test_what_was_at_work_beside_a_connection_may_have_been_done(way, swapped):
    gone = Gone()
    if swapped:
        gone.pay, gone.tell = gone.tell, gone.pay
    with pytest.raises(TimeoutError) as caught:
        asyncio.run(way(gone))
    assert classify(caught.value).evidence is Evidence.MAYBE

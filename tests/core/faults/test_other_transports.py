"""httpx over another client: which phase an error belongs to is that client's to say, not its transport's."""

import asyncio

import httpx
import pytest

from settled.core.faults import classify
from settled.core.model import Evidence, FaultClass
from tests.core.faults.fakes import made
from tests.core.faults.test_walk import because, refused

HUNG_UP = made("aiohttp.client_exceptions.ServerDisconnectedError", "Server disconnected")
RESET = made("aiohttp.client_exceptions.ClientOSError", "Connection reset by peer")
UNREACHED = made("aiohttp.client_exceptions.ClientConnectorError", os_error=refused())


@pytest.mark.parametrize("name", ["ConnectTimeout", "ConnectError", "PoolTimeout", "UnsupportedProtocol", "ProxyError"])
@pytest.mark.parametrize("root", ["httpx", "httpx2"])
def test_what_the_client_beneath_says_counts(name, root):
    def read(cause):
        return classify(made(f"{root}.{name}", cause=cause))

    assert read(HUNG_UP).evidence is Evidence.MAYBE
    assert read(RESET).evidence is Evidence.MAYBE
    assert read(made("some_client.BrokenError")).evidence is Evidence.MAYBE
    fault = read(UNREACHED)
    assert (fault.kind, fault.evidence, fault.code) == (FaultClass.RETRYABLE, Evidence.NONE, "connect_refused")


def test_a_task_that_a_transport_cancels_is_nobodys_cancellation():
    """So litellm's says that it gave up amid a request."""
    fault = classify(because(httpx.ConnectError("cancelled internally"), asyncio.CancelledError()))
    assert (fault.kind, fault.evidence) == (FaultClass.UNKNOWN, Evidence.MAYBE)


@pytest.mark.parametrize("cause", ["httpcore.ConnectError", "httpcore2.ConnectTimeout", "anyio.ConnectionFailed"])
def test_httpxs_own_ways_are_believed(cause):
    assert classify(made("httpx.ConnectError", cause=made(cause))).evidence is Evidence.NONE
    assert classify(made("httpcore.ConnectError", cause=made("anyio.BrokenResourceError"))).evidence is Evidence.NONE
    assert classify(httpx.PoolTimeout("none free")).evidence is Evidence.NONE

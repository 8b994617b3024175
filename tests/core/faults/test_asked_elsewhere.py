"""A hook of the user's that makes a request of its own once the first one was answered: its failure proves nothing."""

import asyncio

import aiohttp
import httpx
import pytest
import requests

from settled.core.faults import classify
from settled.core.model import Evidence
from tests.transports.side import closed_port
from tests.transports.test_own_ways import Scripted

UNREACHED = f"http://127.0.0.1:{closed_port()}/audit"
ELSEWHERE = {
    "not reached": {"url": UNREACHED, "json": {}},
    "not put together": {"url": UNREACHED, "json": {"at": object()}},
}


def by_httpx(url, hook):
    with httpx.Client(event_hooks={"response": [hook]}) as client:
        client.post(url, content=b"{}")


def by_httpx_async(url, hook):
    async def called(response):
        hook(response)

    async def play():
        async with httpx.AsyncClient(event_hooks={"response": [called]}) as client:
            await client.post(url, content=b"{}")

    asyncio.run(play())


def by_requests(url, hook):
    def called(answer, **_):
        answer.close()
        hook(answer)

    requests.post(url, data=b"{}", timeout=5, hooks={"response": called})


HOOKED = {"httpx": by_httpx, "httpx async": by_httpx_async, "requests": by_requests}
OWN = {"httpx": httpx.post, "requests": lambda **given: requests.post(**given, timeout=5)}


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("client", HOOKED)
def test_a_hook_that_asks_elsewhere_says_nothing_of_what_was_answered(client, own, elsewhere):
    with Scripted(200) as other:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each client has its own
            HOOKED[client](other.url, lambda _: OWN[own](**ELSEWHERE[elsewhere]))
        assert classify(caught.value).evidence is Evidence.MAYBE
    assert classify(failing(own, elsewhere)).evidence is Evidence.NONE


def failing(own, elsewhere):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - same
        OWN[own](**ELSEWHERE[elsewhere])
    return caught.value


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_a_middleware_of_aiohttps_that_asks_elsewhere(elsewhere):
    async def told(request, handler):
        answer = await handler(request)
        async with aiohttp.ClientSession() as own:
            await own.post(**ELSEWHERE[elsewhere])
        return answer

    async def play(url):
        async with aiohttp.ClientSession(middlewares=(told,)) as session:
            await session.post(url, data=b"{}")

    with Scripted(200) as other, pytest.raises(Exception) as caught:  # noqa: PT011 - same
        asyncio.run(play(other.url))
    assert classify(caught.value).evidence is Evidence.MAYBE


@pytest.mark.parametrize("client", HOOKED)
def test_a_hook_that_raises_for_the_answer_itself_says_what_that_says(client):
    with Scripted(400) as other, pytest.raises((httpx.HTTPStatusError, requests.HTTPError)) as caught:
        HOOKED[client](other.url, lambda answer: answer.raise_for_status())
    assert classify(caught.value).evidence is Evidence.NONE


def test_who_was_turned_away_and_asks_anew_with_proof_of_who_it_is():
    """A 401 has done nothing: what becomes of the second request is all there is."""

    def renewed(answer):
        assert answer.status_code == 401
        requests.post(UNREACHED, timeout=5)

    with Scripted(401) as other, pytest.raises(requests.ConnectionError) as caught:
        by_requests(other.url, renewed)
    assert classify(caught.value).evidence is Evidence.NONE

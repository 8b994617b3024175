"""The shop is a real service: routes, keys, look-ups, and each fault as a client meets it."""

import asyncio
import time

import httpx
import pytest

from settled.demo.faults import CLOSED_FOR, KINDS, Fault
from settled.demo.judge import read_effects
from settled.demo.shop import KEY_IN_USE, KEY_REUSED, LIFETIME, SENT_AT, error_inside
from tests.waiting import auntil, until

ORDER = {"customer": "C001", "sku": "S", "quantity": 1, "note": "as agreed [M0001]"}
KEY = {"Idempotency-Key": "k1"}


def code_of(error):
    return error.value.response.json()["error"]["code"]


async def test_every_post_to_a_plain_route_is_an_effect_of_its_own(open_shop, client):
    with open_shop() as shop:
        send = client(shop).send
        first = await send("POST", "/messages", {"body": "[M0001]"}, headers=KEY)
        second = await send("POST", "/messages", {"body": "[M0001]"}, headers=KEY)
        assert first["id"] != second["id"]
        assert shop.marks() == ["M0001", "M0001"]


async def test_a_key_stands_for_one_order(open_shop, client):
    with open_shop() as shop:
        send = client(shop).send
        assert await send("POST", "/orders", ORDER, headers=KEY) == await send("POST", "/orders", ORDER, headers=KEY)
        assert len(shop.marks()) == 1
        await send("POST", "/orders", ORDER, headers={"Idempotency-Key": "k2"})
        assert len(shop.marks()) == 2


async def test_a_key_that_comes_with_another_request_is_refused(open_shop, client):
    with open_shop() as shop:
        send = client(shop).send
        await send("POST", "/orders", ORDER, headers=KEY)
        with pytest.raises(httpx.HTTPStatusError) as error:
            await send("POST", "/orders", ORDER | {"note": "in other words [M0001]"}, headers=KEY)
        assert (error.value.response.status_code, code_of(error)) == (422, KEY_REUSED)
        assert len(shop.marks()) == 1


async def test_a_key_at_work_is_answered_with_409(open_shop, client):
    with open_shop(KINDS["late_effect"]) as shop:
        send = client(shop).send
        with pytest.raises(httpx.ReadTimeout):
            await send("POST", "/orders", ORDER, headers=KEY)
        with pytest.raises(httpx.HTTPStatusError) as error:
            await send("POST", "/orders", ORDER, headers=KEY)
        assert (error.value.response.status_code, code_of(error)) == (409, KEY_IN_USE)
        assert error.value.response.headers["Retry-After"] == "1"
        await settled_down(shop, 1)
        assert (await send("POST", "/orders", ORDER, headers=KEY))["ok"]
        assert len(shop.marks()) == 1


async def settled_down(shop, effects):
    """Wait until the books show so many effects."""
    await auntil(lambda: len(shop.marks()) >= effects, "the effects")


async def test_a_refund_is_found_by_its_reference(open_shop, client):
    with open_shop() as shop:
        send = client(shop).send
        assert (await send("GET", "/refunds?reference=a:1"))["found"] == []
        made = await send("POST", "/refunds", {"order": "7", "reference": "a:1"})
        assert (await send("GET", "/refunds?reference=a:1"))["found"] == [made["id"]]
        assert (await send("GET", "/tickets?reference=a:1"))["found"] == []


async def test_a_customer_is_read_from_the_books(open_shop, client):
    with open_shop() as shop:
        send = client(shop).send
        assert (await send("GET", "/customers/C001"))["tier"] == shop.books.tier("C001")
        with pytest.raises(httpx.HTTPStatusError):
            await send("GET", "/customers/nobody")


def test_a_request_is_not_acted_on_once_it_is_too_old(open_shop):
    with open_shop() as shop, httpx.Client(trust_env=False) as bare:
        old = {SENT_AT: repr(time.time() - LIFETIME - 0.1)}
        assert bare.post(f"{shop.url}/messages", json={"body": "[M0001]"}, headers=old).status_code == 408
        assert shop.marks() == []


async def test_a_request_cut_off_in_the_midst_of_its_body_does_nothing(open_shop):
    with open_shop() as shop:
        port = int(shop.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /messages HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert shop.marks() == []


# --- faults ---

SEEN = {
    "answer_reset": httpx.ReadError,
    "answer_dropped": httpx.RemoteProtocolError,
    "502_after_effect": 502,
    "504_after_effect": 504,
    "late_answer": httpx.ReadTimeout,
    "late_effect": httpx.ReadTimeout,
    "upstream_timeout": "upstream_timeout",
    "request_dropped": httpx.RemoteProtocolError,
    "502_before_effect": 502,
    "stalled_in_vain": httpx.ReadTimeout,
    "throttled": 429,
    "unavailable": 503,
    "busy_inside_200": "busy",
    "then_refused": "",
}


def test_every_fault_is_shown_below():
    assert set(SEEN) == set(KINDS)


@pytest.mark.parametrize("fault", KINDS.values(), ids=KINDS)
async def test_a_fault_as_the_client_meets_it(fault: Fault, open_shop, client):
    with open_shop(fault) as shop:
        seen = SEEN[fault.kind]
        try:
            met = error_inside(await client(shop).send("POST", "/messages", {"body": "[M0001]"}))
        except httpx.HTTPStatusError as error:
            met = error.response.status_code
            wait = error.response.headers.get("Retry-After")
            assert wait == (None if fault.retry_after is None else str(fault.retry_after))
        except httpx.TransportError as error:
            met = type(error)
        assert met == seen
        await settled_down(shop, int(fault.handled))
        if not fault.handled:
            await asyncio.sleep(fault.before)
    assert len(read_effects(shop.folder / "books.db")) == int(fault.handled)
    logged = shop.log()[0]
    assert (logged["kind"], logged["mark"], logged["doubt"]) == (fault.kind, "M0001", fault.doubt)


async def test_connections_are_refused_for_a_moment(open_shop, client):
    with open_shop(KINDS["then_refused"]) as shop:
        send, met = client(shop).send, []
        while "refused" not in met or met[-1] == "refused":
            try:
                await send("POST", "/messages", {"body": "[M0001]"})
                met.append("taken")
            except httpx.ConnectError:
                met.append("refused")
                await asyncio.sleep(CLOSED_FOR / 10)
        assert len(shop.marks()) == met.count("taken")
        assert [line["kind"] for line in shop.log()] == ["then_refused", "refused"]


async def test_the_doubt_of_a_read_is_no_doubt_about_an_effect(open_shop, client):
    with open_shop(KINDS["answer_dropped"]) as shop:
        with pytest.raises(httpx.RemoteProtocolError):
            await client(shop).send("GET", "/customers/C001")
        assert [line["doubt"] for line in shop.log()] == [False]


# --- kills ---


@pytest.mark.parametrize(
    ("moment", "booked_at_the_kill"), [("after_effect", ["M0001"]), ("answered", ["M0001"]), ("before_effect", [])]
)
async def test_the_agent_is_killed_around_the_effect_it_asked_for(moment, booked_at_the_kill, open_shop, client):
    with open_shop(KINDS["502_before_effect"], kills={"M0001": moment}) as shop:
        send = client(shop).send
        await send("POST", "/messages", {"body": "[M0001]"})
        await settled_down(shop, 1)
        await asyncio.to_thread(until, lambda: shop.events, "the kill, which may come after the answer")
        assert shop.events == [("M0001", booked_at_the_kill)]
        assert shop.marks() == ["M0001"]
        await send("POST", "/messages", {"body": "[M0001]"})
        assert len(shop.events) == 1

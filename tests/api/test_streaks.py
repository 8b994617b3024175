"""A model that goes on sending what the other side refuses as invalid is told to stop, and then not heard."""

from typing import Annotated

import httpx
import pytest
from pydantic import BeforeValidator

import settled


@pytest.fixture
def guard():
    with settled.Guard("memory://") as guard:
        yield guard


@pytest.fixture(params=["read", "write"])
def rooms(guard, request):
    """What was sent to a tool whose other side knows some cities only, and those."""
    sent, known = [], set()

    @guard.tool(effect=request.param)
    def rooms(city: str) -> str:
        sent.append(city)
        status, wrong = (200, []) if city in known else (422, [{"loc": ["body", "city"], "msg": f"no city {city!r}"}])
        request = httpx.Request("POST", "http://rooms.test/")
        httpx.Response(status, json={"detail": wrong}, request=request).raise_for_status()
        return "free"

    @guard.tool(effect="write")
    def open_city(city: str) -> str:
        known.add(city)
        return city

    return sent, known


def asked(guard, cities, first=0):
    return [guard.dispatch("rooms", {"city": city}, step=f"m{n}/0") for n, city in enumerate(cities, first)]


def test_the_third_in_a_row_asks_for_help_and_those_after_it_for_an_end(guard, rooms):
    results = asked(guard, "abcde")
    assert [each.status for each in results] == ["failed"] * 5
    assert [each.next for each in results] == ["fix_arguments"] * 2 + ["repair_prompt"] + ["give_up"] * 2


def test_the_arguments_that_were_refused_last_are_not_sent_again(guard, rooms):
    sent, _ = rooms
    asked(guard, "abc")
    [again] = asked(guard, "c", first=3)
    assert (again.status, again.reason, again.next) == ("invalid", "refused_before", "give_up")
    assert not again.recorded
    assert sent == ["a", "b", "c"]
    [other] = asked(guard, "d", first=4)
    assert other.status == "failed"
    assert sent == ["a", "b", "c", "d"]


def test_what_another_tool_has_done_may_be_what_was_lacking(guard, rooms):
    sent, _ = rooms
    asked(guard, "abc")
    assert guard.dispatch("open_city", {"city": "c"}, step="m3/0").status == "succeeded"
    assert [each.status for each in asked(guard, "cde", first=4)] == ["succeeded", "failed", "failed"]
    assert asked(guard, "f", first=7)[0].next == "repair_prompt"  # the success has begun the count anew
    assert sent[3] == "c"


def test_each_run_counts_for_itself(guard, rooms):
    for run in ("one", "two"):
        with guard.run(run):
            assert [each.next for each in asked(guard, "ab")] == ["fix_arguments"] * 2


def test_code_is_not_counted(guard, rooms):
    sent, _ = rooms
    for _ in range(5):
        assert guard.tools["rooms"].call(city="a").next == "fix_arguments"
    assert sent == ["a"] * 5


@pytest.mark.asyncio
async def test_the_same_from_async_code(guard, rooms):
    sent, _ = rooms
    results = [await guard.adispatch("rooms", {"city": "c"}, step=f"m{n}/0") for n in range(4)]
    assert [each.status for each in results] == ["failed"] * 3 + ["invalid"]
    assert sent == ["c"] * 3


def test_arguments_of_which_no_digest_can_be_made_are_counted_and_sent(guard):
    sent, seen = [], set()

    def new(value):
        if value in seen:
            raise ValueError("it was used before")
        seen.add(value)
        return value

    @guard.tool(effect="read")
    def look(where: Annotated[str, BeforeValidator(new)]) -> str:
        sent.append(where)
        body = {"detail": [{"loc": ["body", "where"], "msg": "nowhere"}]}
        httpx.Response(422, json=body, request=httpx.Request("GET", "http://rooms.test/")).raise_for_status()
        return "seen"

    steps = [guard.dispatch("look", {"where": where}).next for where in "abcd"]
    assert steps == ["fix_arguments"] * 2 + ["repair_prompt", "give_up"]
    assert sent == ["a", "b", "c", "d"]

"""Runs that are started again: what is resumed, what is told, what is refused. The cases by id."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import httpx
import pytest

import settled
from tests.waiting import auntil, given_up_once

QUICK = settled.Backoff(base=0.001)


def test_case_007_a_retry_resumes_at_the_first_step_without_a_result(guard: settled.Guard) -> None:
    made: Counter[str] = Counter()
    broken = True

    @guard.tool(effect="read", retry=QUICK, breaker=None)
    def look(step: int) -> str:
        made[f"read {step}"] += 1
        if step == 4 and broken:
            raise httpx.ReadTimeout("slow")
        return f"seen {step}"

    @guard.tool(effect="write")
    def post(step: int) -> str:
        made["post"] += 1
        return "posted"

    def task() -> list[settled.Result[str]]:
        with guard.run("task"):
            return [look.call(step=1), post.call(step=2), look.call(step=3), look.call(step=4), look.call(step=5)]

    assert task()[3].status == "not_done"
    broken = False
    results = task()
    assert [r.status for r in results] == ["succeeded"] * 5
    assert [r.replayed for r in results] == [True, True, True, False, True]
    assert made["post"] == 1
    assert made["read 1"] == made["read 3"] == 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"body":{"a":1,"b":2}}', '{"body":{"b":2,"a":1}}', True),
        ('{"body":{"a":1,"b":2}}', '{ "body" : {"b":2.0, "a":1e0} }', True),
        ('{"body":"caf\\u00e9"}', '{"body":"cafe\\u0301"}', False),
        ('{"body":1}', '{"body":"1"}', False),
        ('{"body":1}', '{"body":true}', False),
    ],
)
def test_case_019_the_key_depends_on_values_not_on_their_text(
    guard: settled.Guard, one: str, other: str, same: bool
) -> None:
    made: list[Any] = []

    @guard.tool(effect="write")
    def act(body: Any) -> str:
        made.append(body)
        return "done"

    with guard.run("r"):
        guard.dispatch("act", one, step="m1/0")
    with guard.run("r"):
        again = guard.dispatch("act", other, step="m2/0")
    assert again.replayed is same
    assert len(made) == 1  # another action: the model is told of the first one before it is done


def test_case_021_the_same_key_with_other_arguments_never_runs(guard: settled.Guard) -> None:
    charged: list[int] = []

    @guard.tool(effect="write", breaker=None)
    def charge(amount: int, metadata: str = "") -> str:
        charged.append(amount)
        raise httpx.ReadTimeout("answer lost")

    first = charge.options(key="K").call(amount=1212)
    other = charge.options(key="K").call(amount=1212, metadata="x")
    same = charge.options(key="K").call(amount=1212)
    assert (first.status, other.status, same.status) == ("unknown", "conflict", "unknown")
    assert other.earlier[0].status == "unknown"
    assert other.operation_id == first.operation_id
    assert charged == [1212]
    guard.resolve(first.operation_id, "happened", result="paid", by="ann", reason="seen in the ledger")
    assert charge.options(key="K").call(amount=1212, metadata="x").status == "conflict"
    assert charge.options(key="K")(amount=1212) == "paid"
    assert charged == [1212]


async def test_case_060_one_failure_never_loses_a_siblings_result(guard: settled.Guard) -> None:
    made: Counter[int] = Counter()

    @guard.tool(effect="write")
    async def act(n: int) -> int:
        made[n] += 1
        if n == 2 and made[2] == 1:
            raise settled.NotExecuted("not now", retryable=False)
        await asyncio.sleep(0.1 if n == 3 else 0)
        return n

    async def batch() -> list[settled.Result[int]]:
        async with guard.run("batch") as run:
            results: list[settled.Result[int]] = await run.gather(*(act.bind(n=n) for n in (1, 2, 3)))
            return results

    first = await batch()
    assert [r.status for r in first] == ["succeeded", "failed", "succeeded"]
    assert [r.value for r in first] == [1, None, 3]
    again = await batch()
    assert [r.status for r in again] == ["succeeded", "failed", "succeeded"]
    assert made == {1: 1, 2: 1, 3: 1}


async def test_case_060_the_journal_fails_one_call_and_the_others_are_seen_through(
    guard: settled.Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    @guard.tool(effect="write")
    async def act(n: int) -> int:
        await asyncio.sleep(0.05)
        ended.append(n)
        return n

    attached = type(act.bind(n=1).tool.attached)
    ordinary = attached.amake

    async def made(self: Any, bound: Any) -> Any:
        if bound.kwargs["n"] == 2:
            raise settled.JournalError("the disk is full")
        return await ordinary(self, bound)

    monkeypatch.setattr(attached, "amake", made)
    async with guard.run("batch") as run:
        with pytest.raises(settled.JournalError):
            await run.gather(*(act.bind(n=n) for n in (1, 2, 3)))
        assert sorted(ended) == [1, 3]


@pytest.mark.parametrize("how", ["group", "gather", "time"])
async def test_siblings_in_flight_when_one_fails_are_seen_through_and_undone_once(tmp_guard: Any, how: str) -> None:
    guard, books, begun = tmp_guard(), list[tuple[str, str]](), set[str]()

    @guard.tool(effect="write")
    def cancel(what: str) -> None:
        books.append(("cancel", what))

    @guard.tool(effect="write", compensate=cancel)
    async def book(what: str) -> None:
        begun.add(what)
        await asyncio.sleep(0.2)
        books.append(("book", what))

    @guard.tool(effect="write", compensate=cancel)
    def order(what: str) -> None:
        begun.add(what)
        time.sleep(0.2)
        books.append(("book", what))

    def both_begun() -> bool:
        return len(begun) == 2

    async def bad() -> None:
        await auntil(both_begun, "both")
        raise ValueError

    async def trip() -> None:
        async with run:
            if how == "group":
                async with asyncio.TaskGroup() as group:
                    for work in (book.acall("flight"), order.acall("car"), bad()):
                        group.create_task(work)
            both = asyncio.gather(book.acall("flight"), order.acall("car"), *([] if how == "time" else [bad()]))
            await (given_up_once(both_begun, both) if how == "time" else both)

    run = guard.run("trip", on_error="compensate")
    with pytest.raises((ExceptionGroup, ValueError, TimeoutError)):
        await trip()
    assert run.status == "compensated"
    assert sorted(books) == [(did, what) for did in ("book", "cancel") for what in ("car", "flight")]


def test_case_060_parallel_in_threads_in_input_order(guard: settled.Guard) -> None:
    all_at_once, ended = threading.Barrier(5), [threading.Event() for _ in range(6)]
    ended[5].set()

    @guard.tool(effect="write")
    def act(n: int) -> int:
        all_at_once.wait(60)
        assert ended[n + 1].wait(60)  # the last one ends first
        ended[n].set()
        return n

    with guard.run("batch") as run:
        assert [r.value for r in run.gather(*(act.bind(n=n) for n in range(5)))] == list(range(5))


async def test_case_063_a_batch_resumed_twice_at_once_runs_the_rest_once(guard: settled.Guard) -> None:
    made: Counter[int] = Counter()

    @guard.tool(effect="write", key="item:{n}")
    async def act(n: int) -> int:
        made[n] += 1
        await asyncio.sleep(0.05)
        return n

    await act(n=1)

    async def resume() -> list[int]:
        return [await act(n=n) for n in (1, 2, 3)]

    assert await asyncio.gather(resume(), resume()) == [[1, 2, 3], [1, 2, 3]]
    assert made == {1: 1, 2: 1, 3: 1}


def test_case_063_an_older_entry_of_a_run_starts_nothing_more(guard: settled.Guard) -> None:
    made: list[int] = []

    @guard.tool(effect="write")
    def act(n: int) -> int:
        made.append(n)
        return n

    old = guard.run("r")
    with old:
        act(n=1)
        with guard.run("r", take_over=True):  # another process has taken the run over
            assert act.call(n=1).replayed
        assert act.call(n=2).reason == "superseded"
    assert made == [1]


def test_case_065_a_step_named_by_code_with_other_inputs_is_a_conflict(guard: settled.Guard) -> None:
    refunds: list[str] = []

    @guard.tool(effect="read")
    def classify(text: str) -> str:
        return "refund"

    @guard.tool(effect="write")
    def refund(order: str) -> str:
        refunds.append(order)
        return "refunded"

    with guard.run("r"):
        assert classify.options(step="classify")("v1") == "refund"
    with guard.run("r"):
        changed = classify.options(step="classify").call("v2")
        if changed.ok:
            refund("o1")
    assert changed.status == "conflict"
    assert refunds == []


def test_case_066_a_lost_result_is_told_as_it_stands_and_reused_ids_do_not_confuse(guard: settled.Guard) -> None:
    effects: list[str] = []

    @guard.tool(effect="write")
    def send(text: str) -> str:
        effects.append(text)
        return f"sent {text}"

    with guard.run("chat", turn="u1"):
        guard.dispatch("send", {"text": "one"}, step="call-1")
    # the process was killed before the history was saved: the same turn again, with new ids
    with guard.run("chat", turn="u1"):
        again = guard.dispatch("send", {"text": "one"}, step="call-9")
        assert (again.replayed, again.value) == (True, "sent one")
    # the next turn uses an old id for something else, and for the same thing once more
    with guard.run("chat", turn="u2", answered=["call-1", "call-9"]):
        assert guard.dispatch("send", {"text": "two"}, step="call-1").value == "sent two"
        assert not guard.dispatch("send", {"text": "one"}, step="call-2").replayed
    assert effects == ["one", "two", "one"]


def test_case_066_a_model_that_starts_over_in_other_words_is_told_first(guard: settled.Guard) -> None:
    effects: list[str] = []

    @guard.tool(effect="write")
    def send(to: str, text: str) -> str:
        effects.append(text)
        return "sent"

    with guard.run("r"):
        guard.dispatch("send", {"to": "ann", "text": "Your refund is on its way"}, step="a/0")
    with guard.run("r"):
        told = guard.dispatch("send", {"to": "ann", "text": "We have refunded you"}, step="b/0")
        assert (told.status, told.reason) == ("rejected", "untold_before")
        assert told.earlier[0].arguments == {"to": "ann", "text": "Your refund is on its way"}
        assert "earlier_calls" in told.for_model()
        assert (
            guard.dispatch("send", {"to": "ann", "text": "We have refunded you"}, step="b/0").reason == "untold_before"
        )
        assert guard.dispatch("send", {"to": "bob", "text": "Hello"}, step="c/0").status == "succeeded"
    assert effects == ["Your refund is on its way", "Hello"]


def test_case_066_a_reworded_repeat_with_a_declared_identity_is_the_same_action(guard: settled.Guard) -> None:
    effects: list[str] = []

    @guard.tool(effect="write", identity=("to", "subject"))
    def mail(to: str, subject: str, body: str) -> str:
        effects.append(body)
        return "sent"

    with guard.run("r"):
        guard.dispatch("mail", {"to": "a", "subject": "s", "body": "first words"}, step="a/0")
    with guard.run("r"):
        again = guard.dispatch("mail", {"to": "a", "subject": "s", "body": "other words"}, step="b/0")
    assert (again.status, again.replayed, again.reworded) == ("succeeded", True, True)
    assert "words differ" in again.message
    assert effects == ["first words"]


def test_the_second_of_two_intended_calls_is_not_lost_when_the_first_is_reworded(guard: settled.Guard) -> None:
    effects: list[str] = []

    @guard.tool(effect="write", identity=("order", "amount"))
    def refund(order: str, amount: int, reason: str) -> str:
        effects.append(reason)
        return "refunded"

    def ask(reason: str, step: str) -> settled.Result[str]:
        return guard.dispatch("refund", {"order": "7", "amount": 5, "reason": reason}, step=step)

    with guard.run("r"):
        assert ask("a", "m1/0").ok
    with guard.run("r"):
        first = ask("b", "m2/0")
        assert (first.replayed, first.reworded) == (True, True)
        second = ask("a", "m3/0")  # the same action in its old words, or the second intended one?
        assert (second.status, second.reason) == ("rejected", "untold_before")
        assert second.earlier[0].operation_id == first.operation_id
        third = ask("a", "m4/0")
        assert (third.status, third.replayed) == ("succeeded", False)
    assert effects == ["a", "a"]


@pytest.mark.parametrize("option", ["verify", "classify"])
def test_a_look_at_an_answer_changes_neither_what_is_given_nor_what_is_kept(guard: settled.Guard, option: str) -> None:
    def look(outcome: dict[str, list[int]]) -> bool | None:
        outcome["rows"].clear()
        return True if option == "verify" else None

    @guard.tool(effect="write", **{option: look})
    def search() -> dict[str, list[int]]:
        return {"rows": [1, 2]}

    given = []
    for _ in range(2):
        with guard.run("r"):
            given.append(search())
    assert given == [{"rows": [1, 2]}] * 2


def test_a_look_is_given_what_cannot_be_copied_as_it_is(guard: settled.Guard) -> None:
    seen: list[object] = []

    @guard.tool(effect="read", verify=lambda value: seen.append(value) or True)
    def connect() -> object:
        return threading.Lock()

    assert connect() is seen[0]

"""What a run allows besides retries: model tokens, and a breaker over all of its tools."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest

import settled
from tests.shared import ROOT

AT_ONCE = settled.Backoff(base=0.001, cap=0.002)


def length(tool, arguments):
    return len(arguments["prompt"]) if "prompt" in arguments else 0


def models(guard, sent, **options):
    @guard.tool(effect="read")
    def small(prompt: str) -> str:
        sent.append(("small", prompt))
        return "short"

    @guard.tool(effect="read", breaker=None, retry=AT_ONCE, **options)
    def model(prompt: str) -> str:
        sent.append(("model", prompt))
        raise ConnectionResetError("overloaded")

    return model


def test_a_retry_that_would_overrun_the_token_window_is_not_made(desk):
    guard, sent = desk.open(), []
    model = models(guard, sent)
    with guard.run("r", tokens=settled.TokenWindow(25, count=length)):
        first, second = model.call("0123456789"), model.call("abcdefghij")
    assert (first.status, first.reason, first.attempts) == ("not_done", "token_window", 2)
    assert (second.reason, second.attempts) == ("token_window", 1)  # a first attempt is always made
    assert len(sent) == 3


def test_the_fallback_is_called_instead(desk):
    guard, sent = desk.open(), []
    model = models(guard, sent, fallback="small")
    with guard.run("r", tokens=settled.TokenWindow(15, count=length)):
        assert model("0123456789") == "short"
    assert [name for name, _ in sent] == ["model", "small"]


def test_what_asks_no_model_costs_no_tokens(desk):
    guard, tries = desk.open(), []

    @guard.tool(effect="idempotent", retry=AT_ONCE)
    def put(what: str) -> str:
        tries.append(what)
        if len(tries) < 3:
            raise ConnectionResetError("away")
        return what

    with guard.run("r", tokens=settled.TokenWindow(0, count=length)):
        assert put("x") == "x"


def used(guard, run_id="r"):
    """What a run that is entered now would go on with."""
    with guard.run(run_id, tokens=settled.TokenWindow(0, count=length), take_over=True) as run:
        return run.meter.window.used


def test_a_run_that_is_entered_again_goes_on_with_what_was_sent(desk):
    guard, sent, window = desk.open(), [], settled.TokenWindow(35, count=length)
    model = models(guard, sent)
    for attempts in (3, 4):  # a first attempt is always made, and is the only one of the second entry
        with guard.run("r", tokens=window):
            assert model.call("0123456789").attempts == attempts
    assert len(sent) == 4
    assert used(guard) == 40


def test_what_a_killed_attempt_had_sent_counts(shared_desk):
    """Seen by another process while both attempts are at work: as a crash would leave it."""
    guard, other, seen, tries = shared_desk.open(), shared_desk.open(), [], []

    @guard.tool(effect="write", attempts=2, breaker=None, retry=AT_ONCE)
    def model(prompt: str) -> str:
        tries.append(prompt)
        if len(tries) == 1:
            raise ConnectionRefusedError("away")
        seen.append(used(other))
        return "done"

    with guard.run("r", tokens=settled.TokenWindow(100, count=length)):
        model("0123456789")
    assert seen == [20]


async def test_what_is_in_flight_side_by_side_counts_in_full(shared_desk):
    guard, other, seen = shared_desk.open(), shared_desk.open(), []
    there = asyncio.Barrier(3)

    @guard.tool(effect="write")
    async def model(prompt: str) -> str:
        await there.wait()
        if prompt.startswith("0"):
            seen.append(await asyncio.to_thread(used, other))
        await there.wait()
        return "done"

    async with guard.run("r", tokens=settled.TokenWindow(100, count=length)) as run:
        await run.gather(*(model.bind(f"{n}123456789") for n in range(3)))
    assert seen == [30]


def test_models_count_with_the_next_thing_on_record(shared_desk):
    guard, other = shared_desk.open(), shared_desk.open()

    @guard.model
    def model(prompt: str) -> str:
        return "done"

    with guard.run("r", tokens=settled.TokenWindow(100, count=length)) as run:
        model("0123456789")
        run.save()
        model("abcde")
        assert run.saved_state == {}
        assert guard.tools["note"]("x") == "x"
        assert other.journal.run("", "r").tokens == 15
        model("ab")
    assert used(other) == 17


def test_models_count_with_the_runs_lease(shared_desk):
    guard, other = shared_desk.open(), shared_desk.open()

    @guard.model
    def model(prompt: str) -> str:
        return "done"

    with guard.run("r", tokens=settled.TokenWindow(100, count=length)):
        model("0123456789")
        guard.runs_here._renewed -= guard.floor.lease
        guard.runs_here.renew()
        assert other.journal.run("", "r").tokens == 10


KILLED = """
import json, os, signal, settled

guard = settled.Guard(os.environ["PLACE"], **json.loads(os.environ["OPTIONS"]))


@guard.tool(effect="idempotent", breaker=None, retry=settled.Backoff(base=0.001, cap=0.002))
def model(prompt: str) -> str:
    if len(tries) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    tries.append(prompt)
    raise ConnectionResetError("overloaded")


tries = []
with guard.run("r", tokens=settled.TokenWindow(25, count=lambda tool, arguments: len(arguments["prompt"]))):
    model("0123456789")
"""


def test_what_a_killed_process_had_sent_bounds_the_next_entry(shared_desk):
    options = {name: str(value) if name == "spill" else value for name, value in shared_desk.options.items()}
    around = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PLACE": shared_desk.address}
    around["OPTIONS"] = json.dumps(options)
    guard = shared_desk.open()
    died = subprocess.run([sys.executable, "-c", KILLED], env=around, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL
    assert used(guard) == 20
    sent = []

    @guard.tool(effect="idempotent", breaker=None, retry=AT_ONCE)
    def model(prompt: str) -> str:
        sent.append(prompt)
        raise ConnectionResetError("overloaded")

    with guard.run("r", tokens=settled.TokenWindow(25, count=length)):
        assert model.call("0123456789").reason == "token_window"
    assert len(sent) == 1  # a first attempt is always made


def test_answers_from_the_record_cost_nothing(shared_desk):
    guard = shared_desk.open()

    @guard.tool(effect="write")
    def model(prompt: str) -> str:
        return "done"

    for _ in range(3):
        with guard.run("r", tokens=settled.TokenWindow(100, count=length)):
            model("0123456789")
    assert used(guard) == 10


def test_agents_that_join_share_the_window(shared_desk):
    host = shared_desk.open(token_key="k" * 16)
    other = shared_desk.open(token_key="k" * 16)
    sent, theirs = [], []
    model, their_model = models(host, sent), models(other, theirs)
    with host.run("r", tokens=settled.TokenWindow(55, count=length)) as run:
        with other.join(run.token(lane="b"), count=length):
            assert their_model.call("abcdefghij").attempts == 3  # as many as it may: it sends 30
        assert model.call("ABCDEFGHIJ").attempts == 2  # of 55 were left 25
    with host.run("r", tokens=settled.TokenWindow(55, count=length)) as run:
        with other.join(run.token(lane="b"), count=length):
            assert their_model.call("abcdefghij").reason == "token_window"
        with other.join(run.token(lane="c")):  # who does not say how it counts is not counted
            assert their_model.call("abcdefghij").attempts == 3
    assert used(host) == 60


def test_a_count_that_fails_is_told(desk):
    guard = desk.open()
    with (
        guard.run("r", tokens=settled.TokenWindow(5, count=lambda tool, arguments: 1 / 0)),
        pytest.raises(settled.DeclarationError, match="ZeroDivisionError"),
    ):
        guard.tools["note"]("x")
    with (
        guard.run("r", tokens=settled.TokenWindow(5, count=lambda tool, arguments: -1)),
        pytest.raises(settled.DeclarationError, match="count"),
    ):
        guard.tools["note"]("x")


async def test_side_by_side_nothing_is_granted_twice(desk):
    guard, sent = desk.open(), []

    @guard.tool(effect="read", breaker=None, retry=AT_ONCE)
    async def model(prompt: str) -> str:
        sent.append(prompt)
        await asyncio.sleep(0)
        raise ConnectionResetError("overloaded")

    async with guard.run("r", tokens=settled.TokenWindow(60, count=length)) as run:
        results = await run.gather(*(model.bind(f"{n:010d}") for n in range(4)))
    assert len(sent) == 6  # four first attempts, and two of eight retries
    assert {result.reason for result in results} == {"token_window"}


def test_a_runs_breaker_is_over_all_of_its_tools(desk):
    guard, tried = desk.open(), []

    def failing(name):
        def fail(what: str) -> str:
            tried.append((name, what))
            raise ConnectionRefusedError("the network is down")

        return guard.tool(name=name, effect="write", attempts=1, breaker=None)(fail)

    tools = [failing(name) for name in ("a", "b", "c")]
    with guard.run("r", breaker=settled.BreakerPolicy()):
        results = [tool.call(str(n)) for n in range(10) for tool in tools]
    assert results[-1].reason == "breaker_open"
    assert len(tried) < 30
    made = len(tried)
    with guard.run("another"):
        assert tools[0].call("x").reason != "breaker_open"
    assert len(tried) == made + 1

"""The world: what is executed, what is noted, what befalls a request."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from bench.workloads.home import Home
from bench.workloads.world import contract
from bench.workloads.world.catalog import Planned, Task
from bench.workloads.world.rehearsal import Rehearsal
from bench.workloads.world.stage import Row, Stage, without_faults
from bench.workloads.world.state import digest
from bench.workloads.world.weather import Weather
from tests.bench import tiny

RUN = "careful/1/tiny_0"


def test_a_tool_is_a_read_only_if_it_was_done_and_changed_nothing():
    burning = Task("t", (*tiny.CALLS, Planned("burn", {})), lambda: [tiny.Till(), tiny.Walk()])
    rehearsal = Rehearsal([burning])
    changes = {tool["name"]: tool["changes"] for tool in rehearsal.plan()["tools"]}
    assert changes == {
        "go": True,  # though only a private place changes
        "look": False,
        "pay_in": True,
        "pay_out": True,
        "paint": True,
        "count": False,
        "burn": True,  # never done: it has shown nothing
    }


def test_a_refusal_by_the_tool_changes_nothing_and_says_so():
    stage = without_faults(tiny.tasks()[0])
    assert [(row.status, row.changed) for row in stage.ledger][4:6] == [(contract.FAILED, False), (200, True)]


def test_a_tool_that_keeps_what_it_is_given_changes_neither_plan_nor_ledger():
    task = tiny.tasks()[0]
    first, second = without_faults(task), without_faults(task)
    assert task.calls[2].arguments == {"amount": 5, "tags": ["a"]} == first.ledger[2].arguments
    assert first.state == second.state


def test_dice_are_no_state_and_places_in_private_are():
    one, other = tiny.Till(), tiny.Till()
    other._dice.random()
    assert digest([one]) == digest([other])
    walked = tiny.Walk()
    walked.go("hall")
    assert digest([walked]) != digest([tiny.Walk()])


def test_objects_that_know_each_other_have_a_digest():
    parent, child = tiny.Walk(), tiny.Walk()
    parent.child, child.parent = child, parent
    assert digest([parent]) == digest([parent])


def test_a_failure_that_changed_something_is_no_refusal():
    class Half:
        def __init__(self):
            self.done = 0

        def half(self):
            self.done += 1
            raise RuntimeError("in the middle")

    stage = Stage(Task("t", (), lambda: [Half()]))
    row = stage.execute(Row(0, "k", "half", {}))
    assert (row.status, row.changed) == (contract.BROKEN, True)
    assert stage.found("k") == [row.answer]


def test_the_weather_is_the_same_for_everyone_and_comes_as_often_as_it_says():
    weather = Weather()
    drawn = [weather.draw(f"1/task/{mark}", 0) for mark in range(20_000)]
    assert drawn == [weather.draw(f"1/task/{mark}", 0) for mark in range(20_000)]
    shares = {fault: count / 20_000 for fault, count in Counter(drawn).items()}
    chances = {"request_lost": 0.05, "answer_lost": 0.10, "refused": 0.05, "killed": 0.02, "": 0.78}
    assert shares == {fault: pytest.approx(chance, abs=0.01) for fault, chance in chances.items()}
    assert "killed" not in {weather.draw(f"1/task/{mark}", 1) for mark in range(5_000)}


class Client:
    """One client of one world process in one weather."""

    def __init__(self, **weather):
        calm = {"request_lost": 0.0, "answer_lost": 0.0, "refused": 0.0, "killed": 0.0}
        self.home = Home(Weather(**{**calm, **weather}), Path(sys.executable), "tests.bench.tiny")

    def __enter__(self):
        self.home.__enter__()
        self.http = httpx.Client(base_url=self.home.url, timeout=10, trust_env=False)
        return self

    def __exit__(self, *error):
        self.http.close()
        self.home.__exit__(*error)

    def go(self, *, expires=60.0):
        headers = {contract.KEY: "k", contract.MARK: "0", contract.EXPIRES: repr(time.monotonic() + expires)}
        return self.http.post(f"/runs/{RUN}/go", json={"place": "hall"}, headers=headers)

    def found(self):
        return self.http.get("/effects/careful/1", params={"key": "k"})

    def ledger(self):
        return [(row["fault"], row["executed"], row["changed"]) for row in self.home.close_run(RUN, [])["rows"]]


def test_a_call_is_executed_and_found_by_its_key():
    with Client() as client:
        assert client.found().json() == {"found": []}
        assert (client.go().json(), client.go().json()) == ("hall", "hall/hall")  # it never de-duplicates
        assert client.found().json() == {"found": ["hall", "hall/hall"]}
        assert client.ledger() == [("", True, True)] * 2


def test_a_lost_request_is_noted_and_not_executed():
    with Client(request_lost=1.0) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            client.go()
        assert client.ledger() == [("request_lost", False, False)]


def test_a_lost_answer_is_one_of_an_executed_call():
    with Client(answer_lost=1.0) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            client.go()
        assert client.ledger() == [("answer_lost", True, True)]


def test_a_refusal_is_answered_and_not_executed():
    with Client(refused=1.0) as client:
        assert client.go().status_code == contract.REFUSED
        assert client.ledger() == [("refused", False, False)]


def test_a_request_whose_time_is_over_takes_no_effect():
    with Client(answer_lost=1.0) as client:
        assert client.go(expires=-0.001).status_code == contract.EXPIRED
        assert client.ledger() == [("expired", False, False)]


def test_an_agent_is_killed_by_an_answer_after_the_effect():
    with Client(killed=1.0) as client:
        assert contract.DIE in client.go().headers
        assert contract.DIE not in client.go().headers
        assert client.ledger() == [("killed", True, True), ("", True, True)]


def test_a_run_is_closed_with_its_state_and_what_accounts_for_it():
    with Client() as client:
        client.go()
        marks = list(range(1, len(tiny.CALLS)))
        assert not client.home.close_run(RUN, [])["right"]
        assert client.home.close_run(RUN, marks)["explained"]
        assert not client.home.close_run(RUN, [*marks[1:-1], 0])["explained"]

"""Many at once: one effect, one answer for all, and nobody is harmed by another's pause, fork, clock or death."""

import asyncio
import json
import os
import signal
import threading
import time
from random import Random

import pytest

import settled
from settled.core.values import replace
from settled.ports import CallQuery
from settled.testing.kill.aftermath import HOUR
from settled.testing.kill.fuse import crossed
from settled.testing.kill.judge import judge
from settled.testing.kill.ledger import Ledger
from settled.testing.kill.nursery import KILLED
from settled.testing.kill.plan import Plan
from settled.testing.kill.rounds import at_random
from settled.testing.kill.scripts import SCRIPTS
from settled.testing.kill.stage import Stage
from tests.waiting import until


def told(plan):
    lines = plan.told.read_text().splitlines() if plan.told.exists() else []
    return [json.loads(line) for line in lines]


def asking(plan, name="asker", **options):
    """A guard of this process on the same file."""
    return Stage(replace(plan, name=name, at=None, **options), SCRIPTS[plan.script])


# --- on one key ---


@pytest.fixture
def guard(tmp_path):
    with settled.Guard(f"sqlite:///{tmp_path}/agent.db") as guard:
        yield guard


def test_64_threads_on_one_key_have_one_effect_and_one_answer(guard):
    effects, results, start = [], [], threading.Barrier(64)

    @guard.tool(effect="write", key="{order}")
    def send(order: str) -> str:
        effects.append(order)
        time.sleep(0.1)
        return f"{order} {len(effects)}"

    def ask():
        start.wait()
        results.append(send.options(wait=60.0).call(order="o"))

    threads = [threading.Thread(target=ask) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert effects == ["o"]
    assert [(r.status, r.value) for r in results] == [("succeeded", "o 1")] * 64
    assert sum(not r.replayed for r in results) == 1


async def test_64_tasks_on_one_key_have_one_effect_and_one_answer(guard):
    effects = []

    @guard.tool(effect="write", key="{order}")
    async def send(order: str) -> str:
        effects.append(order)
        await asyncio.sleep(0.1)
        return f"{order} {len(effects)}"

    results = await asyncio.gather(*(send.options(wait=60.0).acall(order="o") for _ in range(64)))
    assert effects == ["o"]
    assert [(r.status, r.value) for r in results] == [("succeeded", "o 1")] * 64


@pytest.mark.parametrize("is_async", [False, True])
def test_8_processes_on_one_key_have_one_effect_and_one_answer(nursery, tmp_path, is_async):
    plans = [Plan(str(tmp_path), "race", name=f"p{n}", entry=n, wait=60.0, is_async=is_async) for n in range(1, 9)]
    pids = [nursery.start(plan) for plan in plans]
    until(lambda: all("ready" in crossed(plan.trace) for plan in plans), "all are ready")
    (tmp_path / "go").touch()
    until(lambda: any("held" in crossed(plan.trace) for plan in plans), "one is at work")
    until(lambda: all("after Claim" in crossed(plan.trace) for plan in plans), "all have asked")
    (tmp_path / "go-on").touch()
    assert [nursery.wait(pid) for pid in pids] == [0] * 8
    [effect] = Ledger(tmp_path / "ledger").effects()
    answers = [line for plan in plans for line in told(plan)]
    assert [(a["status"], a["value"]) for a in answers] == [("succeeded", effect.value)] * 8
    assert sum(not a["replayed"] for a in answers) == 1
    assert judge(replace(plans[-1], entry=20)) == []


@pytest.mark.case("CASE-056-sqlite-over-fork")
def test_8_forks_of_an_open_guard_hang_nobody_and_break_nothing(nursery, tmp_path):
    plan = Plan(str(tmp_path), "forks", wait=60.0)
    assert nursery.live(plan) == 0
    effects = [effect.order for effect in Ledger(tmp_path / "ledger").effects() if effect.tool == "send"]
    assert len(effects) == len(set(effects))
    assert {"before", "shared", *(f"own {number}" for number in range(8))} <= set(effects)
    values = {line["value"] for path in tmp_path.glob("*.told") for line in told(replace(plan, name=path.stem))
              if line["order"] == "shared"}  # fmt: skip
    assert len(values) == 1
    assert judge(plan) == []
    with asking(plan, "last") as stage:
        assert stage.journal.check().facts["integrity"] == "ok"
        assert stage.journal.verify().ok


# --- a paused owner ---


def stopped_in_its_effect(nursery, tmp_path, *, trouble, **options):
    """Return the plan and the process of an owner that was stopped, and whose lease is over."""
    plan = Plan(str(tmp_path), "slow" if trouble == "held" else "tardy", lease=2.0, **options)
    pid = nursery.start(plan)
    until(lambda: trouble in crossed(plan.trace), "it is at work")
    os.kill(pid, signal.SIGSTOP)
    with asking(plan, "watcher") as stage:
        until(lambda: stage.journal.find(CallQuery(lease_over=True)), "its lease is over")
    return plan, pid


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("trouble", ["held", "stuck"])
def test_an_owner_stopped_past_its_lease_is_not_run_again_and_its_late_success_heals(
    nursery, tmp_path, trouble, is_async
):
    plan, pid = stopped_in_its_effect(nursery, tmp_path, trouble=trouble, is_async=is_async)
    [action] = SCRIPTS[plan.script].actions
    with asking(plan, wait=0.0, is_async=False) as stage:
        first = stage.bind(action).call()
        assert first.status == "unknown"
        assert len(stage.ledger.effects()) == (trouble == "held")
        (tmp_path / "go-on").touch()
        os.kill(pid, signal.SIGCONT)
        assert nursery.wait(pid) == 0
        [effect] = stage.ledger.effects()
        again = stage.bind(action).call()
        assert (again.status, again.value, again.replayed) == ("succeeded", effect.value, True)
        assert not again.disputed
    [answer] = told(plan)
    assert (answer["status"], answer["value"], answer["recorded"]) == ("succeeded", effect.value, True)
    assert judge(plan) == []


def test_a_stale_owner_is_told_what_the_record_says_and_its_success_disputes_it(nursery, tmp_path):
    plan, pid = stopped_in_its_effect(nursery, tmp_path, trouble="stuck")
    [action] = SCRIPTS[plan.script].actions
    with asking(plan, wait=0.0) as stage:
        unknown = stage.bind(action).call()
        stage.guard.resolve(unknown.operation_id, "did_not_happen", by="Ada", reason="given up", force=True)
        (tmp_path / "go-on").touch()
        os.kill(pid, signal.SIGCONT)
        assert nursery.wait(pid) == 0
        [answer] = told(plan)
        assert (answer["status"], answer["value"]) == ("failed", None)
        after = stage.guard.look(unknown.operation_id)
        assert (after.status, after.asserted, after.disputed) == ("failed", True, True)
        assert {alert.kind for alert in stage.journal.alerts()} == {"unknown", "disputed"}
        assert len(stage.ledger.effects()) == 1


def test_a_negative_probe_is_no_proof_while_the_stopped_owner_lives(nursery, tmp_path):
    plan = Plan(str(tmp_path), "booker", lease=2.0)
    pid = nursery.start(plan)
    until(lambda: "stuck" in crossed(plan.trace), "it is at work")
    os.kill(pid, signal.SIGSTOP)
    [action] = SCRIPTS["booker"].actions
    with asking(plan, wait=0.5) as stage:
        until(lambda: stage.journal.find(CallQuery(lease_over=True)), "its lease is over")
        assert stage.bind(action).call().status == "unknown"
        assert stage.ledger.effects() == []
        (tmp_path / "go-on").touch()
        os.kill(pid, signal.SIGCONT)
        assert nursery.wait(pid) == 0
        assert len(stage.ledger.effects()) == 1
    assert judge(plan) == []


# --- clocks ---


@pytest.mark.case("CASE-018-lease-judged-by-other-clock")
@pytest.mark.parametrize("is_async", [False, True])
def test_a_wall_clock_that_jumps_takes_no_lease_from_a_live_owner(nursery, tmp_path, is_async):
    plan = Plan(str(tmp_path), "jumpy", lease=5.0, is_async=is_async)
    pid = nursery.start(plan)
    until(lambda: "held" in crossed(plan.trace), "it is at work")
    [action] = SCRIPTS["jumpy"].actions
    with asking(plan, wait=0.0, is_async=False) as stage:
        while crossed(plan.trace).count("after Renew") < 4:  # four thirds of a lease: without renewal it would be over
            assert stage.bind(action).call().status == "in_progress"
            time.sleep(0.02)
        (tmp_path / "go-on").touch()
        assert nursery.wait(pid) == 0
        assert stage.bind(action).call().status == "succeeded"
    assert len(Ledger(tmp_path / "ledger").effects()) == 1
    assert [answer["status"] for answer in told(plan)] == ["succeeded"]


# --- two processes on one file ---


def test_a_process_that_dies_harms_no_other_on_the_same_file(nursery, tmp_path):
    bystander = Plan(str(tmp_path), "slow", name="bystander", lease=30.0)
    pid = nursery.start(bystander)
    until(lambda: "held" in crossed(bystander.trace), "it is at work")
    for generation, at in enumerate((4, 6, 8, 20, 27), 1):
        victim = Plan(str(tmp_path), "desk", name=f"victim-{at}", at=at, later=generation * HOUR, entry=generation)
        assert nursery.live(victim) in (KILLED, 0)  # what is settled by then needs fewer steps
        assert crossed(victim.trace)
    (tmp_path / "go-on").touch()
    assert nursery.wait(pid) == 0
    assert [answer["status"] for answer in told(bystander)] == ["succeeded"]
    assert judge(replace(victim, name="judge", entry=50)) == []


@pytest.mark.parametrize("seed", range(4))
def test_random_deaths_of_processes_alone_and_in_pairs(nursery, tmp_path, seed):
    deaths, at_work = [], False
    for number in range(12):  # three, or more where the machine was so quick that nobody died at work
        (tmp_path / str(number)).mkdir()
        deaths += at_random(nursery, tmp_path / str(number), Random(100 * seed + number))
        at_work = any(death.died and death.work > 3 for death in deaths)
        if number >= 2 and at_work:
            break
    assert [str(death) for death in deaths if death.problems] == []
    assert at_work

"""Killed at every boundary there is, a process leaves nothing done twice, misreported or lost.

The boundaries are not listed anywhere: each script is played until it ends, killed one boundary further each time, so
that a new transition is covered by itself. Plain code dies at the odd ones, asyncio at the even ones, of the same
machine; ``python -m settled.testing.kill --every`` takes all of both.
"""

import shutil

import pytest

from settled.core.values import replace
from settled.testing.kill.fuse import crossed
from settled.testing.kill.judge import judge
from settled.testing.kill.nursery import KILLED
from settled.testing.kill.plan import Plan
from settled.testing.kill.rounds import crash, everywhere, once

AROUND = {"before Claim", "inside Claim", "after Claim", "told"}
ENDS = {"before End", "inside End", "after End"}
AGAIN = {"before Begin", "inside Begin", "after Begin"}
SETTLING = {"before the probe", "after the probe", "before Settle", "inside Settle", "after Settle"}

UNDOING = {
    f"{when} {name}"
    for when in ("before", "inside", "after")
    for name in ("EnterRun", "StartRollback", "LookThrough", "Undo", "StepUndone", "EndRollback")
}


def effects(*tools):
    return {f"{tool}: {when} the effect" for tool in tools for when in ("before", "after")}


GIVEN_UP = {"before GiveWay", "inside GiveWay", "after GiveWay"}
LONG = {
    "batch": (11, effects("stow") | {"noted the items", "inside LookAtItems"}),
    "undone probed batch": (37, effects("stow")),
    "draft": (47, effects("write", "mail", "throw_away") | {"inside DropDrafts", "inside Decide", "inside Discarded"}),
    "undone draft": (67, effects("recall")),
    "rewind": (31, {"before SetAside", "inside SetAside", "after SetAside", "inside UndoOne", "after HoldRun"}),
    "kept rewind": (29, {"inside SetAside"}),
    "fallback": (71, GIVEN_UP | effects("invoice", "cash")),
    "keyed-fallback": (67, GIVEN_UP | effects("invoice", "cash")),
}
"""Script -> boundaries from one death to the next, and those that one has to die at besides."""


SCRIPTS = {
    "agent": AROUND | ENDS | AGAIN | effects("look", "send", "put") | {"inside EnterRun"},
    "doubt": AROUND | ENDS | AGAIN | effects("book", "charge") | SETTLING,
    "desk": AROUND | ENDS | effects("send", "book") | SETTLING,
    "fan": {"before Reserve", "inside Reserve", "after Reserve"},  # behind it, threads cross in any order
    "person": AROUND | ENDS | {"before Resolve", "inside Resolve", "after Resolve"},
    "care": AROUND | ENDS | {"inside seal", "after seal", "inside ExpireAll", "inside delivered", "after compacting"},
    "late": {"before Evidence", "inside Evidence", "after Evidence"},
    "saga": AROUND | ENDS | UNDOING | effects("hire", "rent", "fire", "give_back"),
    "doubtful saga": ENDS | SETTLING | UNDOING | {"inside Stuck"},
}


def died(deaths):
    """Return where the processes died, having seen that each did, but the last, and that all was well afterwards."""
    deaths = list(deaths)
    assert [str(death) for death in deaths if death.problems] == []
    assert [death.died for death in deaths] == [True] * (len(deaths) - 1) + [False]
    assert all(death.work == death.plan.at for death in deaths if death.died)
    return [death.boundary for death in deaths if death.died]


def died_at(nursery, name, plan, *, template=None):
    """Kill a process at a boundary by name: where threads race, the count may pass it by."""
    shutil.copytree(template, plan.home) if template else plan.home.mkdir()
    death = once(nursery, replace(plan, at=name))
    assert (death.died, death.boundary, death.problems) == (True, name, [])


@pytest.mark.parametrize("script", SCRIPTS)
def test_killed_at_every_boundary(nursery, tmp_path, script):
    odd = died(everywhere(nursery, Plan(str(tmp_path), script, at=1), step=2))
    even = died(everywhere(nursery, Plan(str(tmp_path), script, at=2, is_async=True), step=2))
    for number, name in enumerate(sorted(SCRIPTS[script] - {*odd, *even})):
        died_at(nursery, name, Plan(str(tmp_path / f"missed-{number}"), script))


@pytest.mark.parametrize("script", LONG)
def test_killed_on_a_long_way(nursery, tmp_path, script):
    """More happens in one life of these: ``python -m settled.testing.kill --every`` takes all boundaries."""
    step, named = LONG[script]
    deaths = [*everywhere(nursery, Plan(str(tmp_path), script, at=1), step=2 * step)]
    deaths += everywhere(nursery, Plan(str(tmp_path), script, at=1 + step, is_async=True), step=2 * step)
    assert [str(death) for death in deaths if death.problems] == []
    places = {death.boundary for death in deaths if death.died}
    assert len(places) > 1
    for number, name in enumerate(sorted(named - places)):
        died_at(nursery, name, Plan(str(tmp_path / f"missed-{number}"), script))


@pytest.fixture(scope="module")
def crashed(nursery, tmp_path_factory):
    """Five calls of a run in flight at once, whose process was killed: two before and three after the effect."""
    plan = Plan(str(tmp_path_factory.mktemp("crashed")), "crash")
    crash(nursery, plan, {"stuck": 2, "held": 3})
    plan.trace.unlink()
    return plan.home


@pytest.mark.parametrize("is_async", [False, True])
def test_killed_while_it_settles_what_a_dead_process_left(nursery, tmp_path, crashed, is_async):
    plan = Plan(str(tmp_path), "settle", later=7200.0, entry=2, at=1 + is_async, is_async=is_async, name="settler")
    boundaries = died(everywhere(nursery, plan, template=crashed, step=2))
    assert len(boundaries) >= 12
    for number, name in enumerate(sorted((SETTLING | {"after Adopt"}) - {*boundaries})):
        died_at(nursery, name, replace(plan, folder=str(tmp_path / f"missed-{number}")), template=crashed)


@pytest.fixture(scope="module")
def rolling_back(nursery, tmp_path_factory):
    """A run whose process was killed in the middle of undoing it."""
    plan = Plan(str(tmp_path_factory.mktemp("rolling")), "saga", at="after StepUndone")
    assert nursery.live(plan) == KILLED
    plan.trace.unlink()
    return plan.home


@pytest.mark.parametrize("is_async", [False, True])
def test_killed_while_it_goes_on_with_undoing_what_a_dead_process_left(nursery, tmp_path, rolling_back, is_async):
    plan = Plan(str(tmp_path), "undoing", later=7200.0, entry=2, at=1 + is_async, is_async=is_async, name="second")
    boundaries = died(everywhere(nursery, plan, template=rolling_back, step=2))
    assert len(boundaries) >= 12
    assert {f"{when} Undo" for when in ("before", "inside", "after")} & set(boundaries)


@pytest.mark.parametrize("name", ["before Over", "inside Over", "after Over"])
def test_killed_while_it_sees_that_a_thread_died_with_its_process(nursery, tmp_path, name):
    """The call was told as unknown while its thread still ran, and then the process died."""
    plan = Plan(str(tmp_path / "first"), "late", at="after End")  # killed from outside its thread might answer first
    plan.home.mkdir()
    crash(nursery, plan, {"after End": 1})
    again = replace(plan, folder=str(tmp_path / "second"), name="second", entry=2)
    died_at(nursery, name, again, template=plan.home)


def test_killed_while_a_lease_is_renewed(nursery, tmp_path):
    plan = Plan(str(tmp_path), "slow", channel="keeper", lease=1.2)
    boundaries = []
    for death in everywhere(nursery, plan):
        assert death.died
        assert death.problems == []
        boundaries.append(death.boundary)
        if len(boundaries) == 12:
            break
    assert {"before Renew", "inside Renew", "after Renew", "inside seal"} <= set(boundaries)


def test_killed_while_it_sleeps_between_two_attempts(nursery, tmp_path):
    plan = Plan(str(tmp_path), "asleep")
    crash(nursery, plan, {"after End": 1})
    assert crossed(plan.trace)[-1] == "after End"
    assert judge(plan) == []


@pytest.mark.parametrize("is_async", [False, True])
def test_killed_while_it_opens_the_journal_and_at_everything_it_does_to_files(nursery, tmp_path, is_async):
    plan = Plan(str(tmp_path), "desk", channel="files", at=1 + is_async, is_async=is_async)
    boundaries = died(everywhere(nursery, plan, step=2))
    assert len(boundaries) >= 8
    assert {"open", "sqlite3.connect"} <= set(boundaries)

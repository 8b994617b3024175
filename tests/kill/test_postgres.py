"""The same deaths on PostgreSQL: killed at a boundary, a process leaves nothing done twice, misreported or lost.

Every third boundary, plain code and asyncio in turn; ``Plan(journal=...)`` takes the scripts to any server.
"""

import json
import time

import pytest

from settled.core.values import replace
from settled.testing.kill.fuse import crossed
from settled.testing.kill.judge import judge
from settled.testing.kill.ledger import Ledger
from settled.testing.kill.plan import Plan
from settled.testing.kill.rounds import everywhere

SCRIPTS = ("agent", "doubt", "desk", "fan", "person", "care", "late", "saga", "doubtful saga")


@pytest.mark.parametrize("script", SCRIPTS)
def test_killed_at_boundaries(nursery, postgres, tmp_path, script):
    number = SCRIPTS.index(script)
    plan = Plan(str(tmp_path), script, at=1 + number % 3, is_async=bool(number % 2), journal=postgres.url())
    deaths = list(everywhere(nursery, plan, step=3))
    assert [str(death) for death in deaths if death.problems] == []
    assert [death.died for death in deaths] == [True] * (len(deaths) - 1) + [False]
    assert len(deaths) > 5


LONG = {"batch": 17, "undone probed batch": 61, "draft": 71, "undone draft": 97, "rewind": 41, "kept rewind": 37}
"""Script -> boundaries from one death to the next, since more happens in one life of these."""


@pytest.mark.parametrize(("script", "step"), [*LONG.items(), ("fallback", 97)])
def test_killed_on_a_long_way(nursery, postgres, tmp_path, script, step):
    plan = Plan(str(tmp_path), script, at=step // 2, is_async=step % 4 == 1, journal=postgres.url())
    deaths = list(everywhere(nursery, plan, step=step))
    assert [str(death) for death in deaths if death.problems] == []
    assert len([death for death in deaths if death.died]) > 1


def answers(plan):
    return [json.loads(line) for line in plan.told.read_text().splitlines()]


def test_8_processes_on_one_key_have_one_effect_and_one_answer(nursery, postgres, tmp_path):
    plans = [
        Plan(str(tmp_path), "race", name=f"p{n}", entry=n, wait=60.0, is_async=n % 2 == 0, journal=postgres.url())
        for n in range(1, 9)
    ]
    pids = [nursery.start(plan) for plan in plans]
    for name in ("ready", "after Claim"):
        end = time.monotonic() + 60
        while not all(name in crossed(plan.trace) for plan in plans):
            assert time.monotonic() < end, name
            time.sleep(0.01)
        (tmp_path / "go").touch()
    (tmp_path / "go-on").touch()
    assert [nursery.wait(pid) for pid in pids] == [0] * 8
    [effect] = Ledger(tmp_path / "ledger").effects()
    told = [line for plan in plans for line in answers(plan)]
    assert [(each["status"], each["value"]) for each in told] == [("succeeded", effect.value)] * 8
    assert judge(replace(plans[-1], entry=20)) == []


def test_8_forks_of_an_open_guard_hang_nobody_and_break_nothing(nursery, postgres, tmp_path):
    plan = Plan(str(tmp_path), "forks", wait=60.0, journal=postgres.url())
    assert nursery.live(plan) == 0
    effects = [effect.order for effect in Ledger(tmp_path / "ledger").effects() if effect.tool == "send"]
    assert len(effects) == len(set(effects))
    assert {"before", "shared", *(f"own {number}" for number in range(8))} <= set(effects)
    assert judge(plan) == []

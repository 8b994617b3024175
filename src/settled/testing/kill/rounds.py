"""Killing processes: at every boundary in turn, or at random ones, alone and two on one file."""

from __future__ import annotations

import os
import shutil
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from settled.core.values import replace
from settled.testing.kill.aftermath import HOUR
from settled.testing.kill.fuse import crossed
from settled.testing.kill.judge import judge
from settled.testing.kill.nursery import KILLED, awaited
from settled.testing.kill.plan import Plan
from settled.testing.kill.scripts import SCRIPTS
from settled.testing.kill.visits import Visit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from random import Random

    from settled.testing.kill.nursery import Nursery

CASTS = {
    "draft": ("draft", "letters", "decider", "tidier"),
    "undone draft": ("undone draft", "decider", "given up letters"),
    "rewind": ("rewind", "booking", "rewinder"),
    "kept rewind": ("kept rewind", "kept booking", "keeper"),
}
"""Script -> those of which each process of a round plays one; the others are played by all. The first is judged by."""
AT_RANDOM = (
    *("agent", "doubt", "desk", "fan", "person", "care", "saga", "doubtful saga"),
    *("batch", "probed batch", "undone batch", "undone probed batch", "pair", *CASTS),
    *("fallback", "keyed-fallback"),
)
"""Scripts that wait for nobody outside."""
LAST_BOUNDARY = 60
LONGER = 160
"""The last boundary of scripts with oracles of their own: more happens in one life of them."""
LONGEST = 0.2
"""Seconds that a process may work, or start, before it is killed from outside."""


@dataclass(frozen=True, slots=True)
class Death:
    """How a process died, and what was wrong afterwards."""

    plan: Plan
    died: bool
    boundary: str
    """The last one that it crossed, or came to; empty if it died before the first."""
    work: int
    """How many boundaries it had come to."""
    problems: list[str]

    def __str__(self) -> str:
        """Name the death, to be read in a failing test."""
        kind = "async" if self.plan.is_async else "sync"
        kind += " elsewhere" if self.plan.elsewhere else ""
        how = f"died at {self.work} {self.boundary!r}" if self.died else "lived"
        return f"{self.plan.script} {kind} {how}: {'; '.join(self.problems)}"


def everywhere(nursery: Nursery, plan: Plan, *, template: Path | None = None, step: int = 1) -> Iterator[Death]:
    """Play a plan again and again and kill it at boundary ``plan.at``, ``step`` further on, and so on.

    The last one finds no boundary to die at, and lives. Each life has a folder of its own, like ``template``.
    Raises ``RuntimeError`` if a process died elsewhere than it should.
    """
    number, lived = plan.at if isinstance(plan.at, int) else 1, False
    while not lived:
        home = plan.home / f"{plan.script}-{'async' if plan.is_async else 'sync'}-{number}"
        if template is None:
            home.mkdir()
        else:
            shutil.copytree(template, home)
        elsewhere = number // 2 % 2 == 1  # every other death is seen by those who come after
        death = once(nursery, replace(plan, folder=str(home), at=number, elsewhere=elsewhere))
        yield death
        if not death.problems:
            shutil.rmtree(home)
        lived, number = not death.died, number + step


def once(nursery: Nursery, plan: Plan) -> Death:
    """Let one process live and die by a plan, and judge what it leaves."""
    died = nursery.live(plan) == KILLED
    names = crossed(plan.trace, plan.channel)
    if died and plan.at not in (len(names), *names[-1:]):
        raise RuntimeError(f"{plan} died at boundary {len(names)}")
    return Death(plan, died, names[-1] if names else "", len(names), judge(plan))


def at_random(
    nursery: Nursery, folder: Path, dice: Random, *, scripts: Sequence[str] = AT_RANDOM, journal: str = ""
) -> list[Death]:
    """Play one round: up to three generations of one or two processes on one journal, then a judge."""
    draft = Plan(str(folder), dice.choice(scripts), wait=0.2, journal=journal)
    if draft.script == "pair":
        return _pair(nursery, folder / "pair", dice, journal)
    deaths: list[Death] = []
    for generation in range(dice.randint(1, 3)):
        draft = replace(draft, later=generation * HOUR, is_async=dice.choice((False, True)))
        deaths += _generation(nursery, draft, dice, generation)
    problems = judge(replace(draft, entry=90))
    return [*deaths[:-1], replace(deaths[-1], problems=problems)]


def _pair(nursery: Nursery, home: Path, dice: Random, journal: str) -> list[Death]:
    """Play a run in which two are at work at once; one of them dies, or both do."""
    host, guest = (dice.choice((None, dice.randint(1, LAST_BOUNDARY))) for _ in range(2))
    if host is None and guest is None:
        guest = dice.randint(1, LAST_BOUNDARY // 2)
    more: dict[str, Any] = {"is_async": dice.choice((False, True)), "journal": journal}
    more["scripts"] = ("pair", "pair guest")
    visit = Visit(nursery, home, host=host, guest=guest, **more)
    visit.start()
    visit.end()
    deaths = [_dead(plan, visit.codes.get(plan.name, 0)) for plan in (visit.guest, visit.host)]
    return [deaths[0], replace(deaths[1], problems=visit.problems())]


def _generation(nursery: Nursery, draft: Plan, dice: Random, generation: int) -> list[Death]:
    count, last = dice.randint(1, 2), LONGER if SCRIPTS[draft.script].given else LAST_BOUNDARY
    plans = [
        replace(
            draft,
            script=dice.choice(CASTS.get(draft.script, (draft.script,))),
            name=f"process-{generation}-{place}",
            entry=1 + 10 * generation + place,
            elsewhere=dice.choice((False, True)),
            at=dice.randint(1, last) if dice.choice((True, True, False)) else None,
        )
        for place in range(count)
    ]
    pids = {nursery.start(plan): plan for plan in plans}
    for pid, plan in pids.items():
        if plan.at is None:
            _kill(pid, plan, dice)
    return [_dead(plan, nursery.wait(pid)) for pid, plan in pids.items()]


def _kill(pid: int, plan: Plan, dice: Random) -> None:
    """Kill a process from outside at whatever it does: mostly once it is at work, now and then while it starts."""
    if dice.choice((True, True, True, False)):
        awaited(lambda: 0 if crossed(plan.trace) or plan.over.exists() else None, f"{plan} never starts")
    time.sleep(dice.uniform(0, LONGEST))
    os.kill(pid, signal.SIGKILL)


def _dead(plan: Plan, code: int) -> Death:
    names = crossed(plan.trace)
    return Death(plan, code == KILLED, names[-1] if names else "", len(names), [])


def crash(nursery: Nursery, plan: Plan, wanted: dict[str, int]) -> None:
    """Start a process and kill it from outside once it has come to ``wanted`` boundaries (name -> how often)."""
    pid = nursery.start(plan)

    def there() -> int | None:
        names = crossed(plan.trace)
        return 0 if all(names.count(name) >= often for name, often in wanted.items()) else None

    awaited(there, f"{plan} never came to {wanted}")
    if nursery.kill(pid) != KILLED:
        raise RuntimeError(f"{plan} was over before it was killed")

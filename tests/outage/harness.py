"""Start a load, and judge what it leaves: what happened, what was told, what is on record."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field

import settled
from settled.api.people.queue import waiting
from settled.core.encoding import codec
from settled.ports import CallQuery
from settled.testing.kill.ledger import Ledger
from tests.journals.support import ENVIRONMENT

KEYS = 60
"""Calls of a load, where it is not said otherwise."""
PATIENCE = 150.0
"""Seconds after which a load hangs, and the test fails."""


@dataclass
class Load:
    """A load at work in ``folder`` on the journal at ``url``; a context manager."""

    url: str
    folder: object
    options: dict = field(default_factory=dict)

    def __enter__(self):
        words = [f"--{name}={value}" for name, value in self.options.items()]
        command = [sys.executable, "-m", "tests.outage.load", self.url, str(self.folder), *words]
        self.process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.process.terminate()
        self.process.communicate(timeout=PATIENCE)
        failed = self.folder / "failed"
        if kind is None:
            assert self.process.returncode == 0, failed.read_text() if failed.exists() else ""

    @property
    def effects(self):
        return Counter(effect.order for effect in Ledger(self.folder / "ledger").effects())

    @property
    def told(self):
        lines = [line for path in sorted(self.folder.glob("told-*")) for line in path.read_text().splitlines()]
        return [json.loads(line) for line in lines if line.endswith("]")]  # one that was killed may stop amid a line

    @property
    def killed(self):
        path = self.folder / "killed"
        return {int(pid) for pid in path.read_text().split()} if path.exists() else set()


@dataclass(frozen=True)
class Scene:
    """How things stand when everybody is gone."""

    states: Counter
    told: Counter
    problems: list


def judge(load, url=None):
    """Settle what can be settled, and hold record and told against the ledger."""
    with settled.Guard(url or load.url) as guard:
        guard.tool(effect="write", key="{order}", name="pay")(lambda order: order)
        guard.reconcile()
        journal = guard.journal
        records = {codec.loads(call.arguments)["order"]: call for call in journal.find(CallQuery(limit=10**5))}
        queued = {call.operation_id for call in waiting(journal)}
        problems = list(journal.verify().problems)
        undone = {order for order, call in records.items() if stood_undone(journal, call)}
    effects = load.effects
    values = {effect.order: effect.value for effect in Ledger(load.folder / "ledger").effects()}
    for order, count in effects.items():
        state = records[order].state if order in records else "nothing"
        if count > 1:
            problems.append(f"{order} was done {count} times")
        if state not in ("succeeded", "unknown"):
            problems.append(f"{order} was done, and {state} is on record")
    for order, status, value, before in load.told:
        if status == "succeeded" and value != values.get(order):
            problems.append(f"{order}: told {value}, and {values.get(order)} happened")
        if status == "failed" and order in effects:
            problems.append(f"{order}: told {status}, and it happened")
        if status == "not_done" and (before or (order in effects and order not in undone)):
            problems.append(f"{order}: told {status}, and it had happened")  # it may happen later: it is asked again
    for order, call in records.items():
        if call.state == "succeeded" and order not in effects:
            problems.append(f"{order}: on record as done, and it was not")
        if call.state == "unknown" and call.operation_id not in queued:
            problems.append(f"{order} is unknown, and not in the queue")
        if call.state == "unknown" and not {a.owner.pid for a in call.doubtful} <= load.killed:
            problems.append(f"{order} is unknown, and its process was not killed")
        if call.state == "processing" or call.disputed:
            problems.append(f"{order} stands at {call.state}, disputed: {call.disputed}")
    states = Counter(str(call.state) for call in records.values())
    return Scene(states, Counter(status for _, status, _, _ in load.told), problems)


def stood_undone(journal, call):
    """Whether it was on record as not done at one time."""
    return any(row.state == "not_done" for row in journal.log(call.operation_id))


def settled_well(load, *, unknown=0):
    """Everything is settled, but for what those who were killed have left in doubt."""
    scene = judge(load)
    assert scene.problems == []
    assert scene.states["succeeded"] + scene.states["unknown"] == load.options.get("keys", KEYS)
    assert scene.states["unknown"] <= unknown
    return scene


def paying(guard, effects):
    @guard.tool(effect="write", key="{order}", breaker=None)
    def pay(order: str) -> str:
        effects.append(order)
        return f"paid {order}"

    return pay

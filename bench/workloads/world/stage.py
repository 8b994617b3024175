"""One task as one caller plays it: fresh tools, and a ledger of every request that came."""

from __future__ import annotations

import copy
import json
import threading
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from bench.workloads.world import contract
from bench.workloads.world.catalog import tools_of
from bench.workloads.world.state import digest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from bench.workloads.world.catalog import Task
    from bench.workloads.world.weather import Fault


@dataclass(frozen=True, slots=True)
class Row:
    """One request that reached the world."""

    mark: int
    key: str
    tool: str
    arguments: Mapping[str, Any]
    fault: Fault = ""
    executed: bool = False
    status: int = 0
    changed: bool = False
    answer: Any = None


@dataclass(slots=True)
class Stage:
    """A task's tools, their ledger and a lock over both."""

    task: Task
    ledger: list[Row] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    objects: list[object] = field(init=False)
    _asked: Counter[str] = field(default_factory=Counter)
    _state: str = field(init=False)

    def __post_init__(self) -> None:
        self.objects = self.task.begin()
        self._state = digest(self.objects)

    @property
    def state(self) -> str:
        """Digest of the present state."""
        return self._state

    def asked(self, what: str) -> int:
        """Count a request for something; return how many came before."""
        before = self._asked[what]
        self._asked[what] += 1
        return before

    def execute(self, row: Row) -> Row:
        """Do what a request asks for; return its row, which is in the ledger then."""
        status, answer = _answer_of(self.objects, row.tool, row.arguments)
        before, self._state = self._state, digest(self.objects)
        changed = before != self._state
        if status == contract.FAILED and changed:
            status = contract.BROKEN
        done = Row(row.mark, row.key, row.tool, row.arguments, row.fault, True, status, changed, answer)  # noqa: FBT003 - executed
        self.ledger.append(done)
        return done

    def found(self, key: str) -> list[Any]:
        """Return the answers of what was done under a key."""
        return [
            row.answer for row in self.ledger if row.key == key and (row.changed or row.status == contract.EXECUTED)
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Return the ledger as plain data."""
        return [asdict(row) for row in self.ledger]


def _answer_of(objects: list[object], tool: str, arguments: Mapping[str, Any]) -> tuple[int, Any]:
    """Call a tool. Those of the data set say no with ``{"error": …}``, or raise."""
    method = tools_of(objects).get(tool)
    if method is None:
        return contract.FAILED, {"error": f"no tool {tool}"}
    try:
        answer = json.loads(
            json.dumps(method(**copy.deepcopy(dict(arguments))), default=str)
        )  # tools keep what they get
    except Exception as error:  # noqa: BLE001 - a tool may fail as it likes; so the data set's own runner reads it
        return contract.FAILED, {"error": f"{type(error).__name__}: {error}"}
    return (contract.FAILED if isinstance(answer, dict) and "error" in answer else contract.EXECUTED), answer


def without_faults(task: Task, but: Collection[int] = ()) -> Stage:
    """Play a task without faults, leaving out the calls at some places."""
    stage = Stage(task)
    for mark, planned in enumerate(task.calls):
        if mark not in but:
            stage.execute(Row(mark, str(mark), planned.tool, planned.arguments))
    return stage

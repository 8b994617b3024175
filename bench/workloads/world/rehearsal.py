"""The run without faults: what each task ends in, and which tools change anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.workloads.world import contract
from bench.workloads.world.catalog import parameters_of, tools_of
from bench.workloads.world.stage import without_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.workloads.world.catalog import Task


class Rehearsal:
    """Every task, played once without faults.

    A tool counts as a read if its calls were done and none of them changed the state; a tool whose calls all failed
    has shown nothing, and counts as one that changes.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = {task.id: task for task in tasks}
        self.states: dict[str, str] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._methods: dict[str, Callable[..., Any]] = {}
        self._done: set[str] = set()
        self._changing: set[str] = set()
        for task in tasks:
            self._play(task)

    def _play(self, task: Task) -> None:
        stage = without_faults(task)
        self.states[task.id], self._rows[task.id] = stage.state, stage.rows()
        self._methods |= {name: method for name, method in tools_of(stage.objects).items() if name not in self._methods}
        self._done |= {row.tool for row in stage.ledger if row.status == contract.EXECUTED}
        self._changing |= {row.tool for row in stage.ledger if row.changed}

    def changes(self, tool: str) -> bool:
        """Whether a tool counts as one that changes something."""
        return tool in self._changing or tool not in self._done

    def plan(self) -> dict[str, Any]:
        """Return the tools, and the calls of each task with what they did here."""
        return {
            "tools": [
                {"name": name, "parameters": parameters_of(self._methods[name]), "changes": self.changes(name)}
                for name in sorted({row["tool"] for rows in self._rows.values() for row in rows})
            ],
            "tasks": [{"id": task_id, "calls": rows} for task_id, rows in self._rows.items()],
        }

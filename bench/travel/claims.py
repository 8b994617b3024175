"""What settled says in the end, by the very commands that a person would use."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.travel.plan import DOES, UNDOES, trip_name

if TYPE_CHECKING:
    from collections.abc import Iterable

Command = Callable[..., str]
"""Uses a command of settled; returns what it printed."""


def entries(command: Command) -> list[dict[str, Any]]:
    """Return what stands in the queue: which step of which trip, whether it is its doing or its undoing, and why.

    ``processes``: those in which it was attempted; ``ended``: how its attempts did.
    """
    listed = json.loads(command("queue", "list", "--limit", "1000000", "--json"))["calls"]
    return [_entry(call) for call in listed]


def _entry(call: dict[str, Any]) -> dict[str, Any]:
    undoing = call["tool"] in UNDOES
    part = UNDOES[call["tool"]] if undoing else DOES[call["tool"]]
    return {
        "operation_id": call["operation_id"],
        "trip": trip_name(call["run"] or ""),
        "part": part.name,
        "undoing": undoing,
        "waiting": call["waiting"],
        "reason": call["reason"],
        "processes": [],
        "ended": [],
    }


def runs(command: Command, limit: int) -> dict[str, str]:
    """Return the state of each run."""
    listed: Iterable[dict[str, Any]] = json.loads(command("runs", "list", "--limit", str(limit), "--json"))["runs"]
    return {run["run"]: run["state"] for run in listed}


def attempts(command: Command, operation_id: str) -> dict[str, list[Any]]:
    """Return the processes in which a call was attempted, and how each attempt ended."""
    shown = json.loads(command("queue", "show", operation_id, "--json"))["attempts"]
    return {
        "processes": [attempt["process"]["pid"] for attempt in shown],
        "ended": [f"{attempt['outcome']}: {attempt['message']}" for attempt in shown],
    }

"""What can be done in a world: tasks, each with the calls that were meant and fresh instances of its tools."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Planned:
    """One call that a task means to make."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One task. ``begin`` gives fresh objects, whose public methods are the tools."""

    id: str
    calls: tuple[Planned, ...]
    begin: Callable[[], list[object]]


def tools_of(objects: Iterable[object]) -> dict[str, Callable[..., Any]]:
    """Return the public methods of some objects by name."""
    every = (inspect.getmembers(each, inspect.ismethod) for each in objects)
    return {name: method for methods in every for name, method in methods if not name.startswith("_")}


def parameters_of(method: Callable[..., Any]) -> list[dict[str, Any]]:
    """Return a tool's parameters: the name of each, and the default if it need not be given."""
    parameters = inspect.signature(method).parameters.values()
    return [
        {"name": p.name} if p.default is inspect.Parameter.empty else {"name": p.name, "default": p.default}
        for p in parameters
    ]

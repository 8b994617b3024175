"""What is meant to be done, how a process goes about it, and what must hold in the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from settled.testing.kill.service import Action
    from settled.testing.kill.stage import Stage

Flow = Generator[Any, Any, None]
"""Yields a bound call, or a list of them to be made side by side; is sent the result or results."""


@dataclass(frozen=True, slots=True)
class Script:
    """What is meant to be done, and how a process goes about it."""

    actions: tuple[Action, ...]
    flow: Callable[[Stage, tuple[Action, ...]], Flow]
    in_run: bool = False
    saga: bool = False
    """The run is undone when it fails."""
    guest: bool = False
    """The run is another process's, which it joins."""
    outside: bool = False
    """It yields nothing, and uses the guard by itself, in no run."""
    patience: float = math.inf
    """Seconds to wait for an answer at the most: nobody decides meanwhile."""
    then: tuple[str, ...] = ()
    """The scripts that the same process plays afterwards."""
    declare: Callable[[Stage], None] | None = None
    """Declares the tools; ``None``: the service's own."""
    given: Callable[[Stage, Action], dict[str, Any]] | None = None
    """Returns the arguments that an action is asked for with; ``None``: those of the service's tools."""
    end: Callable[[Stage], list[str]] | None = None
    """Says what is wrong once all has settled; ``None``: each action is judged by itself."""
    again: str = ""
    """The script that the judge plays in the dead process's place; its own by default."""


def asked(stage: Stage, action: Action) -> Generator[Any, Any, Any]:
    """Ask for an action, once more where the answer was what else the model has done; return the result."""
    result = yield stage.bind(action)
    if result.reason == "untold_before":
        result = yield stage.bind(action, time=2)
    stage.tell(action, result)
    return result


def by_order(_: Stage, action: Action) -> dict[str, Any]:
    """Return the arguments of an action whose tool takes its order alone."""
    return {"order": action.order}

"""A run that another process joins: its host gives up in the end, and what both did is undone."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from settled.api.runs.current_run import current_run
from settled.testing.kill.sagas import GivenUp
from settled.testing.kill.service import MOST_PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from settled.testing.kill.script import Flow
    from settled.testing.kill.service import Action
    from settled.testing.kill.stage import Stage

KEY = "of the kill suite alone"
LANE = "guest"


def token_file(home: Path) -> Path:
    """Where the host puts the token: its guest's way in. A true one would go in a header."""
    return home / "token"


def no_more_guests(home: Path) -> Path:
    """The sign, of whoever watches, that the host need not wait any longer."""
    return home / "no-more-guests"


def hosting(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Do the first thing, let a guest in, go on while it is at work, do the last thing, and give up."""
    first, *meanwhile, last = actions
    stage.tell(first, (yield stage.bind(first)))
    _give_token(stage)
    for action in meanwhile:
        stage.tell(action, (yield stage.bind(action)))
    end = time.monotonic() + MOST_PATIENCE
    while not no_more_guests(stage.plan.home).exists() and time.monotonic() < end:
        time.sleep(0.002)
    stage.tell(last, (yield stage.bind(last)))
    raise GivenUp("no boat")


def _give_token(stage: Stage) -> None:
    run, place = current_run.get(), token_file(stage.plan.home)
    if run is None:
        raise LookupError("a host has a run")
    draft = place.with_suffix(f".{os.getpid()}")
    draft.write_text(run.token(lane=LANE, within=600).reveal())
    draft.rename(place)
    stage.fuse.cross("gave the token")


def visiting(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Do what a guest is there for."""
    for action in actions:
        stage.tell(action, (yield stage.bind(action)))

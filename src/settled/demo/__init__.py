"""The demo: an agent against a shop that fails, with settled and without, judged by the shop's own books.

Read ``script`` (what is meant), ``service`` and ``faults`` (what happens to it), then ``guarded`` beside ``careful``
(the two agents), then ``judge``.
"""

from __future__ import annotations

import importlib.util
import sys

NEEDED = ("httpx", "tenacity")


def run_demo(calls: int = 200, seed: int = 1, as_json: bool = False) -> int:  # noqa: FBT001, FBT002 - a yes or no of the command line
    """Run the demo and print its figures.

    Args:
        calls: how many calls the agents are to make.
        seed: of the plan and of the faults.
        as_json: print the figures as JSON, and no progress.

    Returns:
        The exit code: 0 if with settled nothing was doubled, lost, falsely reported or in doubt without need, 1 if
        something was (it is listed), 2 if the demo could not be run.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"the demo needs {' and '.join(missing)}: pip install 'settled[demo]'", file=sys.stderr)  # noqa: T201 - it speaks to a terminal
        return 2
    from settled.demo.play import play  # noqa: PLC0415 - needs the extra

    return play(calls, seed, as_json=as_json)


__all__ = ["run_demo"]

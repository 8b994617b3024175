"""``settled demo``: the library beside a careful script, on a service that loses answers."""

from typing import Annotated

import typer

from settled.cli.exits import Exit, Problem
from settled.cli.options import JsonOption


def demo(
    *,
    calls: Annotated[int, typer.Option(min=1, metavar="N", help="Calls that the agent makes.")] = 200,
    seed: Annotated[int, typer.Option(metavar="S", help="Which faults occur, and when.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Let an agent survive a faulty service.

    It runs with settled and as a careful script; then the service's own books are compared.
    """
    try:
        from settled.demo import run_demo  # noqa: PLC0415 - needs an extra, and much to load
    except ImportError as error:
        raise Problem(Exit.LOADING, f"the demo needs its extra ({error}): pip install 'settled[demo]'") from error
    code = run_demo(calls=calls, seed=seed, as_json=as_json)
    if code:
        raise typer.Exit(code)

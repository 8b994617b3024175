"""The command line as a whole: its commands, and how it ends."""

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import Annotated

import typer
from typer.main import get_command

import settled
from settled.api import secrets
from settled.cli import output
from settled.cli.alerts import alerts
from settled.cli.breakers import breakers
from settled.cli.calls import calls
from settled.cli.demo import demo
from settled.cli.exits import MEANING, Exit, Problem
from settled.cli.journal import journal
from settled.cli.queue import queue
from settled.cli.reconciling import reconcile
from settled.cli.runs import runs
from settled.cli.status import status
from settled.cli.tools import tools
from settled.cli.worker import worker
from settled.errors import DeclarationError, JournalError

EPILOG = "\b\nExit codes:\n" + "\n".join(f"{code:>5}  {MEANING[code].split(':')[0]}" for code in Exit)
_Misuse: type[Exception] = typer.BadParameter.__bases__[0].__bases__[0]  # click's, wherever typer keeps it

app = typer.Typer(
    name="settled",
    help="Look at a journal of tool calls, and settle what is in doubt.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: the same on a terminal, in a pipe and in the reference
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:  # noqa: FBT001 - typer calls it with the option's value
    if asked:
        output.say(f"settled {settled.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    del version  # its callback has acted on it


app.command("status")(status)
app.add_typer(calls)
app.add_typer(queue)
app.add_typer(runs)
app.command("reconcile")(reconcile)
app.command("worker")(worker)
app.add_typer(tools)
app.add_typer(breakers)
app.add_typer(alerts)
app.add_typer(journal)
app.command("demo")(demo)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code (see ``Exit``)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode shows escapes
    try:
        code = _run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        code = Exit.PIPE
    except OSError as error:  # the last of the output
        code = _failed(error, as_json="--json" in given)
    if code in (Exit.PIPE, Exit.FAILED):
        _let_go_of_stdout()
    return code


def _run(given: list[str]) -> int:
    as_json = "--json" in given
    try:
        return int(get_command(app).main(args=given, prog_name="settled", standalone_mode=False) or Exit.OK)
    except Problem as problem:
        output.complain(problem, as_json=as_json)
        return problem.code
    except JournalError as error:
        output.complain(Problem(Exit.JOURNAL, str(error)), as_json=as_json)
        return Exit.JOURNAL
    except DeclarationError as error:
        output.complain(Problem(Exit.REFUSED, str(error)), as_json=as_json)
        return Exit.REFUSED
    except _Misuse as error:
        return _misused(error, as_json=as_json)
    except (typer.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            return Exit.PIPE
        return end.code if isinstance(end.code, int) else Exit.OK
    except BrokenPipeError:
        return Exit.PIPE
    except Exception as error:  # noqa: BLE001 - Python would end with 1, which says that all was done
        return _failed(error, as_json=as_json)


def _failed(error: Exception, *, as_json: bool) -> int:
    """Tell of what should not have happened, and where; whatever was done stands."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {secrets.clean(str(error))} ({frame.filename}, line {frame.lineno})"
    problem = Problem(Exit.FAILED, f"settled failed, and what was done before that stands: {what}")
    with suppress(OSError):
        output.complain(problem, as_json=as_json)
    return Exit.FAILED


def _misused(error: Exception, *, as_json: bool) -> int:
    if as_json:
        output.complain(Problem(Exit.USAGE, error.format_message()), as_json=True)  # type: ignore[attr-defined]  # click's
    else:
        error.show()  # type: ignore[attr-defined]  # click's: usage, a hint and the message
    return Exit.USAGE


def _open_what_is_closed() -> None:
    """Let output go nowhere where the process was started without: the command is to end as it does elsewhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - as long as the process


def _let_go_of_stdout() -> None:
    """Let Python's own last flush go nowhere: whoever read it has gone."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.__stdout__.fileno() if sys.__stdout__ else 1)

"""What a command prints: one JSON document, or text and aligned tables; data on stdout, talk on stderr."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from settled.cli.exits import Problem
from settled.cli.words import printable, without_passwords

INDENT = "  "
_PIPED_WIDTH = 10_000
"""Columns where no terminal sets a limit: nothing is cut or wrapped for whoever reads a pipe."""


def emit_json(document: Any) -> None:
    """Print one JSON document, ASCII only."""
    _write(sys.stdout, json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False))


def say(text: str) -> None:
    """Print a line of text, unwrapped, so that what is in it can be copied whole."""
    _write(sys.stdout, printable(text, lines=True))


def tell(text: str) -> None:
    """Print a line of talk beside the data."""
    _write(sys.stderr, printable(text, lines=True))


def _write(stream: TextIO, text: str) -> None:
    stream.write(f"{text}\n")


def emit(as_json: bool, document: Any, show: Callable[[], None]) -> None:  # noqa: FBT001 - every command's own flag
    """Print a document as JSON, or show it to a person."""
    if as_json:
        emit_json(document)
    else:
        show()


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, whole: int = 0) -> None:
    """Print an aligned table. Column ``whole`` is never cut; the last one is wrapped, the others end in dots."""
    from rich.table import Table  # noqa: PLC0415 - rich takes longer to load than most commands take

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, header_style="bold")
    last = len(headings) - 1
    for place, heading in enumerate(headings):
        least = max((len(row[place]) for row in rows), default=0) if place == whole else None
        grid.add_column(
            heading, no_wrap=place != last, overflow="fold" if place == last else "ellipsis", min_width=least
        )
    for row in rows:
        grid.add_row(*map(_text, row))
    _print(grid)


def facts(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and values, the values aligned and wrapped."""
    from rich.table import Table  # noqa: PLC0415 - as above

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value:
            grid.add_row(_text(name), _text(value))
    _print(grid)


def block(heading: str, text: str) -> None:
    """Print a heading and an indented text."""
    title(heading)
    say("\n".join(INDENT + line for line in text.splitlines()))


def title(heading: str) -> None:
    """Print a heading, with an empty line before it."""
    from rich.text import Text  # noqa: PLC0415 - as above

    say("")
    _print(Text(heading, style="bold"))


def _text(value: str) -> Any:
    from rich.text import Text  # noqa: PLC0415 - as above

    return Text(printable(value))


def _print(what: Any) -> None:
    console = console_on(sys.stdout)
    with console.capture() as captured:
        console.print(what)
    lines = captured.get().splitlines()
    _write(sys.stdout, "\n".join(line.rstrip() for line in lines))


def console_on(stream: TextIO) -> Any:
    """Return a rich console: coloured only on a terminal that wants it, as wide as the terminal."""
    from rich.console import Console  # noqa: PLC0415 - as above

    plain = not stream.isatty() or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Console(
        file=stream,
        color_system=None if plain else "auto",
        width=None if stream.isatty() else _PIPED_WIDTH,
        force_terminal=None if stream.isatty() else False,
        markup=False,
        emoji=False,
        highlight=False,
    )


def complain(problem: Problem, *, as_json: bool) -> None:
    """Print why a command ends without success, on stderr."""
    message = without_passwords(problem.message)
    if as_json:
        error = {"code": problem.name, "message": message, "exit": int(problem.code)}
        _write(sys.stderr, json.dumps({"error": error}))
    else:
        tell(f"settled: {message}")


@contextmanager
def progress(label: str, *, as_json: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how far long work has come, on a terminal only; yields what is to be told (done, total)."""
    if as_json or not sys.stderr.isatty():
        yield lambda done, total: None  # noqa: ARG005 - nobody watches
        return
    from rich.progress import Progress  # noqa: PLC0415 - as above

    with Progress(console=console_on(sys.stderr), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

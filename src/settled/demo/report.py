"""What the demo shows in the end: a table for people, the same figures as JSON for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from settled.demo.judge import Case, Figures

_SHOWN = 12
"""Cases of one kind that are listed at the most."""


def as_json(figures: Figures) -> dict[str, Any]:
    """Return the figures as plain data; cases are listed one by one."""
    facts = asdict(figures)
    return facts | {"clean": figures.clean}


_ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("effects done twice or more", lambda f: str(len(f.doubled))),
    ("effects lost", lambda f: str(len(f.lost))),
    ("falsely reported", lambda f: str(len(f.false))),
    ("in doubt, left for a person", lambda f: str(len(f.left))),
    ("in doubt without need", lambda f: str(len(f.needless))),
    ("intended effects in the books", lambda f: f"{f.in_books}/{f.intended} ({percent(f):.1f} %)"),
    ("calls settled by asking the shop", lambda f: str(f.by_probe)),
    ("requests that reached the shop", lambda f: str(f.requests)),
    ("faults met", lambda f: str(f.faults)),
    ("kills survived", lambda f: str(f.kills)),
    ("added to a plain call (median)", lambda f: "-" if f.added is None else f"{f.added * 1000:.1f} ms"),
    ("time in all", lambda f: f"{f.seconds:.1f} s"),
)


def percent(figures: Figures) -> float:
    """Return how many of the intended effects the books show, in percent."""
    return 100.0 * figures.in_books / figures.intended if figures.intended else 100.0


def table(guarded: Figures, careful: Figures, title: str) -> Table:
    """Return the table of both agents."""
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    shown.add_column("by the shop's own books", no_wrap=True)
    shown.add_column("with settled", justify="right", no_wrap=True)
    shown.add_column("careful script", justify="right", no_wrap=True)
    for name, read in _ROWS:
        shown.add_row(name, read(guarded), read(careful))
    return shown


def cases(title: str, found: Iterable[Case]) -> list[str]:
    """Return lines that list cases under a title; none if there are none."""
    every = list(dict.fromkeys(found))  # one may be wrong in several ways
    listed = [f"  {case.tool} {case.mark}: {case.what}{_proof(case)}" for case in every[:_SHOWN]]
    rest = [f"  ... and {len(every) - _SHOWN} more"] if len(every) > _SHOWN else []
    return [f"{title}:", *listed, *rest] if every else []


def _proof(case: Case) -> str:
    rows = f"rows {', '.join(map(str, case.rows))}" if case.rows else ""
    proof = "; ".join(filter(None, [*dict.fromkeys(case.operation_ids), rows]))
    return f" [{proof}]" if proof else ""


def show(guarded: Figures, careful: Figures, folder: Path, *, seed: int, command: str) -> None:
    """Print table, open cases, and what to type next."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(table(guarded, careful, f"{guarded.calls} calls, seed {seed}"))
    lines = [
        *cases("WRONG with settled", [*guarded.doubled, *guarded.lost, *guarded.false, *guarded.needless]),
        *cases("Left for a person with settled, and the fault that put it in doubt", guarded.left),
        *cases("Not in the books with settled, and what its user was told", guarded.missing),
        *cases("Wrong with the careful script", [*careful.doubled, *careful.lost, *careful.false]),
        "",
        f"Books, fault logs, reports and journal are kept in {folder}",
        "Next, see what waits for a person, and why:",
        f"  {command}",
    ]
    for line in lines:
        console.print(line, markup=False)


def summary(rows: Mapping[int, Mapping[str, Any]]) -> Table:
    """Return a row for each seed, and the totals."""
    shown = Table(
        title="doubled / lost / falsely reported",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
        collapse_padding=True,
    )
    for name in ("seed", "settled", "in doubt", "needless", "in books", "careful script", "time"):
        shown.add_column(name, justify="right", no_wrap=True)
    for seed, row in sorted(rows.items()):
        shown.add_row(str(seed), *_summed([row]))
    shown.add_section()
    shown.add_row("all", *_summed(list(rows.values())))
    return shown


def _summed(rows: list[Mapping[str, Any]]) -> list[str]:
    def count(agent: str, name: str) -> int:
        return sum(len(row[agent][name]) for row in rows)

    def wrong(agent: str) -> str:
        return " / ".join(str(count(agent, name)) for name in ("doubled", "lost", "false"))

    done = sum(row["guarded"]["in_books"] for row in rows)
    meant = sum(row["guarded"]["intended"] for row in rows)
    least = min(100.0 * row["guarded"]["in_books"] / max(1, row["guarded"]["intended"]) for row in rows)
    return [
        wrong("guarded"),
        str(count("guarded", "left")),
        str(count("guarded", "needless")),
        f"{100.0 * done / max(1, meant):.1f} %" + (f" (>= {least:.1f})" if len(rows) > 1 else ""),
        wrong("careful"),
        f"{max(row['seconds'] for row in rows):.0f} s",
    ]

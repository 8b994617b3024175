"""What is shown in the end: a table, and a line for each thing that must hold."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, TextIO

from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.workloads.judge import Figures
    from bench.workloads.orders import Row

MOST_GIVEN_UP = 60 / 22_840
"""Share of the calls that may be proved not done and given up, or rejected."""
_SHOWN = 10
_LINES: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("task runs", lambda f: f"{f.runs:,}"),
    ("calls meant", lambda f: f"{f.calls:,}"),
    ("final state right", lambda f: f"{100 * f.right / f.runs:.2f} %"),
    ("duplicate effects", lambda f: f"{len(f.duplicates):,}"),
    ("told not done, and done", lambda f: f"{len(f.false_not):,}"),
    ("told done, and not done", lambda f: f"{len(f.false_done):,}"),
    ("lost: nothing told, or not on record", lambda f: f"{len(f.lost):,}"),
    ("ended without an answer", lambda f: f"{f.no_answer:,}"),
    ("in the queue at the end", lambda f: f"{f.queued:,}"),
    ("... after settling it", lambda f: f"{len(f.left):,}"),
    ("proved not done, given up", lambda f: f"{len(f.given_up):,}"),
    ("rejected", lambda f: f"{len(f.rejected):,}"),
    ("asked for again, as told", lambda f: f"{f.asked_again:,}"),
    ("requests for each call meant", lambda f: f"{f.requests / f.calls:.3f}"),
    ("added to a plain call (median)", lambda f: f"{1000 * median(f.added):.2f} ms" if f.added else "-"),
    ("agents killed", lambda f: f"{f.kills:,}"),
    ("time of all seeds", lambda f: f"{f.seconds:.0f} s"),
)


def show(figures: Mapping[Row, Figures], title: str) -> None:
    """Print the table."""
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    shown.add_column("by the world's own ledger", no_wrap=True)
    for row in figures:
        shown.add_column(row, justify="right", no_wrap=True)
    for name, read in _LINES:
        shown.add_row(name, *(read(each) for each in figures.values()))
    Console(width=120).print(shown)


def verdicts(row: Row, f: Figures) -> list[tuple[str, list[str], bool]]:
    """Return what must hold of a row with settled: words, evidence against it, whether it holds."""
    if not row.startswith("settled"):
        return []
    small = len(f.given_up) + len(f.rejected)
    claims = [
        ("no duplicate effects", f.duplicates, not f.duplicates),
        ("no lies", f.false_not + f.false_done, not f.lies),
        ("no losses", f.lost, not f.lost),
        ("every call got a known word", [], f.no_answer == 0),
    ]
    if row == "settled-probes":
        return [
            *claims,
            ("final state right in each run without a call given up", f.unexplained, not f.unexplained),
            (
                f"given up and rejected: {small}, at most {MOST_GIVEN_UP * f.calls:.1f}",
                f.given_up + f.rejected,
                small <= max(1.0, MOST_GIVEN_UP * f.calls),
            ),
            ("every unknown call was settled", f.left, not f.left),
        ]
    return [
        *claims,
        ("each wrong state explained by calls queued after a fault of the sending", f.unexplained, not f.unexplained),
    ]


def passed(figures: Mapping[Row, Figures], out: TextIO) -> bool:
    """Write a line for each thing that must hold; return whether all do."""
    fine = True
    for row, each in figures.items():
        for words, evidence, holds in verdicts(row, each):
            out.write(f"{'PASS' if holds else 'FAIL'}  {row}: {words}\n")
            if not holds:
                out.writelines(f"      {line}\n" for line in evidence[:_SHOWN])
            fine &= holds
    return fine

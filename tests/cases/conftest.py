"""Guards for the cases: in memory, and on one file in several processes' manner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import settled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def guard() -> Iterator[settled.Guard]:
    """A guard on a journal in memory."""
    with settled.Guard("memory://") as made:
        yield made


@pytest.fixture
def tmp_guard(tmp_path: Any) -> Iterator[Callable[..., settled.Guard]]:
    """Several guards on one SQLite file, as several workers would have them."""
    made: list[settled.Guard] = []

    def make(**options: Any) -> settled.Guard:
        made.append(settled.Guard(f"sqlite:///{tmp_path}/journal.db", **options))
        return made[-1]

    yield make
    for guard in made:
        guard.close()

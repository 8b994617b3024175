"""Processes that share breakers, step by step: of all of them one makes the probe, whatever it hears meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import settled
from settled.core.attempts.breaker import Breaker, State
from settled.drivers.floor import Floor
from settled.drivers.sharing import Sharing
from settled.journals.memory import MemoryJournal
from settled.testing.records import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.drivers.sharing import News

POLICY = settled.BreakerPolicy(cooldown=0.05, adaptive=False, failures=1)


class Nothing:
    """A spill file that is never needed."""

    def keep(self, _: object) -> None:
        raise AssertionError("nothing is to be kept")

    def drain(self, _: Callable[[object], None]) -> int:
        return 0


class Process:
    """A floor of its own, whose one breaker is open, and its cool-down over."""

    def __init__(self, journal: MemoryJournal) -> None:
        self.floor = Floor(journal, Nothing(), lease=30.0)  # type: ignore[arg-type]  # it has what is used of it
        self.floor.sharing = Sharing(journal, time.monotonic)
        self.breaker = Breaker("tool:pay", POLICY)
        self.breaker.follow(State.OPEN, 0.0)

    def hear(self) -> None:
        self.floor.heed({self.breaker.name: self.breaker})


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal(FakeClock())


def test_who_hears_of_anothers_probe_while_it_takes_its_own_makes_none(journal: MemoryJournal) -> None:
    """It has taken the place by what it knew before: that counts, not what is heard until it says so."""
    one, other = Process(journal), Process(journal)
    seen = [each.floor._seen([each.breaker])[0] for each in (one, other)]
    for each in (one, other):
        assert isinstance(each.breaker.take(time.monotonic()), int)
    assert one.floor._share(one.breaker, seen[0])
    other.hear()
    assert not other.floor._share(other.breaker, seen[1])


def test_its_own_word_is_no_news_to_a_process(journal: MemoryJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read before the journal's answer has come, it would take the place from the probe that is under way."""
    one = Process(journal)
    assert one.floor.sharing is not None
    ticket, agree, heard = one.breaker.take(time.monotonic()), one.floor.sharing.agree, []

    def slowly(breaker: Breaker, seen: int) -> News | None:
        told = agree(breaker, seen)
        one.hear()
        heard.append(told)
        return told

    monkeypatch.setattr(one.floor.sharing, "agree", slowly)
    assert one.floor._share(one.breaker, 0)
    assert heard
    assert one.breaker.generation == ticket


def test_what_was_followed_already_is_not_followed_once_more(journal: MemoryJournal) -> None:
    one, other = Process(journal), Process(journal)
    assert one.floor._share(one.breaker, 0)
    other.hear()
    generation = other.breaker.generation
    other.hear()
    assert other.breaker.generation == generation

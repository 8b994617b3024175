"""Forks: SQLite's handles and locks must not be carried over one.

A child that shares them can lose commits: its parent, not seeing the child's locks, deletes the write-ahead log under
it. So every journal is brought to rest and its connections are closed before a fork; parent and child open their own.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Forking(Protocol):
    """What is told of a fork of its process."""

    def before_fork(self) -> None:
        """Come to rest, holding nothing that a child must not have."""

    def after_fork_in_parent(self) -> None:
        """Go on."""

    def after_fork_in_child(self) -> None:
        """Begin anew, without anything of the parent's."""


_alive: WeakSet[Forking] = WeakSet()


class _Forks:
    """The forks under way: one at a time, or one thread's journal is let go while another thread forks."""

    def __init__(self) -> None:
        self.turn = threading.RLock()  # a signal handler may fork in the middle of a fork
        self.resting: list[list[Forking]] = []


_forks = _Forks()


def tell_of_forks(journal: Forking) -> None:
    """Tell ``journal`` of every fork of this process, as long as it lives."""
    _alive.add(journal)


def _before() -> None:
    _forks.turn.acquire()
    at_rest = [journal for each in _forks.resting for journal in each]  # in the middle of another fork
    rested: list[Forking] = []
    _forks.resting.append(rested)
    for journal in _alive.difference(at_rest):
        rested.append(journal)
        journal.before_fork()


def _in_parent() -> None:
    for journal in reversed(_forks.resting.pop()):
        journal.after_fork_in_parent()
    _forks.turn.release()


def _in_child() -> None:
    rested = [journal for each in _forks.resting for journal in each]
    _forks.__init__()  # type: ignore[misc]  # anew: the other threads are the parent's
    for journal in reversed(rested):
        journal.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)

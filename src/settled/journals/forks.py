"""Forks: SQLite's handles and locks must not be carried over one.

A child that shares them can lose commits: its parent, not seeing the child's locks, deletes the write-ahead log under
it. So every journal is brought to rest and its connections are closed before a fork; parent and child open their own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Iterator


class Forking(Protocol):
    """What is told of a fork of its process."""

    def before_fork(self) -> None:
        """Come to rest, holding nothing that a child must not have."""

    def after_fork_in_parent(self) -> None:
        """Go on."""

    def after_fork_in_child(self) -> None:
        """Begin anew, without anything of the parent's."""


_alive: WeakSet[Forking] = WeakSet()
_resting: list[Forking] = []


def tell_of_forks(journal: Forking) -> None:
    """Tell ``journal`` of every fork of this process, as long as it lives."""
    _alive.add(journal)


def _before() -> None:
    for journal in list(_alive):
        journal.before_fork()
        _resting.append(journal)


def _rested() -> Iterator[Forking]:
    while _resting:
        yield _resting.pop()


def _in_parent() -> None:
    for journal in _rested():
        journal.after_fork_in_parent()


def _in_child() -> None:
    for journal in _rested():
        journal.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)

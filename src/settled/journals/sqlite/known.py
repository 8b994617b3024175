"""What this process knows of the file without reading it again, for as long as nobody else writes to it.

A run's calls are read once, all in one query, when the first call in it is claimed; after that each claim in the run
reads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from settled.core.states import UNSETTLED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from settled.core.books import RunRecord
    from settled.core.call import Call

MOST_CALLS: Final = 8192
"""Calls that are known at the most: with more, all is forgotten."""
MOST_BYTES: Final = 2**25
"""Of their arguments and results, alike."""
LONGEST_SCOPE: Final = 2048
"""Calls of a run at the most for which it is known as a whole."""
MOST_OUTSIDE: Final = 512
"""Open calls of a tool outside of any scope at the most that are known."""
_LARGE: Final = 16_384
"""Bytes of arguments and result from which on a call is read from the file instead."""


class Shelf:
    """The operation ids of one scope's calls, in order of creation, as they are looked for."""

    __slots__ = ("_open", "_places", "alike", "of_tool")

    def __init__(self) -> None:
        self.alike: dict[tuple[str, str, str], list[str]] = {}
        """By tool, lane and identity."""
        self.of_tool: dict[str, list[str]] = {}
        self._open: dict[str, set[str]] = {}
        self._places: dict[str, int] = {}

    def put(self, call: Call) -> None:
        """Add a call, or heed its change."""
        operation_id = call.operation_id
        if operation_id not in self._places:
            self._places[operation_id] = len(self._places)
            self.alike.setdefault((call.tool, call.lane, call.identity), []).append(operation_id)
            self.of_tool.setdefault(call.tool, []).append(operation_id)
        if call.state in UNSETTLED:
            self._open.setdefault(call.tool, set()).add(operation_id)
        else:
            self._open.get(call.tool, set()).discard(operation_id)

    def open_of(self, tool: str) -> list[str]:
        """Return the open calls of a tool, in order of creation."""
        return sorted(self._open.get(tool, ()), key=self._places.__getitem__)

    def __len__(self) -> int:
        return len(self._places)


class Outside:
    """The open calls of one tool that were made outside of any scope, by identity, in order of creation."""

    __slots__ = ("_alike", "_count")

    def __init__(self, calls: Sequence[Call]) -> None:
        self._alike: dict[str, dict[str, Call]] = {}
        self._count = 0
        for call in calls:
            self._put(call)

    def heed(self, call: Call) -> bool:
        """Heed a change of a call; return whether these are still all open calls, in order, and not too many."""
        alike = self._alike.get(call.identity, {})
        if call.state not in UNSETTLED:
            self._count -= alike.pop(call.operation_id, None) is not None
            if not alike:
                self._alike.pop(call.identity, None)
            return True
        if call.log_no > 1 and call.operation_id not in alike:
            return False  # an older one that is open again
        self._put(call)
        return self._count <= MOST_OUTSIDE

    def _put(self, call: Call) -> None:
        alike = self._alike.setdefault(call.identity, {})
        self._count += call.operation_id not in alike
        alike[call.operation_id] = call

    def alike(self, identity: str) -> list[Call]:
        """Return those of one identity."""
        return list(self._alike.get(identity, {}).values())

    def __len__(self) -> int:
        return self._count


class Known:
    """Calls, scopes and runs, as they stand in the file."""

    __slots__ = ("bytes", "calls", "outside", "owes", "paused", "runs", "shelves")

    def __init__(self) -> None:
        self.bytes = 0
        self.calls: dict[str, Call] = {}
        self.outside: dict[tuple[str, str], Outside | None] = {}
        """By tenant and tool; ``None``: they are too many."""
        self.owes: bool | None = None
        """Whether the outcome of any call is owed; ``None``: it is to be looked up."""
        self.shelves: dict[str, Shelf | None] = {}
        """By scope; ``None``: one that is too long, or whose calls are too large, to be known as a whole."""
        self.runs: dict[tuple[str, str], RunRecord] = {}
        self.paused: Mapping[str, str] | None = None
        """The notes on paused tools, which every claim asks for; ``None``: they are to be read."""

    def clear(self) -> None:
        """Know nothing any more."""
        self.bytes = 0
        self.calls.clear()
        self.outside.clear()
        self.shelves.clear()
        self.runs.clear()

    def keep_run(self, run: RunRecord) -> None:
        """This is how a run stands now."""
        if len(self.runs) >= MOST_CALLS:
            self.runs.clear()
        self.runs[run.tenant, run.run_id] = run

    def keep(self, call: Call) -> None:
        """This is how a call stands now."""
        if len(self.calls) >= MOST_CALLS or self.bytes >= MOST_BYTES:
            self.clear()
        self._let_go(call)
        size = _bytes(call)
        if size <= _LARGE:
            self.calls[call.operation_id] = call
            self.bytes += size
        if call.scope:
            self._heed_in_scope(call, known=size <= _LARGE)
        else:
            self._heed_outside(call, known=size <= _LARGE)

    def _heed_in_scope(self, call: Call, *, known: bool) -> None:
        shelf = self.shelves.get(call.scope)
        if shelf is None:
            return
        if known:
            shelf.put(call)
        if not known or len(shelf) > LONGEST_SCOPE:
            self.shelves[call.scope] = None

    def _heed_outside(self, call: Call, *, known: bool) -> None:
        place = (call.tenant, call.tool)
        outside = self.outside.get(place)
        if outside is None or (known and outside.heed(call)):
            return
        if len(outside) > MOST_OUTSIDE:
            self.outside[place] = None
        else:
            del self.outside[place]

    def drop(self, call: Call) -> None:
        """A call is no longer there."""
        self._let_go(call)
        self.shelves.pop(call.scope, None)
        self._forget_outside(call)

    def _forget_outside(self, call: Call) -> None:
        if not call.scope:
            self.outside.pop((call.tenant, call.tool), None)

    def _let_go(self, call: Call) -> None:
        known = self.calls.pop(call.operation_id, None)
        if known is not None:
            self.bytes -= _bytes(known)

    def learn(self, scope: str, calls: Sequence[Call]) -> None:
        """These are all the calls of a scope, in order of creation; or more than may be known."""
        size = sum(map(_bytes, calls))
        if len(self.calls) + len(calls) > MOST_CALLS or self.bytes + size > MOST_BYTES:
            self.clear()
        whole = len(calls) <= LONGEST_SCOPE and size < MOST_BYTES
        self.shelves[scope] = Shelf() if whole else None
        for call in calls if whole else ():
            self.keep(call)

    def learn_outside(self, tenant: str, tool: str, calls: Sequence[Call]) -> None:
        """These are the open calls of a tool outside of any scope, in order of creation; or more than may be known."""
        whole = len(calls) <= MOST_OUTSIDE and all(_bytes(call) <= _LARGE for call in calls)
        self.outside[tenant, tool] = Outside(calls) if whole else None

    def those(self, operation_ids: Iterable[str]) -> list[Call]:
        """Return calls that are known."""
        return [self.calls[operation_id] for operation_id in operation_ids]


def _bytes(call: Call) -> int:
    return len(call.arguments) + len(call.result or b"")

"""What repeats may cost: pools that must all grant, and are debited together.

Nothing here locks. Whoever shares a pool between threads holds one lock around ``Pools.try_spend``.
Which repeats are free of charge is decided by the caller, who then does not ask.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

RETRY: Final = 1.0
"""Tokens that a repeat costs a pool; after a throttled answer it is less (``retry.THROTTLED_COST``)."""

DEFAULT_FLOOR: Final = 0.5
"""Share of a run's total that is held for the tools' floors where the declaration names none."""

_MILLI: Final = 1000  # pools count thousandths as integers, so that ten deposits of 0.1 are exactly one retry


class Pool:
    """A token bucket that first attempts fill and repeats empty: about one repeat for ten first attempts.

    It bounds amplification at 1 + ``deposit`` however many callers share it, and has no income by time: a steady
    trickle for each of many clients would add up to no bound at all.
    """

    __slots__ = ("_agreed", "_capacity", "_deposit", "_level")

    def __init__(self, capacity: float = 10.0, deposit: float = 0.1) -> None:
        _check_tokens("capacity", capacity)
        _check_tokens("deposit", deposit)
        self._capacity = _milli(capacity)
        self._deposit = _milli(deposit)
        self._level = self._agreed = self._capacity

    @property
    def level(self) -> float:
        """Tokens left."""
        return self._level / _MILLI

    @property
    def full(self) -> bool:
        """Whether a first attempt would pay in nothing."""
        return self._level == self._capacity

    def first_attempt(self) -> None:
        """A first attempt is made: it pays in."""
        self._level = min(self._capacity, self._level + self._deposit)

    def grants(self, cost: float) -> bool:
        """Whether ``cost`` tokens are there."""
        return _milli(cost) <= self._level

    def debit(self, cost: float) -> None:
        """Take ``cost`` tokens, which ``grants`` promised.

        Raises:
            ValueError: they are not there.
        """
        taken = _milli(cost)
        if taken > self._level:
            raise ValueError(f"{cost} tokens asked of a pool that holds {self.level}")
        self._level -= taken

    def refund(self, cost: float) -> None:
        """Give back what a repeat that never began had taken."""
        self._level = min(self._capacity, self._level + _milli(cost))

    # --- shared with other processes ---

    @property
    def moved(self) -> int:
        """Thousandths of a token that came in here, less those that went, since the level was last agreed on."""
        return self._level - self._agreed

    def with_moved(self, level: int | None, moved: int) -> int:
        """Return what the level of all becomes by what moved here; ``None``: nobody has told a level yet.

        It may fall below 0: processes spend at the same time what they all see. First attempts then pay that back
        before any repeat is granted, so over time there are no more repeats than one process might make alone.
        """
        return min(self._capacity, (self._capacity if level is None else level) + moved)

    def follow(self, level: int, moved: int) -> None:
        """Go on from the level of all, of which ``moved`` is a part by now."""
        since = self.moved - moved
        self._agreed = level
        self._level = min(self._capacity, level + since)

    def forked(self) -> None:
        """In a forked child: what has moved so far is for its parent to tell."""
        self._agreed = self._level


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """How many repeats a run may make: in all, for each tool, and what is held so that every tool gets some.

    The floor rule, in whole repeats, with ``n`` tools known to the run, as they are named in ``per_tool`` or have
    repeated in it: ``R = int(total * floor)`` is held back, and each tool's floor is ``max(1, R // n)``, at most its
    own limit (0 for all if ``R`` is 0). Within its floor a tool may repeat while anything is left of the total. Beyond
    it, only while what is left afterwards covers the unused floors of the other tools, or ``R`` if they come to more.
    So a tool that is alone may use the whole total, and as long as ``n <= R`` every tool named in ``per_tool`` gets
    its floor, whatever the others spend.

    Attributes:
        total: repeats of the whole run.
        per_tool: limits by tool name; a tool without one is bound by the total only.
        floor: share of the total that is held, 0 to 1; ``None`` means half, 0 means first come, first served.

    Raises:
        ValueError: a count that is not a whole number from 0 on, or a share out of range.
    """

    total: int
    per_tool: Mapping[str, int] | None = field(default=None, hash=False)
    floor: float | None = None

    def __post_init__(self) -> None:
        _check_count("total", self.total)
        for tool, limit in (self.per_tool or {}).items():
            _check_count(f"the limit of {tool}", limit)
        if self.floor is not None and not 0 <= self.floor <= 1:
            raise ValueError(f"floor is a share of the total, from 0 to 1, not {self.floor!r}")
        if self.per_tool is not None:
            object.__setattr__(self, "per_tool", dict(self.per_tool))  # a later change of theirs is not ours

    def limit(self, tool: str) -> int:
        """Repeats that this tool may make at the most."""
        return self.total if self.per_tool is None else min(self.total, self.per_tool.get(tool, self.total))

    @property
    def held(self) -> int:
        """``R``: repeats held back for floors."""
        return int(self.total * (DEFAULT_FLOOR if self.floor is None else self.floor))


class RunBudget:
    """What a run (or a session) has spent of its ``RetryBudget``. ``spent`` is all that a journal needs to keep."""

    __slots__ = ("_known", "_scope", "_spent", "budget")

    def __init__(
        self,
        budget: RetryBudget,
        spent: Mapping[str, int] | None = None,
        *,
        tools: Iterable[str] = (),
        scope: Literal["run", "session"] = "run",
    ) -> None:
        """A fresh state, or with ``spent`` the one that was recorded.

        Args:
            budget: the declaration. It may be smaller than what is spent: then nothing is granted.
            spent: repeats by tool, as ``spent`` gave them.
            tools: names known beforehand, so that their floors hold before their first repeat.
            scope: word for the names of refusals.

        Raises:
            ValueError: ``spent`` holds something that is no count.
        """
        self.budget = budget
        self._scope = f"retry_budget:{scope}"
        self._spent = dict(spent or {})
        for tool, count in self._spent.items():
            _check_count(f"spent by {tool}", count)
        self._known = {*tools, *(budget.per_tool or ()), *self._spent}

    @property
    def spent(self) -> dict[str, int]:
        """Repeats made, by tool: a copy."""
        return dict(self._spent)

    @property
    def left(self) -> int:
        """Repeats left of the total."""
        return max(0, self.budget.total - sum(self._spent.values()))

    def meet(self, tool: str) -> None:
        """The run has this tool: from now on it has a floor."""
        self._known.add(tool)

    def floor(self, tool: str) -> int:
        """Repeats held for this tool."""
        sharers = sum(self.budget.limit(each) > 0 for each in self._known | {tool})
        if not self.budget.held or not sharers:
            return 0
        return min(self.budget.limit(tool), max(1, self.budget.held // sharers))

    def refusal(self, tool: str, cost: int = 1) -> str | None:
        """The bound that stands against ``cost`` repeats; ``None`` if they are granted.

        ``"retry_budget:run:<tool>"`` for the tool's own limit; ``"retry_budget:run"`` if nothing is left of the
        total, or the rest is held for other tools.
        """
        wanted = self._spent.get(tool, 0) + cost
        if wanted > self.budget.limit(tool) and self.budget.limit(tool) < self.budget.total:
            return f"{self._scope}:{tool}"
        held = 0 if wanted <= self.floor(tool) else self._held_for_others(tool)
        return None if self.left - cost >= held else self._scope

    def try_spend(self, tool: str, cost: int = 1) -> str | None:
        """Count ``cost`` repeats of ``tool`` if they are granted; else nothing, and the bound's name is returned.

        Raises:
            ValueError: ``cost`` is no count.
        """
        _check_count("cost", cost)
        refusal = self.refusal(tool, cost)
        if refusal is None:
            self.meet(tool)
            self._spent[tool] = self._spent.get(tool, 0) + cost
        return refusal

    def refund(self, tool: str, cost: int = 1) -> None:
        """Uncount repeats that never began.

        Raises:
            ValueError: there are not so many to uncount.
        """
        spent = self._spent.get(tool, 0)
        if spent < cost:
            raise ValueError(f"{tool} has not spent {cost} that could be given back")
        self._spent[tool] = spent - cost

    def _held_for_others(self, tool: str) -> int:
        unused = (max(0, self.floor(each) - self._spent.get(each, 0)) for each in self._known if each != tool)
        return min(self.budget.held, sum(unused))


class TokenWindow:
    """A run's window of model tokens: a repeat or re-prompt that would overrun it is not made."""

    __slots__ = ("_used", "count", "limit")

    def __init__(
        self, limit: int, used: int = 0, *, count: Callable[[str, Mapping[str, object]], int] | None = None
    ) -> None:
        """Raises ``ValueError`` unless both numbers are whole and from 0 on.

        Args:
            limit: tokens that may be sent, first attempts included.
            used: restores a recorded state.
            count: from a tool's name and a call's arguments to the tokens that one attempt sends: 0 for what asks no
                model. Without it nothing is counted by itself.
        """
        _check_count("limit", limit)
        _check_count("used", used)
        self.limit, self.count = limit, count
        self._used = used

    def anew(self) -> TokenWindow:
        """Return the same window, of which nothing is used."""
        return TokenWindow(self.limit, count=self.count)

    def tokens_of(self, tool: str, arguments: Mapping[str, object]) -> int:
        """Return what one attempt of a call sends. Raises ``ValueError`` if ``count`` gave no count."""
        tokens = 0 if self.count is None else self.count(tool, arguments)
        _check_count("what count= gives", tokens)
        return tokens

    @property
    def used(self) -> int:
        """Tokens used, which may exceed the limit: what a model used is counted, whatever was left."""
        return self._used

    def grants(self, tokens: int) -> bool:
        """Whether so many more tokens stay within the limit. A repeat that sends none never overruns it."""
        return tokens == 0 or self._used + tokens <= self.limit

    def use(self, tokens: int) -> None:
        """Count tokens, by a first call or by a repeat that was granted."""
        _check_count("tokens", tokens)
        self._used += tokens

    def refund(self, tokens: int) -> None:
        """Uncount tokens of a repeat that was never sent.

        Raises:
            ValueError: more than were used.
        """
        _check_count("tokens", tokens)
        if tokens > self._used:
            raise ValueError(f"{tokens} tokens to give back, but only {self._used} used")
        self._used -= tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The pools of one process that a repeat of one tool draws on. ``None`` is no bound.

    What its run has left is debited with the record (``charge``), its tokens by the run's meter (``metering``).
    """

    session: RunBudget | None = None
    process: Pool | None = None
    """One per tool and process, or per model: model calls have their own."""

    def first_attempt(self) -> None:
        """A first attempt is made: it pays into the pool of the process."""
        if self.process is not None:
            self.process.first_attempt()

    def try_spend(self, tool: str, cost: float = RETRY) -> str | None:
        """Debit one repeat from both pools, or nothing from either.

        Args:
            tool: name of the tool.
            cost: for the pool of the process, in tokens; a session counts whole repeats.

        Returns:
            ``None`` if both granted, else the pool that refused: ``"retry_budget:session"``,
            ``"retry_budget:session:<tool>"``, ``"retry_budget:process"``.

        Raises:
            ValueError: a cost that is not a finite number above 0.
        """
        _check_tokens("cost", cost)
        refused = None if self.session is None else self.session.refusal(tool)
        if refused is None and self.process is not None and not self.process.grants(cost):
            refused = "retry_budget:process"
        if refused is not None:
            return refused
        if self.session is not None:
            self.session.try_spend(tool)
        if self.process is not None:
            self.process.debit(cost)
        return None

    def refund(self, tool: str, cost: float = RETRY) -> None:
        """Give back to both pools what ``try_spend`` took for a repeat that then never began."""
        if self.session is not None:
            self.session.refund(tool)
        if self.process is not None:
            self.process.refund(cost)


@lru_cache(maxsize=100)
def _milli(tokens: float) -> int:
    return round(tokens * _MILLI)


@lru_cache(maxsize=100)  # what is refused is looked at each time
def _check_tokens(name: str, value: float) -> None:
    if not (math.isfinite(value) and _milli(value) > 0):
        raise ValueError(f"{name} must be a finite number of at least a thousandth, not {value!r}")


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be a whole number from 0 on, not {value!r}")

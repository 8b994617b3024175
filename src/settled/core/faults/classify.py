"""From an exception to a fault.

How the errors around an exception are read (the part on which "no lie" rests):

1. **A known class speaks for itself.** The most derived class with a rule decides, whatever came before it: an
   ``httpx.ReadTimeout`` stays ambiguous though it was raised while a refused connection was being handled.
2. **A wrapper is refined by what it names as its cause**: ``__cause__`` and, for known wrappers, the error that they
   hold (``reason``, ``orig``, ``os_error``, an argument). So is a class that is not known, by its ``__cause__`` alone.
   Of several causes the best known one counts; of equals the one that proves less.
3. **A group proves what all of its members prove.** A single member speaks for the group.
4. **A context names no cause**; it only came before. It lends its code to an error of which nothing else is known, but
   never its proof: that error was raised *after* it, and what happened in between is not known. ``from None`` hides it.
5. **A proof needs a clean past.** ``none`` holds for the whole attempt, so it is given up if an error anywhere in the
   contexts may have had an effect, if a client repeated by itself (only its last try is seen), or if there is
   more than can be looked at. A cancellation beneath a ``TimeoutError`` is how time-outs work, and no such event.

At most 10 levels and 100 errors are looked at; cycles do no harm; attributes that raise count as missing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from settled.core.faults import chain, look, repeats
from settled.core.faults.python import of_group
from settled.core.faults.rules import Situation, ambiguous, weakened
from settled.core.faults.table import rule_of
from settled.core.faults.unsent import of_unknown
from settled.core.model import Evidence, Fault
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.faults.rules import Rule

UNRECOGNISED = ambiguous("unrecognised")
UNREADABLE = ambiguous("unreadable_error")


class Known(IntEnum):
    """How much is known of an error."""

    NOT = 0
    WRAPPER = 1
    WELL = 2


class Reading(Struct, frozen=True):
    """What was read, and how well it is known."""

    fault: Fault
    known: Known


_NOTHING = Reading(UNRECOGNISED, Known.NOT)


def classify(error: BaseException, *, attempt: int = 1, doubtful: bool = False, now: float | None = None) -> Fault:
    """Return why an attempt failed and what that proves about its effect.

    Args:
        error: what the tool raised.
        attempt: number of this attempt over all owners, from 1.
        doubtful: an earlier attempt may have had its effect; "already exists" may then be its success.
        now: wall clock, seconds since 1970, for dates in ``Retry-After`` of answers without a ``Date``.

    Never raises. What is not known is ``unknown`` with the evidence ``maybe``; so is an error that cannot be looked at.
    """
    try:
        read = _of_one if chain.stands_alone(error) else _of_many
        fault = read(error, attempt, doubtful=doubtful, now=now)
        return fault if fault.message else structs.replace(fault, message=look.describe(error))
    except Exception:  # noqa: BLE001 (an error is a stranger's: even its cause and its class may raise anything)
        return replace(UNREADABLE, message=look.describe(error))


def _of_one(error: BaseException, attempt: int, *, doubtful: bool, now: float | None) -> Fault:
    """Read an error that holds no other, and that none came before: as a walk would, which has nowhere to go."""
    repeated = repeats.hidden((error,))
    rule = rule_of(type(error))
    if rule is None:
        fault = UNRECOGNISED
    else:
        fault = _alone(rule, rule.read(error, Situation(attempt, doubtful or repeated, now)))
    if fault is UNRECOGNISED:
        fault = of_unknown(error) or fault
    return weakened(fault) if repeated else fault


def _alone(rule: Rule, said: Fault | None) -> Fault:
    """Return what an error of a class that is in the table says where nothing inside of it says more."""
    return said or rule.default or UNRECOGNISED


def _of_many(error: BaseException, attempt: int, *, doubtful: bool, now: float | None) -> Fault:
    """Walk over an error and those around it."""
    within = chain.within(error)
    repeated = repeats.hidden(within[0])
    walk = _Walk(Situation(attempt, doubtful or repeated, now), {}, error if len(within[0]) == 1 else None)
    fault = walk.read(error).fault
    if fault is UNRECOGNISED:
        fault = of_unknown(error) or fault
    past, complete = walk.past(within)
    if past and fault is UNRECOGNISED and isinstance(error, Exception):
        fault = _lent(past[0])
    if repeated or not complete or (past and any(one.evidence is not Evidence.NONE for one in past)):
        fault = weakened(fault)
    return fault


class _Walk(Struct):
    """One walk over the errors around an exception."""

    situation: Situation
    seen: dict[int, Reading]
    alone: BaseException | None
    """An error that was seen to hold no other."""

    def read(self, error: BaseException, depth: int = 0) -> Reading:
        """Read an error and its causes."""
        seen, mark = self.seen, id(error)
        if mark in seen:
            return seen[mark]
        if depth >= chain.DEEPEST or len(seen) >= chain.MOST:
            return _NOTHING
        seen[mark] = _NOTHING  # what a cycle comes back to
        reading = seen[mark] = self._read(error, depth)
        return reading

    def _read(self, error: BaseException, depth: int) -> Reading:
        members = () if error is self.alone else chain.members(error)
        if members:
            return _of_members([self.read(member, depth + 1) for member in members])
        rule = rule_of(type(error))
        said = None if rule is None else rule.read(error, self.situation)
        if said is not None and rule is not None and not rule.wraps:
            return Reading(said, Known.WELL)
        causes = () if error is self.alone else chain.causes(error, recognised=rule is not None)
        best = _best([self.read(cause, depth + 1) for cause in causes]) if causes else _NOTHING
        if best.known or rule is None:
            return best
        return Reading(_alone(rule, said), Known.NOT if rule.bug else Known.WRAPPER)

    def past(self, within: tuple[list[BaseException], bool]) -> tuple[list[Fault], bool]:
        """Return what is known of the errors that came before one, nearest first; whether that is all of them.

        ``within``: what ``chain.within`` says of that one.
        """
        found: list[Fault] = []
        met: set[int] = set()
        inside, whole = within
        for _ in range(chain.DEEPEST):
            earlier = [one for inner in inside if (one := chain.context(inner)) is not None]
            if not earlier:
                return found, whole
            met.update(map(id, inside))
            line = list({id(one): one for one in earlier if id(one) not in met}.values())
            if not line:
                return found, whole
            found += [reading.fault for reading in map(self.read, line) if reading.known]
            parts = [chain.within(outer) for outer in line]
            inside = [inner for errors, _ in parts for inner in errors]
            whole = whole and all(complete for _, complete in parts)
        return found, False


def _lent(fault: Fault) -> Fault:
    """Return what a context lends: its code, and whether a repeat makes sense; nothing that it proves."""
    return weakened(replace(fault, evidence=Evidence.NONE))


def _best(readings: list[Reading]) -> Reading:
    best = max((reading.known for reading in readings), default=Known.NOT)
    equals = [reading for reading in readings if reading.known is best]
    doubtful = [reading for reading in equals if reading.fault.evidence is not Evidence.NONE]
    return (doubtful or equals or [_NOTHING])[0] if best else _NOTHING


def _of_members(readings: list[Reading]) -> Reading:
    if len(readings) == 1:
        return readings[0]
    return Reading(of_group(reading.fault for reading in readings), max(reading.known for reading in readings))

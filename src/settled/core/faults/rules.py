"""What the table of one source is made of, and the verdicts that come up in all of them.

A class is named by the first part of its module and by its qualified name: ``("requests", "ConnectionError")``
stands for ``requests.exceptions.ConnectionError`` and whatever derives from it, and nothing has to be imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from settled.core.model import Evidence, Fault, FaultClass
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Situation(Struct, frozen=True):
    """What is known besides the error itself.

    ``attempt`` counts over all owners; ``doubtful``: an earlier attempt may have had its effect; ``now``: wall
    clock, seconds since 1970, ``None`` where nobody knows.
    """

    attempt: int = 1
    doubtful: bool = False
    now: float | None = None


Judge = Callable[[BaseException, Situation], Fault | None]
"""Reads one error. ``None``: by itself it says nothing."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a class says. ``wraps``: it says little by itself, an error inside it may say more."""

    verdict: Fault | Judge
    wraps: bool = False
    bug: bool = False
    """A plain Python error: it counts only where it is what the tool raised."""
    default: Fault | None = None
    """What it says where the judge says nothing, and no error inside says more."""

    def read(self, error: BaseException, situation: Situation) -> Fault | None:
        """Return what this one error says, errors inside it not looked at."""
        return self.verdict if isinstance(self.verdict, Fault) else self.verdict(error, situation)


Name = tuple[str, str]
Rules = dict[Name, Rule]


def rules(
    *roots: str,
    final: Mapping[str, Fault | Judge],
    wraps: Mapping[str, Fault | Judge] | None = None,
    default: Fault | None = None,
) -> Rules:
    """Return the rules for the classes of one library, under each of its names."""
    table = {name: Rule(verdict, default=default) for name, verdict in final.items()}
    table |= {name: Rule(verdict, wraps=True, default=default) for name, verdict in (wraps or {}).items()}
    return {(root, name): rule for root in roots for name, rule in table.items()}


def _names(kind: type) -> tuple[Name, ...]:
    return tuple([(str(base.__module__).partition(".")[0], str(base.__qualname__)) for base in kind.__mro__])


def _roots(kind: type) -> frozenset[str]:
    return frozenset([root for root, _ in names(kind)])


names = cast("Callable[[type], tuple[Name, ...]]", lru_cache(1024)(_names))
"""How a class and its bases are named in the tables, the most derived first."""
roots = cast("Callable[[type], frozenset[str]]", lru_cache(1024)(_roots))
"""The packages that a class and its bases are of."""


def is_a(error: BaseException, root: str, *qualnames: str) -> bool:
    """Tell whether an error is of one of these classes, or derives from one."""
    kind = type(error)
    if root not in roots(kind):  # as with most that are asked about
        return False
    return any(name[0] == root and name[1] in qualnames for name in names(kind))


def is_of(error: BaseException, roots: Collection[str], *qualnames: str) -> bool:
    """Tell the same of a library that goes by several names."""
    return any(name[0] in roots and name[1] in qualnames for name in names(type(error)))


def retryable(code: str) -> Fault:
    """Proved not executed, and a repeat may well succeed."""
    return Fault(FaultClass.RETRYABLE, Evidence.NONE, code)


def refused(code: str) -> Fault:
    """Proved not executed, and a repeat would end the same way."""
    return Fault(FaultClass.PERMANENT, Evidence.NONE, code)


def unwritable(code: str) -> Fault:
    """Refused on our side for what it is, before anything left: it says nothing about an earlier try."""
    return replace(refused(code), gate=True)


def invalid(code: str) -> Fault:
    """The arguments were wrong; never executed."""
    return Fault(FaultClass.INVALID, Evidence.NONE, code)


def ambiguous(code: str, *, uncertain: bool = False) -> Fault:
    """It may have been executed: to be repeated only where that does no harm."""
    return Fault(FaultClass.UNKNOWN, Evidence.MAYBE, code, uncertain=uncertain)


def hopeless(code: str) -> Fault:
    """It may have been executed, and a repeat would end the same way."""
    return Fault(FaultClass.PERMANENT, Evidence.MAYBE, code)


def unusable(code: str) -> Fault:
    """Executed; its answer cannot be used."""
    return Fault(FaultClass.UNKNOWN, Evidence.DONE, code, uncertain=True)


def local(code: str) -> Fault:
    """Refused on our side before anything left."""
    return Fault(FaultClass.RETRYABLE, Evidence.NONE, code, local=True)


def unready(code: str) -> Fault:
    """Refused on our side, which would refuse each such call: pointless until that is put right there."""
    return Fault(FaultClass.PERMANENT, Evidence.NONE, code, local=True)


def throttled(code: str) -> Fault:
    """Turned away because of the pace: a throttled answer proves that nothing was executed."""
    return Fault(FaultClass.RETRYABLE, Evidence.NONE, code, throttled=True)


def in_progress(code: str) -> Fault:
    """The other side is still at work on our key."""
    return Fault(FaultClass.RETRYABLE, Evidence.MAYBE, code, in_progress=True)


def exists(code: str, *, doubtful: bool) -> Fault:
    """Refuse as "already so": permanent at first; after an attempt in doubt it may be that one's success."""
    if doubtful:
        return Fault(FaultClass.PERMANENT, Evidence.MAYBE, code, own_success=True)
    return refused(code)


def weakened(fault: Fault) -> Fault:
    """Return the fault without its proof that nothing was executed."""
    if fault.evidence is not Evidence.NONE:
        return fault
    kind = FaultClass.UNKNOWN if fault.kind in {FaultClass.RETRYABLE, FaultClass.INVALID} else fault.kind
    return replace(fault, kind=kind, evidence=Evidence.MAYBE)

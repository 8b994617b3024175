"""How one tool is to be called: the part of its declaration that the machine needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from settled.core.attempts.backoff import Backoff
from settled.core.model import Fault, Terms

Classify = Callable[[object], Fault | None]


@dataclass(frozen=True, slots=True)
class Policy:
    """Times are seconds. The callables must be pure: they look at an outcome and say what it is."""

    terms: Terms
    attempts: int = 3
    """Of one series."""
    timeout: float | None = None
    """Of one attempt."""
    interruptible: bool = False
    """An attempt can be left or cancelled, so a deadline can cut it."""
    backoff: Backoff = field(default_factory=Backoff)
    not_executed: tuple[type[BaseException], ...] = ()
    classify: Classify | None = None
    """Looks at a returned value or an exception first; ``None`` from it means: no opinion."""
    verify: Callable[[object], bool] | None = None
    several: bool = False
    """The tool makes several requests: that the last one was refused proves nothing about the others."""
    hooked: bool = False
    """The tool says that watched transports see each of its requests."""
    refresh: bool = False
    probe: bool = False
    fence: bool = False


class Limits(Struct, frozen=True):
    """What one asker allows."""

    deadline: float | None = None
    """Absolute, on the driver's monotonic clock."""
    wait: float = 5.0
    """Seconds to wait for another owner's answer, or for a probe to become proof."""
    tokens: Callable[[], bool] | None = None
    """Whether the token window has room for one more try."""

"""The tools of the simulated world: how each is declared, and how its service behaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from settled.core.attempts.threshold import BreakerPolicy
from settled.core.model import Effect, Evidence, Fault, FaultClass, Terms
from settled.core.policy import Policy

if TYPE_CHECKING:
    from settled.core.policy import Classify


class Failure(Exception):  # noqa: N818 - what a tool raises here is a failure by any name
    """What a simulated tool raises; the fault is what a classifier would say of it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.code)
        self.fault = fault


def classify(outcome: object) -> Fault | None:
    """Read the fault off a simulated failure."""
    return outcome.fault if isinstance(outcome, Failure) else None


def _fault(kind: FaultClass, evidence: Evidence, code: str, **more: object) -> Fault:
    return Fault(kind, evidence, code, **more)  # type: ignore[arg-type]  # the names are those of Fault


_R, _U, _P = FaultClass.RETRYABLE, FaultClass.UNKNOWN, FaultClass.PERMANENT
_NONE, _MAYBE = Evidence.NONE, Evidence.MAYBE
REFUSED_CONNECTION = _fault(_R, _NONE, "connect_refused")
RESET = _fault(_U, _MAYBE, "reset")
BAD_GATEWAY = _fault(_U, _MAYBE, "http_502", uncertain=True)
REFUSAL = _fault(_P, _NONE, "http_422")
NO_FUNDS = _fault(_P, _NONE, "http_402")
UNAUTHORIZED = _fault(_P, _NONE, "http_401", refresh=True)
THROTTLED = _fault(_R, _NONE, "http_429", throttled=True, retry_after=1.0)
IN_PROGRESS = _fault(_R, _MAYBE, "http_409_in_progress", in_progress=True, retry_after=1.0)
FORBIDDEN = _fault(_P, _NONE, "http_403", gate=True)
FENCED = _fault(_P, _NONE, "http_409_fenced")


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool.

    ``service``: ``plain``, ``store`` (de-duplicates on our key), ``read``, ``nested`` (calls others), or ``rows`` (in
    the journal's own transaction).
    """

    name: str
    policy: Policy
    service: str = "plain"
    identity: bool = False
    """Identity is declared: ``who`` alone; ``what`` is content."""
    business: bool = False
    """The key is ``who``."""
    threaded: bool = False
    """A sync function in a thread: its caller can leave it, and it may send after that."""
    untold: str = "tell"
    while_unknown: str = "identity"
    approve: float = 0.0
    """A person must give leave, and it ends after so many seconds; 0: none is needed."""
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)

    @property
    def terms(self) -> Terms:
        """What is kept with the record."""
        return self.policy.terms

    @property
    def safe(self) -> bool:
        """Whether a repeat does no harm whatever happens."""
        return self.terms.effect in (Effect.READ, Effect.IDEMPOTENT)


def _tool(name: str, effect: Effect = Effect.WRITE, **options: object) -> ToolSpec:
    policy = {k: options.pop(k) for k in list(options) if k in Policy.__slots__}
    policy.setdefault("timeout", 10.0)
    terms = {k: options.pop(k) for k in list(options) if k in Terms.__struct_fields__}
    probed = bool(policy.get("probe", False))
    declared = Terms(effect=effect, timeout=policy["timeout"], probed=probed, **terms)  # type: ignore[arg-type]  # names of Terms
    interruptible = not options.get("threaded", False)
    look: Classify = classify
    full = Policy(terms=declared, classify=look, interruptible=interruptible, **policy)  # type: ignore[arg-type]  # names of Policy
    return ToolSpec(name, full, **options)  # type: ignore[arg-type]  # the options are those of ToolSpec


_ALL = (
    _tool("look_up", Effect.READ, service="read"),
    _tool("set_status", Effect.IDEMPOTENT, lifetime=20.0),
    _tool("pay", Effect.DEDUPLICATED, service="store", remote_retention=90.0, remote_errors="stored", lifetime=20.0),
    _tool("refund", Effect.DEDUPLICATED, service="store", remote_retention=86_400.0, lifetime=20.0, identity=True),
    _tool("bundle", Effect.DEDUPLICATED, service="nested", remote_retention=86_400.0, timeout=8.0, threaded=True),
    _tool("ticket", probe=True, lifetime=20.0, while_unknown="any"),
    _tool("invite", probe=True, lifetime=20.0, identity=True),
    _tool("wire", probe=True, fence=True, lifetime=30.0, refresh=True),
    _tool("order", probe=True, lifetime=15.0, business=True, retention=120.0),
    _tool("print", probe=True, lifetime=10.0, threaded=True),
    _tool("legacy", probe=True, lifetime=10.0, attempt_lifetime=40.0, threaded=True),
    _tool("mail", identity=True, lifetime=20.0),
    _tool("post"),
    _tool("launch", probe=True, lifetime=20.0, untold="block"),
    _tool("note", declared=False, timeout=None, threaded=True),
    _tool("ping", Effect.IDEMPOTENT, retention=60.0),
    _tool("book", Effect.TRANSACTIONAL, service="rows", timeout=None, threaded=True),
    _tool("page", probe=True, lifetime=20.0, retention=60.0),
)
_UNDOABLE = (
    _tool("reserve", probe=True, lifetime=15.0, compensate="release"),
    _tool("lend", lifetime=20.0, compensate="reclaim"),
    _tool(
        "fund",
        Effect.DEDUPLICATED,
        service="store",
        probe=True,
        remote_retention=86_400.0,
        lifetime=20.0,
        compensate="unfund",
    ),
    _tool("engrave", probe=True, lifetime=10.0, irreversible=True),
    _tool("chat", lifetime=10.0, waived=True),
)
_UNDOABLE_BY_LEAVE = (_tool("pledge", probe=True, lifetime=15.0, compensate="release", approve=30.0),)
_UNDOING = (
    _tool("release", Effect.IDEMPOTENT, lifetime=15.0),
    _tool("reclaim", probe=True, lifetime=15.0),
    _tool("unfund", lifetime=20.0),
)
_APPROVED = (
    _tool("grant", probe=True, lifetime=15.0, approve=60.0),
    _tool("award", identity=True, lifetime=20.0, approve=25.0),
    _tool("permit", probe=True, lifetime=15.0, business=True, approve=40.0),
)
_CHAINED = (
    _tool("charge", probe=True, lifetime=15.0),
    _tool("debit", Effect.DEDUPLICATED, service="store", remote_retention=86_400.0, lifetime=20.0),
    _tool("bill", probe=True, lifetime=15.0, business=True),
    _tool("invoice", probe=True, lifetime=15.0),
    _tool("transfer", lifetime=20.0),
    _tool("seat", probe=True, lifetime=15.0, compensate="release"),
    _tool("cabin", lifetime=20.0, compensate="reclaim"),
    _tool("standby", probe=True, lifetime=15.0, compensate="reclaim"),
)
PERSON = "person"
CHAINS = {
    "charge": ("invoice", PERSON),
    "debit": ("transfer", "invoice"),
    "bill": ("transfer", PERSON),
    "seat": ("standby", PERSON),
    "cabin": ("seat",),
}
"""What is done in a tool's place where it did nothing, in order."""
CHAINED = tuple(tool.name for tool in _CHAINED)
APPROVED = tuple(tool.name for tool in _APPROVED)
"""What needs a person's leave."""
UNDOABLE = tuple(tool.name for tool in _UNDOABLE)
"""What runs that may be undone use; and the tools that undo them."""
UNDOING = tuple(tool.name for tool in _UNDOING)
UNDOABLE_BY_LEAVE = tuple(tool.name for tool in _UNDOABLE_BY_LEAVE)
"""What can be undone, and needs leave first."""
TOOLS = {tool.name: tool for tool in (*_ALL, *_UNDOABLE, *_UNDOING, *_APPROVED, *_CHAINED, *_UNDOABLE_BY_LEAVE)}


def fall_to(name: str) -> tuple[str, ...]:
    """Return all that may be called in a tool's place, and its own name if a person may be asked."""
    found: dict[str, None] = {}
    for step in CHAINS.get(name, ()):
        found |= dict.fromkeys((name,) if step == PERSON else (step, *fall_to(step)))
    return tuple(found)

"""Kinds of worlds: who works in them, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass

from settled.core.attempts.budget import RetryBudget
from settled.testing.simulation.plans import VARIATIONS
from settled.testing.simulation.tools import APPROVED, CHAINED, TOOLS, UNDOABLE, UNDOABLE_BY_LEAVE, UNDOING

SHORT_LIVED = ("ping", "page")
"""Their records expire within a world; a run that goes on after that has been told so and knows no more."""
_APART = (*SHORT_LIVED, *UNDOABLE, *UNDOABLE_BY_LEAVE, *UNDOING, *APPROVED, *CHAINED)
LASTING = tuple(name for name, tool in TOOLS.items() if name not in _APART and tool.service != "rows")


@dataclass(frozen=True, slots=True)
class Profile:
    """What kind of world it is. Rates are per step, times in seconds."""

    name: str = "plain"
    weather: str = "plain"
    tools: tuple[str, ...] = LASTING
    crash: float = 0.0
    pause: float = 0.0
    cancel: float = 0.0
    journal_faults: float = 0.0
    outages: int = 0
    jumps: int = 0
    reboots: int = 0
    spaces: tuple[str, ...] = ("host",)
    people: int = 0
    forced: float = 0.0
    """How often a person does not wait until it can be proved."""
    probe_time: float = 0.0
    """Seconds that a probe takes at the most, before it looks and after."""
    reconcilers: int = 1
    tenders: int = 0
    """Processes that settle what others leave, and nothing else: ``settled worker``."""
    errands: int = 2
    loners: int = 2
    business: str = "order"
    """What several may ask for at once, under a business key."""
    trips: int = 0
    """Runs that are undone when they fail."""
    steps: tuple[str, ...] = UNDOABLE
    """The tools that they use."""
    guests: int = 0
    """Agents that join each of them."""
    colleagues: int = 0
    """Programs and models that work on one run together."""
    inner: float = 0.0
    """How often a group of calls is made in a run of its own, inside of the trip's."""
    missing: float = 0.0
    """How often the process that rolls back does not know the tool that undoes a step."""
    workers: int = 2
    models: float = 0.5
    variations: tuple[str, ...] = VARIATIONS
    """How models that are sampled anew differ."""
    lease: float = 15.0
    pool: float = 10.0
    entries: int = 4
    deadlines: tuple[float | None, ...] = (None,)
    budgets: tuple[RetryBudget | None, ...] = (None,)
    ends: float = 400.0


_BUDGETS = (None, RetryBudget(total=3), RetryBudget(total=6, per_tool={"pay": 1}))
_NO_CLOCKED = tuple(name for name in LASTING if name not in ("legacy", "pay"))
"""Without the tools whose declared times a pause would break: what a process that hangs then does late is theirs."""
PROFILES = {
    profile.name: profile
    for profile in (
        Profile("calm", weather="calm"),
        Profile("plain"),
        Profile("storm", weather="storm", budgets=_BUDGETS, deadlines=(None, None, 3.0, 20.0), pool=2.0),
        Profile("hurried", weather="busy", budgets=_BUDGETS, deadlines=(1.5, 3.0, 20.0), pool=2.0, crash=0.003),
        Profile("crashes", crash=0.01, workers=3),
        Profile("pauses", crash=0.003, pause=0.01, tools=_NO_CLOCKED, workers=3),
        Profile("journal", journal_faults=0.05, outages=3, crash=0.002),
        Profile("cancelled", cancel=0.4, crash=0.003),
        Profile("clocks", jumps=4, crash=0.01, tools=_NO_CLOCKED),
        Profile("reboots", reboots=2, crash=0.005, tools=_NO_CLOCKED),
        Profile("containers", spaces=("host", "box"), crash=0.01, workers=3),
        Profile("people", people=2, crash=0.01, weather="storm"),
        Profile("nested", crash=0.006, pause=0.004, tools=("bundle", "set_status"), workers=3, reconcilers=2),
        Profile("haste", people=2, forced=0.5, crash=0.01, weather="storm"),
        Profile("slow", probe_time=20.0, crash=0.01, weather="storm", reconcilers=3),
        Profile("models", models=1.0, crash=0.015, errands=3),
        Profile("programs", models=0.0, crash=0.015, errands=3),
        Profile("crowd", errands=0, loners=6, crash=0.005, pause=0.003, workers=4, tools=_NO_CLOCKED),
        Profile("rows", tools=("book",), journal_faults=0.1, outages=2, crash=0.01, pause=0.003, cancel=0.1, workers=3),
        Profile(
            "chaos",
            weather="storm",
            crash=0.005,
            pause=0.003,
            cancel=0.1,
            journal_faults=0.02,
            outages=1,
            jumps=1,
            spaces=("host", "box"),
            people=1,
            tools=_NO_CLOCKED,
            budgets=_BUDGETS,
            deadlines=(None, None, 20.0),
            workers=3,
        ),
        Profile("approvals", tools=(*APPROVED, "ticket"), people=4, errands=3, loners=4, crash=0.004, entries=6),
        Profile(
            "fallbacks",
            weather="grim",
            tools=("charge", "debit", "charge", "invoice"),
            business="bill",
            people=3,
            errands=3,
            loners=5,
            crash=0.006,
            workers=3,
            reconcilers=2,
            entries=6,
        ),
        Profile(
            "fallbacks in a storm",
            weather="grim",
            tools=("charge", "debit", "charge", "invoice"),
            business="bill",
            people=2,
            errands=3,
            loners=4,
            crash=0.004,
            pause=0.003,
            cancel=0.1,
            journal_faults=0.03,
            outages=1,
            spaces=("host", "box"),
            workers=3,
            reconcilers=2,
            entries=6,
        ),
        Profile(
            "fallbacks undone",
            weather="grim",
            trips=4,
            steps=("seat", "cabin", "seat", "chat"),
            errands=0,
            loners=0,
            people=3,
            crash=0.006,
            pause=0.002,
            workers=3,
            reconcilers=2,
        ),
        Profile("sagas", trips=4, errands=0, loners=0, workers=3),
        Profile("undoing", trips=4, errands=0, loners=0, crash=0.012, workers=3, reconcilers=2, missing=0.1),
        Profile(
            "undoing in a storm",
            weather="storm",
            trips=3,
            errands=0,
            loners=0,
            crash=0.004,
            pause=0.004,
            journal_faults=0.03,
            outages=1,
            spaces=("host", "box"),
            people=1,
            workers=3,
            reconcilers=2,
        ),
        Profile("joins", trips=3, guests=2, errands=0, loners=0, crash=0.004, workers=4, jumps=1),
        Profile(
            "colleagues who need leave",
            colleagues=3,
            errands=0,
            loners=0,
            tools=(*APPROVED, "ticket"),
            people=4,
            crash=0.004,
            workers=4,
            entries=6,
        ),
        Profile("colleagues", colleagues=4, errands=0, loners=1, crash=0.01, workers=4, models=0.8, entries=6),
        Profile(
            "colleagues in a storm",
            weather="storm",
            colleagues=3,
            errands=0,
            loners=1,
            crash=0.005,
            pause=0.004,
            journal_faults=0.02,
            people=1,
            tools=_NO_CLOCKED,
            workers=4,
            models=0.8,
            entries=6,
        ),
        Profile(
            "children", trips=3, inner=0.5, errands=0, loners=0, crash=0.004, pause=0.002, workers=3, reconcilers=2
        ),
        Profile(
            "joins in a storm",
            weather="storm",
            trips=2,
            guests=2,
            inner=0.3,
            errands=0,
            loners=0,
            crash=0.004,
            pause=0.004,
            journal_faults=0.02,
            outages=1,
            spaces=("host", "box"),
            people=1,
            workers=4,
            tenders=2,
            reconcilers=1,
        ),
        Profile(
            "undoing what waits for leave",
            trips=3,
            steps=(*UNDOABLE_BY_LEAVE, *UNDOABLE_BY_LEAVE, *UNDOABLE),
            guests=1,
            inner=0.3,
            errands=0,
            loners=0,
            people=4,
            crash=0.004,
            journal_faults=0.01,
            workers=4,
            entries=6,
        ),
    )
}

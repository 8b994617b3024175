"""What programs and models mean to do, and how a model that is sampled anew says it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from settled.testing.simulation.tools import TOOLS, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from settled.testing.simulation.world import Intention

TENANT = "t"
VARIATIONS = ("same", "resume", "resample", "content", "identity", "order", "more", "fewer", "group")


@dataclass(eq=False, slots=True)
class Intent:
    """Something meant to be done once."""

    tool: ToolSpec
    who: str
    what: str

    @property
    def intention(self) -> Intention:
        """What is counted: two intents of one intention are meant to have two effects."""
        return (self.tool.name, self.who, self.what)


@dataclass(frozen=True, slots=True)
class Words:
    """An intent as it is put into words."""

    who: str
    what: str


Plan = list[Intent]
Message = list[Intent]


def make_plan(dice: Random, names: Sequence[str], size: int, mark: str) -> Plan:
    """Draw a plan; some intents are identical on purpose, some share an identity."""
    plan: Plan = []
    for i in range(size):
        twin = dice.choice(plan) if plan and dice.random() < 0.25 else None
        if twin is not None and not twin.tool.business and dice.random() < 0.6:
            plan.append(Intent(twin.tool, twin.who, twin.what))
        elif twin is not None and twin.tool.identity:
            plan.append(Intent(twin.tool, twin.who, f"w{mark}.{i}"))
        else:
            plan.append(Intent(TOOLS[dice.choice(names)], f"p{mark}.{i}", f"w{mark}.{i}"))
    return plan


def grouped(dice: Random, plan: Plan, *, single: bool = False) -> list[Message]:
    """Spread a plan over messages."""
    left, messages = list(plan), []
    while left:
        size = 1 if single else dice.choices((1, 2, 3), (6, 3, 1))[0]
        messages.append(left[:size])
        left = left[size:]
    return messages


def in_words(dice: Random, intent: Intent, variation: str) -> Words:
    """Say an intent, perhaps otherwise than the last time."""
    who, what = intent.who, intent.what
    if variation == "content" and dice.random() < 0.6 and not intent.tool.business:
        what += f"~{dice.randrange(99)}"
    if variation == "identity" and dice.random() < 0.6 and not intent.tool.business:
        who += f"~{dice.randrange(99)}"
    return Words(who, what)


def planned_anew(
    dice: Random, plan: Plan, names: Sequence[str], variation: str, mark: str
) -> tuple[Plan, list[Message]]:
    """Return what a model that is sampled anew means to do, and in which messages."""
    new = list(plan)
    if variation == "order":
        dice.shuffle(new)
    if variation == "more":
        new[dice.randrange(len(new) + 1) : 0] = make_plan(dice, names, 1, mark)
    if variation == "fewer" and len(new) > 1:
        new.pop(dice.randrange(len(new)))
    return new, grouped(dice, new)

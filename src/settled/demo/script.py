"""What the agents are to do: a seeded plan, and a model that, started anew, says it with new ids and in other words."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from settled.demo.books import CUSTOMERS

if TYPE_CHECKING:
    from collections.abc import Mapping

RUN_SIZE = 12
"""Calls of one run."""
MESSAGE_SIZES = (1, 1, 1, 2, 3, 4)
IDENTICAL = 0.08
"""Share of calls that repeat an earlier one of the run, word for word and on purpose."""
REWORDED, SHUFFLED, SWAPPED = 0.35, 0.3, 0.2
"""How often a model that starts over rewords a call, shuffles a message, swaps two messages."""

TOOLS: dict[str, float] = {
    "place_order": 0.22,
    "pay_invoice": 0.09,
    "issue_refund": 0.17,
    "open_ticket": 0.13,
    "send_message": 0.11,
    "post_note": 0.04,
    "set_address": 0.08,
    "get_customer": 0.16,
}
ONCE_ONLY = frozenset({"pay_invoice", "set_address"})
"""A second one would be the same action by its very meaning."""
FREE_TEXT: dict[str, tuple[str, ...]] = {
    "place_order": ("note",),
    "pay_invoice": ("memo",),
    "issue_refund": ("reason",),
    "open_ticket": ("title", "body"),
    "send_message": ("body",),
    "post_note": ("text",),
    "set_address": ("address",),
}
_PHRASES = (
    "As agreed:",
    "Hello, this is about",
    "Following up on",
    "For the record:",
    "Please see",
    "Regarding",
    "Re:",
)


@dataclass(frozen=True, slots=True)
class Wish:
    """One call that the model means to make once. Identical wishes that are meant twice share their mark."""

    mark: str
    tool: str
    arguments: Mapping[str, Any]

    @property
    def effect(self) -> bool:
        """Whether the shop's books should show it."""
        return self.tool != "get_customer"


Message = tuple[Wish, ...]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One task of the agent: messages of the model, each with calls that are made side by side."""

    run_id: str
    messages: tuple[Message, ...]

    @property
    def wishes(self) -> list[Wish]:
        """All calls of the run."""
        return [wish for message in self.messages for wish in message]


def make_plan(seed: int, calls: int) -> list[RunPlan]:
    """Return the runs of a plan with this many calls."""
    dice = random.Random(f"{seed}/plan")  # noqa: S311 - a plan that can be repeated, no secret
    sizes = [min(RUN_SIZE, calls - done) for done in range(0, calls, RUN_SIZE)]
    numbers = iter(range(1, calls + 1))
    return [_make_run(f"task-{place + 1}", size, numbers, dice) for place, size in enumerate(sizes)]


def _make_run(run_id: str, size: int, numbers: Any, dice: random.Random) -> RunPlan:
    wishes: list[Wish] = []
    while len(wishes) < size:
        twice = [wish for wish in wishes if wish.tool not in ONCE_ONLY]
        again = bool(twice) and dice.random() < IDENTICAL
        wishes.append(dice.choice(twice) if again else _make_wish(next(numbers), dice))
    messages: list[Message] = []
    while wishes:
        count = dice.choice(MESSAGE_SIZES)
        messages.append(tuple(wishes[:count]))
        wishes = wishes[count:]
    return RunPlan(run_id, tuple(messages))


def _make_wish(number: int, dice: random.Random) -> Wish:
    tool = dice.choices(list(TOOLS), list(TOOLS.values()))[0]
    customer = f"C{dice.randrange(CUSTOMERS):03}"
    facts: dict[str, dict[str, Any]] = {
        "place_order": {"customer": customer, "sku": f"SKU-{number}", "quantity": dice.randint(1, 5)},
        "pay_invoice": {"invoice": f"INV-{number}", "amount": dice.randint(10, 900)},
        "issue_refund": {"order": f"ORD-{number}", "amount": dice.randint(5, 200)},
        "open_ticket": {},
        "send_message": {"to": f"{customer.lower()}@example.com", "subject": f"Your case {number}"},
        "post_note": {"channel": dice.choice(("support", "billing"))},
        "set_address": {"customer": customer},
        "get_customer": {"customer": customer},
    }
    bare = Wish(f"M{number:04}", tool, facts[tool])
    return reworded(bare, dice)


def reworded(wish: Wish, dice: random.Random) -> Wish:
    """Return the same wish in other words: what is meant stays, the free text is written anew."""
    texts = {
        name: f"{dice.choice(_PHRASES)} case [{wish.mark}]{'.' * dice.randrange(4)}"
        for name in FREE_TEXT.get(wish.tool, ())
    }
    return replace(wish, arguments={**wish.arguments, **texts})


@dataclass(frozen=True, slots=True)
class Said:
    """A message as the model says it, under an id of its own."""

    message_id: str
    number: int
    """Its place in the plan."""
    wishes: Message


def speak(plan: RunPlan, seed: int, entry: int, *, but: frozenset[int] = frozenset()) -> list[Said]:
    """Return what the model says when it works on a run for the ``entry``-th time (from 1).

    ``but``: numbers of the messages that its history holds already, which it does not say again.
    """
    dice = random.Random(f"{seed}/{plan.run_id}/{entry}")  # noqa: S311 - as above
    messages = list(enumerate(plan.messages)) if entry == 1 else _anew(list(enumerate(plan.messages)), dice)
    said = [Said(f"msg_{dice.getrandbits(48):012x}", number, message) for number, message in messages]
    return [each for each in said if each.number not in but]


def _anew(messages: list[tuple[int, Message]], dice: random.Random) -> list[tuple[int, Message]]:
    for place in range(len(messages) - 1):
        if dice.random() < SWAPPED:
            messages[place], messages[place + 1] = messages[place + 1], messages[place]
    return [(number, _say_anew(message, dice)) for number, message in messages]


def _say_anew(message: Message, dice: random.Random) -> Message:
    wishes = [reworded(wish, dice) if dice.random() < REWORDED else wish for wish in message]
    if dice.random() < SHUFFLED:
        dice.shuffle(wishes)
    return tuple(wishes)

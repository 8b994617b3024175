"""Chains of what is done instead: never a later step's effect while an earlier one had its effect, or may have had it.

Each tool writes down that it was asked, and that it refuses: that is proof. So is a probe that saw nothing, after the
last request. Anything else leaves a step in doubt, and nothing later may be asked for then.
"""

from __future__ import annotations

from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import settled
from settled.testing.kill.aftermath import dead
from settled.testing.kill.ledger import Effect
from settled.testing.kill.script import Script, asked, by_order
from settled.testing.kill.service import Action, either

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.testing.kill.script import Flow
    from settled.testing.kill.stage import Stage

CHAINS = {"card": ("card", "invoice", "cash"), "transfer": ("transfer", "invoice", "cash")}
"""The first of ``card`` and the last of both cannot be looked up."""
PROBED = ("transfer", "invoice")
PAYMENTS = {
    "plain": {},
    "declined": {"card": "declined", "transfer": "declined"},
    "twice": {"card": "declined", "transfer": "declined", "invoice": "declined"},
    "lost": {"card": "lost", "transfer": "lost"},
    "dropped": {"card": "dropped", "transfer": "dropped"},
    "then lost": {"card": "declined", "transfer": "declined", "invoice": "lost"},
    "never": dict.fromkeys(("card", "transfer", "invoice", "cash"), "closed"),
}
"""Order -> what each tool does about it: it refuses the first time it is asked and would not again (declined), or each
time (closed); or no answer comes, the first time, after the effect (lost) or before it (dropped)."""
SKIPPED = "at the desk"


# --- what a process does --------------------------------------------------------------------------


def declare(stage: Stage, *, keyed: bool = False) -> None:
    """Declare the tools of both chains; ``keyed``: their first tools know a call by its order, in a run or not."""
    for name in ("cash", "invoice", "card", "transfer"):
        more: dict[str, Any] = {}
        if name in PROBED:
            more |= {"probe": _finding(stage, name), "max_request_lifetime": 0.02, "max_attempt_lifetime": 600.0}
        if name in CHAINS:
            more["fallback"] = [*CHAINS[name][1:], settled.Skip(SKIPPED)]
            more |= {"key": "{order}"} if keyed else {}
        function = either(_paying(stage, name), is_async=stage.plan.is_async)
        guard = stage.guard
        guard.tool(name=name, effect="write", identity=("order",), breaker=None, **more)(function)


def _paying(stage: Stage, name: str) -> Any:
    def pay(order: str) -> str:
        first = not any(effect.tool == f"{name} asked" for effect in stage.ledger.of(order))
        trouble = PAYMENTS[order.partition(":")[2]].get(name, "")
        _note(stage, f"{name} asked", order)
        if trouble == "closed" or (trouble == "declined" and first):
            _note(stage, f"{name} refused", order)
            raise settled.NotExecuted(trouble)
        if trouble == "dropped" and first:
            raise TimeoutError("the request was dropped")
        value = stage.service.happen(Effect(name, order, settled.current_call().key, f"{order}-{token_hex(4)}"))
        if trouble == "lost" and first:
            raise TimeoutError("the answer was lost")
        return value

    return pay


def _finding(stage: Stage, name: str) -> Any:
    def find(call: settled.Call) -> settled.Happened | settled.NotHappened:
        order = call.arguments["order"]
        found = next((effect for effect in stage.ledger.of(order) if effect.tool == name), None)
        if found is None:
            _note(stage, f"{name} absent", order)
        return settled.NotHappened() if found is None else settled.Happened(found.value)

    return find


def _note(stage: Stage, what: str, order: str) -> None:
    stage.ledger.write(Effect(what, order, "", stage.plan.name))


def paying(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask for each payment."""
    for action in actions:
        yield from asked(stage, action)


# --- the judge ------------------------------------------------------------------------------------


def end(stage: Stage) -> list[str]:
    """Say what is wrong with payments that were made as far as they could be."""
    problems = []
    for action in ACTIONS:
        books = [effect.tool for effect in stage.ledger.of(action.order)]
        chain = CHAINS[action.tool]
        problems += [f"{action.order}: {what}" for what in (*_once(books, chain), *_in_turn(books, chain))]
        problems += [f"{action.order}: {what}" for what in _as_told(stage, action, books)]
    return problems


def _once(books: Sequence[str], chain: Sequence[str]) -> list[str]:
    done = [what for what in books if what in chain]
    return [f"done {len(done)} times: {done}"] if len(done) > 1 else []


def _in_turn(books: Sequence[str], chain: Sequence[str]) -> list[str]:
    """Whether each tool was asked only while all before it were proved to have done nothing."""
    problems = []
    for place, what in enumerate(books):
        step = chain.index(what.removesuffix(" asked")) if what.endswith(" asked") else 0
        for name in chain[:step]:
            before = [each for each in books[:place] if each.partition(" ")[0] == name]
            if before[-1:] not in ([f"{name} refused"], [f"{name} absent"]):
                problems.append(f"{chain[step]} was asked while {name} stood at {before[-1:]}")
        if what.endswith(" asked") and any(f"{name} asked" in books[:place] for name in chain[step + 1 :]):
            problems.append(f"{chain[step]} was asked after it had been given up")
    return problems


def _as_told(stage: Stage, action: Action, books: Sequence[str]) -> list[str]:
    chain, (_, _, payment) = CHAINS[action.tool], action.order.partition(":")
    told = [each for each in stage.everything_told() if each.order == action.order]
    last = [each.status for each in stage.told_by("later") if each.order == action.order][-1:]
    done, said = [what for what in books if what in chain], {each.status for each in told}
    values = {effect.value for effect in stage.ledger.of(action.order) if effect.tool in chain}
    blind = {name for name in chain if name not in PROBED}
    doubtful = payment in ("lost", "dropped") and action.tool in blind
    found = [
        ("succeeded" in said and not done, "told succeeded, and nothing was done"),
        (bool({"failed", "not_done"} & said) and bool(done), f"told {sorted(said)}, and {done} was done"),
        (any(each.value is not None and each.value not in values for each in told), "told a value of nothing done"),
        (last == ["unknown"] and not (doubtful or dead(stage.plan)), "needlessly unknown"),
        (last not in (["succeeded"], ["unknown"], ["failed"], ["not_done"]), f"left as {last}"),
        (last in (["failed"], ["not_done"]) and payment != "never", f"told {last}, and something was to be had"),
    ]
    return [what for wrong, what in found if wrong]


ACTIONS = tuple(Action(tool, f"{tool}:{payment}") for payment in PAYMENTS for tool in CHAINS)
SCRIPTS = {
    "fallback": Script(ACTIONS, paying, in_run=True, declare=declare, end=end, given=by_order),
    "keyed-fallback": Script(
        ACTIONS, paying, in_run=False, declare=partial(declare, keyed=True), end=end, given=by_order
    ),
}

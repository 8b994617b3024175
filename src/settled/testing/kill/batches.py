"""Batches done in part, and what must hold of each item: by the store's books, and what settled says of it in the end.

The store writes down what it is asked for before it does any of it. An item is asked for again only where the books
prove that it was not done: it was refused as busy, or a probe saw nothing of the whole request. So nothing that was
done, refused for good or left in doubt is ever asked for again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import settled
from settled.api.people.queue import waiting
from settled.testing.kill.aftermath import arguments_of, dead, not_undone, on_the_way, state_of_run
from settled.testing.kill.ledger import Effect, append
from settled.testing.kill.sagas import GivenUp
from settled.testing.kill.script import Script, asked
from settled.testing.kill.service import Action, either

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from settled.core.call import Call
    from settled.testing.kill.script import Flow
    from settled.testing.kill.stage import Stage

ITEMS = {"a": "", "b": "busy", "c": "silent", "d": "bad", "e": "", "f": "busy"}
"""Item -> what the store does with it: it is refused the first time (busy), or each time (bad), or done and left out of
the answer (silent)."""
REFUSALS = {"busy": 429, "bad": 400}
DOCS = [{"id": name} for name in ITEMS]


@dataclass(frozen=True, slots=True)
class Item:
    """What the books tell of one item, and what was said of it."""

    name: str
    stored: int
    removed: int
    unproved: bool
    """It was asked for again without a proof that it was not done, or though it was refused for good."""
    said: frozenset[str]
    """All that any process was ever told of it."""
    last: str
    """What the last one was told."""
    queued: bool
    cut_off: bool
    """A process that asked for it, or for its removal, died before it had the answer."""


# --- what a process does --------------------------------------------------------------------------


def declare(stage: Stage) -> None:
    """Declare what stores a batch, and what removes it."""
    store = Store(stage)
    quick = settled.Backoff(base=0.001)
    guard, is_async = stage.guard, stage.plan.is_async
    guard.tool(name="drop", effect="write", breaker=None)(either(store.drop, is_async=is_async))
    of_store: dict[str, Any] = {"partial": settled.partial.http_207, "item_key": "id", "retry": quick}
    blind: dict[str, Any] = {"name": "stow", "effect": "write", "compensate": "drop", "breaker": None}
    guard.tool(**blind, **of_store)(either(store.stow, is_async=is_async))
    probed: dict[str, Any] = {"probe": store.find, "max_request_lifetime": 0.02, "max_attempt_lifetime": 600.0}
    guard.tool(**{**blind, "name": "shelve"}, **of_store, **probed)(either(store.stow, is_async=is_async))


class Store:
    """Takes documents, each by itself, and answers for all at once."""

    def __init__(self, stage: Stage) -> None:
        self._service, self._ledger, self._name = stage.service, stage.ledger, stage.plan.name

    def stow(self, docs: list[dict[str, str]]) -> list[dict[str, Any]]:
        """Store what it can."""
        keys = settled.current_call().items
        asked = [(doc["id"], key) for doc, key in zip(docs, keys, strict=True)]
        busy = [name for name, _ in asked if ITEMS[name] == "busy" and not self._ledger.of(name)]
        self._arrived("asked", asked)
        rows = [self._one(name, key, busy) for name, key in asked]
        return [row for row in rows if ITEMS[row["id"]] != "silent"]

    def _arrived(self, what: str, names: Iterable[tuple[str, str]]) -> None:
        for name, key in names:
            self._ledger.write(Effect(what, name, key, self._name))

    def _one(self, name: str, key: str, busy: Sequence[str]) -> dict[str, Any]:
        if name in busy or ITEMS[name] == "bad":
            self._arrived("busy" if name in busy else "refused", [(name, key)])
            return {"id": name, "status": REFUSALS[ITEMS[name]]}
        self._service.happen(Effect("stow", name, key, f"{name}-{token_hex(4)}"))
        return {"id": name, "status": 201}

    def drop(self, docs: list[dict[str, str]]) -> None:
        """Remove what was stored."""
        names = [(doc["id"], settled.current_call().key) for doc in docs]
        self._arrived("asked to drop", names)
        for name, key in names:
            self._service.happen(Effect("drop", name, key, name))

    def find(self, call: settled.Call) -> settled.Happened | settled.NotHappened | settled.Inconclusive:
        """Look a batch, or one item of it, up in the books."""
        names = [doc["id"] for doc in call.arguments["docs"]]
        there = [any(effect.tool == "stow" for effect in self._ledger.of(name)) for name in names]
        if all(there):
            return settled.Happened([{"id": name, "status": 201} for name in names])
        if any(there):
            return settled.Inconclusive()
        self._arrived("absent", [(name, call.key) for name in names])
        return settled.NotHappened()


def storing(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask for the batch, and note what became of each item."""
    [action] = actions
    result = yield from asked(stage, action)
    append(stage.plan.home / f"{stage.plan.name}.items", json.dumps(_said(result)))
    stage.fuse.cross("noted the items")


def giving_up(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask for the batch, and give up: what of it was done is undone."""
    yield from storing(stage, actions)
    raise GivenUp("no room")


def _said(result: settled.Result[Any]) -> list[str]:
    as_a_whole = {"succeeded": "done", "partial": "unknown"}.get(result.status, result.status)
    return [item.status for item in result.items] or [as_a_whole] * len(ITEMS)


# --- the judge ------------------------------------------------------------------------------------


def see(stage: Stage) -> list[Item]:
    """Return how each item stands."""
    lines = {path.stem: path.read_text().splitlines() for path in stage.plan.home.glob("*.items")}
    said = [json.loads(line) for each in lines.values() for line in each]
    last = [json.loads(line) for line in lines.get("later", [])][-1:] or [["nothing"] * len(ITEMS)]
    away = dead(stage.plan)
    cut_off = {("asked", name) for name in away - set(lines)} | {("asked to drop", name) for name in away}
    queued, on_way = waiting(stage.journal), on_the_way(stage.plan)
    return [
        _item(stage.ledger.of(name), name, frozenset(each[n] for each in said), last[0][n], queued, cut_off, on_way)
        for n, name in enumerate(ITEMS)
    ]


def _item(  # noqa: PLR0917 - the books, whose item, what was said, and who died
    books: Sequence[Effect],
    name: str,
    said: frozenset[str],
    last: str,
    queued: Sequence[Call],
    cut_off: Collection[tuple[str, str]],
    on_way: bool,  # noqa: FBT001 - all of them go by place
) -> Item:
    tools = [effect.tool for effect in books]
    waits = any({"id": name} in arguments_of(call).get("docs", ()) for call in queued)
    lost = on_way or any((effect.tool, effect.value) in cut_off for effect in books)
    return Item(name, tools.count("stow"), tools.count("drop"), _unproved(tools), said, last, waits, lost)


def _unproved(books: Sequence[str]) -> bool:
    """Whether an item was asked for while nothing proved that it may be."""
    may_ask = True
    for what in books:
        if what == "asked" and not may_ask:
            return True
        may_ask = what in ("busy", "absent") if what in ("asked", "stow", "refused", "busy", "absent") else may_ask
    return False


def end(stage: Stage) -> list[str]:
    """Say what is wrong with a batch that was done as far as it could be."""
    return [f"item {item.name}: {what}" for item in see(stage) for what in [*_always(item), *_kept(item)]]


def end_undone(stage: Stage) -> list[str]:
    """Say what is wrong with a batch whose run was undone."""
    state, items = state_of_run(stage), see(stage)
    problems = [f"item {item.name}: {what}" for item in items for what in [*_always(item), *_undone(item, state)]]
    return problems + not_undone(state)


def _always(item: Item) -> list[str]:
    silent = ITEMS[item.name] == "silent"
    found = [
        (item.stored > 1, f"stored {item.stored} times"),
        (item.unproved, "asked for again without a proof that it may be"),
        (item.removed > item.stored, f"removed {item.removed} times, stored {item.stored}"),
        ("done" in item.said and not item.stored, "said to be done, and it is not stored"),
        ("failed" in item.said and item.stored > 0, "said to have failed, and it is stored"),
        (not item.queued and item.last == "unknown" and not item.removed, "unknown, and not in the queue"),
        (item.queued and not (item.cut_off or silent), "in the queue without a doubt"),
    ]
    return [what for wrong, what in found if wrong]


def _kept(item: Item) -> list[str]:
    """Of a run that is not undone: each item is done, has failed for good, or is in doubt."""
    found = [
        (item.removed > 0, "removed, and nobody gave up"),
        (item.last not in ("done", "failed", "unknown"), f"left as {item.last}"),
        (item.last == "failed" and ITEMS[item.name] != "bad", "failed, and the store would have taken it"),
        (item.last == "done" and ITEMS[item.name] == "bad", "done, and the store never takes it"),
    ]
    return [what for wrong, what in found if wrong]


def _undone(item: Item, state: str) -> list[str]:
    """Of a run that was undone: what was done is removed or in the queue, and nothing else is touched."""
    left = item.stored > item.removed
    found = [
        (left and not item.queued, "neither removed nor in the queue"),
        (left and state == "compensated", "not removed, and the run is on record as undone"),
    ]
    return [what for wrong, what in found if wrong]


def _docs(stage: Stage, action: Action) -> dict[str, Any]:
    del stage, action
    return {"docs": DOCS}


def _script(tool: str, flow: Any, end: Any) -> Script:
    return Script((Action(tool, "batch"),), flow, in_run=True, saga=True, declare=declare, end=end, given=_docs)


SCRIPTS = {
    "batch": _script("stow", storing, end),
    "probed batch": _script("shelve", storing, end),
    "undone batch": _script("stow", giving_up, end_undone),
    "undone probed batch": _script("shelve", giving_up, end_undone),
}

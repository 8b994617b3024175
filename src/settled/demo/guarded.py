"""The agent with settled: tools are declared, and the loop passes on what the model asks for."""

from __future__ import annotations

import asyncio
import json
import random
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import settled
from settled.core.encoding import codec
from settled.core.runs.entering import scope_of_run
from settled.core.states import State
from settled.demo.agent import Orders, Report, Reporter, die_with_parent, journal_of, lines, work
from settled.demo.books import mark_in
from settled.demo.model import Model
from settled.demo.script import speak
from settled.demo.shop import BUSY, KEY_RETENTION, LIFETIME, UPSTREAM_TIMEOUT, Shop, error_inside
from settled.ports import CallQuery

if TYPE_CHECKING:
    from settled.core.call import Call as Recorded
    from settled.demo.model import Call, Turn
    from settled.demo.script import RunPlan

LEASE = 1.5
"""Seconds until a killed agent's calls are taken over."""
SHORT_BREAK = settled.BreakerPolicy(cooldown=0.5, longest_cooldown=1.0)
"""The demo's shop fails more often than any shop should: it is left alone for a moment only."""
OPEN = (State.UNKNOWN, State.PROCESSING)
Answer = dict[str, Any]


def read_error_inside(answer: object) -> settled.Fault | None:
    """Say what the shop's error codes inside of a 200 mean, as its documents do."""
    faults = {
        BUSY: settled.Fault(settled.FaultClass.RETRYABLE, settled.Evidence.NONE, BUSY),
        UPSTREAM_TIMEOUT: settled.Fault(settled.FaultClass.UNKNOWN, settled.Evidence.MAYBE, UPSTREAM_TIMEOUT),
    }
    return faults.get(error_inside(answer))


def declare_tools(guard: settled.Guard, shop: Shop) -> None:
    """Declare the shop's routes as tools, by what the shop promises of each."""
    common: dict[str, Any] = {"classify": read_error_inside, "timeout": 5.0, "breaker": SHORT_BREAK}
    keyed = common | {"effect": "deduplicated", "remote_retention": KEY_RETENTION, "max_request_lifetime": LIFETIME}

    def probe(path: str) -> Any:
        async def look_up(call: settled.Call) -> settled.Happened | settled.NotHappened:
            answer = await shop.send("GET", f"{path}?reference={call.key}")
            found = answer["found"]
            return settled.Happened({"ok": True, "id": found[0]}) if found else settled.NotHappened()

        return look_up

    def probed(path: str) -> dict[str, Any]:
        return common | {"effect": "write", "probe": probe(path), "max_request_lifetime": LIFETIME}

    async def post(path: str, **body: Any) -> Answer:
        call = settled.current_call()
        return await shop.send("POST", path, body, headers=call.headers, label=call.operation_id)

    async def post_with_reference(path: str, **body: Any) -> Answer:
        return await post(path, **body, reference=settled.current_call().key)

    @guard.tool(identity=("customer", "sku", "quantity"), **keyed)
    async def place_order(customer: str, sku: str, quantity: int, note: str) -> Answer:
        return await post("/orders", customer=customer, sku=sku, quantity=quantity, note=note)

    @guard.tool(key="invoice:{invoice}", identity=("invoice", "amount"), **keyed)
    async def pay_invoice(invoice: str, amount: int, memo: str) -> Answer:
        return await post("/payments", invoice=invoice, amount=amount, memo=memo)

    @guard.tool(identity=("order", "amount"), **probed("/refunds"))
    async def issue_refund(order: str, amount: int, reason: str) -> Answer:
        return await post_with_reference("/refunds", order=order, amount=amount, reason=reason)

    @guard.tool(**probed("/tickets"))
    async def open_ticket(title: str, body: str) -> Answer:
        return await post_with_reference("/tickets", title=title, body=body)

    @guard.tool(effect="write", identity=("to", "subject"), **common)
    async def send_message(to: str, subject: str, body: str) -> Answer:
        return await post("/messages", to=to, subject=subject, body=body)

    @guard.tool(effect="write", **common)
    async def post_note(channel: str, text: str) -> Answer:
        return await post("/notes", channel=channel, text=text)

    @guard.tool(effect="idempotent", **common)
    async def set_address(customer: str, address: str) -> Answer:
        label = settled.current_call().operation_id
        return await shop.send("PUT", f"/customers/{customer}", {"address": address}, label=label)

    @guard.tool(effect="read", **common)
    async def get_customer(customer: str) -> Answer:
        return await shop.send("GET", f"/customers/{customer}", label=settled.current_call().operation_id)


def text_of(result: settled.Result[Any]) -> str:
    """Return what the model is given: a result's own text, and the call's id always, by which it tells twins apart."""
    return json.dumps(json.loads(result.for_model()) | {"operation_id": result.operation_id})


class Agent:
    """The loop between model and tools."""

    def __init__(self, orders: Orders, guard: settled.Guard, shop: Shop, reporter: Reporter) -> None:
        self._orders, self._guard, self._shop, self._reporter = orders, guard, shop, reporter

    async def work_on(self, plan: RunPlan) -> None:
        """Work on one run from the top; what earlier entries did is answered from the journal."""
        if plan.run_id in self._reporter.finished:
            return
        await self._converse(plan)
        self._reporter.finish(plan.run_id)

    async def settle(self, plan: RunPlan) -> None:
        """Work on a run once more if something in it was left open: so each open call is asked for again.

        Also if it was killed while it did so: then its last account of the run is not whole.
        """
        own = [line for line in lines(self._orders.folder / "reports.jsonl") if line["run_id"] == plan.run_id]
        latest = max((line["entry"] for line in own), default=0)
        account = [line["said"] for line in own if line["entry"] == latest]
        if len(account) < len(plan.wishes) or set(account) != {"done"}:
            await self._converse(plan)

    async def _converse(self, plan: RunPlan) -> None:
        orders = self._orders
        dice = random.Random(f"{orders.seed}/{plan.run_id}/{orders.entry}/again")  # noqa: S311 - a script, no secret
        model = Model(speak(plan, orders.seed, orders.entry), dice)
        reported: set[int] = set()
        async with self._guard.run(plan.run_id) as run:
            while turn := model.speak():
                await asyncio.sleep(turn.pause)
                added = await self._make(run, model, turn)
                for place, call in enumerate(model.calls):
                    if call.said is not None and place not in reported:
                        reported.add(place)
                        self._reporter.report(_report_of(plan.run_id, orders.entry, call, added))

    async def _make(self, run: settled.Run, model: Model, turn: Turn) -> float | None:
        """Make a message's calls side by side; return the seconds that settled added to a plain call."""
        bound = [
            self._guard.bind(call.wish.tool, call.text, step=f"{turn.message_id}/{place}")
            for place, call in enumerate(turn.calls)
        ]
        began = time.monotonic()
        made = iter(await run.gather(*(call for call in bound if isinstance(call, settled.BoundCall))))
        results = [next(made) if isinstance(call, settled.BoundCall) else call for call in bound]
        took = time.monotonic() - began
        model.hear(turn, [text_of(result) for result in results])
        only = results[0]
        plain = len(results) == 1 and only.ok and only.attempts == 1 and not only.replayed
        return took - self._shop.took[only.operation_id] if plain else None


def _report_of(run_id: str, entry: int, call: Call, added: float | None) -> Report:
    return Report(
        run_id,
        entry,
        call.wish.mark,
        call.wish.tool,
        call.said or "unknown",
        call.answer,
        call.why,
        call.operation_id,
        added,
    )


async def ask_again(guard: settled.Guard, plan: RunPlan) -> None:
    """Ask for each call of a run that is still open, in the words under which it is on record.

    A model that has put it in other words since never comes back to it.
    """
    open_calls = guard.journal.find(CallQuery(states=OPEN, scope=scope_of_run(guard.tenant, plan.run_id), limit=1000))
    if open_calls:
        async with guard.run(plan.run_id):
            for call in open_calls:
                await guard.adispatch(call.tool, arguments_of(guard, call), step=call.step)


def arguments_of(guard: settled.Guard, call: Recorded) -> dict[str, Any]:
    """Return a call's arguments as they are on record."""
    arguments: dict[str, Any] = codec.loads(guard.vault.unlock(call.arguments))
    return arguments


def facts_of(guard: settled.Guard) -> dict[str, Any]:
    """Return what the journal knows in the end: how many calls a probe helped, and the attempts behind each doubt."""
    calls = guard.journal.find(CallQuery(limit=100_000))
    probed = [call for call in calls if any(row.detail == "probe" for row in guard.journal.log(call.operation_id))]
    left = [call for call in calls if call.state in OPEN]
    return {"recorded": len(calls), "by_probe": len(probed), "left": [_doubt_of(guard, call) for call in left]}


def _doubt_of(guard: settled.Guard, call: Recorded) -> dict[str, Any]:
    attempts = [
        {
            "begun": a.begun.wall,
            "ended": a.ended.wall if a.ended else None,
            "pid": a.owner.pid,
            "fault": a.fault.code if a.fault else "",
        }
        for a in call.doubtful
    ]
    return {
        "operation_id": call.operation_id,
        "tool": call.tool,
        "effect": call.terms.effect.value,
        "probed": call.terms.probed,
        "mark": mark_in(json.dumps(arguments_of(guard, call))),
        "attempts": attempts,
    }


async def main(orders: Orders) -> None:
    """Work, or settle, as ordered."""
    shop = Shop(orders.url)
    async with settled.Guard(journal_of(orders.folder), lease=LEASE) as guard:
        declare_tools(guard, shop)
        agent = Agent(orders, guard, shop, Reporter(orders.folder))
        if not orders.settle:
            await work(orders.plan(), agent.work_on)
        else:
            await guard.areconcile()
            await work(orders.plan(), agent.settle)
            await work(orders.plan(), partial(ask_again, guard))
            (orders.folder / "facts.json").write_text(json.dumps(facts_of(guard)))
    await shop.close()


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(main(Orders.read()))

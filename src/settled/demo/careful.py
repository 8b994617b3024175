"""The same agent as a careful engineer writes it today.

Every transient error is retried with jittered exponential backoff, ``Retry-After`` is respected, the body of a 200 is
looked into, an ``Idempotency-Key`` is sent where the API honours one. A checkpoint file, synced to disk, holds what
the model has said and each finished call: a restarted agent goes on from there, and only the rest is said anew.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

import httpx
import tenacity

from settled.demo.agent import Lines, Orders, Report, Reporter, die_with_parent, lines, work
from settled.demo.script import Said, Wish, speak
from settled.demo.shop import BUSY, Shop, error_inside

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from settled.demo.script import RunPlan

ATTEMPTS = 4
RETRIED_STATUSES = frozenset({409, 429, 500, 502, 503, 504})
"""409: the first request with this key is still at work."""
PATHS = {
    "place_order": "/orders",
    "pay_invoice": "/payments",
    "issue_refund": "/refunds",
    "open_ticket": "/tickets",
    "send_message": "/messages",
    "post_note": "/notes",
}
HONOUR_KEYS = frozenset({"place_order", "pay_invoice"})
_backoff = tenacity.wait_random_exponential(multiplier=0.1, max=2.0)


class Refused(Exception):  # noqa: N818 - it says what the shop did
    """The shop answered with an error in the body of a 200."""

    @property
    def transient(self) -> bool:
        """Whether the documents of the shop say that it may work later."""
        return str(self) == BUSY


def is_transient(error: BaseException) -> bool:
    """Tell whether a repeat may help."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in RETRIED_STATUSES
    return isinstance(error, httpx.TransportError) or (isinstance(error, Refused) and error.transient)


def wait(state: tenacity.RetryCallState) -> float:
    """Wait with jitter, and at least as long as the shop asks."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.response.headers.get("Retry-After") if isinstance(error, httpx.HTTPStatusError) else None
    return max(_backoff(state), float(asked or 0.0))


class Checkpoint:
    """A file with the model's messages, and the answer of each finished call by its place in the run."""

    def __init__(self, path: Path) -> None:
        self._answers: dict[str, Any] = {}
        self._said: defaultdict[str, list[Said]] = defaultdict(list)
        for line in lines(path):
            if "place" in line:
                self._answers[line["place"]] = line["answer"]
            else:
                wishes = tuple(Wish(**wish) for wish in line["wishes"])
                self._said[line["run_id"]].append(Said(line["message_id"], line["number"], wishes))
        self._file = Lines(path, sync=True)

    def history(self, run_id: str) -> list[Said]:
        """Return what the model has said in a run."""
        return list(self._said[run_id])

    def hear(self, run_id: str, said: Said) -> None:
        """Keep a message of the model, before it is acted on."""
        self._file.write({"run_id": run_id, **asdict(said)})

    def find(self, place: str) -> Any:
        """Return the answer of a call that was finished before, or ``None``."""
        return self._answers.get(place)

    def save(self, place: str, answer: Any) -> None:
        """Keep the answer of a finished call."""
        self._answers[place] = answer
        self._file.write({"place": place, "answer": answer})


class Agent:
    """The loop between model and tools."""

    def __init__(self, orders: Orders, shop: Shop, reporter: Reporter, checkpoint: Checkpoint) -> None:
        self._orders, self._shop, self._reporter, self._checkpoint = orders, shop, reporter, checkpoint

    async def work_on(self, plan: RunPlan) -> None:
        """Work on one run, going on from the checkpoint."""
        if plan.run_id in self._reporter.finished:
            return
        history = self._checkpoint.history(plan.run_id)
        for said in history:
            await self._make_all(plan.run_id, said)
        known = frozenset(said.number for said in history)
        for said in speak(plan, self._orders.seed, self._orders.entry, but=known):
            self._checkpoint.hear(plan.run_id, said)
            await self._make_all(plan.run_id, said)
        self._reporter.finish(plan.run_id)

    async def _make_all(self, run_id: str, said: Said) -> None:
        steps = (f"{said.message_id}/{place}" for place in range(len(said.wishes)))
        calls = (self._make(run_id, step, wish) for step, wish in zip(steps, said.wishes, strict=True))
        for report in await asyncio.gather(*calls):
            self._reporter.report(report)

    async def _make(self, run_id: str, step: str, wish: Wish) -> Report:
        """Make one call, unless the checkpoint has it; return what the user is told."""
        entry = self._orders.entry
        answer = self._checkpoint.find(step)
        if answer is not None:
            return Report(run_id, entry, wish.mark, wish.tool, "done", answer, "from the checkpoint")
        began = time.monotonic()
        try:
            answer, attempts = await self._retried(step, wish)
        except (httpx.HTTPError, Refused) as error:
            return Report(run_id, entry, wish.mark, wish.tool, "failed", None, f"{type(error).__name__}: {error}"[:120])
        self._checkpoint.save(step, answer)
        added = time.monotonic() - began - self._shop.took[step] if attempts == 1 else None
        return Report(run_id, entry, wish.mark, wish.tool, "done", answer, added=added)

    async def _retried(self, step: str, wish: Wish) -> tuple[Any, int]:
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(is_transient),
            wait=wait,
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            reraise=True,
        )
        answer: Any = await retrying(self._request, step, wish)
        return answer, int(retrying.statistics.get("attempt_number", 1))

    async def _request(self, step: str, wish: Wish) -> dict[str, Any]:
        arguments = wish.arguments
        if wish.tool == "get_customer":
            answer = await self._shop.send("GET", f"/customers/{arguments['customer']}", label=step)
        elif wish.tool == "set_address":
            path = f"/customers/{arguments['customer']}"
            answer = await self._shop.send("PUT", path, {"address": arguments["address"]}, label=step)
        else:
            key: Mapping[str, str] = (
                {"Idempotency-Key": str(uuid5(NAMESPACE_URL, step))} if wish.tool in HONOUR_KEYS else {}
            )
            answer = await self._shop.send("POST", PATHS[wish.tool], arguments, headers=key, label=step)
        code = error_inside(answer)
        if code:
            raise Refused(code)
        return answer


async def main(orders: Orders) -> None:
    """Work as ordered."""
    shop = Shop(orders.url)
    agent = Agent(orders, shop, Reporter(orders.folder), Checkpoint(orders.folder / "checkpoint.jsonl"))
    await work(orders.plan(), agent.work_on)
    await shop.close()


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(main(Orders.read()))

"""One life of an agent: it works on its tasks one by one until all are finished, or until it is killed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from bench.workloads import guarded
from bench.workloads.bare import Careful, OneTry
from bench.workloads.client import Tools
from bench.workloads.orders import Orders, Report, Reporter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from settled.testing.kill.plan import Plan


class Caller(Protocol):
    """How an agent makes its calls."""

    resumes: bool
    """Whether a task that was cut off is begun again."""

    def begin(self, task: str, entry: int) -> None:
        """Begin a task, for the ``entry``-th time."""

    def make(self, mark: int, tool: str, arguments: Mapping[str, Any]) -> Report:
        """Make the call at place ``mark``; return what the agent is told."""

    def end(self) -> None:
        """End the task."""


def caller_of(orders: Orders, tools: Tools, plan: Mapping[str, Any]) -> Caller:
    """Return the caller of a row."""
    if orders.row == "no-retry":
        return OneTry(tools)
    if orders.row == "careful":
        return Careful(tools, orders.folder / "checkpoint.jsonl")
    return guarded.Guarded(orders, tools, plan)


def live(plan: Plan) -> None:
    """Follow the orders in the plan's folder."""
    orders = Orders.read(plan.home)
    tools = Tools(orders.url)
    given = json.loads(orders.plan.read_text())
    if orders.settle:
        guarded.settle(orders, tools, given)
        return
    reporter = Reporter(orders.folder)
    caller = caller_of(orders, tools, given)
    for task in in_order(given["tasks"], reporter, resumes=caller.resumes):
        play(orders, tools, caller, reporter, task)
    tools.close()


def in_order(tasks: list[dict[str, Any]], reporter: Reporter, *, resumes: bool) -> list[dict[str, Any]]:
    """Return what is left to do: what was begun least often first."""
    left = [task for task in tasks if task["id"] not in reporter.finished]
    if not resumes:
        return [task for task in left if task["id"] not in reporter.begun]
    return sorted(left, key=lambda task: reporter.begun.count(task["id"]))


def play(orders: Orders, tools: Tools, caller: Caller, reporter: Reporter, task: Mapping[str, Any]) -> None:
    """Play one task from the top."""
    tools.run = orders.run(task["id"])
    caller.begin(task["id"], reporter.begin(task["id"]))
    for mark, call in enumerate(task["calls"]):
        tools.mark = mark
        reporter.report(caller.make(mark, call["tool"], call["arguments"]))
    caller.end()
    reporter.finish(task["id"])

"""What the durable benches measure: a tool that does nothing, and what makes n calls of it, with us or with peers."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

Run = Callable[[int], object]
"""Makes ``n`` calls."""


def pay(number: int) -> dict[str, int]:
    """The tool: it does nothing."""
    return {"number": number}


async def apay(number: int) -> dict[str, int]:
    """The same, async."""
    return {"number": number}


def one_by_one(tool: Callable[..., object]) -> Run:
    """Call a tool, one call after the other, each with another number."""
    numbers = itertools.count()

    def run(n: int) -> None:
        for _ in range(n):
            tool(number=next(numbers))

    return run


def in_threads(call: Callable[[], object], flying: int) -> Run:
    """Make calls from so many threads."""
    threads = ThreadPoolExecutor(flying)

    def some(n: int) -> None:
        for _ in range(n):
            call()

    return lambda n: list(threads.map(some, [n // flying] * flying))


def tool_in_threads(tool: Callable[..., object], flying: int) -> Run:
    """Call a tool from so many threads, each time with another number."""
    numbers = itertools.count()
    return in_threads(lambda: tool(number=next(numbers)), flying)


def in_tasks(tool: Callable[..., Any], flying: int) -> Run:
    """Await a tool in so many tasks, each time with another number."""
    loop, numbers = asyncio.new_event_loop(), itertools.count()

    async def some(n: int) -> None:
        for _ in range(n):
            await tool(number=next(numbers))

    async def work(n: int) -> None:
        await asyncio.gather(*(some(n // flying) for _ in range(flying)))

    return lambda n: loop.run_until_complete(work(n))


# ------------------------------------------------------------------------------------------------------------ the peers


def _dbos(url: str) -> Any:
    os.environ["DBOS__VMID"] = f"bench-{os.getpid()}"
    from dbos import DBOS

    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "CRITICAL", "run_admin_server": False})
    return DBOS


def dbos_steps(url: str) -> Run:
    """One workflow of n steps."""
    dbos = _dbos(url)
    step = dbos.step(name="pay")(pay)

    @dbos.workflow(name="many")
    def many(n: int) -> None:
        for i in range(n):
            step(i)

    dbos.launch()
    return many


def dbos_workflows(url: str, flying: int) -> Run:
    """N workflows of one step, from so many threads."""
    dbos = _dbos(url)
    step = dbos.step(name="pay")(pay)

    @dbos.workflow(name="one")
    def one() -> dict[str, int]:
        return step(1)

    dbos.launch()
    return in_threads(one, flying)


def _graph(saver: Any, most: int) -> tuple[Any, Callable[[], dict[str, Any]]]:
    """Return LangGraph's graph of one node that goes round, and what configures a thread of it."""
    from typing import TypedDict

    from langgraph.graph import END, START, StateGraph

    class Numbers(TypedDict):
        """What the graph carries."""

        number: int
        until: int

    def step(state: Numbers) -> dict[str, int]:
        return pay(state["number"] + 1)

    graph = StateGraph(Numbers)
    graph.add_node("pay", step)
    graph.add_edge(START, "pay")
    graph.add_conditional_edges("pay", lambda state: "pay" if state["number"] < state["until"] else END)
    saver.setup()
    threads = itertools.count()

    def config() -> dict[str, Any]:
        name = f"{os.getpid()}-{next(threads)}"
        return {"configurable": {"thread_id": name}, "recursion_limit": most + 10}

    return graph.compile(checkpointer=saver), config


def graph_steps(saver: Any) -> Run:
    """One graph that goes n times through its node."""
    compiled, config = _graph(saver, 10**9)
    return lambda n: compiled.invoke({"number": 0, "until": n}, config(), durability="sync")


def graphs(saver: Any, flying: int) -> Run:
    """N graphs of one node, from so many threads."""
    compiled, config = _graph(saver, 10)
    return in_threads(lambda: compiled.invoke({"number": 0, "until": 1}, config(), durability="sync"), flying)

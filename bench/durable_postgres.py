"""What a durable write costs on PostgreSQL beside others that keep records there: `python -m bench.durable_postgres`.

The server comes from a package, with fsync on, on a Unix socket. Beside settled: asyncpg doing the same two commits and
nothing else, DBOS (one step each), LangGraph's PostgresSaver with durability="sync" (one node each) and absurd (one
step each); in sequence and with so many in flight, in one process or several. The tool does nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import time
from typing import Any

from bench import durable, kit
from bench.postgres_cases import CROWD, SEQUENCE, SLOW
from bench.postgres_filled import database, filled

# --------------------------------------------------------------------------------------- one process for each, in turns


def serve(name: str, url: str, flying: int) -> None:
    """Make one case ready; for each number that comes in, make so many calls and tell what they took."""
    logging.disable()
    run = {**SEQUENCE, **CROWD}[name](url, flying)
    run(flying)
    print("ready", flush=True)
    for line in sys.stdin:
        began, cpu = time.perf_counter(), time.process_time()
        run(int(line))
        print(json.dumps([time.perf_counter() - began, time.process_time() - cpu]), flush=True)
    os._exit(0)  # peers leave threads behind


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
    made: list[Workers] = []
    found: durable.Found = {name: [] for name in names}
    try:
        for name in names:
            url = database(server, f"bench_{title[3]}_{names.index(name)}")
            made.append(Workers(name, url, flying, given.processes))
        for number in range(given.rounds):
            for workers in made if number % 2 == 0 else reversed(made):
                n = max(flying * given.processes, given.calls // 5) if workers.name in SLOW else given.calls
                found[workers.name].append(workers.measure(n))
    finally:
        for workers in made:
            workers.close()
    facts = {"calls": given.calls, "rounds": given.rounds, "in flight": flying, "processes": given.processes}
    return {**facts, "cases": durable.beside_peers(found)}


# --------------------------------------------------------------------------------------------- beside finished records

FULL = {"settled, sync": 1, "settled, threads": 0, "settled, tasks": 0}
"""The cases that are measured on an empty journal and on a full one; 0: with as many in flight as is asked for."""


def beside_records(server: Any, given: argparse.Namespace) -> dict[str, Any]:
    """Measure an empty journal and one with finished records, in turns."""
    full, size = filled(server, given.records)
    made: dict[str, Workers] = {}
    found: durable.Found = {}
    try:
        for number, (name, flying) in enumerate(FULL.items()):
            for url, title in ((database(server, f"bench_empty_{number}"), name), (full, f"{name}, full")):
                made[title] = Workers(name, url, flying or given.in_flight, given.processes)
        for number in range(given.rounds):
            for title in made if number % 2 == 0 else reversed(made):
                found.setdefault(title, []).append(made[title].measure(given.calls))
    finally:
        for workers in made.values():
            workers.close()
    rows = durable.figures(found)
    for name in FULL:
        rows[f"{name}, full"]["time of"] = {name: durable.ratio(found, f"{name}, full", name)}
    facts = {"records": given.records, "bytes": size, "calls": given.calls, "rounds": given.rounds}
    return {**facts, "in flight": given.in_flight, "processes": given.processes, "cases": rows}


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
    parser.add_argument(
        "--records", type=int, default=0, help="compare with a journal of so many finished records instead"
    )
    for hidden in ("--serve", "--url"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.url, given.in_flight)
    kit.in_own_environment("bench.durable_postgres")
    from tests.servers.postgres import PostgresServer

    names = ("asyncpg", "dbos", "langgraph-checkpoint-postgres", "absurd-sdk", "psycopg")
    found = {"machine": kit.machine(), "versions": kit.versions(*names), "groups": {}}
    wal = (
        {"max_wal_size": "4GB"} if given.records else {}
    )  # else it is the checkpoints of the filling that are measured
    with PostgresServer(shared_buffers="256MB", max_connections="1000", **wal) as server:
        found["server"] = str(server.connect().info.server_version)
        if given.records:
            found["groups"]["beside finished records"] = beside_records(server, given)
        for title, cases in {"in sequence": SEQUENCE, "in flight": CROWD}.items():
            chosen = [name for name in cases if not given.only or any(word in name for word in given.only)]
            if chosen and not given.records:
                found["groups"][title] = compared(server, title, chosen, given)
    kit.output(found, durable.text_of(found), as_json=given.json)


if __name__ == "__main__":
    main()

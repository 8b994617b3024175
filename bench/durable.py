"""What a durable write costs beside engines that keep records: `python -m bench.durable [--json] [--only WORD]`.

A write is one call of a tool whose effect must not happen twice: its intent is on the disk before it begins, its end
before the answer goes back (SQLite, synchronous=FULL). Beside it the bare disk doing the same number of commits (two
appends, each synced), SQLite alone doing the same (two one-row commits), DBOS on SQLite (one step each) and LangGraph's
SqliteSaver with durability="sync" (one node each); in sequence and with 32 in flight. The tool does nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import kit
from bench.sqlite_cases import CROWD, FULL, IN_FLIGHT, REPLAY, SEQUENCE, SLOW, bare_disk

# --------------------------------------------------------------------------------------- one process for each, in turns


def serve(name: str, folder: str) -> None:
    """Make one case ready; for each number that comes in, make so many calls and tell what they took."""
    logging.disable()
    own = Path(folder)
    run = {**SEQUENCE, **CROWD, **REPLAY, **FULL}[name](own)
    run(IN_FLIGHT)
    for line in sys.stdin:
        n = int(line)
        began, cpu = time.perf_counter(), time.process_time()
        run(n)
        print(json.dumps([time.perf_counter() - began, time.process_time() - cpu]), flush=True)
    os._exit(0)  # peers leave threads behind


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


def measured(servers: list[Server], calls: int, rounds: int) -> Found:
    """Let the cases work in turns, one at a time; return seconds and CPU seconds of one call, by round."""
    found: Found = {server.name: [] for server in servers}
    try:
        for number in range(rounds):
            for server in servers if number % 2 == 0 else reversed(servers):
                own = max(IN_FLIGHT, calls // 5) if server.name in SLOW else calls
                found[server.name].append(server.measure(own))
    finally:
        for server in servers:
            server.close()
    return found


Found = dict[str, list[tuple[float, float]]]
"""Case -> seconds and CPU seconds of one call, by round."""


def figures(found: Found) -> dict[str, dict[str, Any]]:
    """Return by case its calls a second, and microseconds of CPU a call: the medians of the rounds."""
    rows: dict[str, dict[str, Any]] = {}
    for name, taken in found.items():
        walls, cpus = zip(*taken, strict=True)
        rows[name] = {"calls/s": round(1 / statistics.median(walls)), "cpu_us": round(statistics.median(cpus) * 1e6)}
    return rows


def ratio(found: Found, one: str, other: str) -> float:
    """Return how much longer a call of one case takes than one of the other: the median of the rounds' own ratios."""
    return round(kit.ratio([wall for wall, _ in found[one]], [wall for wall, _ in found[other]]), 2)


def beside_peers(found: Found) -> dict[str, dict[str, Any]]:
    """Return the figures, and with ours its rate as a multiple of each peer's."""
    rows = figures(found)
    peers = [name for name in rows if not name.startswith("settled")]
    for name in rows:
        rows[name]["rate of"] = {} if name in peers else {peer: ratio(found, peer, name) for peer in peers}
    return rows


def compared(names: list[str], calls: int, rounds: int, place: str | None) -> dict[str, Any]:
    """Measure cases, and ours as ratio to the others."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        found = measured([Server(name, str(Path(folder, str(i)))) for i, name in enumerate(names)], calls, rounds)
        probe = kit.fsync_probe(folder)
    facts = {"calls": calls, "rounds": rounds, "fdatasync_us": round(probe * 1e6)}
    return {**facts, "cases": beside_peers(found)}


# --------------------------------------------------------------------------------------------------------- a full file


def filled(folder: Path, records: int) -> None:
    """Put finished records into the journal in ``folder``, as the calls that they are of would have."""
    from settled import host
    from settled.api.calls.asking import new_operation_id
    from settled.core.attempts.progress import End
    from settled.core.encoding.keys import random_key
    from settled.core.matching.claim import Claim
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
    rows = figures(found)
    for empty, other in (names[:2], names[2:]):
        rows[other]["time of"] = {empty: ratio(found, other, empty)}
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

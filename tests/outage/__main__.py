"""The soak: ``python -m tests.outage [sqlite|postgres|valkey|redis] [kills]``.

6 processes, 400 keys, at least 100 SIGKILLs.
At most one effect per key; every call in doubt is unknown, and each that is unknown was a killed process's.
"""

import sys
import tempfile
import time
from pathlib import Path

from tests.outage.harness import Load, judge
from tests.servers.postgres import PostgresServer
from tests.servers.redis import KINDS, RedisServer


def soak(url, folder, kills):
    """Play it once; return what was wrong."""
    load = Load(url, folder, {"processes": 6, "threads": 2, "keys": 400, "kills": kills})
    begun = time.monotonic()
    with load:
        pass
    scene = judge(load)
    seconds, effects = time.monotonic() - begun, load.effects
    told = ", ".join(f"{count} {status}" for status, count in scene.states.items())
    print(f"{len(load.killed)} killed in {seconds:.0f} s; ", end="")
    print(f"{sum(effects.values())} effects, at most {max(effects.values())} for a key; {told}")
    return scene.problems


def main(which, kills):
    """Soak the journals that are named."""
    problems = []
    with tempfile.TemporaryDirectory() as home:
        for name in which:
            folder = Path(home) / name
            folder.mkdir()
            print(f"{name}: ", end="", flush=True)
            if name == "sqlite":
                problems += soak(f"sqlite:///{folder}/agent.db?busy_timeout=5", folder, kills)
                continue
            with PostgresServer() if name == "postgres" else RedisServer(name) as server:
                problems += soak(server.url(spill=folder / "spill", patience=5), folder, kills)
    for problem in problems:
        print(problem)
    return bool(problems)


if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if not word.isdigit()]
    sys.exit(
        main(names or ["sqlite", "postgres", *KINDS], next((int(word) for word in sys.argv[1:] if word.isdigit()), 100))
    )

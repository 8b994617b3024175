"""SIGKILL after the effect, with and without the guard: ``python -m tests.adapters.kills FRAMEWORK --kills 50``.

Each round is one conversation that is killed after one, two or all of its three mails were sent, and started again
until it ends. Counted in what was really sent: effects beyond the first of each intention, and intentions lost.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.adapters.life import WANTED

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = 60
"""Seconds of one life."""
MAILS = [to for message in WANTED for to in message]


def example(name: str) -> str:
    """Run an example; return the last line that it prints."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    return subprocess.run(command, timeout=LONGEST, check=True, capture_output=True, text=True).stdout.splitlines()[-1]


def round_of(
    framework: str, home: Path, deaths: list[str], *, guarded: bool, turns: bool = False
) -> tuple[int, Counter[str]]:
    """Play one conversation to its end; return its kills, and what was sent."""
    for to in deaths:
        (home / f"kill-{to}").touch()
    kills = 0
    while True:
        command = [sys.executable, "-m", "tests.adapters.life", framework, str(home), "guarded" if guarded else "bare"]
        command += ["turns"] if turns else []
        life = subprocess.run(command, timeout=LONGEST, check=False, capture_output=True)
        if life.returncode == 0:
            return kills, Counter((home / "sent").read_text().split())
        if life.returncode != -signal.SIGKILL:
            raise RuntimeError(life.stderr.decode())
        kills += 1


def play(framework: str, wanted: int, seed: int, *, guarded: bool) -> dict[str, int]:
    """Play rounds until ``wanted`` kills have happened."""
    dice, found = random.Random(seed), Counter(rounds=0, kills=0, intentions=0, effects=0, doubled=0, lost=0)
    while found["kills"] < wanted:
        left = min(len(MAILS), wanted - found["kills"])
        deaths = dice.sample(MAILS, dice.randint(1, left))
        with tempfile.TemporaryDirectory() as folder:
            kills, sent = round_of(framework, Path(folder), deaths, guarded=guarded)
        found["rounds"] += 1
        found["kills"] += kills
        found["intentions"] += len(MAILS)
        found["effects"] += sent.total()
        found["doubled"] += sum(count - 1 for count in sent.values())
        found["lost"] += sum(to not in sent for to in MAILS)
    return dict(found)


def main() -> int:
    """Print both counts; fail if the guard let anything be done twice or lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", choices=["langchain", "pydantic_ai", "openai_agents"])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["guarded", "bare"])
    given = parser.parse_args()
    counts = {}
    for name in ("guarded", "bare") if given.only is None else (given.only,):
        counts[name] = play(given.framework, given.kills, given.seed, guarded=name == "guarded")
        print(f"{given.framework} {name:8}", " ".join(f"{what}={n}" for what, n in counts[name].items()), flush=True)
    guarded = counts.get("guarded", {"doubled": 0, "lost": 0})
    return int(bool(guarded["doubled"] or guarded["lost"]))


if __name__ == "__main__":
    sys.exit(main())

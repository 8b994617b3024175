"""The command: ``python3 dev.py mutation [module ...]``."""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from tests.mutation.plant import in_the_copy, module_of, mutants, plant, refused_by_types

KINDS = ("refused by types", "assertion", "error", "survived", "not reached", "time-out")


def main(modules: list[str]) -> int:
    """Plant, run, count; list what no test noticed. Returns 1 if fewer than 90 % of the rest died of an assertion."""
    plant()
    print("checking types, which takes a while", file=sys.stderr)
    names, refused = list(mutants(modules)), refused_by_types()
    verdicts = dict.fromkeys([name for name in names if name in refused], "refused by types")
    verdicts |= _run([name for name in names if name not in refused])
    Path("mutants/verdicts.json").write_text(json.dumps(verdicts, indent=0))
    for name, verdict in verdicts.items():
        if verdict in {"survived", "not reached", "time-out"}:
            print(f"{verdict}: {name}")
    return _table(verdicts)


def _run(names: list[str]) -> dict[str, str]:
    with in_the_copy():
        Path("names").write_text("\n".join(names))
        tests = sorted(str(path) for path in Path("tests/core").rglob("test_*.py"))
        paths = os.pathsep.join(["src", "."])
        environment = os.environ | {"MUTANTS": "names", "VERDICTS": "verdicts", "CI": "true", "PYTHONPATH": paths}
        quiet = ["-q", "-s", "-p", "no:cacheprovider", "--assert=plain", "--tb=line"]
        command = [sys.executable, "-m", "pytest", "-p", "tests.mutation.forking", *quiet, *tests]
        subprocess.run(command, check=True, env=environment)
        found: dict[str, str] = json.loads(Path("verdicts").read_text())
    return found


def _table(verdicts: dict[str, str]) -> int:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, verdict in verdicts.items():
        counts[module_of(name)][verdict] += 1
    print("|".join(["", " module ", " mutants ", *(f" {kind} " for kind in KINDS), ""]))
    for module, count in [*sorted(counts.items()), ("**together**", Counter(verdicts.values()))]:
        print("|".join(["", f" {module} ", f" {count.total()} ", *(f" {count[kind]} " for kind in KINDS), ""]))
    together = Counter(verdicts.values())
    tried = together.total() - together["refused by types"] - together["time-out"]
    print(f"{100 * together['assertion'] / tried:.1f} % of the well-typed ones died of a failed assertion")
    return int(together["assertion"] < 0.9 * tried)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

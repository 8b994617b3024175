"""pytest's part, as a plug-in: load the tests once, then fork for each mutant and run the tests that reach it.

Run in the copy, with the names of the mutants in ``MUTANTS`` (a file); writes how each died to ``VERDICTS`` (a file).
"""

import gc
import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings
from mutmut.mutation import trampoline

LONGEST = 20
"""Seconds of processor time that the tests of one mutant may take."""
PATIENCE = 5
"""Seconds of processor time in which, once a test raised something else, others are asked for a failed assertion."""
MEMORY = 2 << 30


def pytest_configure():
    """Leave a failing example as it was drawn: to find a shorter one takes long, and nobody reads it here."""
    settings.register_profile("mutants", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))
    settings.load_profile("mutants")


@pytest.hookimpl
def pytest_runtestloop(session):
    """Take the place of the loop that runs each test once."""
    reaching = _reaching(session.items)
    gc.collect()
    gc.freeze()
    verdicts, running = {}, {}
    for mutant in Path(os.environ["MUTANTS"]).read_text().split():
        items = reaching.get(mutant.rpartition("__mutmut_")[0])
        if not items:
            verdicts[mutant] = "not reached"
            continue
        while len(running) >= (os.cpu_count() or 1):
            verdicts.update([_next(running)])
        running.update([_start(mutant, items)])
        if len(verdicts) % 100 == 0:
            print(f"{len(verdicts)} mutants", file=sys.stderr)
    while running:
        verdicts.update([_next(running)])
    Path(os.environ["VERDICTS"]).write_text(json.dumps(verdicts))
    os._exit(0)


def _reaching(items):
    """Run each test once without any bug; return, per function, the tests that reach it, the quickest first."""
    reaching, seconds = defaultdict(list), {}
    os.environ["MUTANT_UNDER_TEST"] = "stats"
    for item in items:
        reached = set()
        trampoline.record_trampoline_hit = lambda name, caller=None, reached=reached: reached.add(name)
        began = time.perf_counter()
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=None)):
            pytest.exit(f"fails without any bug: {item.nodeid}", returncode=2)
        seconds[item.nodeid] = time.perf_counter() - began
        for name in reached:
            reaching[name].append(item)
    for tests in reaching.values():
        tests.sort(key=lambda item: seconds[item.nodeid])
    return reaching


def _start(mutant, items):
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return pid, (mutant, ours)
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(3 * LONGEST)
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.environ["MUTANT_UNDER_TEST"] = mutant
        os.write(theirs, _verdict(items).encode())
    finally:
        os._exit(0)


def _verdict(items):
    errors = False
    for item in items:
        if hasattr(item, "_initrequest"):
            item._initrequest()
        for report in runtestprotocol(item, log=False, nextitem=None):
            if report.failed and ("AssertionError" in report.longreprtext or "DID NOT RAISE" in report.longreprtext):
                return "assertion"
            errors |= report.failed
        if errors and time.process_time() > PATIENCE:
            break
    return "error" if errors else "survived"


def _next(running):
    """Wait for one; return the mutant and how it died."""
    pid, status = os.wait()
    mutant, ours = running.pop(pid)
    with os.fdopen(ours) as pipe:
        said = pipe.read()
    if os.WIFSIGNALED(status):
        return mutant, "time-out"
    return mutant, said or "error"

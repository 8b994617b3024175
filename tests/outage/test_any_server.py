"""Outages as on any server: no effect twice, no lie, nothing lost unseen, and no needless doubt."""

import os
import signal
import subprocess
import sys
import time

import pytest

import settled
from settled.ports import CallQuery
from tests.journals.support import ENVIRONMENT
from tests.outage.harness import Load, paying, settled_well
from tests.waiting import until


@pytest.fixture(params=["postgres", "valkey"])
def url(request, tmp_path):
    """The address of a journal of the test's own."""
    if request.param == "postgres":
        return request.getfixturevalue("place")()
    server = request.getfixturevalue("redis")
    return server.url(prefix=f"outage_{tmp_path.name[-40:]}", spill=tmp_path / "spill", patience=1)


def test_processes_that_are_killed(url, tmp_path):
    """The six of the soak, in short: ``python -m tests.outage`` plays all of it."""
    with Load(url, tmp_path, {"processes": 6, "threads": 2, "keys": 80, "kills": 12}) as load:
        pass
    assert len((tmp_path / "killed").read_text().split()) == 12
    settled_well(load, unknown=24)


# --- clocks and pauses, by the server's own clock ---

OWNER = """
import sys, time
import settled

shift, jumps = float(sys.argv[2]), sys.argv[3] == "jumps"
real, begun = time.time, time.monotonic()
time.time = lambda: real() + (shift if not jumps or int((time.monotonic() - begun) * 5) % 2 else -shift)

with settled.Guard(sys.argv[1], lease=float(sys.argv[4])) as guard:
    @guard.tool(effect="write", key="{order}")
    def pay(order: str) -> str:
        print("effect", flush=True)
        sys.stdin.readline()
        return "paid"

    print(pay.call("7").status, flush=True)
"""


LEASE = 3.0
"""Seconds: longer than a busy machine lets a process wait."""


@pytest.fixture
def owner(url):
    """Start a process that holds a call; tell it to go on by a line."""
    started = []

    def start(*words):
        command = [sys.executable, "-c", OWNER, url, *map(str, (*words, LEASE))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started.append(subprocess.Popen(command, env=ENVIRONMENT, text=True, **pipes))
        assert started[-1].stdout.readline() == "effect\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=30)


@pytest.mark.case("CASE-018-lease-judged-by-other-clock")
@pytest.mark.parametrize(("shift", "jumps"), [(600, ""), (-600, ""), (600, "jumps")])
def test_a_worker_whose_clock_is_off(url, owner, shift, jumps):
    """By ten minutes, or jumping while it renews its lease: it is not taken for dead, and takes nobody for dead."""
    process, effects = owner(shift, jumps or "runs"), []
    with settled.Guard(url) as guard:
        pay = paying(guard, effects)
        [call] = guard.journal.find(CallQuery())
        while guard.journal.get(call.operation_id).lease.mono < call.lease.mono + LEASE:  # a whole one
            assert pay.options(wait=0.0).call("7").status == "in_progress"
            time.sleep(0.02)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "succeeded\n"
        assert pay("7") == "paid"
    assert effects == []


def test_a_worker_that_sleeps_past_its_lease_and_wakes_after_takeover(url, owner):
    process, effects = owner(0, "runs"), []
    os.kill(process.pid, signal.SIGSTOP)
    with settled.Guard(url) as guard:
        pay = paying(guard, effects)
        until(lambda: guard.journal.find(CallQuery(lease_over=True)), "its lease is over")
        assert pay.options(wait=0.0).call("7").status == "unknown"
        os.kill(process.pid, signal.SIGCONT)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "succeeded\n"
        again = pay.call("7")
        assert (again.status, again.value, again.replayed, again.disputed) == ("succeeded", "paid", True, False)
    assert effects == []


# --- values ---


@pytest.mark.case("CASE-029-result-too-large")
@pytest.mark.case("CASE-030-nul-in-jsonb")
@pytest.mark.case("CASE-032-lone-surrogate")
def test_values_of_all_kinds(url):
    """Told alike by another process: nothing is done again for want of a way to keep it."""
    values = {
        "nul": "W\0s\0l\0",
        "escaped": "\\u0000",
        "nul in a name": {"\0": "\0"},
        "surrogate": "ok \ud83d",
        "nan": float("nan"),
        "infinite": [float("inf"), -0.0],
        "five megabytes": "\0é\ud83d" * 1_250_000,
        "bytes": bytes(range(256)) * 20_000,
    }
    effects = []

    def guarded():
        guard = settled.Guard(url)

        @guard.tool(effect="write", key="{name}")
        def give(name: str) -> object:
            effects.append(name)
            return values[name]

        return guard, give

    guard, give = guarded()
    other, again = guarded()
    for name, value in values.items():
        assert repr(give(name)) == repr(value)
        found = again.call(name)
        assert (found.replayed, repr(found.value)) == (True, repr(value))
    assert effects == list(values)
    assert guard.journal.verify().ok
    guard.close()
    other.close()

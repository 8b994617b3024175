"""A process that was killed is seen dead at once: nobody waits for its lease, and nothing is done again."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import pytest

import settled
from settled.ports import CallQuery

if TYPE_CHECKING:
    from pathlib import Path

KILLED = textwrap.dedent("""
    import contextlib, os, signal, sys
    import settled

    address, ledger, run = sys.argv[1:]
    guard = settled.Guard(address, lease=600)

    @guard.tool(effect="write", name="pay")
    def pay(n: int) -> str:
        with open(ledger, "a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)

    with guard.run("r") if run == "run" else contextlib.nullcontext():
        pay(1)
""")


def killed_in_mid_call(address: str, ledger: Path, run: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, address, str(ledger), run], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert ledger.read_text() == "x"


def declare(guard: settled.Guard, ledger: Path, **options: Any) -> settled.Tool[[int], str]:
    def pay(n: int) -> str:
        with ledger.open("a") as file:
            file.write("y")
        return f"paid {n}"

    tool: settled.Tool[[int], str] = guard.tool(effect="write", name="pay", **options)(pay)
    return tool


@pytest.mark.parametrize("run", ["run", "no run"])
def test_a_killed_call_bars_its_repeat_at_once(tmp_path: Path, run: str) -> None:
    address, ledger = f"sqlite:///{tmp_path}/j.db", tmp_path / "ledger"
    killed_in_mid_call(address, ledger, run)
    began = time.monotonic()
    with settled.Guard(address) as guard:
        pay = declare(guard, ledger)
        with guard.run("r") if run == "run" else settled.Guard("memory://"):
            result = pay.call(1)
    assert result.status == "unknown"
    assert time.monotonic() - began < 30  # the lease is 600 s
    assert ledger.read_text() == "x"


def test_a_killed_call_is_settled_by_the_probe_at_once(tmp_path: Path) -> None:
    address, ledger = f"sqlite:///{tmp_path}/j.db", tmp_path / "ledger"
    killed_in_mid_call(address, ledger, "run")
    with settled.Guard(address) as guard:
        found = declare(guard, ledger, probe=lambda call: settled.Happened("paid 1"), max_request_lifetime=0.0)
        with guard.run("r"):
            assert found.call(1).value == "paid 1"
    assert ledger.read_text() == "x"


@pytest.mark.parametrize("settles", ["schedule", "person"])
def test_what_was_settled_before_the_program_asks_again_is_not_done_again(tmp_path: Path, settles: str) -> None:
    """Whether the schedule, a person or the program that was started again comes first makes no difference."""
    address, ledger = f"sqlite:///{tmp_path}/j.db", tmp_path / "ledger"
    killed_in_mid_call(address, ledger, "no run")
    with settled.Guard(address) as guard:
        probe = (lambda call: settled.Happened("paid 1")) if settles == "schedule" else None
        pay = declare(guard, ledger, **({"probe": probe, "max_request_lifetime": 0.0} if probe else {}))
        guard.reconcile()
        if settles == "person":
            [waiting] = guard.journal.find(CallQuery())
            guard.resolve(waiting.operation_id, "happened", result="paid 1", by="ann", reason="seen in the books")
        first, second = pay.call(1), pay.call(1)
    assert (first.status, first.value, first.replayed) == ("succeeded", "paid 1", True)
    assert (second.status, second.value, second.replayed) == ("succeeded", "paid 1", False)
    assert ledger.read_text() == "xy"  # once by the killed process, once more because it was asked for twice


def test_a_doubt_that_its_own_asker_saw_settled_answers_no_later_call(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with settled.Guard("memory://") as guard:

        @guard.tool(effect="write", probe=lambda call: settled.Happened("found"), max_request_lifetime=0.0)
        def pay(n: int) -> str:
            with ledger.open("a") as file:
                file.write("y")
            raise TimeoutError("no answer")

        assert [pay.call(1).replayed for _ in range(2)] == [False, False]
    assert ledger.read_text() == "yy"


def test_a_killed_call_is_taken_by_reconciliation_before_its_lease_is_over(tmp_path: Path) -> None:
    address, ledger = f"sqlite:///{tmp_path}/j.db", tmp_path / "ledger"
    killed_in_mid_call(address, ledger, "no run")
    with settled.Guard(address) as guard:
        declare(guard, ledger)
        counts = guard.reconcile()
        assert (counts.orphans, counts.left, counts.probes_failed) == (1, 1, 0)


@pytest.mark.parametrize(
    ("says", "words"), [("1/0", ": ZeroDivisionError"), ("True", ": it returned bool, and not Happened")]
)
def test_a_probe_that_fails_is_counted_apart_and_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, says: str, words: str
) -> None:
    address, ledger = f"sqlite:///{tmp_path}/j.db", tmp_path / "ledger"
    killed_in_mid_call(address, ledger, "no run")
    with settled.Guard(address) as guard:
        declare(guard, ledger, probe=lambda call: 1 / 0 if says == "1/0" else True, max_request_lifetime=0.0)
        counts = guard.reconcile()
    assert (counts.left, counts.probes_failed) == (1, 1)
    assert words in caplog.text


def test_the_dead_processs_attempts_are_over_so_that_absence_can_be_proved(tmp_path: Path) -> None:
    address, ledger = f"sqlite:///{tmp_path}/j.db", tmp_path / "ledger"
    killed_in_mid_call(address, ledger, "run")
    with settled.Guard(address) as guard:
        absent = declare(guard, ledger, probe=lambda call: settled.NotHappened(), max_request_lifetime=0.1)
        with guard.run("r"):
            assert absent.call(1).value == "paid 1"
    assert ledger.read_text() == "xy"


def test_another_asker_outside_of_runs_is_not_held_up_by_a_living_one(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/j.db"
    living = textwrap.dedent("""
        import sys, time
        import settled
        guard = settled.Guard(sys.argv[1])

        @guard.tool(effect="write", name="pay")
        def pay(n: int) -> str:
            print("at work", flush=True)
            time.sleep(60)

        pay(1)
    """)
    with subprocess.Popen([sys.executable, "-c", living, address], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        with settled.Guard(address) as guard:
            assert declare(guard, tmp_path / "ledger").call(1).value == "paid 1"
        process.kill()


IN_A_TURN = textwrap.dedent("""
    import os, signal, sys
    import settled

    address, ledger, dies = sys.argv[1:]
    guard = settled.Guard(address, lease=600)

    @guard.tool(effect="write", name="pay")
    def pay(to: str, note: str) -> str:
        if dies == "after":
            with open(ledger, "a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        raise ConnectionRefusedError(111, "Connection refused")

    def sleeps(_: float) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    import settled.drivers.sync
    settled.drivers.sync.time.sleep = sleeps
    with guard.run("r", turn="one"):
        guard.dispatch("pay", {"to": "ann", "note": "order 7"}, step="m1/0")
""")


def killed_in_a_turn(address: str, ledger: Path, dies: str) -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_TURN, address, str(ledger), dies], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL


def declare_paying(guard: settled.Guard, ledger: Path, **options: Any) -> settled.Tool[[str, str], str]:
    def pay(to: str, note: str) -> str:
        with ledger.open("a") as file:
            file.write("y")
        return f"paid {to}"

    tool: settled.Tool[[str, str], str] = guard.tool(effect="write", name="pay", **options)(pay)
    return tool


@pytest.mark.parametrize("turn", ["one", "two"])
@pytest.mark.parametrize("note", ["order 7", "for order 7"])
def test_what_a_killed_process_may_have_done_bars_a_model_in_any_turn_and_any_words(
    tmp_path: Path, turn: str, note: str
) -> None:
    """Nobody has come by to settle it; whoever asks is told that it is in doubt, and never that it is done."""
    address, ledger = f"sqlite:///{tmp_path}/j.db", tmp_path / "ledger"
    killed_in_a_turn(address, ledger, "after")
    with settled.Guard(address) as guard:
        declare_paying(guard, ledger)
        with guard.run("r", turn=turn):
            said = [guard.dispatch("pay", {"to": "ann", "note": note}, step=f"m2/{n}") for n in range(3)]
    assert ledger.read_text() == "x"
    assert {one.status for one in said} <= {"unknown", "rejected"}
    assert {earlier.status for one in said for earlier in one.earlier} <= {"unknown"}


@pytest.mark.parametrize("turn", ["one", "two"])
def test_the_same_call_of_a_program_is_barred_in_any_turn(tmp_path: Path, turn: str) -> None:
    address, ledger = f"sqlite:///{tmp_path}/j.db", tmp_path / "ledger"
    killed_in_a_turn(address, ledger, "after")
    with settled.Guard(address) as guard:
        pay = declare_paying(guard, ledger)
        with guard.run("r", turn=turn):
            same, another = pay.call("ann", "order 7"), pay.call("ann", "order 8")
    assert (same.status, another.status) == ("unknown", "succeeded")
    assert ledger.read_text() == "xy"


@pytest.mark.parametrize("turn", ["one", "two"])
@pytest.mark.parametrize("note", ["order 7", "for order 7"])
def test_what_a_killed_process_has_surely_not_done_is_told_to_nobody_as_done(
    tmp_path: Path, turn: str, note: str
) -> None:
    address, ledger = f"sqlite:///{tmp_path}/j.db", tmp_path / "ledger"
    killed_in_a_turn(address, ledger, "before")
    with settled.Guard(address) as guard:
        declare_paying(guard, ledger)
        with guard.run("r", turn=turn):
            assert guard.dispatch("pay", {"to": "ann", "note": note}, step="m2/0").value == "paid ann"
    assert ledger.read_text() == "y"


def test_a_probe_settles_what_a_killed_process_has_left_to_another_turn(tmp_path: Path) -> None:
    address, ledger = f"sqlite:///{tmp_path}/j.db", tmp_path / "ledger"
    killed_in_a_turn(address, ledger, "after")
    with settled.Guard(address) as guard:
        declare_paying(guard, ledger, probe=lambda call: settled.Happened("paid ann"), max_request_lifetime=0.0)
        with guard.run("r", turn="two"):
            said = guard.dispatch("pay", {"to": "ann", "note": "order 7"}, step="m2/0")
    assert (said.status, said.value, said.replayed) == ("succeeded", "paid ann", True)
    assert ledger.read_text() == "x"


IN_A_LANE = textwrap.dedent("""
    import os, signal, sys
    import settled
    from settled.tokens import RunToken

    address, token = sys.argv[1:]
    guard = settled.Guard(address, lease=600, token_key="0123456789abcdef")

    @guard.tool(effect="write", name="pay")
    def pay(to: str, note: str) -> str:
        os.kill(os.getpid(), signal.SIGKILL)

    with guard.join(RunToken(token)):
        pay("ann", "order 7")
""")


def test_what_an_agent_that_was_killed_may_have_done_bars_the_same_in_other_lanes(tmp_path: Path) -> None:
    address, ledger = f"sqlite:///{tmp_path}/j.db", tmp_path / "ledger"
    with settled.Guard(address, token_key="0123456789abcdef") as guard:
        pay = declare_paying(guard, ledger)
        with guard.run("r") as run:
            token = run.token(lane="desk").reveal()
            done = subprocess.run([sys.executable, "-c", IN_A_LANE, address, token], timeout=60, check=False)
            assert done.returncode == -signal.SIGKILL
            same, another = pay.call("ann", "order 7"), pay.call("ann", "order 8")
    assert (same.reason, same.earlier[0].status) == ("unknown_before", "unknown")
    assert (another.status, ledger.read_text()) == ("succeeded", "y")


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("said", [True, None, settled.Happened], ids=repr)
def test_a_probe_that_says_none_of_its_three_words_is_told_of(
    caplog: pytest.LogCaptureFixture, asynchronous: bool, said: object
) -> None:
    """Else nobody would learn why all calls of its tool wait for a person."""
    with settled.Guard("memory://") as guard:

        @guard.tool(effect="write", probe=lambda call: said, max_request_lifetime=0.0)
        def pay(n: int) -> None:
            raise TimeoutError

        result = asyncio.run(pay.acall(1)) if asynchronous else pay.call(1)
    assert result.status == "unknown"
    assert f"it returned {type(said).__name__}, and not Happened(…)" in caplog.text

"""What is in doubt in one part of a run (an inner run, a call inside of a call) bars like calls in all of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

import settled
from tests.servers.guards import guard_on

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ASKED = {"to": "ann", "note": "order 7"}
OTHER_WORDS = {"to": "ann", "note": "for order 7"}


class Desk:
    """A tool whose first answer is lost; one that calls it, and one that tells of nothing that goes wrong in it."""

    def __init__(self, guard: settled.Guard, **options: Any) -> None:
        self.guard, self.paid, self.loses = guard, list[str](), True

        @guard.tool(effect="write", **options)
        def pay(to: str, note: str) -> str:
            self.paid.append(to)
            if self.loses:
                self.loses = False
                raise TimeoutError
            return f"paid {to}"

        @guard.tool(effect="write", identity=("order",))
        def settle_order(order: int, to: str, note: str) -> str:
            with contextlib.suppress(settled.CallError):
                return pay(to, note)
            return "I am not sure"

        self.pay, self.settle_order = pay, settle_order

    def by_model(self, **asked: Any) -> settled.Result[Any]:
        return self.guard.dispatch("pay", asked or ASKED)


guard = guard_on("memory", "sqlite", "postgres")


@pytest.fixture
def desk(guard: settled.Guard) -> Desk:
    return Desk(guard)


def in_an_inner_run(desk: Desk) -> None:
    with desk.guard.run("task/one"):
        desk.by_model()


def in_a_call(desk: Desk) -> None:
    assert desk.guard.dispatch("settle_order", {"order": 1, **ASKED}).value == "I am not sure"


WHERE = pytest.mark.parametrize("left", [in_an_inner_run, in_a_call])


@WHERE
@pytest.mark.parametrize("asked", [ASKED, OTHER_WORDS], ids=["the same words", "other words"])
def test_it_bars_a_model_in_the_run_and_in_each_part_of_it(
    desk: Desk, left: Callable[[Desk], None], asked: dict[str, Any]
) -> None:
    with desk.guard.run("task"):
        left(desk)
        said = [desk.by_model(**asked)]
        with desk.guard.run("task/two"):
            said.append(desk.by_model(**asked))
        inside = desk.guard.dispatch("settle_order", {"order": 2, **ASKED})
    assert [(each.status, each.reason) for each in said] == [("rejected", "unknown_before")] * 2
    assert [each.status for each in said[0].earlier] == ["unknown"]
    assert (inside.value, desk.paid) == ("I am not sure", ["ann"])


@WHERE
def test_it_bars_in_the_next_process_a_program_too(desk: Desk, left: Callable[[Desk], None]) -> None:
    with contextlib.suppress(KeyError), desk.guard.run("task"):
        left(desk)
        raise KeyError
    with desk.guard.run("task"):
        same, another = desk.pay.call(**ASKED), desk.pay.call(to="bob", note="order 8")
    assert (same.status, another.status, desk.paid) == ("rejected", "succeeded", ["ann", "bob"])


@WHERE
def test_once_it_is_known_to_have_happened_it_answers_a_like_call_once(
    desk: Desk, left: Callable[[Desk], None]
) -> None:
    with desk.guard.run("task"):
        left(desk)
        [doubt] = desk.by_model().earlier
        desk.guard.resolve(doubt.operation_id, "happened", result="paid", by="eva", reason="seen in the books")
        first, second = desk.by_model(), desk.by_model()
    assert (first.status, first.value, first.replayed) == ("succeeded", "paid", True)
    assert (second.status, second.replayed, desk.paid) == ("succeeded", False, ["ann", "ann"])


@WHERE
def test_a_probe_settles_it_for_whoever_asks(left: Callable[[Desk], None]) -> None:
    seen: list[settled.Happened | settled.Inconclusive] = [settled.Inconclusive("not yet")]
    with settled.Guard("memory://") as guard:
        desk = Desk(guard, probe=lambda call: seen[0], max_request_lifetime=0.0)
        with guard.run("task"):
            left(desk)
            seen[0] = settled.Happened("paid")
            said = desk.by_model()
    assert (said.status, said.value, desk.paid) == ("succeeded", "paid", ["ann"])


@WHERE
def test_once_it_is_known_that_it_did_not_happen_it_bars_nobody(desk: Desk, left: Callable[[Desk], None]) -> None:
    with desk.guard.run("task"):
        left(desk)
        [doubt] = desk.by_model().earlier
        desk.guard.resolve(doubt.operation_id, "did_not_happen", by="eva", reason="not in the books", force=True)
        said = desk.by_model()
    assert (said.status, said.replayed, desk.paid) == ("succeeded", False, ["ann", "ann"])


@WHERE
def test_another_task_is_not_barred(desk: Desk, left: Callable[[Desk], None]) -> None:
    with desk.guard.run("task"):
        left(desk)
    with desk.guard.run("another"):
        assert desk.by_model().status == "succeeded"


def test_what_is_in_doubt_around_bars_what_is_called_inside(desk: Desk) -> None:
    with desk.guard.run("task"):
        desk.by_model()
        inside = desk.guard.dispatch("settle_order", {"order": 1, **ASKED})
        with desk.guard.run("task/one"):
            said = desk.by_model()
    assert (inside.value, said.reason, desk.paid) == ("I am not sure", "unknown_before", ["ann"])


@WHERE
def test_who_says_that_it_is_another_one_is_not_barred(desk: Desk, left: Callable[[Desk], None]) -> None:
    with desk.guard.run("task"):
        left(desk)
        [doubt] = desk.by_model().earlier
        assert desk.pay.options(despite=[doubt.operation_id]).call(**ASKED).status == "succeeded"


def by_its_own_probe(desk: Desk, seen: settled.Happened | settled.NotHappened) -> None:
    """Let the same payment be told of where it was asked for, and then be asked for in each other part."""
    with desk.guard.run("task"):
        with desk.guard.run("task/one"):
            told = desk.by_model()
        assert told.status == "succeeded", seen
        paid = len(desk.paid)
        assert desk.by_model().replayed is False
        with desk.guard.run("task/two"):
            assert desk.by_model().replayed is False
        desk.guard.dispatch("settle_order", {"order": 2, **ASKED})
    assert len(desk.paid) == paid + 3


@pytest.mark.parametrize("seen", [settled.Happened("paid"), settled.NotHappened()], ids=["happened", "made again"])
def test_what_was_told_where_it_was_asked_for_answers_nobody_else(
    seen: settled.Happened | settled.NotHappened,
) -> None:
    with settled.Guard("memory://") as guard:
        by_its_own_probe(Desk(guard, probe=lambda call: seen, max_request_lifetime=0.0), seen)


def test_what_a_person_has_settled_and_its_own_agent_was_told_answers_nobody_else(desk: Desk) -> None:
    with desk.guard.run("task"):
        with desk.guard.run("task/one"):
            doubt = desk.by_model()
            desk.guard.resolve(doubt.operation_id, "happened", result="paid", by="eva", reason="seen in the books")
            assert desk.by_model().value == "paid"
        with desk.guard.run("task/two"):
            assert desk.by_model().replayed is False
    assert desk.paid == ["ann", "ann"]


def test_nor_what_its_own_run_was_told_when_it_was_entered_again(desk: Desk) -> None:
    with contextlib.suppress(KeyError), desk.guard.run("task"):
        with contextlib.suppress(settled.CallUnknown), desk.guard.run("task/one"):
            doubt = desk.pay.call(**ASKED)
            doubt.unwrap()
        desk.guard.resolve(doubt.operation_id, "happened", result="paid", by="eva", reason="seen in the books")
        raise KeyError
    with desk.guard.run("task"):
        with desk.guard.run("task/one"):
            assert desk.pay(**ASKED) == "paid"
        with desk.guard.run("task/two"):
            assert desk.pay(**ASKED) == "paid ann"
    assert desk.paid == ["ann", "ann"]


@WHERE
def test_who_is_cut_off_before_it_is_told_finds_it_once_more(
    desk: Desk, left: Callable[[Desk], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    perform = desk.guard.journal.perform

    def cut_off(transition: Any) -> Any:
        if type(transition).__name__ == "Heard":
            raise KeyboardInterrupt
        return perform(transition)

    with contextlib.suppress(KeyboardInterrupt), desk.guard.run("task", turn="1"):
        left(desk)
        [doubt] = desk.by_model().earlier
        desk.guard.resolve(doubt.operation_id, "happened", result="paid", by="eva", reason="seen in the books")
        monkeypatch.setattr(desk.guard.journal, "perform", cut_off)
        desk.by_model()
    monkeypatch.undo()
    with desk.guard.run("task", turn="1"):
        said = desk.by_model()
    assert (said.value, said.replayed, desk.paid) == ("paid", True, ["ann"])


def test_what_was_done_inside_of_a_call_that_is_rewound_answers_nobody(desk: Desk) -> None:
    with contextlib.suppress(KeyError), desk.guard.run("task"):
        order = desk.guard.dispatch("settle_order", {"order": 1, **ASKED})
        [doubt] = desk.by_model().earlier
        raise KeyError
    desk.guard.resolve(doubt.operation_id, "happened", result="paid", by="eva", reason="seen in the books")
    desk.guard.rewind("task", from_call=order.operation_id, by="eva", reason="to be done anew", effects="keep")
    with desk.guard.run("task"):
        assert desk.settle_order(1, **ASKED) == "paid ann"
    assert desk.paid == ["ann", "ann"]


class Bank:
    """A tool that could not pay by card, and another one in its place, whose answer is lost."""

    def __init__(self, guard: settled.Guard) -> None:
        self.guard, self.paid = guard, list[str]()

        @guard.tool(effect="write")
        def pay_by_wire(to: str, note: str) -> str:
            self.paid.append(f"wire {to}")
            raise TimeoutError

        @guard.tool(effect="write", identity=("to",), fallback=[pay_by_wire])
        def pay_by_card(to: str, note: str) -> str:
            if not self.paid:
                raise settled.NotExecuted("no card")
            self.paid.append(f"card {to}")
            return "paid by card"

        self.pay_by_card = pay_by_card


def test_what_was_done_in_a_calls_place_bars_it_in_all_of_the_run(guard: settled.Guard) -> None:
    bank = Bank(guard)
    with guard.run("task"):
        with guard.run("task/one"):
            doubt = guard.dispatch("pay_by_card", ASKED)
        with guard.run("task/two"):
            said = [guard.dispatch("pay_by_card", OTHER_WORDS), bank.pay_by_card.call(**ASKED)]
        said.append(guard.dispatch("pay_by_card", ASKED))
        another = guard.dispatch("pay_by_card", {"to": "bob", "note": "order 8"})
        guard.resolve(doubt.operation_id, "happened", result="wired", by="eva", reason="seen in the books")
        known = guard.dispatch("pay_by_card", ASKED)
        anew = guard.dispatch("pay_by_card", ASKED)
    assert [(each.status, each.reason) for each in said] == [("rejected", "unknown_before")] * 3
    assert (another.value, known.value, anew.value) == ("paid by card", "wired", "paid by card")
    assert bank.paid == ["wire ann", "card bob", "card ann"]


KILLED = textwrap.dedent("""
    import os, signal, sys
    import settled

    guard = settled.Guard(sys.argv[1], lease=600)

    @guard.tool(effect="write", name="pay")
    def pay(to: str, note: str) -> str:
        os.kill(os.getpid(), signal.SIGKILL)

    @guard.tool(effect="write", name="settle_order", identity=("order",))
    def settle_order(order: int, to: str, note: str) -> str:
        return pay(to, note)

    with guard.run("task", turn=sys.argv[2]):
        guard.dispatch("settle_order", {"order": 1, "to": "ann", "note": "order 7"})
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a process")
@pytest.mark.parametrize("first", ["pay", "settle_order"])
@pytest.mark.parametrize("turn", ["one", "two"])
@pytest.mark.parametrize("asked", [ASKED, OTHER_WORDS], ids=["the same words", "other words"])
def test_a_process_that_was_killed_inside_of_a_call_bars_whoever_makes_the_inner_one(
    tmp_path: Path, turn: str, asked: dict[str, Any], first: str
) -> None:
    address = f"sqlite:///{tmp_path}/j.db"
    done = subprocess.run([sys.executable, "-c", KILLED, address, "one"], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    with settled.Guard(address) as guard:
        desk = Desk(guard)
        with guard.run("task", turn=turn):
            calls = {"pay": asked, "settle_order": {"order": 2, **ASKED}}
            for tool in sorted(calls, key=lambda name: name != first):
                said = [guard.dispatch(tool, calls[tool]) for _ in range(2)]  # it may be told of the first order
                assert (said[1].reason, said[1].value) in {("unknown_before", None), ("", "I am not sure")}
    assert desk.paid == []

"""What a lost or hindered rollback has left is gone on with: by several at once, in turn, up to the run around it."""

import threading
import time

import pytest

import settled
from settled.api.people import explain
from settled.api.people.queue import waiting
from settled.api.runs import carrying_on, sagas
from settled.core.states import State
from settled.ports import CallQuery
from tests.sagas.conftest import Lost


def test_several_at_once_undo_each_step_once(shared_desk):
    desk = shared_desk
    guards = [desk.open() for _ in range(3)]
    with guards[0].run("trip"):
        for what in ("flight", "hotel", "car"):
            guards[0].tools["book"](what)
    start, ended = threading.Barrier(3), []

    def roll_back(guard):
        start.wait()
        ended.append(sagas.roll_back(guard, sagas.order_for(guard, "trip", tenant="", reason="x", wait=30.0)))

    threads = [threading.Thread(target=roll_back, args=(guard,)) for guard in guards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [what for tool, what in desk.books if tool == "cancel"] == ["b-car", "b-hotel", "b-flight"]
    assert [str(run.state) for run in ended] == ["compensated"] * 3


def test_the_run_around_a_run_is_concluded_with_it(desk):
    guard = desk.open()
    desk.trouble["cancel", "b-hotel"] = ConnectionRefusedError("away")
    with pytest.raises(LookupError), guard.run("trip", on_error="compensate", undo_within=0.0):
        guard.tools["book"]("flight")
        with guard.run("stay"):
            guard.tools["book"]("hotel")
        raise LookupError
    states = [str(guard.journal.run("", name).state) for name in ("trip", "stay")]
    assert (states, desk.left) == (["partly_compensated"] * 2, ["hotel"])
    desk.trouble.clear()
    while runs := carrying_on.unfinished(guard):
        assert runs
        carrying_on.carry_on(guard)
    states = [str(guard.journal.run("", name).state) for name in ("trip", "stay")]
    assert (states, desk.left) == (["compensated"] * 2, [])


def test_each_run_has_its_turn(desk):
    guard = desk.open()
    desk.trouble["cancel"] = ConnectionRefusedError("away")
    for number in range(5):
        with pytest.raises(LookupError), guard.run(f"trip {number}", on_error="compensate", undo_within=0.0):
            guard.tools["book"](f"flight {number}")
            raise LookupError
    seen = [run.run_id for _ in range(3) for run in carrying_on.unfinished(guard, 2)]
    assert set(seen) == {f"trip {number}" for number in range(5)}


def test_a_step_that_proves_not_done_later_concludes_the_run(desk):
    guard = desk.open()
    desk.trouble["book", "flight"] = Lost()
    desk.probing["blind"] = True
    with pytest.raises(settled.CallUnknown), guard.run("trip", on_error="compensate", undo_within=0.0):
        guard.tools["book"].options(wait=0)("flight")
    assert str(guard.journal.run("", "trip").state) == "partly_compensated"
    desk.probing["blind"] = False
    time.sleep(0.06)
    assert guard.reconcile().did_not_happen == 1
    assert carrying_on.carry_on(guard) == carrying_on.CarriedOn(compensated=1)


def test_a_compensation_that_needs_leave_waits_for_it_in_its_own_record(desk):
    guard = desk.open()

    @guard.tool(effect="write", approve=True)
    def take_back(what: str) -> None:
        desk.act("take_back", what)

    @guard.tool(effect="write", compensate=take_back)
    def give(what: str) -> None:
        desk.act("give", what)

    with guard.run("gift") as run:
        give("flowers")
        began = time.monotonic()
        sagas.roll_back(guard, sagas.order_for(guard, "gift", tenant="", reason="x", entry=run.entry, wait=0.0))
        assert time.monotonic() - began < 4.0, "there was no time to wait for a person"
    [asked] = waiting(guard.journal)
    assert (asked.tool, str(asked.state)) == ("take_back", "awaiting_approval")
    assert carrying_on.unfinished(guard) == []
    guard.approve(asked.operation_id, by="eva")
    assert carrying_on.carry_on(guard) == carrying_on.CarriedOn(compensated=1)
    assert desk.books == [("give", "flowers"), ("take_back", "flowers")]


async def test_async_code_carries_on_too(desk):
    guard = desk.open()
    desk.trouble["cancel"] = ConnectionRefusedError("away")
    with pytest.raises(LookupError):
        async with guard.run("trip", on_error="compensate", undo_within=0.0):
            await guard.tools["book"].acall("flight")
            raise LookupError
    desk.trouble.clear()
    assert await carrying_on.acarry_on(guard) == carrying_on.CarriedOn(compensated=1)
    assert guard.journal.find(CallQuery(states=[State.COMPENSATING])) == []


def test_what_a_paused_tool_is_to_undo_waits_until_it_is_resumed(desk):
    guard = desk.open()
    guard.pause("cancel", by="ann", reason="it cancels the wrong ones")
    with pytest.raises(LookupError), guard.run("trip", on_error="compensate", undo_within=30.0):
        guard.tools["book"]("flight")
        raise LookupError
    [step] = waiting(guard.journal)
    assert (step.reason, desk.books) == ("undo_paused", [("book", "flight")])
    assert "is paused" in explain.why(step, guard.journal.now())
    log_no = step.log_no
    assert carrying_on.unfinished(guard) == [], "a worker does not try in vain"
    assert carrying_on.carry_on(guard) == carrying_on.CarriedOn()
    assert guard.journal.get(step.operation_id).log_no == log_no
    guard.resume("cancel", by="ann", reason="mended")
    assert carrying_on.carry_on(guard) == carrying_on.CarriedOn(compensated=1)
    assert desk.books == [("book", "flight"), ("cancel", "b-flight")]


def test_a_paused_tool_gives_way_to_its_fallback(desk):
    guard = desk.open()

    @guard.tool(effect="write")
    def by_mail(what: str) -> str:
        desk.act("mail", what)
        return "mailed"

    @guard.tool(effect="write", fallback=by_mail)
    def by_phone(what: str) -> str:
        desk.act("phone", what)
        return "phoned"

    guard.pause("by_phone", by="ann", reason="the line is bad")
    result = by_phone.call("flowers")
    assert (result.value, result.fallback, desk.books) == ("mailed", "by_mail", [("mail", "flowers")])

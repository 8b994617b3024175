"""A run that fails is undone: last begun first, once, through crashes; what cannot be undone stands in the queue."""

import asyncio
import re
import threading
import time

import pytest

import settled
from settled.api.people.queue import waiting
from settled.api.runs import carrying_on, sagas
from settled.core.books import RunState
from settled.core.states import State
from settled.ports import CallQuery
from tests.sagas.conftest import Lost


class Failed(Exception):
    """What goes wrong in an agent."""


def fail(desk, *steps, tools=None, **options):
    """Take the steps in a run of a new guard, then fail; return the guard."""
    guard = desk.open()
    with pytest.raises(Failed), guard.run("trip", on_error="compensate", **options):
        for tool, what in steps:
            guard.tools[tool](what)
        raise Failed("no car")
    return guard


def status(guard, run_id="trip"):
    return str(guard.journal.run("", run_id).state)


def queued(guard):
    return [(call.tool, str(call.state), call.reason) for call in waiting(guard.journal)]


# --- wholly undone ---


def test_a_failed_run_is_undone_last_first(desk):
    guard = fail(desk, ("book", "flight"), ("look", "x"), ("book", "hotel"), ("note", "n"), ("book", "car"))
    assert [each for each in desk.books if each[0] == "cancel"] == [
        ("cancel", "b-car"),
        ("cancel", "b-hotel"),
        ("cancel", "b-flight"),
    ]
    assert (status(guard), queued(guard)) == ("compensated", [])
    states = {(call.tool, str(call.state)) for call in guard.journal.find(CallQuery())}
    assert states == {("book", "compensated"), ("look", "succeeded"), ("note", "succeeded"), ("cancel", "succeeded")}
    assert guard.journal.verify().ok


def test_a_run_that_was_undone_says_so_and_does_nothing(desk):
    guard = fail(desk, ("book", "flight"))
    books = list(desk.books)
    with pytest.raises(settled.RunUndone, match=r"was rolled back \(Failed: no car\): it is compensated") as error:
        with guard.run("trip", on_error="compensate"):
            guard.tools["book"]("never")
    assert (error.value.status, error.value.run_id, desk.books) == ("compensated", "trip", books)
    assert (error.value.__context__, error.value.__cause__) == (None, None)  # it stands alone in a traceback
    assert str(error.value).endswith("to try the task again, enter a run of another id")


def test_an_async_run_that_was_undone_says_so_by_one_error(desk):
    guard = fail(desk, ("book", "flight"))

    async def again():
        async with guard.run("trip"):
            pass

    with pytest.raises(settled.RunUndone) as error:
        asyncio.run(again())
    assert (error.value.__context__, error.value.__cause__) == (None, None)


def test_a_run_that_ends_well_is_completed_and_replays(desk):
    guard = desk.open()
    for _ in range(2):
        with guard.run("trip", on_error="compensate") as run:
            assert guard.tools["book"]("flight") == "b-flight"
        assert run.status == "completed"
    assert desk.books == [("book", "flight")]


def test_without_on_error_a_failed_run_is_kept_and_goes_on(desk):
    guard = desk.open()
    with pytest.raises(Failed), guard.run("trip") as run:
        guard.tools["book"]("flight")
        raise Failed("later")
    assert (run.status, guard.journal.run("", "trip").reason) == ("kept", "Failed: later")
    with guard.run("trip") as run:
        assert guard.tools["book"].call("flight").replayed
        guard.tools["book"]("hotel")
    assert (run.status, desk.books) == ("completed", [("book", "flight"), ("book", "hotel")])


def test_a_run_is_undone_by_hand_while_it_is_at_work(desk):
    guard = desk.open()
    with guard.run("trip") as run:
        guard.tools["book"]("flight")
        assert run.compensate("the customer has called") == "compensated"
        refused = guard.tools["book"].call("hotel")
        assert (refused.status, refused.reason) == ("rejected", "rolled_back")
    assert desk.books == [("book", "flight"), ("cancel", "b-flight")]
    assert (status(guard), guard.journal.run("", "trip").reason) == ("compensated", "the customer has called")


async def test_async_runs_are_undone_too_and_cancellation_waits_for_it(desk):
    guard = desk.open(without=("book", "cancel"))

    @guard.tool(effect="write")
    async def acancel(booking: str) -> str:
        await asyncio.sleep(0.05)
        desk.act("cancel", booking)
        return "cancelled"

    @guard.tool(effect="write", compensate=acancel, undo=lambda call, result: {"booking": result})
    async def abook(what: str) -> str:
        desk.act("book", what)
        return f"b-{what}"

    async def agent():
        async with guard.run("trip", on_error="compensate") as run:
            await run.gather(abook.bind("hotel"), abook.bind("car"))
            await asyncio.sleep(60)

    task = asyncio.create_task(agent())
    while len(desk.books) < 2 or guard.journal.count().get(State.SUCCEEDED, 0) < 2:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0.02)
    task.cancel()  # once more, in the middle of the rollback
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (desk.left, status(guard)) == ([], "compensated")


async def test_a_time_out_undoes_a_run(desk):
    guard = desk.open()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit, guard.run("trip", on_error="compensate"):
            await guard.tools["book"].acall("flight")
            limit.reschedule(0.0)  # only now: on a busy machine the booking takes its time
            await asyncio.sleep(60)
    assert (desk.books, status(guard)) == ([("book", "flight"), ("cancel", "b-flight")], "compensated")


def test_parallel_steps_are_undone_each_once(desk):
    guard = desk.open()
    with pytest.raises(Failed), guard.run("trip", on_error="compensate") as run:
        guard.tools["book"]("flight")
        run.gather(*(guard.tools["book"].bind(f"room {n}") for n in range(5)))
        raise Failed
    cancelled = [what for tool, what in desk.books if tool == "cancel"]
    assert (sorted(cancelled), cancelled[-1]) == (sorted({*cancelled}), "b-flight")
    assert (len(cancelled), desk.left, status(guard)) == (6, [], "compensated")


def test_an_argument_of_equal_name_or_a_field_of_the_result_is_what_undoing_takes(desk):
    guard = desk.open()
    undone = []

    @guard.tool(effect="write")
    def close(ticket: str, board: str, force: bool = False) -> None:
        undone.append((ticket, board, force))

    @guard.tool(effect="write", compensate=close)
    def ticket(board: str) -> dict[str, str]:
        return {"ticket": f"t-{board}", "more": "x"}

    with pytest.raises(Failed), guard.run("trip", on_error="compensate", tools=["ticket"]):
        ticket("b1")
        raise Failed
    assert (undone, status(guard)) == ([("t-b1", "b1", False)], "compensated")


def test_what_is_undone_is_never_given_as_if_it_stood(desk):
    guard = desk.open()
    with pytest.raises(Failed), guard.run("trip", on_error="compensate"):
        guard.tools["book"].options(key="the flight").call("flight")
        raise Failed
    with guard.run("another") as run:
        again = guard.tools["book"].options(key="the flight").call("flight")
        assert (again.status, again.value, run.status) == ("compensated", None, "active")
        with pytest.raises(settled.CallRefused):
            again.unwrap()


# --- what is open ---


def test_an_unknown_step_is_settled_first_and_undone_where_it_was_begun(desk):
    guard = desk.open()
    desk.trouble["book", "flight"] = Lost(after=True)
    desk.probing["blind"] = True
    with pytest.raises(Failed), guard.run("trip", on_error="compensate"):
        assert guard.tools["book"].options(wait=0).call("flight").status == "unknown"
        guard.tools["book"]("hotel")
        desk.probing["blind"] = False
        raise Failed
    assert [each for each in desk.books if each[0] == "cancel"] == [("cancel", "b-hotel"), ("cancel", "b-flight")]
    assert (status(guard), queued(guard)) == ("compensated", [])


def test_a_step_that_proves_not_done_needs_no_undoing(desk):
    guard = desk.open()
    desk.trouble["book", "flight"] = Lost()
    with pytest.raises(settled.CallUnknown), guard.run("trip", on_error="compensate"):
        guard.tools["book"]("hotel")
        guard.tools["book"].options(wait=0)("flight")
    assert (desk.books, status(guard)) == ([("book", "hotel"), ("cancel", "b-hotel")], "compensated")


def test_what_stays_unknown_is_queued_the_others_go_on_and_it_is_undone_once_it_is_known(desk):
    guard = desk.open()
    desk.trouble["book", "flight"] = Lost(after=True)
    desk.probing["blind"] = True
    with pytest.raises(settled.CallUnknown), guard.run("trip", on_error="compensate", undo_within=0.0):
        guard.tools["book"]("hotel")
        guard.tools["book"].options(wait=0)("flight")
    assert (status(guard), queued(guard), desk.left) == (
        "partly_compensated",
        [("book", "unknown", "timeout")],
        ["flight"],
    )
    assert carrying_on.unfinished(guard) == []
    [doubt] = guard.journal.find(CallQuery(states=[State.UNKNOWN]))
    guard.resolve(doubt.operation_id, "happened", by="ann", reason="seen", result="b-flight")
    assert carrying_on.carry_on(guard) == carrying_on.CarriedOn(compensated=1)
    assert (status(guard), queued(guard), desk.left) == ("compensated", [], [])


# --- what fails ---


@pytest.mark.case("CASE-059-compensation-chain-stops")
def test_a_compensation_that_fails_does_not_stop_the_others(desk):
    desk.trouble["cancel", "b-hotel"] = settled.NotExecuted("no refund")
    guard = fail(desk, ("book", "flight"), ("book", "hotel"), ("book", "car"))
    assert (status(guard), desk.left) == ("partly_compensated", ["hotel"])
    assert queued(guard) == [("book", "compensating", "undo_failed")]
    alerts = [alert.kind for alert in guard.journal.alerts()]
    assert alerts == ["undo", "partly_compensated"]
    with pytest.raises(settled.RunUndone, match="partly_compensated: settled queue list --run trip"):
        guard.run("trip").__enter__()
    assert carrying_on.unfinished(guard) == []  # it has failed for good: another try brings nothing


def notes_of(guard, *steps, error=Failed):
    with pytest.raises(error) as raised, guard.run("trip", on_error="compensate", undo_within=0.0) as run:
        for tool, what in steps:
            guard.tools[tool](what)
        raise Failed("no car")
    return run, getattr(raised.value, "__notes__", [])


def test_an_error_says_what_of_its_run_is_left(desk):
    desk.trouble["cancel", "b-hotel"] = settled.NotExecuted("no refund")
    guard = desk.open()
    run, notes = notes_of(guard, ("book", "flight"), ("book", "hotel"), ("book", "car"))
    [left] = waiting(guard.journal)
    [note] = notes
    assert note == (
        f"The run 'trip' was undone only in part. What is left: book {left.operation_id} is not undone: "
        "its compensation was refused for good (not done, and repeating it would fail again (not_executed): "
        "no refund). `settled queue list --run trip` lists what waits for a person"
    )
    assert run.status == "partly_compensated"


def test_an_error_of_a_run_that_is_wholly_undone_is_as_it_came(desk):
    run, notes = notes_of(desk.open(), ("book", "flight"))
    assert (run.status, notes) == ("compensated", [])


async def test_an_async_error_says_what_is_left_too_and_names_a_few(desk):
    guard = desk.open()
    with pytest.raises(Failed) as raised:
        async with guard.run("trip", on_error="compensate"):
            async with guard.run("inner"):
                await guard.tools["mail"].acall("ann")
            for n in range(7):
                await guard.tools["wire"].acall(f"w{n}")
            raise Failed("no car")
    [note] = raised.value.__notes__
    assert note.count("is not undone: nothing undoes it;") == 5
    assert "; and 2 more. `settled queue list" in note


def test_what_is_in_doubt_is_told_with_the_error(desk):
    desk.trouble["book", "flight"] = Lost(after=True)
    desk.probing["blind"] = True
    guard = desk.open()
    with pytest.raises(settled.CallUnknown) as raised, guard.run("trip", on_error="compensate", undo_within=0.0):
        guard.tools["book"].options(wait=0)("flight")
    assert re.search(r"left: book op_\w+ is unknown \(timeout\)\. `settled", raised.value.__notes__[0])


def test_a_compensation_that_may_be_tried_again_is_tried_again(desk):
    desk.trouble["cancel", "b-hotel"] = ConnectionRefusedError("away")
    guard = fail(desk, ("book", "flight"), ("book", "hotel"), undo_within=0.0)
    assert (status(guard), queued(guard)) == ("partly_compensated", [("book", "compensating", "undo_not_done")])
    desk.trouble.clear()
    assert carrying_on.carry_on(guard) == carrying_on.CarriedOn(compensated=1)
    assert (status(guard), desk.left, queued(guard)) == ("compensated", [], [])


def test_the_doubt_about_an_undo_lives_in_its_own_record(desk):
    desk.trouble["cancel", "b-hotel"] = Lost(after=True)
    guard = fail(desk, ("book", "flight"), ("book", "hotel"))
    assert (status(guard), queued(guard)) == ("partly_compensated", [("cancel", "unknown", "timeout")])
    [doubt] = waiting(guard.journal)
    guard.resolve(doubt.operation_id, "happened", by="ann", reason="it is gone")
    assert (status(guard), desk.left) == ("compensated", [])


def test_a_tool_that_is_missing_leaves_the_step_in_the_queue_until_it_is_known(shared_desk):
    desk = shared_desk
    guard = desk.open()
    with guard.run("trip"):
        guard.tools["book"]("flight")
    other = desk.open(without=("cancel",))
    sagas.roll_back(other, sagas.order_for(other, "trip", tenant="", reason="no longer wanted"))
    assert (status(guard), queued(guard)) == ("partly_compensated", [("book", "compensating", "tool_missing")])
    assert carrying_on.unfinished(other) == []
    assert carrying_on.carry_on(guard) == carrying_on.CarriedOn(compensated=1)
    assert (desk.left, status(guard)) == ([], "compensated")


def test_what_undoing_takes_must_be_had(desk):
    guard = desk.open()

    @guard.tool(effect="write", compensate="cancel", undo=lambda call, result: {"booking": result["id"]})
    def odd(what: str) -> str:
        return what

    with pytest.raises(Failed), guard.run("trip", on_error="compensate", tools=["odd"]):
        odd("x")
        raise Failed
    [call] = waiting(guard.journal)
    assert (call.reason, call.note) == ("undo_not_filled", "undo raised TypeError")


def test_a_person_undoes_by_hand(desk):
    desk.trouble["cancel"] = settled.NotExecuted("no refund")
    guard = fail(desk, ("book", "flight"), ("book", "hotel"))
    first, second = waiting(guard.journal)
    guard.resolve(first.operation_id, "undone", by="ann", reason="called them")
    assert status(guard) == "partly_compensated"
    undone = guard.resolve(second.operation_id, "undone", by="ann", reason="called them too")
    assert (undone.status, undone.asserted, status(guard), queued(guard)) == ("compensated", True, "compensated", [])


def test_a_person_leaves_it_as_it_is(desk):
    desk.trouble["cancel"] = settled.NotExecuted("no refund")
    guard = fail(desk, ("book", "flight"))
    [step] = waiting(guard.journal)
    held = guard.resolve(step.operation_id, "hold", by="ann", reason="the customer keeps it")
    assert (held.status, queued(guard), status(guard)) == ("compensating", [], "partly_compensated")
    assert carrying_on.unfinished(guard) == []


# --- what cannot be undone ---


def test_an_irreversible_step_is_told_to_a_person(desk):
    guard = fail(desk, ("book", "flight"), ("wire", "ann"))
    assert (queued(guard), status(guard)) == ([("wire", "compensating", "irreversible")], "partly_compensated")
    assert desk.left == []


def test_what_a_waiver_covers_may_stay(desk):
    guard = fail(desk, ("book", "flight"), ("mail", "ann"), ("note", "n"))
    assert (queued(guard), status(guard), desk.left) == ([], "compensated", [])


def test_an_irreversible_tool_is_refused_while_an_earlier_step_is_open(desk):
    guard = desk.open()
    desk.trouble["book", "flight"] = Lost(after=True)
    desk.probing["blind"] = True
    with guard.run("trip"):
        guard.tools["book"].options(wait=0).call("flight")
        refused = guard.tools["wire"].call("ann")
        assert (refused.status, refused.reason, [e.status for e in refused.earlier]) == (
            "rejected",
            "unsettled_before",
            ["unknown"],
        )
        desk.probing["blind"] = False
        guard.reconcile()
        assert guard.tools["wire"].call("ann").ok
    assert [each for each in desk.books if each[0] == "wire"] == [("wire", "ann")]


def test_an_irreversible_tool_asks_its_precheck(desk):
    guard = desk.open()
    result = guard.tools["wire"].call("nobody")
    assert (result.status, desk.books) == ("failed", [])
    assert "precheck" in result.message


def test_a_tool_without_a_way_back_is_refused_before_the_first_effect(desk):
    guard = desk.open()

    @guard.tool(effect="write")
    def shout(what: str) -> str:
        desk.act("shout", what)
        return what

    with pytest.raises(settled.DeclarationError, match="shout cannot be undone"):
        with guard.run("trip", on_error="compensate"):
            guard.tools["book"]("flight")
    assert desk.books == []
    with pytest.raises(settled.DeclarationError, match="shout cannot be undone"):
        with guard.run("other", on_error="compensate", tools=["book"]):
            shout("now")
    assert desk.books == []
    assert guard.journal.run("", "trip") is None


# --- who works on a run ---


def test_of_two_workers_one_works_and_the_other_is_told(shared_desk):
    one, two = shared_desk.open(), shared_desk.open()
    with one.run("trip") as run:
        one.tools["book"]("flight")
        with pytest.raises(settled.RunInProgress, match=r"another (process|thread or task) .*works on run 'trip'"):
            two.run("trip", wait=0.1).__enter__()
        assert run.entry == 1
    with two.run("trip", wait=0.0) as run:
        assert two.tools["book"].call("flight").replayed
        assert run.entry == 2


def test_of_two_workers_the_other_waits(shared_desk):
    one, two = shared_desk.open(), shared_desk.open()
    entered, told = threading.Event(), []

    def second():
        entered.wait(30)
        with two.run("trip", wait=30.0):
            told.append(two.tools["book"].call("flight"))

    thread = threading.Thread(target=second)
    thread.start()
    with one.run("trip"):
        entered.set()
        one.tools["book"]("flight")
    thread.join(60)
    assert [result.replayed for result in told] == [True]
    assert shared_desk.books == [("book", "flight")]


def test_a_worker_takes_over_if_it_says_so(shared_desk):
    one, two = shared_desk.open(), shared_desk.open()
    with one.run("trip", on_error="compensate"):
        one.tools["book"]("flight")
        with two.run("trip", take_over=True):
            assert two.tools["book"].call("flight").replayed
        assert one.tools["book"].call("hotel").reason == "superseded"
    assert shared_desk.books == [("book", "flight")]


def test_an_entry_that_was_taken_over_undoes_nothing(shared_desk):
    one, two = shared_desk.open(), shared_desk.open()
    with pytest.raises(Failed), one.run("trip", on_error="compensate", undo_within=0.0):
        one.tools["book"]("flight")
        with two.run("trip", take_over=True):
            pass
        raise Failed
    assert shared_desk.books == [("book", "flight")]
    assert status(two) == "completed"


# --- runs in runs ---


def test_an_inner_run_is_one_step_of_the_outer_one(desk):
    guard = desk.open()
    with pytest.raises(Failed), guard.run("trip", on_error="compensate"):
        guard.tools["book"]("flight")
        with guard.run("stay"):
            guard.tools["book"]("hotel")
            guard.tools["book"]("breakfast")
        guard.tools["book"]("car")
        raise Failed
    cancelled = [what for tool, what in desk.books if tool == "cancel"]
    assert cancelled == ["b-car", "b-breakfast", "b-hotel", "b-flight"]
    assert (status(guard), status(guard, "stay")) == ("compensated", "compensated")


def test_calls_inside_of_a_call_are_undone_with_it_or_by_themselves(desk):
    guard = desk.open()
    undone = []

    @guard.tool(effect="write")
    def unpack(name: str) -> None:
        undone.append(name)

    @guard.tool(effect="write", compensate=unpack)
    def package(name: str, broken: bool = False) -> str:
        guard.tools["book"](f"{name} flight")
        if broken:
            raise settled.NotExecuted("no hotel")
        return name

    @guard.tool(effect="read")
    def look_for(name: str) -> str:
        return guard.tools["book"](f"{name} flight")

    with pytest.raises(settled.CallFailed), guard.run("trip", on_error="compensate"):
        look_for("p0")
        package("p1")
        package("p2", broken=True)
    assert undone == ["p1"]
    assert [what for tool, what in desk.books if tool == "cancel"] == ["b-p2 flight", "b-p0 flight"]
    assert status(guard) == "compensated"


def test_what_was_called_inside_of_a_call_that_nothing_undoes_is_undone_by_itself(desk):
    guard = desk.open()

    @guard.tool(effect="write")
    def package(name: str) -> str:
        return guard.tools["book"](f"{name} flight")

    with guard.run("trip") as run:
        package("p")
        run.compensate("no hotel")
    assert desk.books == [("book", "p flight"), ("cancel", "b-p flight")]
    assert (status(guard), queued(guard)) == (
        "partly_compensated",
        [("package", "compensating", "no_compensation")],
    )


# --- crashes ---


def crash_at(guard, number):
    """Let the journal fail for good from transition ``number`` of the rollback on, as if the process had died there."""
    perform, count = guard.journal.perform, [0]

    def failing(transition):
        count[0] += 1
        if count[0] > number:
            raise settled.JournalError("the process is gone")
        return perform(transition)

    guard.journal.perform = failing
    return lambda: setattr(guard.journal, "perform", perform)


def test_a_rollback_that_was_cut_anywhere_is_gone_on_with_and_undoes_each_step_once(desk):
    for number in range(40):
        desk.books.clear()
        guard = desk.open()
        run_id = f"trip {number}"
        mend = None
        with pytest.raises(Failed) as error, guard.run(run_id, on_error="compensate"):
            for what in ("flight", "hotel", "car"):
                guard.tools["book"](f"{what} {number}")
            mend = crash_at(guard, number)
            raise Failed
        mend()
        cut = status(guard, run_id) != "compensated"
        _lose(guard, run_id)
        assert cut == bool(getattr(error.value, "__notes__", []))
        if status(guard, run_id) == "active":
            sagas.roll_back(guard, sagas.order_for(guard, run_id, tenant="", reason="by hand", wait=0.0))
        carrying_on.carry_on(guard, wait=60.0)
        cancelled = [what.split()[0] for tool, what in desk.books if tool == "cancel"]
        doubt = [call for call in waiting(guard.journal) if call.tool == "cancel"]
        if not doubt:
            assert cancelled == ["b-car", "b-hotel", "b-flight"]
        for call in doubt:
            guard.resolve(call.operation_id, "hold", by="ann", reason="known")
        assert len(cancelled) == len(set(cancelled))
        if not cut:
            return
    pytest.fail("40 transitions, and the rollback has not come to its end")


def test_whoever_enters_an_unfinished_rollback_sees_it_through(shared_desk):
    desk = shared_desk
    guard = desk.open()
    with pytest.raises(Failed), guard.run("trip", on_error="compensate"):
        guard.tools["book"]("flight")
        guard.tools["book"]("hotel")
        mend = crash_at(guard, 5)
        raise Failed
    mend()
    assert status(guard) == "rolling_back"
    other = desk.open()
    _lose(guard, "trip")
    with pytest.raises(settled.RunUndone) as error, other.run("trip"):
        pass
    assert (error.value.status, desk.left) == ("compensated", [])


def _lose(guard, run_id):
    """Let the lease of a run end, as it does when nobody renews it."""
    from settled.core.values import replace  # noqa: PLC0415 - here alone
    from settled.testing.records import Look  # noqa: PLC0415 - here alone

    def end(books):
        run = books.run("", run_id)
        if run.lease is not None:
            books.put_run(replace(run, lease=replace(run.lease, mono=0.0)))

    guard.journal.perform(Look(end))


def test_a_run_state_is_known_to_the_journal():
    assert {str(state) for state in RunState} == {
        *("active", "completed", "kept", "rolling_back", "compensated", "partly_compensated")
    }


# --- requests that are still on their way ---


def test_a_request_that_arrives_late_does_not_do_anew_what_was_undone(desk):
    """The first request gets no answer, the second one is answered, the run is undone, and then the first arrives."""
    guard, lifetime, standing, arrived = desk.open(), 0.4, set(), threading.Event()
    requests = []

    def arrive(room, sent):
        if time.monotonic() < sent + lifetime:  # what it declares: later it has no effect
            standing.add(room)
        arrived.set()

    @guard.tool(effect="write")
    def give_up(room: str) -> None:
        standing.discard(room)

    @guard.tool(
        effect="idempotent",
        compensate=give_up,
        max_request_lifetime=lifetime,
        retry=settled.Backoff(base=0.001, cap=0.01),
    )
    def take(room: str) -> str:
        requests.append(room)
        if len(requests) == 1:
            timer = threading.Timer(0.2, arrive, (room, time.monotonic()))
            timer.start()
            raise TimeoutError
        standing.add(room)
        return room

    with pytest.raises(Failed), guard.run("trip", on_error="compensate", tools=["take"]):
        take("12")
        assert standing == {"12"}
        raise Failed
    assert arrived.wait(30)
    assert (status(guard), standing, requests) == ("compensated", set(), ["12", "12"])

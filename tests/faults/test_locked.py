"""Another process holds the journal's lock for longer than the time-out."""

import asyncio
from types import SimpleNamespace

import pytest

import settled
from tests.waiting import until


def test_locked_before_the_call_nothing_is_executed_and_the_same_guard_recovers(shop, holder):
    at = shop.open()
    holder.hold()
    with pytest.raises(settled.JournalError, match="another process holds its lock"):
        at.send.call(order="a")
    assert shop.effects == []
    holder.let_go()
    assert at.send.call(order="a").value == "a done"
    assert shop.effects == ["a"]


async def test_locked_before_the_call_the_event_loop_goes_on(shop, holder):
    at = shop.open(busy_timeout=1.0)
    holder.hold()
    ticks = 0
    call = asyncio.ensure_future(at.asend.acall(order="a"))
    while not call.done():
        ticks += 1
        await asyncio.sleep(0.01)
    with pytest.raises(settled.JournalError, match="another process holds its lock"):
        await call
    assert ticks >= 5  # one second long; a blocked loop would tick once
    assert shop.effects == []
    holder.let_go()
    assert (await at.asend.acall(order="a")).value == "a done"
    assert shop.effects == ["a"]


def test_locked_after_the_effect_the_value_arrives_and_the_record_heals(shop, holder):
    at = shop.open()
    shop.after = holder.hold
    result = at.send.call(order="a")
    assert (result.status, result.value, result.recorded) == ("succeeded", "a done", False)
    shop.after = lambda: None
    with pytest.raises(settled.JournalError):
        at.send.call(order="a")
    assert (shop.path.parent / "agent.db-spill").stat().st_size > 0
    holder.let_go()
    until(lambda: at.guard.look(result.operation_id).status == "succeeded", "the outcome is on record")
    again = at.send.call(order="a")
    assert (again.value, again.replayed, again.recorded, again.disputed) == ("a done", True, True, False)
    assert shop.effects == ["a"]
    until(lambda: (shop.path.parent / "agent.db-spill").stat().st_size == 0, "the spill file is empty")


async def test_locked_after_the_effect_of_an_async_tool(shop, holder):
    at = shop.open(busy_timeout=1.0)
    shop.after = holder.hold
    ticks = 0
    call = asyncio.ensure_future(at.asend.acall(order="a"))
    while not call.done():
        ticks += bool(shop.effects)
        await asyncio.sleep(0.01)
    result = await call
    assert (result.status, result.value, result.recorded) == ("succeeded", "a done", False)
    assert ticks >= 5
    holder.let_go()
    await asyncio.to_thread(until, lambda: at.guard.look(result.operation_id).status == "succeeded", "it is on record")
    assert (await at.asend.acall(order="a")).replayed
    assert shop.effects == ["a"]


def test_the_outcome_outlives_its_process_in_the_spill_file(shop, holder):
    first = shop.open()
    shop.after = holder.hold
    result = first.send.call(order="a")
    assert not result.recorded
    first.guard.close()  # still locked: the last round cannot bring it either
    holder.let_go()
    again = shop.open().send.options(wait=0.0).call(order="a")
    assert (again.status, again.value, again.replayed) == ("succeeded", "a done", True)
    assert shop.effects == ["a"]


def test_a_failure_after_the_effect_is_not_called_a_success(shop, holder):
    at = shop.open()

    def hold_and_fail():
        holder.hold()
        raise TimeoutError

    shop.after = hold_and_fail
    result = at.send.call(order="a")
    assert (result.status, result.recorded) == ("unknown", False)
    holder.let_go()
    shop.after = lambda: None
    assert at.send.options(wait=0.0).call(order="a").status in ("unknown", "in_progress")
    assert shop.effects == ["a"]


def test_a_locked_file_cannot_be_opened_and_says_so(shop, holder):
    shop.open().guard.close()
    holder.hold()
    at = shop.open()  # looking needs no lock
    with pytest.raises(settled.JournalError, match="another process holds its lock"):
        at.send.call(order="a")
    assert shop.effects == []


@pytest.mark.parametrize(
    ("declared", "status"),
    [
        (("write", settled.NotExecuted("busy", retryable=True)), "not_done"),
        (("idempotent", TimeoutError()), "unknown"),
        (("read", TimeoutError()), "not_done"),
    ],
)
def test_locked_between_two_attempts_says_what_the_first_has_shown(shop, holder, monkeypatch, declared, status):
    at = shop.open()
    effects, (effect, error) = [], declared

    @at.guard.tool(effect=effect, key="{order}")
    def put(order: str) -> str:
        effects.append(order)
        if len(effects) == 1:
            raise error
        return f"{order} done"

    monkeypatch.setattr("settled.drivers.sync.time", SimpleNamespace(sleep=lambda _: holder.hold()))
    result = put.call(order="a")
    assert (result.status, result.reason, result.recorded) == (status, "journal_failed", False)
    assert effects == ["a"]
    monkeypatch.undo()
    holder.let_go()
    assert at.guard.floor.bring() is None
    after = put.options(wait=0.0).call(order="a")
    assert after.status in ("in_progress", "succeeded", "not_done", "unknown")
    assert len(effects) <= 2


def test_locked_after_the_probe_proved_absence_says_not_done(shop, holder, monkeypatch):
    at = shop.open()
    effects = []

    @at.guard.tool(effect="write", key="{order}", probe=lambda _: settled.NotHappened(), max_request_lifetime=0.0)
    def book(order: str) -> str:
        effects.append(order)
        raise TimeoutError

    monkeypatch.setattr("settled.drivers.sync.SHORTEST_SLEEP", 0.0)
    monkeypatch.setattr("settled.drivers.sync.time", SimpleNamespace(sleep=lambda _: holder.hold()))
    result = book.call(order="a")
    assert (result.status, result.reason, result.recorded) == ("not_done", "journal_failed", True)
    assert effects == ["a"]

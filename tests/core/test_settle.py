"""Settling by a probe: when its no is proof, how long to wait for that, and whose attempts are over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.commands import AwaitCall, CheckOwners, Owners, Probe, Probed, Reply, Transact, Woke
from settled.core.doubt.settle import settle
from settled.core.doubt.settling import Over, Settle
from settled.core.encoding import codec
from settled.core.model import Standing, Terms
from settled.core.policy import Policy
from settled.core.states import State
from settled.core.values import replace
from tests.core.build import ME, OTHER, at, attempt, call, journal

if TYPE_CHECKING:
    from settled.core.call import Call
    from settled.journals.memory import MemoryJournal

S = State
NONE, MAYBE = Standing.NONE, Standing.MAYBE
VALUE = codec.dumps("found")


class World:
    """Answers the commands of one flow that settles a call."""

    def __init__(self, kept: Call, *said: bool | None, alive: dict[Any, bool | None] | None = None) -> None:
        self.store: MemoryJournal = journal(kept, seconds=1.0)
        self.said = list(said)
        self.alive = alive or {}
        self.sent: list[Any] = []
        self.fence = False
        self.now = at(1.0)
        self.took = 0.0
        """Seconds that a probe takes."""

    def settle(self, kept: Call, policy: Policy, patience: float = 60.0, **limit: float) -> Call:
        flow, event = settle(kept, policy, patience, **limit), None
        while True:
            try:
                event = self.perform(flow.send(event))  # type: ignore[arg-type]
            except StopIteration as stop:
                settled: Call = stop.value
                return settled

    def perform(self, command: Any) -> Any:
        self.sent.append(command)
        assert len(self.sent) < 100, "it goes on for ever"
        self.store._clock.moment = self.now  # type: ignore[attr-defined]
        match command:
            case CheckOwners(owners):
                return Owners(tuple(self.alive.get(owner, True) for owner in owners), self.now, 0.0)
            case Transact(transition):
                return Reply(self.store.perform(transition), 0.0)
            case AwaitCall(_, seconds):
                self.now = self.now.plus(seconds)
                return Woke(0.0)
        assert isinstance(command, Probe)
        happened = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        data = VALUE if happened else None
        began, self.now = self.now, self.now.plus(self.took)
        return Probed(happened, began, self.now, 0.0, data=data, note="a note", fence=self.fence)

    def made(self, kind: type) -> list[Any]:
        """The commands, or the transitions, of one kind that went out."""
        each = [c.transition if isinstance(c, Transact) else c for c in self.sent]
        return [c for c in each if isinstance(c, kind)]


def doubt(*attempts: Any, lifetime: float | None = 10.0, **changes: Any) -> Call:
    return call(
        S.UNKNOWN, *(attempts or (attempt(1, MAYBE),)), **({"terms": {"lifetime": lifetime}, "epoch": 3} | changes)
    )


def declared(lifetime: float | None = 10.0, *, probe: bool = True) -> Policy:
    return Policy(Terms(lifetime=lifetime), probe=probe)


def test_a_yes_settles_with_its_result_and_note() -> None:
    world = World(doubt(), True)
    settled = world.settle(doubt(), declared())
    assert (settled.state, settled.result, settled.note) == (S.SUCCEEDED, VALUE, "a note")
    [verdict] = world.made(Settle)
    assert (verdict.operation_id, verdict.epoch, verdict.happened, verdict.began) == ("op_1", 3, True, at(1))
    assert verdict.today == declared().terms


def test_a_no_is_waited_for_until_it_is_proof() -> None:
    world = World(doubt(), False)
    assert world.settle(doubt(), declared()).state is S.NOT_DONE
    waits = world.made(AwaitCall)
    assert [(w.operation_id, round(w.seconds, 6), w.local == w.seconds) for w in waits] == [("op_1", 10.001, True)]
    assert len(world.made(Probe)) == 2


def test_a_no_that_can_be_proof_by_now_is_asked_for_once_more() -> None:
    """The probe began too early; the next one may begin at once."""
    world = World(doubt(attempt(1, MAYBE, over=at(-9))), False)
    assert world.settle(doubt(attempt(1, MAYBE, over=at(-9.001))), declared()).state is S.NOT_DONE
    ripe = World(doubt(attempt(1, MAYBE, over=at(-9))), False)
    assert ripe.settle(doubt(attempt(1, MAYBE, over=at(-9))), declared(), patience=0.0).state is S.NOT_DONE
    assert ripe.made(AwaitCall) == []


@pytest.mark.parametrize(("patience", "settled"), [(10.0, False), (10.001, True), (10.002, True)])
def test_it_is_waited_for_only_as_long_as_the_asker_waits(patience: float, settled: bool) -> None:
    world = World(doubt(), False)
    after = world.settle(doubt(), declared(), patience)
    assert (after.state is S.NOT_DONE) is settled


@pytest.mark.parametrize(("patience", "waits"), [(12.0, 1), (16.0, 2)])
def test_patience_is_spent_by_waiting(patience: float, waits: int) -> None:
    class Later(World):
        def perform(self, command: Any) -> Any:
            if isinstance(command, AwaitCall):  # meanwhile it is seen that its attempt ran on
                over = self.now.plus(command.seconds - 5.0)
                self.store.books.calls["op_1"] = doubt(attempt(1, MAYBE, over=over))
            return super().perform(command)

    world = Later(doubt(), False)
    assert world.settle(doubt(), declared(), patience).state is S.UNKNOWN
    assert len(world.made(AwaitCall)) == waits


def test_a_probe_that_began_too_early_is_repeated_at_once_when_it_took_long() -> None:
    kept = doubt(attempt(1, MAYBE, over=at(-8)))
    world = World(kept, False)
    world.took = 2.0
    assert world.settle(kept, declared()).state is S.NOT_DONE
    assert [w.seconds for w in world.made(AwaitCall)] == [0.001]


def test_a_probe_that_cannot_tell_ends_it() -> None:
    world = World(doubt(), None)
    assert world.settle(doubt(), declared()) == doubt()
    assert world.made(Settle) == []


def test_a_probe_is_given_its_limit() -> None:
    world = World(doubt(), None)
    world.settle(doubt(), declared())
    world.settle(doubt(), declared(), limit=4.0)
    assert [(p.call, p.seconds) for p in world.made(Probe)] == [(doubt(), 30.0), (doubt(), 4.0)]


def test_a_fence_is_proof_at_once() -> None:
    world = World(doubt(lifetime=None), False)
    world.fence = True
    assert world.settle(doubt(lifetime=None), declared(None)).state is S.NOT_DONE


def test_a_bound_declared_since_then_is_waited_out() -> None:
    world = World(doubt(lifetime=None), False)
    assert world.settle(doubt(lifetime=None), declared(10.0)).state is S.NOT_DONE
    assert [round(w.seconds, 6) for w in world.made(AwaitCall)] == [10.001]
    never = World(doubt(lifetime=None), False)
    assert never.settle(doubt(lifetime=None), declared(None)).state is S.UNKNOWN


def test_without_a_probe_only_its_owners_are_looked_at() -> None:
    world = World(doubt(), True)
    assert world.settle(doubt(), declared(probe=False)) == doubt()
    assert [type(c) for c in world.sent] == [CheckOwners]


def test_what_a_person_holds_is_left_alone() -> None:
    world = World(doubt(held=True), True)
    assert world.settle(doubt(held=True), declared()) == doubt(held=True)
    assert world.sent == []
    held_since = World(doubt(attempt(1), held=True), True, alive={ME: False})
    assert held_since.settle(doubt(attempt(1)), declared()).state is S.UNKNOWN
    assert held_since.made(Probe) == []


def test_a_call_that_was_settled_meanwhile_is_returned_as_it_stands() -> None:
    world = World(replace(doubt(epoch=9), state=S.FAILED), True)
    assert world.settle(doubt(), declared()).state is S.FAILED
    gone = World(doubt(operation_id="op_other"), True)
    assert gone.settle(doubt(), declared(), 0.0) == doubt()


def test_only_doubtful_attempts_are_asked_after() -> None:
    kept = doubt(attempt(1, NONE, owner=OTHER), attempt(2, MAYBE))
    world = World(kept, None)
    world.settle(kept, declared())
    assert world.sent[0] == CheckOwners((ME,))
    sure = doubt(attempt(1, NONE))
    world = World(sure, None)
    world.settle(sure, declared())
    assert world.made(CheckOwners) == []


@pytest.mark.parametrize(
    ("kept", "alive", "over"),
    [
        (attempt(2), False, True),
        (attempt(2), True, False),
        (attempt(2), None, False),
        (attempt(2, MAYBE), False, False),
        (attempt(2, MAYBE, over=at(5, boot="boot-0")), True, True),
        (attempt(2, MAYBE, over=at(5, boot="boot-0")), False, True),
    ],
    ids=["dead", "alive", "cannot be told", "over already", "over on another boot", "dead on another boot"],
)
def test_attempts_of_dead_processes_are_over(kept: Any, alive: bool | None, over: bool) -> None:
    record = doubt(attempt(1, MAYBE, owner=OTHER), kept)
    world = World(record, None, alive={ME: alive})
    world.settle(record, declared())
    assert world.made(Over) == ([Over("op_1", [2])] if over else [])


def test_a_record_that_is_gone_is_returned_as_it_was() -> None:
    kept = doubt(attempt(1))
    world = World(doubt(operation_id="op_other"), None, alive={ME: False})
    assert world.settle(kept, declared()) == kept

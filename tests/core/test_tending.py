"""When a call in doubt is looked at again, and what is left alone."""

import pytest

from settled.core.doubt.settling import Resolve
from settled.core.doubt.tending import LONGEST, LayDown, TakeUp, next_look
from settled.core.model import Standing
from settled.core.states import State
from settled.core.values import replace
from settled.testing.records import begun, ended, make_ask, unknown_call
from tests.core.build import at, attempt, call


def in_doubt(**changes):
    return call(State.UNKNOWN, attempts=(attempt(standing=Standing.MAYBE, **changes),), terms={"lifetime": 100.0})


@pytest.mark.parametrize(
    ("age", "seconds"), [(0.0, 5.0), (8.0, 5.0), (60.0, 30.0), (86_400.0, LONGEST), (-3600.0, 5.0)]
)
def test_the_longer_it_has_stood_the_longer_the_pause(age, seconds):
    doubt = replace(in_doubt(), changed=at(0.0))
    assert next_look(doubt, at(age), 5.0) == seconds


def test_a_look_comes_when_a_probe_can_prove_absence():
    doubt = replace(in_doubt(over=at(0.0)), changed=at(0.0))
    assert next_look(doubt, at(90.0), 5.0) == 10.0
    assert next_look(doubt, at(98.0), 5.0) == 5.0
    assert next_look(doubt, at(100.0), 5.0) == 50.0


def test_what_a_person_holds_is_left_alone(journal, clock):
    held = unknown_call(journal, lease=1.0)
    journal.perform(Resolve(held.operation_id, "hold", "eva", "ask the bank", epoch=held.epoch))
    clock.advance(1.0)
    assert journal.perform(TakeUp("acme", ["pay"], 9, 60.0)) == ()
    assert journal.get(held.operation_id).lease == clock().plus(LONGEST)


def test_what_was_settled_meanwhile_is_not_laid_down(journal):
    done = ended(journal, begun(journal, make_ask()))
    journal.perform(LayDown(done.operation_id, done.epoch, 500.0))
    journal.perform(LayDown("op_none", 1, 500.0))
    assert journal.get(done.operation_id) == done


def test_a_worker_takes_up_the_calls_of_its_tools_for_a_while(journal, clock):
    mine, other = unknown_call(journal, lease=1.0), unknown_call(journal, lease=1.0, tool="mail")
    clock.advance(1.0)
    assert [call.operation_id for call in journal.perform(TakeUp("acme", ["pay"], 9, 60.0))] == [mine.operation_id]
    assert journal.get(mine.operation_id).lease == clock().plus(60.0)
    assert journal.get(other.operation_id) == other
    clock.advance(59.0)
    assert journal.perform(TakeUp("acme", ["pay"], 9, 60.0)) == (), "somebody looks after it"
    clock.advance(1.0)
    assert len(journal.perform(TakeUp("acme", ["pay"], 9, 60.0))) == 1


def test_what_is_laid_down_is_left_alone_until_its_next_look(journal, clock):
    doubt = unknown_call(journal, lease=1.0)
    journal.perform(LayDown(doubt.operation_id, doubt.epoch + 1, 500.0))
    assert journal.get(doubt.operation_id) == doubt, "it is not as the worker saw it"
    journal.perform(LayDown(doubt.operation_id, doubt.epoch, 500.0))
    assert journal.get(doubt.operation_id).lease == clock().plus(500.0)

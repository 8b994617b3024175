"""What a process knows of the file takes a bounded amount of memory, and what is no longer known is looked for."""

from random import Random

import pytest

from settled.core.call import evolve
from settled.core.model import KeyKind, Moment
from settled.core.states import Event, State
from settled.core.values import replace
from settled.journals.books import TableBooks
from settled.journals.memory import MemoryJournal
from settled.journals.sqlite import SqliteJournal, books, known
from settled.ports import CallQuery
from settled.testing.records import FakeClock, Look, begun, make_ask

MOMENT = Moment(2_000_000.0, "boot", 5.0)


@pytest.fixture
def calls():
    one = replace(begun(MemoryJournal(FakeClock()), make_ask()), scope="s", arguments=b"x" * 100)
    return [replace(one, operation_id=f"op_{number}") for number in range(20)]


def test_all_is_forgotten_once_it_takes_too_much_memory(calls, monkeypatch):
    monkeypatch.setattr(known, "MOST_BYTES", 1000)
    it = known.Known()
    for call in calls:
        it.keep(call)
        it.keep(call)  # that it is kept once more takes no more
        assert it.bytes == sum(len(each.arguments) for each in it.calls.values()) <= 1000
    assert 0 < len(it.calls) <= 10


@pytest.mark.parametrize(("most", "whole"), [(1000, False), (2500, True)])
def test_a_scope_that_is_too_large_is_not_known_as_a_whole(calls, monkeypatch, most, whole):
    monkeypatch.setattr(known, "MOST_BYTES", most)
    it = known.Known()
    it.learn("s", calls)
    assert (it.shelves["s"] is not None) == whole
    assert it.bytes == (2000 if whole else 0)


def test_a_call_that_grows_too_large_leaves_and_its_scope_with_it(calls):
    it = known.Known()
    it.learn("s", calls)
    it.keep(replace(calls[3], result=b"y" * 20_000))
    assert (it.shelves["s"], "op_3" in it.calls, it.bytes) == (None, False, 1900)
    it.drop(calls[4])
    assert (it.bytes, "s" in it.shelves) == (1800, False)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("most", [4, 512])
def test_what_is_open_outside_of_runs_is_known_as_it_stands_in_the_file(tmp_path, monkeypatch, seed, most):
    """Whatever becomes of the calls: too many of them, large ones, some that open again, some that are removed."""
    for module in (known, books):
        monkeypatch.setattr(module, "MOST_OUTSIDE", most)
    journal, dice, made = SqliteJournal(tmp_path / "j.db", clock=FakeClock(), synchronous="NORMAL"), Random(seed), []
    for _ in range(250):
        one_of(made, journal, dice)()
        for identity in ("0", "1", "2"):
            seen, there = journal.perform(Look(lambda it, of=identity: both(it, of)))
            assert seen == there
    assert any(call.log_no > 3 for call in journal.find(CallQuery(limit=200)))  # some were open again
    journal.close()


def both(it, identity):
    """What is known, and what the file says."""
    return tuple(list(cls.unsettled(it, "acme", "", "pay", identity)) for cls in (books.SqliteBooks, TableBooks))


def one_of(made, journal, dice):
    def new():
        ask = make_ask(
            kind=KeyKind.RANDOM, identity=str(dice.randrange(3)), arguments=b"x" * dice.choice([9] * 39 + [20_000])
        )
        made.append(begun(journal, ask))

    def some(event, states, **changes):
        def change():
            call = journal.get(dice.choice(made[-8:]).operation_id) if made else None
            if call is not None and call.state in states:
                journal.perform(Look(lambda it: it.put(*evolve(call, event, MOMENT, **changes))))

        return change

    def remove():
        call = made.pop(dice.randrange(len(made))) if made else None
        if call is not None:
            journal.perform(Look(lambda it: it.forget(it.by_id(call.operation_id))))

    doubt = some(Event.DOUBT, [State.PROCESSING])
    absent = some(Event.ABSENT, [State.PROCESSING, State.UNKNOWN])
    again = some(Event.CLAIM, [State.UNKNOWN, State.NOT_DONE], claim="op_again")
    done = some(Event.SUCCEED, [State.PROCESSING], result=b"r")
    return dice.choice([new, new, doubt, absent, absent, again, again, again, done, remove])

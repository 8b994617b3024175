"""What a process knows of the file takes a bounded amount of memory, and what is no longer known is looked for."""

import pytest

from settled.core.values import replace
from settled.journals.memory import MemoryJournal
from settled.journals.sqlite import known
from settled.testing.records import FakeClock, begun, make_ask


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

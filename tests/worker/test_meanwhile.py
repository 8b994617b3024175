"""What changes while it is listed: nothing that waits is missed, nothing that is older is taken for absent."""

import pytest

from settled.api.people import queue
from settled.core.doubt.settling import Adopt
from settled.core.model import KeyKind, Terms
from settled.core.states import State
from settled.journals.memory import MemoryJournal
from settled.journals.prune import prune
from settled.journals.sqlite import SqliteJournal
from settled.ports import CallQuery
from settled.testing.records import FakeClock, begun, ended, make_ask


@pytest.fixture(params=["memory", "sqlite"])
def journal(request, tmp_path):
    clock = FakeClock()
    journal = MemoryJournal(clock) if request.param == "memory" else SqliteJournal(tmp_path / "a.db", clock=clock)
    journal.clock = clock
    yield journal
    journal.close()


def between(journal, monkeypatch, act):
    """Do something after the first look into the journal."""
    find, looked = journal.find, []

    def then(query):
        found = find(query)
        if not looked:
            looked.append(query)
            act()
        return found

    monkeypatch.setattr(journal, "find", then)


def test_a_call_taken_from_a_lost_owner_while_the_queue_is_read_is_in_it(journal, monkeypatch):
    call = begun(journal, make_ask())
    journal.clock.advance(3600.0)
    between(journal, monkeypatch, lambda: journal.perform(Adopt(call.operation_id)))
    assert [each.operation_id for each in queue.waiting(journal)] == [call.operation_id]
    assert journal.get(call.operation_id).state is State.UNKNOWN


@pytest.mark.parametrize("old", [[4], [3, 4], [2, 3, 4], range(5), range(3, 9)])
def test_what_is_older_than_a_call_that_was_pruned_meanwhile_is_not_missed(journal, monkeypatch, old):
    """The last call of a page was the place to go on after; ``old``: which of ten are pruned, counted from the newest.

    A ledger's effects would else be explained by no call on record, and open calls stand in no queue.
    """
    monkeypatch.setattr(queue, "PAGE", 5)
    made = []
    for number in reversed(range(10)):
        terms = Terms(retention=0.0 if number in old else None)
        ask = make_ask(terms=terms, kind=KeyKind.RANDOM)
        made.append(ended(journal, begun(journal, ask)).operation_id)
    made.reverse()
    between(journal, monkeypatch, lambda: prune(journal))
    found = [call.operation_id for call in queue.pages(journal, CallQuery())]
    assert found == made[:5] + [op for number, op in enumerate(made[5:], 5) if number not in old]

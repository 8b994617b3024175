"""Redis agrees with memory, whatever is done to both - also where each transaction has to be made twice."""

import itertools
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from settled.journals.redis import RedisJournal, transactions
from settled.journals.redis.books import RedisBooks
from settled.journals.redis.transactions import Transactions
from settled.testing.agreement import Agreement

_numbers = itertools.count(1)


def agreement(server):
    """The machine on one server; each example has a prefix of its own."""

    class RedisAgreement(Agreement):
        def __init__(self):
            super().__init__()
            self.prefix = f"agreement_{next(_numbers)}"
            self.folder = tempfile.TemporaryDirectory()

        def open_journal(self):
            spill = f"{self.folder.name}/spill"
            return RedisJournal(server.url(), prefix=self.prefix, clock=self.clock, spill=spill)

        def teardown(self):
            super().teardown()
            self.folder.cleanup()
            with server.client() as client:
                client.delete(*client.keys(f"{{{self.prefix}}}:*"))

    return RedisAgreement


def chosen(examples, steps, **options):
    health = list(HealthCheck)
    return settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=health, **options
    )


def test_it_agrees(server):
    run_state_machine_as_test(agreement(server), settings=chosen(30, 40))


def test_it_agrees_when_nothing_is_guessed(one_server, monkeypatch):
    monkeypatch.setattr(Transactions, "foretold", lambda self, transitions, hints: None)
    run_state_machine_as_test(agreement(one_server), settings=chosen(15, 40))


def test_it_agrees_when_every_commit_finds_another_state(one_server, monkeypatch):
    """As if another process had just changed something: the commit says what stands, and is made once more."""
    standing, turns, seen = transactions.standing, itertools.cycle([True, False]), []

    def changed_meanwhile(read):
        counts, stand = standing(read)
        if next(turns) and stand:  # the first of the conditions does not hold
            stand[0] = b"of another time"
            seen.append(True)
        return counts, stand

    monkeypatch.setattr(transactions, "standing", changed_meanwhile)
    run_state_machine_as_test(agreement(one_server), settings=chosen(12, 40))
    assert seen


def test_it_agrees_when_every_answer_to_a_commit_is_lost(one_server, monkeypatch):
    """It is asked for again on another connection, and recognised."""
    ask, lost = Transactions.ask, []

    def once(self, request):
        answer, commit = ask(self, request), (self._client, self._number)
        if request[0] == "commit" and commit not in lost:
            lost.append(commit)
            raise ConnectionError("the answer was lost")
        return answer

    monkeypatch.setattr(Transactions, "ask", once)
    run_state_machine_as_test(agreement(one_server), settings=chosen(4, 25))


def keep_what_raised(self):
    self.keep()


def alike_to_none(self, scope, lane, tool, identity, entries):  # noqa: PLR0917 - as the one it stands in for
    return ()


def tell_nobody(self, call, kind):
    return None


PLANTED = {"undo": keep_what_raised, "alike": alike_to_none, "alert": tell_nobody}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_disagreement_is_seen(one_server, name, monkeypatch):
    monkeypatch.setattr(RedisBooks, name, PLANTED[name])
    planted = chosen(500, 40, phases=[Phase.generate], database=None, derandomize=True)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(agreement(one_server), settings=planted)

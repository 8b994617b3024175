"""In which order a run's calls were begun: only what is begun after a call was put on record is listed by itself."""

import pytest

from settled.core.ask import Begun
from settled.core.attempts.progress import Begin, End
from settled.core.matching.claim import Claim
from settled.core.model import Effect, Terms
from settled.core.runs.entering import EnterRun, scope_of_run
from settled.journals.memory import MemoryJournal
from settled.testing.records import LOST, REFUSED, FakeClock, Look, begun, make_ask

SCOPE = scope_of_run("acme", "r")


def order(journal):
    return [step.call.key for step in journal.perform(Look(lambda books: books.begun_in(SCOPE)))]


@pytest.fixture(params=["memory", "redis"])
def journal(request, open_journal):
    clock = FakeClock()
    journal = MemoryJournal(clock) if request.param == "memory" else open_journal(clock=clock)
    journal.perform(EnterRun("r", "acme"))
    return journal


def ask(key, **changes):
    fields = {"key": key, "scope": SCOPE, "run_id": "r", "run_entry": 1, "terms": Terms(Effect.IDEMPOTENT)}
    return make_ask(**{**fields, **changes})


@pytest.mark.parametrize(("fault", "expected"), [(REFUSED, ["b", "a", "c"]), (LOST, ["a", "b", "c"])])
def test_where_the_first_attempt_stands_that_may_have_had_the_effect(journal, fault, expected):
    first = ask("a")
    call = begun(journal, first)
    journal.perform(End(call.operation_id, 1, 1, fault, go_on=True))
    begun(journal, ask("b"))
    journal.perform(Begin(call.operation_id, 1, 2, first))
    begun(journal, ask("c"))
    assert order(journal) == expected


@pytest.mark.parametrize(("fault", "expected"), [(REFUSED, ["a", "x", "b"]), (LOST, ["x", "a", "b"])])
def test_a_call_made_elsewhere_and_begun_anew_in_the_run(journal, fault, expected):
    call = begun(journal, ask("x", scope="", run_id="", run_entry=0))
    journal.perform(End(call.operation_id, 1, 1, fault))
    begun(journal, ask("a"))
    anew = ask("x", identity=call.identity, words=call.words, fingerprint=call.fingerprint)
    assert isinstance(journal.perform(Claim(anew, repeat=True)), Begun)
    begun(journal, ask("b"))
    assert order(journal) == expected

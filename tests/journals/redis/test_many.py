"""However much there is, the server is held up for little at a time: while a script runs it answers nobody else."""

import pytest

from settled.core.doubt.tending import TakeUp
from settled.journals.redis.line import Line
from settled.journals.stored import Errand
from settled.ports import CallQuery
from settled.testing.records import FakeClock, begun, ended, make_ask, unknown_call


@pytest.fixture
def journal(open_journal):
    return open_journal(clock=FakeClock())


def test_of_very_many_the_server_is_never_asked_at_once(journal, monkeypatch):
    """A log of weeks has a million seals."""
    monkeypatch.setattr("settled.journals.redis.lists._MOST_AT_ONCE", 3)
    for number in range(10):
        ended(journal, begun(journal, make_ask()))
        journal.perform(Errand(lambda books, now: books.alert_of("finding", "fd_1", now.wall)))
        journal.perform(Errand(lambda books, now, n=number: books.put_note("finding", f"fd_{n}", "{}")))
        assert journal.seal()
    asked, look_on = [], journal._look_on

    def counting(line, commands):
        asked.append(len(commands))
        return look_on(line, commands)

    monkeypatch.setattr(journal, "_look_on", counting)
    report = journal.verify()
    assert (report.ok, report.facts["seals"]) == (True, 10)
    assert len(journal.notes("finding")) == len(journal.find(CallQuery())) == len(journal.alerts()) == 10

    assert max(asked) == 3


def test_who_takes_up_calls_in_doubt_is_not_shown_all_of_them(journal, monkeypatch):
    """After an outage there are thousands, and a worker asks for the next few again and again."""
    monkeypatch.setattr("settled.journals.redis.lists._PIECE", 5)
    calls = [unknown_call(journal) for _ in range(40)]
    journal._given.advance(60.0)
    answers, run = [], Line.run

    def counting(line, *asked):
        answers.append(run(line, *asked))
        return answers[-1]

    monkeypatch.setattr(Line, "run", counting)
    taken = [journal.perform(TakeUp("acme", ("pay",), 3, 60.0)) for _ in range(4)]
    assert [[call.operation_id for call in some] for some in taken] == [
        [call.operation_id for call in calls[i : i + 3]] for i in (0, 3, 6, 9)
    ]
    sizes = [len(part) for answer in answers for part in (answer, *answer) if isinstance(part, list)]
    assert max(sizes) < 20

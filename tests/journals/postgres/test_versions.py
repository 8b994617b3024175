"""The oldest and the newest server that install as packages, in short: the whole contract runs on the one between."""

import threading

import pytest
from hypothesis.stateful import run_state_machine_as_test

from settled.core.doubt.tending import AdoptLost, TakeUp
from settled.journals.postgres import PostgresJournal
from settled.testing.records import FakeClock, begun, ended, make_ask, unknown_call
from tests.journals.postgres.test_agreement import agreement, chosen
from tests.journals.support import CLAIMER, together
from tests.servers.postgres import PACKAGES, PostgresServer

OTHERS = [version for version in PACKAGES if version != "17"]


@pytest.fixture(scope="module", params=OTHERS)
def postgres(request):
    with PostgresServer(request.param) as server:
        yield request.param, server


@pytest.fixture
def open_journal(postgres, tmp_path):
    """Open the journal of this test; all are closed in the end."""
    opened = []

    def open_one(**options):
        opened.append(PostgresJournal(postgres[1].url(schema="shared"), spill=tmp_path / "spill", **options))
        return opened[-1]

    yield open_one
    for journal in opened:
        journal.close()
    with postgres[1].connect() as connection:
        connection.execute("DROP SCHEMA IF EXISTS shared CASCADE")


def test_it_is_that_version(open_journal, postgres):
    assert open_journal().check().facts["server_version"].startswith(f"{postgres[0]}.")


def test_it_agrees(postgres):
    run_state_machine_as_test(agreement(postgres[1]), settings=chosen(4, 30))


def test_of_8_processes_one_begins_each_call(open_journal, postgres, tmp_path):
    url = postgres[1].url(schema="shared", spill=tmp_path / "spill")
    said = together(CLAIMER, url, 10, journal="postgres")
    assert sum(words.count("begun") for words in said) == 10
    journal = open_journal()
    journal.seal()
    assert journal.verify(journal.head()).ok


def test_a_waiter_is_told_and_workers_pass_each_other_by(open_journal, postgres):
    clock = FakeClock()
    mine, other = open_journal(clock=clock), open_journal(clock=clock)
    call, heard = begun(mine, make_ask()), threading.Event()
    other.ear.heed(call.operation_id, lambda _: heard.set())
    assert heard.wait(30)
    heard.clear()
    ended(mine, call)
    assert heard.wait(30)
    doubts = [unknown_call(mine, lease=1.0) for _ in range(3)]
    begun(mine, make_ask(lease=1.0))
    clock.advance(2.0)
    assert mine.perform(AdoptLost("acme", 9)) == 1
    with postgres[1].connect() as at_work:
        at_work.execute("BEGIN")
        at_work.execute("SELECT 1 FROM shared.calls WHERE operation_id = %s FOR UPDATE", (doubts[0].operation_id,))
        taken = other.perform(TakeUp("acme", ["pay"], 2, 60.0))
    assert [found.operation_id for found in taken] == [doubt.operation_id for doubt in doubts[1:]]


def test_what_was_told_survives_a_kill(open_journal, postgres):
    journal = open_journal()
    calls = [ended(journal, begun(journal, make_ask())) for _ in range(5)]
    postgres[1].kill()
    postgres[1].start()
    assert [journal.get(call.operation_id) for call in calls] == calls
    assert ended(journal, begun(journal, make_ask())).state == "succeeded"

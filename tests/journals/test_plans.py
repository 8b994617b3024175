"""Cost does not grow with the journal: every look-up goes by an index, every write is a fixed number of statements."""

import pytest

from settled.core.attempts.progress import Begin, End, Renew
from settled.core.matching.claim import Claim
from settled.core.model import KeyKind, Moment
from settled.core.runs.entering import EnterRun
from settled.core.states import State
from settled.journals import books, lists, runs
from settled.journals.sqlite import SqliteJournal, known
from settled.journals.sqlite import books as sqlite_books
from settled.ports import CallQuery
from settled.testing.records import REFUSED, FakeClock, Look, begun, ended, make_ask, scoped

LOOKUPS = {
    "by_id": (books.BY_ID, ("op",)),
    "by_key": (books.BY_KEY, ("key",)),
    "by_step": (books.BY_STEP, ("scope", "step")),
    "alike": (books.ALIKE, ("scope", "tool", "lane", "identity", 1, 2)),
    "last_n": (books.LAST_N, ("scope", "tool", "lane", "identity")),
    "made": (books.MADE, ("scope", "tool", 1, 2)),
    "unsettled": (books.UNSETTLED, ("tool", "scope", "tenant")),
    "unsettled_alike": (books.UNSETTLED_ALIKE, ("tool", "scope", "tenant", "identity")),
    "owed": (books.OWED, ("tenant", "tool", "fingerprint")),
    "adrift": books.adrift(State.UNKNOWN, "tenant", None, Moment(0.0, "boot", 0.0), 9),
    "adrift_of_tools": books.adrift(State.UNKNOWN, "tenant", ["pay", "mail"], Moment(0.0, "boot", 0.0), 9),
    "turn": (books.TURN, ("tenant", "run", "turn")),
    "run": (runs.RUN, ("tenant", "run")),
    "log": (lists.LOG_OF_CALL, ("op",)),
}
SIGNED = ("UPDATE", "COMMIT")
"""How every commit ends: its number is raised and signed."""


@pytest.fixture
def journal(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.db", clock=FakeClock(), synchronous="NORMAL")
    yield journal
    journal.close()


@pytest.fixture
def statements(journal):
    """The statements that the writing connection executes."""
    seen = []
    journal._file.writer().set_trace_callback(seen.append)
    return seen


def plan_of(journal, statement, values):
    with journal._file.reader() as connection:
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


@pytest.mark.parametrize("name", LOOKUPS)
def test_every_look_up_goes_by_an_index(journal, name):
    for call in [begun(journal, make_ask()) for _ in range(20)]:
        ended(journal, call)
    statement, *values = LOOKUPS[name]
    plan = plan_of(journal, statement, values[0] if isinstance(values[0], tuple) else values)
    assert any("INDEX" in line or "PRIMARY KEY" in line for line in plan), plan
    assert not [line for line in plan if line.startswith("SCAN")], plan


@pytest.mark.parametrize(("name", "more"), [("unsettled", ()), ("unsettled_alike", ("identity",))])
def test_unsettled_calls_are_found_by_all_that_they_are_asked_by(journal, name, more):
    [plan] = [line for line in plan_of(journal, *LOOKUPS[name]) if "calls_open" in line]
    assert all(f"{column}=?" in plan for column in ("state", "tool", "scope", "tenant", *more))


@pytest.mark.parametrize("name", ["alike", "last_n"])
def test_likeness_is_decided_by_all_that_identity_has(journal, name):
    [plan] = [line for line in plan_of(journal, *LOOKUPS[name]) if "calls_alike" in line]
    assert all(f"{column}=?" in plan for column in ("scope", "tool", "lane", "identity"))


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (CallQuery(states=[State.UNKNOWN]), "calls_open"),
        (CallQuery(lease_over=True), "calls_open"),
        (CallQuery(past_retention=True), "calls_due"),
        (CallQuery(disputed=True), "calls_disputed"),
    ],
)
def test_what_waits_for_somebody_is_listed_by_an_index(journal, query, index):
    statement, values = lists.page(query, journal.now(), 2**40)
    assert index in " ".join(plan_of(journal, statement, values))


def test_a_write_costs_two_commits_and_few_statements(journal, statements):
    call = begun(journal, make_ask())
    verbs = [statement.split()[0] for statement in statements]
    # The first one for how far the file is, the last one for paused tools: once, while nobody else writes.
    looks = ["SELECT", "SELECT", "SELECT", "SELECT"]
    assert verbs == ["BEGIN", "PRAGMA", *looks, "INSERT", "INSERT", *SIGNED]
    statements.clear()
    ended(journal, call)
    assert [s.split()[0] for s in statements] == ["BEGIN", "PRAGMA", "UPDATE", "INSERT", *SIGNED]


def test_open_calls_outside_of_runs_and_what_is_owed_are_looked_up_once(journal, statements):
    for number in range(3):
        ended(journal, begun(journal, make_ask(operation_id=f"op_{number}", key=f"k{number}", kind=KeyKind.RANDOM)))
    assert [len([s for s in statements if word in s]) for word in ("calls_open", "FROM owed", "FROM meta")] == [1, 1, 1]


def test_a_replay_costs_no_commit(journal, statements):
    ask = make_ask()
    ended(journal, begun(journal, ask))
    statements.clear()
    commits = journal.check().facts["commits"]
    journal.perform(Claim(ask))
    assert not [s for s in statements if s.startswith(("INSERT", "UPDATE", "DELETE", "COMMIT"))]
    assert journal.check().facts["commits"] == commits


def test_an_empty_range_of_entries_asks_nothing(journal, statements):
    entry = journal.perform(EnterRun("trip", "acme"))
    statements.clear()
    begun(journal, scoped("trip", entry))
    assert not [s for s in statements if "calls_made" in s or "entry >=" in s]
    found = journal.perform(Look(lambda b: (b.alike("s", "l", "t", "i", range(0)), b.made("s", "t", range(3, 3)))))
    assert found == ((), ())


def test_a_prolonged_lease_writes_no_log(journal, statements):
    call = begun(journal, make_ask())
    statements.clear()
    journal.perform(Renew([(call.operation_id, 1, 60.0)]))
    assert [s.split()[0] for s in statements] == ["BEGIN", "PRAGMA", "UPDATE", *SIGNED]


def test_cost_is_flat_in_one_scope(journal, statements, monkeypatch):
    """Hundreds of effects in one run: the last costs as many statements as the first, or a few more."""
    longest = 200
    for module in (sqlite_books, known):
        monkeypatch.setattr(module, "LONGEST_SCOPE", longest)
    entry = journal.perform(EnterRun("long", "acme"))
    costs = []
    for _ in range(longest + 50):
        statements.clear()
        ask = scoped("long", entry)
        call = begun(journal, ask)
        journal.perform(End(call.operation_id, 1, 1, REFUSED, go_on=True))
        journal.perform(Begin(call.operation_id, 1, 2, ask))
        state = ended(journal, journal.get(call.operation_id)).state
        entry.leave(call.operation_id, state, heard=True)
        costs.append(len(statements))
    assert len(set(costs[1 : longest - 1])) == 1
    assert len(set(costs[longest + 1 :])) == 1
    assert max(costs) - min(costs) <= 3


def test_a_run_that_is_entered_again_reads_its_calls_in_one_query(tmp_path, journal):
    def ask(entry, number, **more):
        return scoped("trip", entry, identity=f"i{number}", words=f"w{number}", fingerprint=f"1:{number}", **more)

    entry = journal.perform(EnterRun("trip", "acme"))
    for number in range(50):
        call = ended(journal, begun(journal, ask(entry, number)))
        entry.leave(call.operation_id, State.SUCCEEDED, heard=True)
    again, seen = SqliteJournal(tmp_path / "journal.db", clock=FakeClock(), synchronous="NORMAL"), []
    entry = again.perform(EnterRun("trip", "acme"))
    again._file.writer().set_trace_callback(seen.append)
    for number in range(50):
        reply = again.perform(Claim(ask(entry, number, operation_id=f"op_again_{number}")))
        assert reply.call.state is State.SUCCEEDED
        entry.leave(reply.call.operation_id, State.SUCCEEDED, heard=True)
    assert len([s for s in seen if "FROM calls" in s and "operation_id = 'op_again" not in s]) == 1
    assert not [s for s in seen if "FROM runs" in s]
    again.close()

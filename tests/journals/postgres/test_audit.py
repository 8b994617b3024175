"""Whoever edits the tables behind the journal's back is found out; sealing misses nothing that comes late."""

import re
import threading

import psycopg
import pytest

from settled.core.model import KeyKind, Terms
from settled.journals.commit import Member
from settled.journals.prune import Pruned, prune
from settled.journals.stored import Errand
from settled.testing.records import FakeClock, begun, ended, make_ask
from tests.journals.support import sealed_twice
from tests.waiting import until


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def journal(open_journal, clock):
    """Three calls, sealed twice, and one more."""
    journal = open_journal(clock=clock)
    sealed_twice(journal)
    return journal


@pytest.fixture
def edit(postgres, schema_name):
    """Edit the tables by other means, past the triggers."""

    def execute(*statements):
        with postgres.connect() as connection:
            connection.execute(f'SET search_path = "{schema_name}"')
            connection.execute("SET session_replication_role = replica")
            for statement in statements:
                assert connection.execute(statement).rowcount > 0, statement

    return execute


def test_an_untouched_journal_is_whole(journal):
    report = journal.verify(journal.head())
    assert (report.ok, report.problems, report.facts) == (True, [], {"rows": 7, "seals": 2})


@pytest.mark.parametrize(
    "statement",
    ["UPDATE log SET detail = 'x'", "DELETE FROM log", "TRUNCATE log", "DELETE FROM seals", "TRUNCATE seals"],
)
def test_the_log_is_append_only(journal, postgres, schema_name, statement):
    with postgres.connect() as connection:
        connection.execute(f'SET search_path = "{schema_name}"')
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            connection.execute(statement)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("UPDATE log SET at = at + 1e-6 WHERE operation_id = 'op_b' AND no = 2", r"^op_b: log row 2 was changed"),
        ("UPDATE log SET detail = 'well' WHERE operation_id = 'op_b' AND no = 2", r"^op_b: log row 2 was changed"),
        ("DELETE FROM log WHERE operation_id = 'op_b' AND no = 1", r"^op_b: log row 2 follows row 0"),
        ("DELETE FROM log WHERE operation_id = 'op_b'", r"^op_b: the call has no log"),
        ("UPDATE calls SET state = 'succeeded' WHERE operation_id = 'op_c'", r"^op_c: the call stands at succeeded"),
        ("UPDATE calls SET result = '\\x00' WHERE operation_id = 'op_a'", r"^op_a: the result is not the one"),
        ("DELETE FROM calls WHERE operation_id = 'op_c'", r"^op_c: the call was deleted; its log ends at unknown"),
        ("UPDATE log SET id = 1000 WHERE id = 3", r"^seal .*are not the ones that were sealed|^seal .*only"),
    ],
)
def test_an_edit_is_found(journal, edit, change, found):
    edit(change)
    problems = journal.verify().problems
    assert any(re.search(found, problem) for problem in problems), problems


def test_a_tail_that_was_cut_off_is_found_by_a_kept_head(journal, edit):
    ended(journal, journal.get("op_d"))
    journal.seal()
    head = journal.head()
    edit(
        "DELETE FROM log WHERE operation_id = 'op_d'",
        "DELETE FROM calls WHERE operation_id = 'op_d'",
        "DELETE FROM seals WHERE covered > 6",
    )
    assert journal.verify().ok
    [problem] = journal.verify(head).problems
    assert "cut off" in problem


def test_what_was_pruned_is_no_deletion(journal, clock):
    terms = Terms(retention=1.0)
    random = ended(journal, begun(journal, make_ask(kind=KeyKind.RANDOM, terms=terms)), result=b"x")
    keyed = ended(journal, begun(journal, make_ask(terms=terms)), result=b"x")
    clock.advance(10.0)
    assert prune(journal) == Pruned(tombstones=1, removed=1)
    assert journal.verify().ok
    assert journal.get(random.operation_id) is None
    assert journal.get(keyed.operation_id).result is None


def test_a_seal_waits_for_rows_that_were_numbered_before_and_come_after(journal, postgres, schema_name):
    """Another process has drawn a number and not committed yet."""
    with postgres.connect() as other:
        other.execute("BEGIN")
        columns = "operation_id, no, at, event, state, epoch, attempt, detail, digest, head"
        values = "'op_late', 1, 0, 'claim', 'processing', 1, 1, '', '', 'h'"
        other.execute(f'INSERT INTO "{schema_name}".log ({columns}) VALUES ({values})')
        ended(journal, journal.get("op_d"))
        before = journal.head()
        assert journal.seal() is False
        assert journal.seal() is False
        other.execute("COMMIT")
    assert journal.seal() is True
    assert journal.head() != before
    assert not [problem for problem in journal.verify().problems if "seal" in problem]


def test_a_seal_waits_also_for_who_began_after_the_last_that_has_ended(open_journal, postgres, schema_name):
    """Its transaction has the higher number, and its row the lower one."""
    journal = open_journal()
    begun(journal, make_ask())
    columns = "operation_id, no, at, event, state, epoch, attempt, detail, digest, head"
    row = f"INSERT INTO \"{schema_name}\".log ({columns}) VALUES (%s, 1, 0, 'claim', 'processing', 1, 1, '', '', 'h')"
    with postgres.connect() as quick, postgres.connect() as slow:
        quick.execute("BEGIN")
        quick.execute("SELECT pg_current_xact_id()")
        slow.execute("BEGIN")
        slow.execute(row, ("op_slow",))
        quick.execute(row, ("op_quick",))
        quick.execute("COMMIT")
        assert journal.seal() is False
        slow.execute("COMMIT")
    assert journal.seal() is True
    assert not [problem for problem in journal.verify().problems if "seal" in problem]


def test_a_transaction_that_has_written_before_does_not_seal(open_journal, postgres, schema_name):
    """Others may have got a higher number than it, and drawn a lower one for a row: that row may come later."""
    journal = open_journal()
    begun(journal, make_ask())
    columns = "operation_id, no, at, event, state, epoch, attempt, detail, digest, head"
    row = f"INSERT INTO \"{schema_name}\".log ({columns}) VALUES (%s, 1, 0, 'claim', 'processing', 1, 1, '', '', 'h')"
    with postgres.connect() as quick, postgres.connect() as slow:

        def seal_late(books, now):
            books.look("SELECT pg_current_xact_id()").fetchone()
            for other, operation_id in ((slow, "op_slow"), (quick, "op_quick")):
                other.execute("BEGIN")
                other.execute(row, (operation_id,))
            quick.execute("COMMIT")
            return journal._sealer.seal(books, now)

        assert journal.perform(Errand(seal_late)) == 0
        slow.execute("COMMIT")
    assert journal.seal() is True
    assert not [problem for problem in journal.verify().problems if "seal" in problem]


def test_a_seal_goes_alone_in_a_batch_with_others(open_journal):
    journal = open_journal()
    begun(journal, make_ask())
    sealed = Member(Errand(journal._sealer.seal, alone=True))
    writes = [Member(Errand(lambda books, _, n=name: books.put_note("k", n, "text"))) for name in ("before", "after")]
    journal._commit._run([writes[0], sealed, writes[1]])
    assert [member.outcome() for member in (*writes, sealed)] == [None, None, 1]
    assert journal.notes("k").keys() == {"before", "after"}


def test_sealing_goes_on_under_constant_load(open_journal):
    """Somebody is always at it: what was there a round before is sealed."""
    journals, stop = [open_journal() for _ in range(3)], threading.Event()

    def work(journal, i):
        number = 0
        while not stop.is_set():
            number += 1
            ended(journal, begun(journal, make_ask(operation_id=f"op_{i}_{number}", key=f"k{i}_{number}")))

    threads = [threading.Thread(target=work, args=(journal, i)) for i, journal in enumerate(journals[:2])]
    for thread in threads:
        thread.start()
    sealed = []

    def five():
        sealed.append(journals[2].seal())
        return sum(sealed) >= 5

    try:
        until(five, "five pieces that were sealed amid the work")
    finally:
        stop.set()
    for thread in threads:
        thread.join(60)
    journals[2].seal()
    assert journals[2].verify(journals[2].head()).ok

"""Whoever edits the file behind the journal's back is found out: which call, which row."""

import contextlib
import re
import sqlite3

import pytest

from settled.core.model import KeyKind, Terms
from settled.journals.prune import prune
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import LOST, FakeClock, begun, ended, make_ask
from tests.journals.support import sealed_twice


@pytest.fixture
def journal(tmp_path):
    """Three calls, sealed twice, and one more."""
    clock = FakeClock()
    journal = SqliteJournal(tmp_path / "journal.db", clock=clock)
    journal.clock = clock
    sealed_twice(journal)
    yield journal
    journal.close()


def edit(journal, *statements):
    """Edit the file by other means, past the triggers."""
    with sqlite3.connect(journal.path) as other:
        triggers = [sql for (sql,) in other.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")]
        for name in re.findall(r"TRIGGER (\w+)", " ".join(triggers)):
            other.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            assert other.execute(statement).rowcount > 0, statement
        for sql in triggers:
            other.execute(sql)
    other.close()


def test_an_untouched_journal_is_whole(journal):
    report = journal.verify(journal.head())
    assert (report.ok, report.problems, report.facts) == (True, [], {"rows": 7, "seals": 2})


@pytest.mark.parametrize(
    "statement",
    ["UPDATE log SET detail = 'x'", "DELETE FROM log", "UPDATE seals SET text = 'x'", "DELETE FROM seals"],
)
def test_the_log_is_append_only(journal, statement):
    with sqlite3.connect(journal.path) as other, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        other.execute(statement)
    other.close()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        *[
            (
                f"UPDATE log SET {column} = {value} WHERE operation_id = 'op_b' AND no = 2",
                r"^op_b: log row 2 was changed",
            )
            for column, value in [
                ("at", "at + 1e-6"),
                ("event", "'fail'"),
                ("state", "'failed'"),
                ("epoch", "9"),
                ("attempt", "2"),
                ("detail", "'all is well'"),
                ("digest", "''"),
                ("head", "'0'"),
            ]
        ],
        ("UPDATE log SET no = 3 WHERE operation_id = 'op_b' AND no = 2", r"^op_b: log row 3 follows row 1"),
        ("UPDATE log SET operation_id = 'op_x' WHERE operation_id = 'op_b'", r"^op_x: log row 1 was changed"),
        ("DELETE FROM log WHERE operation_id = 'op_b' AND no = 1", r"^op_b: log row 2 follows row 0"),
        ("DELETE FROM log WHERE operation_id = 'op_d'", r"^op_d: the call has no log"),
        (
            "DELETE FROM log WHERE operation_id = 'op_c' AND no = 2",
            r"^op_c: the call stands at unknown.*ends at processing",
        ),
        ("UPDATE calls SET state = 'succeeded' WHERE operation_id = 'op_c'", r"^op_c: the call stands at succeeded"),
        ("UPDATE calls SET epoch = 7 WHERE operation_id = 'op_c'", r"^op_c: the call stands at unknown, epoch 7"),
        ("UPDATE calls SET result = x'00' WHERE operation_id = 'op_a'", r"^op_a: the result is not the one"),
        ("UPDATE calls SET arguments = x'00' WHERE operation_id = 'op_c'", r"^op_c: the arguments are not those"),
        *[
            (
                f"UPDATE calls SET {column} = 'mine' WHERE operation_id = 'op_c'",
                r"^op_c: its tool, tenant, scope or key",
            )
            for column in ("tool", "tenant", "scope", "lane", "identity", "key")
        ],
        ("UPDATE calls SET body = '[1]' WHERE operation_id = 'op_c'", r"^the record of op_c cannot be read"),
        (
            "DELETE FROM calls WHERE operation_id = 'op_c'",
            r"^op_c: the call was deleted; its log ends at unknown, row 2",
        ),
    ],
)
def test_an_edit_is_found(journal, change, found):
    edit(journal, change)
    problems = journal.verify().problems
    assert any(re.search(found, problem) for problem in problems), problems


def test_a_call_that_vanished_with_its_log_breaks_the_seal(journal):
    edit(journal, "DELETE FROM calls WHERE operation_id = 'op_b'", "DELETE FROM log WHERE operation_id = 'op_b'")
    [*problems] = journal.verify().problems
    assert any("seal" in problem for problem in problems), problems


def test_rows_in_another_order_break_the_seal(journal):
    edit(
        journal,
        "UPDATE log SET id = 1000 WHERE id = 3",
        "UPDATE log SET id = 3 WHERE id = 5",
        "UPDATE log SET id = 5 WHERE id = 1000",
    )
    [problem] = journal.verify().problems
    assert re.search("seal .* log rows 3 to 6 are not the ones that were sealed", problem)


def test_a_tail_that_was_cut_off_is_found_by_a_kept_head(journal):
    """With calls and seals cut off alike, only what was kept elsewhere can tell."""
    ended(journal, journal.get("op_d"))
    journal.seal()
    head = journal.head()
    edit(
        journal,
        "DELETE FROM log WHERE operation_id = 'op_d'",
        "DELETE FROM calls WHERE operation_id = 'op_d'",
        "DELETE FROM seals WHERE upto > 6",
    )
    assert journal.verify().ok
    [problem] = journal.verify(head).problems
    assert "cut off" in problem


def test_a_seal_whose_rows_are_gone_is_found(journal):
    journal.seal()
    edit(journal, "DELETE FROM log WHERE id > 4")
    assert any("only 4 are there: the tail was cut off" in problem for problem in journal.verify().problems)


def test_many_problems_are_shortened(journal):
    for _ in range(120):
        begun(journal, make_ask())
    edit(journal, "UPDATE log SET detail = 'x'")
    problems = journal.verify().problems
    assert len(problems) == 101
    assert re.fullmatch(r"and \d+ more", problems[-1])


def test_what_was_pruned_is_no_deletion(journal):
    """Until somebody deletes a record that had to leave a tombstone."""
    terms = Terms(retention=1.0)
    random = ended(journal, begun(journal, make_ask(kind=KeyKind.RANDOM, terms=terms)))
    keyed = ended(journal, begun(journal, make_ask(terms=terms)))
    journal.clock.advance(10.0)
    assert prune(journal).total == 2
    assert journal.verify().ok
    assert journal.get(random.operation_id) is None
    edit(journal, f"DELETE FROM calls WHERE operation_id = '{keyed.operation_id}'")
    [problem] = journal.verify().problems
    assert problem.startswith(f"{keyed.operation_id}: the call was deleted; its log ends at expired")


def test_an_attempt_that_was_edited_away_is_found(journal):
    body = "body = replace(body, '\"maybe\"', '\"none\"')"
    edit(journal, f"UPDATE calls SET {body}, state = 'not_done' WHERE operation_id = 'op_c'")
    assert journal.get("op_c").attempts[0].standing != "maybe"
    assert LOST.evidence == "maybe"
    assert any(problem.startswith("op_c: the call stands at not_done") for problem in journal.verify().problems)


def test_a_long_log_is_sealed_piece_by_piece(tmp_path, monkeypatch):
    """So that the lock is never held for long: other processes write in between."""
    monkeypatch.setattr("settled.journals.sqlite.audit.MOST_IN_SEAL", 3)
    monkeypatch.setattr("settled.journals.audit.MOST_IN_SEAL", 3)
    path = tmp_path / "long.db"
    with contextlib.closing(SqliteJournal(path)) as journal:
        for _ in range(4):
            ended(journal, begun(journal, make_ask()))
        assert journal.seal() is True
        assert journal.seal() is False
        assert journal.verify().ok
        head = journal.head()
    with contextlib.closing(sqlite3.connect(path)) as look:
        assert [upto for (upto,) in look.execute("SELECT upto FROM seals ORDER BY upto")] == [3, 6, 8]
        assert look.execute("SELECT text FROM seals WHERE upto = 8").fetchone() == (head,)

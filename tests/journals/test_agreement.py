"""SQLite agrees with memory, whatever is done to both."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from settled.core.values import replace
from settled.journals.sqlite import SqliteJournal
from settled.journals.sqlite.books import SqliteBooks
from settled.journals.sqlite.transactions import Transactions
from settled.testing.agreement import Agreement

IN_MEMORY = next((path for path in ["/dev/shm"] if os.access(path, os.W_OK)), None)  # many small files: spare the disk


class SqliteAgreement(Agreement):
    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=IN_MEMORY))

    def open_journal(self):
        return SqliteJournal(self.folder / "journal.db", clock=self.clock, synchronous="NORMAL")

    def teardown(self):
        super().teardown()
        shutil.rmtree(self.folder)


TestSqliteAgreement = SqliteAgreement.TestCase
TestSqliteAgreement.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)


class Turns:
    """Two journals on one file, each as a process of its own has it: what one keeps in mind the other changes."""

    def __init__(self, *journals):
        self.journals, self.turn = journals, 0

    def __getattr__(self, name):
        self.turn += 1 + self.turn % 3 // 2  # one, the other, the other, one, …
        return getattr(self.journals[self.turn % 2], name)

    def close(self):
        for journal in self.journals:
            journal.close()


class TwoOnOneFile(SqliteAgreement):
    def open_journal(self):
        return Turns(super().open_journal(), super().open_journal())


TestTwoOnOneFile = TwoOnOneFile.TestCase
TestTwoOnOneFile.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)


def alike_to_none(self, scope, lane, tool, identity, entries):  # noqa: PLR0917 - as the one it stands in for
    return ()


def made_none(self, scope, tool, entries):
    return ()


def last_n_of_any_lane(self, scope, lane, tool, identity):
    return max(ORIGINALS["last_n"](self, scope, lane, tool, identity) for lane in ("", "writer"))


def prolong_nothing(self, call):
    return None


def keep_what_raised(self, member, books, now):
    ORIGINALS["_apply"](self, member, books, now)
    return True


def know_it_whoever_wrote(self, connection):
    return self._known


def put_run_without_turn(self, run):
    ORIGINALS["put_run"](self, replace(run, turn=run.turn or None, since=1))


def turn_of_one_entry(self, tenant, run_id, turn):
    return ORIGINALS["turn"](self, tenant, run_id, turn)[-1:]


PLANTED = {
    "alike": alike_to_none,
    "made": made_none,
    "last_n": last_n_of_any_lane,
    "prolong": prolong_nothing,
    "_apply": keep_what_raised,
    "_known_to": know_it_whoever_wrote,
    "put_run": put_run_without_turn,
    "turn": turn_of_one_entry,
}
OWNERS = {name: Transactions if name in ("_apply", "_known_to") else SqliteBooks for name in PLANTED}
ORIGINALS = {name: getattr(owner, name) for name, owner in OWNERS.items()}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_disagreement_is_seen(name, monkeypatch):
    monkeypatch.setattr(OWNERS[name], name, PLANTED[name])
    chosen = settings(
        max_examples=2000,
        stateful_step_count=50,
        deadline=None,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(TwoOnOneFile if name == "_known_to" else SqliteAgreement, settings=chosen)

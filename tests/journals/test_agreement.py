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
    "put_run": put_run_without_turn,
    "turn": turn_of_one_entry,
}
OWNERS = {name: Transactions if name == "_apply" else SqliteBooks for name in PLANTED}
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
        run_state_machine_as_test(SqliteAgreement, settings=chosen)

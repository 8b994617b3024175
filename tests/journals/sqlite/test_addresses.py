"""An address that means another file than it says, or a wait that never ends, is refused."""

import pytest

from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal, open_sqlite


@pytest.mark.parametrize("name", ["a#1.db", "a.db#", "a\n.db", "a\t.db", "a\r.db", "a\0.db", "a%00.db"])
def test_what_an_address_would_leave_out_is_refused(tmp_path, name):
    """``a#1.db`` and ``a#2.db`` would be one journal, ``a``."""
    with pytest.raises(JournalError, match="is no"):
        open_sqlite(f"sqlite:///{tmp_path}/{name}")
    assert not list(tmp_path.iterdir())


def test_what_is_escaped_is_part_of_the_name(tmp_path):
    journal, _ = open_sqlite(f"sqlite:///{tmp_path}/a%231%3F%25.db")
    journal.close()
    assert (tmp_path / "a#1?%.db").exists()


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "-inf", "1e300", "86401"])
def test_a_wait_that_is_no_length_of_time_is_refused(tmp_path, seconds):
    for attempt in (
        lambda: open_sqlite(f"sqlite:///{tmp_path}/a.db?busy_timeout={seconds}"),
        lambda: SqliteJournal(tmp_path / "a.db", busy_timeout=float(seconds)),
    ):
        with pytest.raises(JournalError, match="busy_timeout"):
            attempt()
    assert not list(tmp_path.iterdir())


def test_no_wait_at_all_can_be_asked_for(tmp_path):
    SqliteJournal(tmp_path / "a.db", busy_timeout=0).close()

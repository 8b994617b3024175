"""Two releases on one file: what the later one has written is not written anew without what it knows more."""

import sqlite3
from contextlib import closing

import pytest

from settled.core.doubt.settling import Adopt
from settled.core.matching.claim import Claim
from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import FakeClock, begun, make_ask


@pytest.mark.parametrize("more", ["1", '"text"', "null", "[1,2]"])
def test_a_record_with_a_field_more_is_left_alone(tmp_path, more):
    path, clock = tmp_path / "agent.db", FakeClock()
    journal = SqliteJournal(path, clock=clock)
    ask = make_ask()
    call = begun(journal, ask)
    with closing(sqlite3.connect(path)) as connection, connection:
        (body,) = connection.execute("SELECT body FROM calls").fetchone()
        later = f'{body[:-1]},null,"",{more}]'  # the leave and the key that was sent are left out where there are none
        connection.execute("UPDATE calls SET body = ?", (later,))
    clock.advance(3600.0)
    for attempt in (
        lambda: journal.get(call.operation_id),
        lambda: journal.perform(Adopt(call.operation_id)),
        lambda: journal.perform(Claim(ask)),
    ):
        with pytest.raises(JournalError, match="newer release"):
            attempt()
    journal.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT body FROM calls").fetchone() == (later,)

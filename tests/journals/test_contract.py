"""Every journal keeps the contract."""

import pytest

from settled.journals.memory import MemoryJournal
from settled.journals.sqlite import SqliteJournal
from settled.testing.contract import JournalContract


class TestMemory(JournalContract):
    @pytest.fixture
    def journal(self):
        journal = MemoryJournal(self.clock)
        yield journal
        journal.close()


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
class TestSqlite(JournalContract):
    @pytest.fixture
    def journal(self, tmp_path, synchronous):
        journal = SqliteJournal(tmp_path / "journal.db", clock=self.clock, synchronous=synchronous)
        yield journal
        journal.close()

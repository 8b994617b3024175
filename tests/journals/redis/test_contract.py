"""Valkey and Redis keep the contract."""

import pytest

from settled.testing.contract import JournalContract


class TestRedis(JournalContract):
    @pytest.fixture
    def journal(self, open_journal):
        return open_journal(clock=self.clock)

"""Breakers shared through Valkey and Redis."""

import pytest

from tests.journals.test_sharing import SharedBreakers, SharedRetries


class TestOnRedis(SharedBreakers):
    @pytest.fixture
    def address(self, server, prefix, tmp_path):
        return server.url(prefix=prefix, spill=tmp_path / "spill")


class TestRetriesOnRedis(SharedRetries):
    @pytest.fixture
    def address(self, server, prefix, tmp_path):
        return server.url(prefix=prefix, spill=tmp_path / "spill")

"""Breakers shared through PostgreSQL."""

import pytest

from tests.journals.test_sharing import SharedBreakers, SharedRetries


class TestOnPostgres(SharedBreakers):
    @pytest.fixture
    def address(self, postgres, schema_name, tmp_path):
        return postgres.url(schema=schema_name, spill=tmp_path / "spill")


class TestRetriesOnPostgres(SharedRetries):
    @pytest.fixture
    def address(self, postgres, schema_name, tmp_path):
        return postgres.url(schema=schema_name, spill=tmp_path / "spill")

"""One server for the session; a schema of its own for each test."""

import itertools

import pytest

from settled.journals.postgres import PostgresJournal

_numbers = itertools.count(1)


@pytest.fixture
def schema_name():
    return f"test_{next(_numbers)}"


@pytest.fixture
def open_journal(postgres, schema_name, tmp_path):
    """Open the test's journal, as often as it likes; all are closed in the end."""
    opened = []

    def open_one(address=None, **options):
        journal = PostgresJournal(
            address or postgres.url(), **{"schema": schema_name, "spill": tmp_path / "spill", **options}
        )
        opened.append(journal)
        return journal

    yield open_one
    for journal in opened:
        journal.close()
    with postgres.connect() as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema_name}" CASCADE')

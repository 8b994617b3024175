"""Loads on servers of their own."""

import itertools

import pytest

_numbers = itertools.count(1)


@pytest.fixture
def place(postgres, tmp_path):
    """Return the address of a journal of the test's own, by whichever way to the server."""
    schema = f"outage_{next(_numbers)}"
    options = {"schema": schema, "spill": tmp_path / "spill", "patience": 1}
    yield lambda url=postgres.url, **more: url(**{**options, **more})
    with postgres.connect() as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')

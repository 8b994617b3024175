"""A mailbox with drafts, on each kind of journal."""

import itertools

import pytest

import settled
from tests.drafts.mailbox import Mailbox
from tests.servers.postgres import PostgresServer

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres():
    """A server. Where it cannot be started every test that asks for it fails."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def box():
    return Mailbox()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def guard(request, tmp_path):
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").url()
        made = settled.Guard(url, schema=f"draft_{next(_numbers)}", spill=tmp_path / "spill")
    else:
        made = settled.Guard("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/agent.db")
    with made:
        yield made

"""One server of each kind for the session; a prefix of its own for each test."""

import itertools

import pytest

from settled.journals.redis import RedisJournal
from tests.servers.redis import KINDS, RedisServer

_numbers = itertools.count(1)


@pytest.fixture(scope="session", params=KINDS)
def server(request):
    """A server. Where it cannot be started every test that asks for it fails."""
    with RedisServer(request.param) as server:
        yield server


@pytest.fixture(scope="session")
def one_server():
    """A server of the newest kind, for what takes long and is the client's own affair."""
    with RedisServer(KINDS[0]) as server:
        yield server


@pytest.fixture
def prefix():
    return f"test_{next(_numbers)}"


@pytest.fixture
def open_journal(server, prefix, tmp_path):
    """Open the test's journal, as often as it likes; all are closed in the end."""
    opened = []

    def open_one(**options):
        journal = RedisJournal(server.url(), **{"prefix": prefix, "spill": tmp_path / "spill", **options})
        opened.append(journal)
        return journal

    yield open_one
    for journal in opened:
        journal.close()
    with server.client() as client:
        keys = client.keys(f"{{{prefix}}}:*")
        if keys:
            client.delete(*keys)

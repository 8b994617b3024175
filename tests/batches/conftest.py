"""A store that takes batches, on each kind of journal."""

import pytest

from tests.batches.store import Store, index_of
from tests.servers.guards import guard_on


@pytest.fixture
def store():
    return Store()


guard = guard_on("memory", "sqlite", "postgres")


@pytest.fixture
def index(guard, store):
    return index_of(guard, store)

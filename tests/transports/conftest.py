"""One other side for a session, and hooks that are gone after each test."""

import pytest

import settled
from settled import transports
from tests.transports.rows import Places


@pytest.fixture(scope="session")
def places():
    places = Places()
    yield places
    places.close()


@pytest.fixture
def side(places):
    places.side.answers_late.clear()
    yield places.side
    places.side.answers_late.set()


@pytest.fixture
def guard():
    with settled.Guard("memory://") as made:
        yield made


@pytest.fixture
def hooked():
    """Watch everything, and nothing afterwards."""
    transports.install()
    yield
    transports.uninstall()


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    transports.uninstall()
    assert transports.watching.hooks.live == 0

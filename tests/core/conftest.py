"""A journal in memory and its clock, for the tests of rules that take them as fixtures."""

import pytest

from settled.journals.memory import MemoryJournal
from settled.testing.records import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def journal(clock):
    return MemoryJournal(clock)

"""Processes to kill."""

import pytest

from settled.testing.kill.nursery import Nursery


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as nursery:
        yield nursery

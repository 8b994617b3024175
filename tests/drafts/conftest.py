"""A mailbox with drafts, on each kind of journal."""

import pytest

from tests.drafts.mailbox import Mailbox
from tests.servers.guards import guard_on


@pytest.fixture
def box():
    return Mailbox()


guard = guard_on("memory", "sqlite", "postgres")

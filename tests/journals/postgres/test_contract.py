"""PostgreSQL keeps the contract."""

import pytest

from settled.testing.contract import JournalContract
from tests.servers.pgbouncer import PgBouncer


@pytest.fixture(scope="module")
def bouncer(postgres):
    with PgBouncer(postgres, size=2) as bouncer:
        yield bouncer


class TestPostgres(JournalContract):
    @pytest.fixture
    def journal(self, open_journal):
        return open_journal(clock=self.clock)


class TestBehindAPooler(JournalContract):
    """In transaction mode: each transaction may have another of the pooler's few sessions."""

    @pytest.fixture
    def journal(self, bouncer, open_journal):
        journal = open_journal(clock=self.clock, address=bouncer.url())
        assert journal._connections.line().connection.pooled
        return journal

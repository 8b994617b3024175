"""What every journal must do: one class of tests, to which a journal adds one fixture.

    class TestMyJournal(JournalContract):
        @pytest.fixture
        def journal(self):
            journal = MyJournal(..., clock=self.clock)
            yield journal
            journal.close()

A journal with a clock of its own overrides ``pass_time``. What is kept on disk has tests of its own beside these.
"""

from settled.testing.contract.calls import CallContract
from settled.testing.contract.parts import PartContract
from settled.testing.contract.runs import RunContract
from settled.testing.contract.store import StoreContract


class JournalContract(CallContract, PartContract, RunContract, StoreContract):
    """The tests. Each works on calls of its own, so the journal may hold others."""

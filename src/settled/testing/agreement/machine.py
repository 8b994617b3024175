"""The machine of ``Agreement``: all its rules, and what holds after each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from settled.core.values import replace
from settled.journals.memory import MemoryJournal
from settled.ports import CallQuery
from settled.testing.agreement.asks import AskRules
from settled.testing.agreement.calls import CallRules
from settled.testing.agreement.draws import QUERIES, SECONDS
from settled.testing.agreement.runs import RunRules
from settled.testing.agreement.upkeep import UpkeepRules
from settled.testing.records import FakeClock

if TYPE_CHECKING:
    from settled.ports import Journal


class Agreement(AskRules, CallRules, RunRules, UpkeepRules, RuleBasedStateMachine):
    """The machine. Only what is visible through the port is compared."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.journal: Journal
        self.model = MemoryJournal(self.clock)
        self.entries = {}
        self.asks = []
        self.known = []
        self.rollbacks = []
        self.seen = Counter()

    def open_journal(self) -> Journal:
        """Return a new, empty journal by ``self.clock`` - or, when called again, the same one opened anew."""
        raise NotImplementedError  # each journal has its own; a subclass that forgets it fails

    def reopen(self) -> None:
        """Close the journal and open it anew, where it outlives its process."""
        if self.journal.durable:
            self.journal.close()
            self.journal = self.open_journal()

    @initialize()
    def start(self) -> None:
        """Open the journal, and begin to work on a run."""
        self.journal = self.open_journal()
        self.enter_run("acme", "r1", None, [])

    def teardown(self) -> None:
        """Close it."""
        if hasattr(self, "journal"):
            self.journal.close()

    # --- comparing ---

    @invariant()
    def calls_agree(self) -> None:
        """Every record, in order, in all its fields; and what entries remember."""
        if hasattr(self, "journal"):
            everything = CallQuery(limit=10_000)
            assert list(self.journal.find(everything)) == self.model.find(everything)
            assert all(ours == theirs for ours, theirs in self.entries.values())

    @rule(query=QUERIES, after=st.none() | st.integers(0, 30))
    def find(self, query: CallQuery, after: int | None) -> None:
        """Lists agree, page by page."""
        wanted = replace(query, after=None if after is None else self.pick(after))
        assert list(self.journal.find(wanted)) == self.model.find(wanted)

    @rule()
    def look_around(self) -> None:
        """Counts, logs, runs, alerts, audits agree."""
        assert dict(self.journal.count()) == self.model.count()
        for operation_id in self.known[-5:]:
            assert list(self.journal.log(operation_id)) == self.model.log(operation_id)
            assert self.journal.get(operation_id) == self.model.get(operation_id)
        assert list(self.journal.runs()) == self.model.runs()
        assert list(self.journal.runs(named="r1")) == self.model.runs(named="r1")
        assert list(self.journal.undoing()) == self.model.undoing()
        assert list(self.journal.alerts()) == self.model.alerts()
        assert self.journal.verify().problems == self.model.verify().problems == []

    # --- time ---

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        """On both clocks."""
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-3600.0, 60.0]))
    def the_wall_clock_jumps(self, seconds: float) -> None:
        """Somebody set it."""
        self.clock.wall += seconds

    @rule()
    def the_machine_boots(self) -> None:
        """Its steady clock begins anew."""
        self.clock.boot += "'"
        self.clock.mono = 10.0
        self.reopen()

    @rule()
    def the_process_ends(self) -> None:
        """What is durable is there afterwards."""
        self.reopen()

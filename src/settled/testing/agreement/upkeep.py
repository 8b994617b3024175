"""The rules of ``Agreement`` around calls: pauses, looking at one, pruning, seals, alerts, breakers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from settled.core.doubt.settling import Resolve
from settled.core.noted.looking import LookAt, UnderClaim
from settled.core.noted.notes import LOOKED_AT, PAUSED
from settled.core.noted.pausing import Pause
from settled.journals.prune import prune
from settled.testing.agreement.draws import SECONDS, TEXTS
from settled.testing.agreement.rules import Rules
from settled.testing.records import AWKWARD, sealed

_has_calls = precondition(lambda self: bool(self.known))


class UpkeepRules(Rules):
    """All that goes on around calls."""

    @rule(
        tool=st.sampled_from(["pay", "mail", AWKWARD]), by=TEXTS, reason=TEXTS, resume=st.booleans(), nonce=st.uuids()
    )
    def pause(self, tool: str, by: str, reason: str, nonce: Any, *, resume: bool) -> None:
        """A person pauses a tool, or resumes it."""
        self.same(Pause(tool, by, reason, resume, str(nonce)))
        assert dict(self.journal.notes(PAUSED)) == self.model.notes(PAUSED)

    @_has_calls
    @rule(number=st.integers(0, 30), by=st.sampled_from(["ann", "bob"]), seconds=SECONDS, take_over=st.booleans())
    def look_at(self, number: int, by: str, seconds: float, *, take_over: bool) -> None:
        """A person claims a call, and another one decides on it."""
        operation_id = self.pick(number)
        self.same(LookAt(operation_id, by, seconds, take_over))
        self.same(UnderClaim(Resolve(operation_id, "hold", "ann", "looked"), operation_id, "ann"))
        assert dict(self.journal.notes(LOOKED_AT)) == self.model.notes(LOOKED_AT)

    @rule()
    def prune(self) -> None:
        """All that are due go."""
        assert prune(self.journal) == prune(self.model)

    @rule()
    def seal(self) -> None:
        """The seals are equal: the logs are, to the last bit."""
        new = self.model.seal()
        assert (sealed(self.journal) if new else self.journal.seal()) is new
        assert self.journal.head() == self.model.head()

    @rule(number=st.integers(1, 5))
    def deliver(self, number: int) -> None:
        """Alerts leave the outbox."""
        self.journal.delivered([number])
        self.model.delivered([number])

    @rule(name=st.sampled_from(["pay", "mail", AWKWARD]), wait=st.floats(0, 60))
    def save_breaker(self, name: str, wait: float) -> None:
        """A breaker's state is kept."""
        snapshot = {"state": "open", "wait": wait, "outcomes": [[0.5, True]]}
        assert self.journal.save_breakers({name: snapshot}) == self.model.save_breakers({name: snapshot})
        assert self.journal.breakers() == self.model.breakers()

    @rule(names=st.none() | st.lists(st.sampled_from(["pay", AWKWARD])))
    def reset_breakers(self, names: list[str] | None) -> None:
        """A person resets some."""
        assert list(self.journal.reset_breakers(names)) == self.model.reset_breakers(names)

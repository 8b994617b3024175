"""The rules of ``Agreement`` about a call once it is on record: attempts, evidence, verdicts, lost owners, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from settled.core.attempts.budget import RetryBudget
from settled.core.attempts.charge import Charge
from settled.core.attempts.progress import Begin, Close, End, Renew
from settled.core.doubt.late import Evidence
from settled.core.doubt.settling import Adopt, Over, Resolve, Settle
from settled.core.doubt.tending import AdoptLost, LayDown, TakeUp
from settled.core.expiry import Expire
from settled.core.matching.owed import Heard
from settled.testing.agreement.draws import FAULTS, RESULTS, RUNS, SECONDS, TENANTS, TEXTS
from settled.testing.agreement.rules import Rules
from settled.testing.records import AWKWARD, OTHER, make_ask

if TYPE_CHECKING:
    from settled.core.call import Call
    from settled.core.model import Fault
    from settled.testing.records import FakeClock

_has_calls = precondition(lambda self: bool(self.known))


class CallRules(Rules):
    """What happens to calls."""

    clock: FakeClock

    def call(self, number: int) -> tuple[str, int, int]:
        """Return id, epoch and number of attempts of a call; now and then an old epoch."""
        found: Call | None = self.model.get(self.pick(number))
        if found is None:
            return "op_none", 1, 1
        return found.operation_id, found.epoch - (number % 7 == 6), len(found.attempts)

    @_has_calls
    @rule(
        number=st.integers(0, 30),
        cost=st.none() | st.integers(1, 2),
        run=RUNS,
        again=st.booleans(),
        claimed=st.booleans(),
        within=st.just("") | RUNS,
    )
    def begin(self, number: int, cost: int | None, run: str, *, again: bool, claimed: bool, within: str) -> None:
        """A further intent, charged to a run or not, of the asker that holds the claim or of another one."""
        operation_id, epoch, attempts = self.call(number)
        charge = None if cost is None else Charge(run, RetryBudget(total=3, per_tool={"pay": 2}), cost)
        found = self.model.get(operation_id) if claimed else None
        asker = found.claim if found else f"op_other_{number}"
        ask = make_ask(operation_id=asker, owner=OTHER, run_id=within, run_entry=1)
        self.same(Begin(operation_id, epoch, attempts + (not again), ask, charge))

    @_has_calls
    @rule(
        number=st.integers(0, 30),
        fault=FAULTS,
        result=RESULTS,
        texts=st.tuples(TEXTS, TEXTS),
        over=st.booleans(),
        go_on=st.booleans(),
        park=st.none() | SECONDS,
    )
    def end(
        self,
        number: int,
        fault: Fault | None,
        result: bytes | None,
        texts: tuple[str, str],
        *,
        over: bool,
        go_on: bool,
        park: float | None,
    ) -> None:
        """The end of an attempt."""
        operation_id, epoch, attempts = self.call(number)
        note, reason = texts
        self.same(
            End(operation_id, epoch, attempts, fault, result, note, over=over, go_on=go_on, reason=reason, park=park)
        )

    @_has_calls
    @rule(number=st.integers(0, 30), reason=TEXTS)
    def close(self, number: int, reason: str) -> None:
        """The owner stops."""
        operation_id, epoch, _ = self.call(number)
        self.same(Close(operation_id, epoch, reason))

    @_has_calls
    @rule(number=st.integers(0, 30), seconds=SECONDS)
    def renew(self, number: int, seconds: float) -> None:
        """Leases are prolonged."""
        operation_id, epoch, _ = self.call(number)
        self.same(Renew([(operation_id, epoch, seconds), ("op_none", 1, seconds)]))

    @_has_calls
    @rule(number=st.integers(0, 30))
    def heard(self, number: int) -> None:
        """Somebody is given the outcome of a call."""
        self.same(Heard(self.call(number)[0]))

    @_has_calls
    @rule(number=st.integers(0, 30), fault=FAULTS, result=RESULTS, note=TEXTS, over=st.booleans())
    def evidence(self, number: int, fault: Fault | None, result: bytes | None, note: str, *, over: bool) -> None:
        """A late answer."""
        operation_id, _, attempts = self.call(number)
        self.same(Evidence(operation_id, attempts, fault, result, note, over=over))

    @_has_calls
    @rule(
        number=st.integers(0, 30),
        happened=st.booleans(),
        result=RESULTS,
        note=TEXTS,
        fence=st.booleans(),
        age=SECONDS,
    )
    def settle(self, number: int, result: bytes | None, note: str, age: float, *, happened: bool, fence: bool) -> None:
        """A probe's answer."""
        operation_id, epoch, _ = self.call(number)
        self.same(Settle(operation_id, epoch, happened, self.clock().plus(-age), result, note, fence))

    @_has_calls
    @rule(
        number=st.integers(0, 30),
        verdict=st.sampled_from(["happened", "did_not_happen", "hold"]),
        then=st.sampled_from(["rerun", "fail"]),
        texts=st.tuples(TEXTS, TEXTS),
        result=RESULTS,
        force=st.booleans(),
    )
    def resolve(
        self, number: int, verdict: Any, then: Any, texts: tuple[str, str], result: bytes | None, *, force: bool
    ) -> None:
        """A person's verdict."""
        operation_id, epoch, _ = self.call(number)
        by, reason = texts
        self.same(Resolve(operation_id, verdict, by, reason, then, result, force=force, epoch=epoch))

    @_has_calls
    @rule(number=st.integers(0, 30))
    def adopt(self, number: int) -> None:
        """Somebody looks for orphans."""
        self.same(Adopt(self.pick(number)))

    @_has_calls
    @rule(tenant=TENANTS, tools=st.sampled_from([(), ("pay",), ("mail", "pay", AWKWARD)]), limit=st.integers(1, 3))
    def take_up(self, tenant: str, tools: tuple[str, ...], limit: int) -> None:
        """A worker takes in what lost owners left, and takes up calls in doubt."""
        self.same(AdoptLost(tenant, limit))
        self.same(TakeUp(tenant, tools, limit, 60.0))

    @rule(number=st.integers(0, 30), seconds=SECONDS)
    def lay_down(self, number: int, seconds: float) -> None:
        """A worker leaves a call alone until its next look."""
        operation_id, epoch, _ = self.call(number)
        self.same(LayDown(operation_id, epoch, seconds))

    @rule(number=st.integers(0, 30), attempts=st.lists(st.integers(1, 3), max_size=2))
    def over(self, number: int, attempts: list[int]) -> None:
        """A process was seen dead."""
        self.same(Over(self.pick(number), tuple(attempts)))

    @_has_calls
    @rule(number=st.integers(0, 30))
    def expire(self, number: int) -> None:
        """One call's retention may be over."""
        self.same(Expire(self.pick(number)))

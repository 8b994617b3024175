"""A journal and the memory journal, driven with the same transitions, must give the same answers and records.

class MyAgreement(Agreement):
    def open_journal(self):
        return MyJournal(..., clock=self.clock)

TestAgreement = MyAgreement.TestCase
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from settled.core.budget import RetryBudget
from settled.core.charge import Charge
from settled.core.claim import Claim, Reserve
from settled.core.entry import Entry
from settled.core.expiry import Expire
from settled.core.late import Evidence
from settled.core.model import Fault, KeyKind, Terms
from settled.core.owed import Heard
from settled.core.progress import Begin, Close, End, Renew
from settled.core.runs import EnterRun, scope_of_run
from settled.core.settling import Adopt, Over, Resolve, Settle
from settled.core.tending import AdoptLost, LayDown, TakeUp
from settled.core.values import replace
from settled.journals.memory import MemoryJournal
from settled.ports import CallQuery
from settled.testing.agreement_runs import RunRules
from settled.testing.agreement_upkeep import UpkeepRules
from settled.testing.draws import FAULTS, FLAGS, QUERIES, RESULTS, RUNS, SECONDS, TENANTS, TERMS, TEXTS, THEN, WORDS
from settled.testing.records import AWKWARD, LOST, OTHER, OWNER, REFUSED, FakeClock, Raising, make_ask

if TYPE_CHECKING:
    from settled.core.ask import Ask
    from settled.core.call import Call
    from settled.ports import Journal

_has_calls = precondition(lambda self: bool(self.known))
_has_asks = precondition(lambda self: bool(self.asks))
_in_run = precondition(lambda self: bool(self.entries))


class Agreement(RunRules, UpkeepRules, RuleBasedStateMachine):
    """The machine. Only what is visible through the port is compared."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.journal: Journal
        self.model = MemoryJournal(self.clock)
        self.entries: dict[tuple[str, str], tuple[Entry, Entry]] = {}
        self.asks: list[tuple[Ask, Ask]] = []
        self.known: list[str] = []
        self.rollbacks = []
        self.seen: Counter[str] = Counter()
        """How often each kind of answer was compared, for a test to look at what was reached."""

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

    # --- claims ---

    @_in_run
    @rule(scope=st.integers(0, 3), told=st.booleans())
    def enter_again(self, scope: int, *, told: bool) -> None:
        """The process that worked on the run was lost, or the next message came: the same turn goes on."""
        tenant, run = sorted(self.entries)[scope % len(self.entries)]
        turn = next(record.turn for record in self.model.runs() if (record.tenant, record.run_id) == (tenant, run))
        self.enter_run(tenant, run, turn, ["m1/0"] if told else [])

    @rule(
        tenant=TENANTS,
        run=RUNS,
        turn=st.sampled_from([None, "t1", "t2"]),
        steps=st.lists(st.just("m1/0"), max_size=1),
    )
    def enter_run(self, tenant: str, run: str, turn: str | None, steps: list[str]) -> None:
        """Each journal has its own entry, since claims note in it what was told."""
        enter = EnterRun(run, tenant, turn, tuple(steps))
        ours, theirs = self.both(enter, enter)
        if isinstance(ours, Entry):  # else it was rolled back
            self.entries[tenant, run] = ours, theirs

    @rule(
        tenant=TENANTS,
        kind=st.sampled_from([KeyKind.BUSINESS, KeyKind.RANDOM]),
        key=st.integers(1, 4),
        terms=TERMS,
        flags=FLAGS,
        then=THEN,
    )
    def ask_alone(
        self, tenant: str, kind: KeyKind, key: int, *, terms: Terms, flags: dict[str, Any], then: str
    ) -> None:
        """A call outside of runs."""
        ask = make_ask(
            **{**flags, "step": "", "lane": ""},
            tenant=tenant,
            kind=kind,
            terms=terms,
            key=f"{tenant}:{key}" if kind is KeyKind.BUSINESS else f"random:{len(self.asks)}",
            fingerprint=f"1:{key % 3}",
            operation_id=f"op_{len(self.asks)}",
            owner=OWNER if key % 2 else OTHER,
        )
        self.claim(ask, ask)
        self.go_on(ask.operation_id, then)

    @_in_run
    @rule(
        scope=st.integers(0, 3),
        identity=st.sampled_from(["i1", "i2"]),
        words=WORDS,
        terms=TERMS,
        flags=FLAGS,
        then=THEN,
    )
    def ask_in_run(
        self, scope: int, identity: str, words: str, *, terms: Terms, flags: dict[str, Any], then: str
    ) -> None:
        """A call of a run."""
        tenant, run = sorted(self.entries)[scope % len(self.entries)]
        ours, theirs = self.entries[tenant, run]
        ask = make_ask(
            **flags,
            tenant=tenant,
            kind=KeyKind.SCOPED,
            key="",
            scope=scope_of_run(tenant, run),
            run_id=run,
            run_entry=ours.no,
            identity=identity,
            words=words,
            fingerprint=words,
            terms=terms,
            operation_id=f"op_{len(self.asks)}",
        )
        self.claim(replace(ask, entry=ours), replace(ask, entry=theirs))
        self.go_on(ask.operation_id, then)

    @_in_run
    @rule(
        scope=st.integers(0, 3), plan=st.lists(st.tuples(st.sampled_from(["i1", "i2"]), WORDS), min_size=1, max_size=3)
    )
    def a_model_starts_over(self, scope: int, plan: list[tuple[str, str]]) -> None:
        """With new step ids, in other words, in another order."""
        self.enter_again(scope, told=False)
        flags = {"by_model": True, "tool": "pay", "lease": 30.0}
        for identity, words in plan:
            self.ask_in_run(scope, identity, words, terms=Terms(), flags=flags, then="done")

    def go_on(self, operation_id: str, then: str) -> None:
        """End the attempt that a claim has just begun."""
        faults = {"done": None, "lost": LOST, "refused": REFUSED}
        call = self.model.get(operation_id)
        if call is not None and then in faults:
            self.same(End(operation_id, call.epoch, len(call.attempts), faults[then], b"done"))

    def claim(self, ours: Ask, theirs: Ask, **options: Any) -> None:
        """Claim for both."""
        self.asks.append((ours, theirs))
        self.both(Claim(ours, **options), Claim(theirs, **options))
        if self.model.get(ours.operation_id):
            self.known.append(ours.operation_id)

    @_has_asks
    @rule(
        number=st.integers(0, 30), begin=st.booleans(), repeat=st.booleans(), joined=st.booleans(), pinned=st.booleans()
    )
    def ask_again(self, number: int, *, begin: bool, repeat: bool, joined: bool, pinned: bool) -> None:
        """The same wish once more, with or without a new id."""
        ours, theirs = self.asks[-1 - number % min(len(self.asks), 9)]
        call = self.model.get(self.pick(number))
        options: dict[str, Any] = {
            "begin": begin,
            "repeat": repeat,
            "joined": call.claim if joined and call else "",
            "pinned": call.operation_id if pinned and call else "",
        }
        fresh: dict[str, Any] = {
            "operation_id": f"op_{len(self.asks)}",
            "despite": frozenset({self.pick(number + 1)} if joined else ()),
        }
        if ours.kind is KeyKind.RANDOM:  # it is drawn together with the id
            fresh["key"] = f"random:{len(self.asks)}"
        self.claim(replace(ours, **fresh), replace(theirs, **fresh), **options)

    @_has_asks
    @rule(number=st.integers(0, 30))
    def the_answer_was_lost(self, number: int) -> None:
        """The very same claim is performed again."""
        ours, theirs = self.asks[number % len(self.asks)]
        pruned = ours.operation_id in self.known and self.model.get(ours.operation_id) is None
        if not pruned:  # an id whose call is gone is never used again
            self.both(Claim(ours), Claim(theirs))

    @_has_asks
    @rule(numbers=st.lists(st.integers(0, 30), max_size=3))
    def reserve(self, numbers: list[int]) -> None:
        """The calls of one message are matched before any is answered."""
        chosen = [self.asks[number % len(self.asks)] for number in numbers]
        self.both(Reserve([ours for ours, _ in chosen]), Reserve([theirs for _, theirs in chosen]))

    @rule(number=st.integers(0, 30))
    def a_rule_raises(self, number: int) -> None:
        """Nothing of it stays."""
        self.same(Raising(make_ask(operation_id=f"op_raising_{number}", key=f"raising:{number}")))

    # --- what happens to calls ---

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

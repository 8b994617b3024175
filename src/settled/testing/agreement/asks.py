"""The rules of ``Agreement`` about asking: runs are entered, and calls asked for, by programs and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from settled.core.attempts.progress import End
from settled.core.matching.claim import Claim, Reserve
from settled.core.matching.entry import Entry
from settled.core.model import KeyKind, Terms
from settled.core.runs.entering import EnterRun, scope_of_run
from settled.core.values import replace
from settled.testing.agreement.draws import FLAGS, RUNS, TENANTS, TERMS, THEN, WORDS
from settled.testing.agreement.rules import Rules
from settled.testing.records import LOST, OTHER, OWNER, REFUSED, Raising, make_ask

if TYPE_CHECKING:
    from settled.core.ask import Ask

_has_asks = precondition(lambda self: bool(self.asks))
_in_run = precondition(lambda self: bool(self.entries))


class AskRules(Rules):
    """Who asks, in which entry, for what."""

    entries: dict[tuple[str, str], tuple[Entry, Entry]]
    """Tenant and run -> what the journal's entry remembers, and the model's."""
    asks: list[tuple[Ask, Ask]]

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

"""Every transition of the journal in every state: what it leads to, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from settled.core.attempts.budget import RetryBudget
from settled.core.attempts.progress import Begin, BudgetSpent, Charge, Close, End, FencedOut, Renew
from settled.core.call import Call
from settled.core.doubt.late import Evidence
from settled.core.doubt.settling import Adopt, Over, Refused, Resolve, Settle
from settled.core.encoding import codec
from settled.core.expiry import Expire
from settled.core.matching.claim import Claim
from settled.core.model import Effect, KeyKind, Standing
from settled.core.runs.entering import EnterRun
from settled.core.states import FINAL, State
from settled.core.values import replace
from settled.journals.audit import broken_chains
from tests.core.build import BUSY, LOST, OTHER, REFUSED, SOME, UNREADABLE, ask, at, attempt, call, journal, own
from tests.core.raised import raised

VALUE = codec.dumps("value")
S = State
OPEN, NONE, MAYBE, DONE = Standing.OPEN, Standing.NONE, Standing.MAYBE, Standing.DONE

TRANSITIONS: dict[str, Any] = {
    "claim": Claim(ask()),
    "begin": Begin("op_1", 1, 2, own()),
    "end ok": End("op_1", 1, 1, None, VALUE),
    "end refused": End("op_1", 1, 1, REFUSED),
    "end lost": End("op_1", 1, 1, LOST),
    "close": Close("op_1", 1, "deadline"),
    "late ok": Evidence("op_1", 1, None, VALUE),
    "late refused": Evidence("op_1", 1, REFUSED),
    "adopt": Adopt("op_1"),
    "probe yes": Settle("op_1", 1, happened=True, began=at(100), result=VALUE),
    "probe no": Settle("op_1", 1, happened=False, began=at(100)),
    "person yes": Resolve("op_1", "happened", "ann", "seen", result=VALUE),
    "person no": Resolve("op_1", "did_not_happen", "ann", "asked"),
    "person rerun": Resolve("op_1", "did_not_happen", "ann", "asked", then="rerun"),
    "person hold": Resolve("op_1", "hold", "ann", "later"),
    "expire": Expire("op_1"),
}
# Before the end of the lease (at 30): who has what to say about a call with one attempt in doubt.
LIVE = {
    "claim": "processing unknown succeeded failed processing",
    "begin": "processing unknown succeeded failed processing",
    "end ok": "succeeded succeeded succeeded failed succeeded",
    "end refused": "failed failed succeeded failed not_done",
    "end lost": "unknown unknown succeeded failed not_done",
    "close": "unknown unknown succeeded failed not_done",
    "late ok": "succeeded succeeded succeeded failed succeeded",
    "late refused": "processing failed succeeded failed not_done",
    "adopt": "processing unknown succeeded failed not_done",
    "probe yes": "processing succeeded succeeded failed not_done",
    "probe no": "processing not_done succeeded failed not_done",
    "person yes": "processing succeeded succeeded failed not_done",
    "person no": "processing failed succeeded failed not_done",
    "person rerun": "processing not_done succeeded failed not_done",
    "person hold": "processing unknown succeeded failed not_done",
    "expire": "processing unknown succeeded failed not_done",
}
# Behind it: an orphan is unknown, never run again for its lease alone.
AFTER = LIVE | {
    "claim": "unknown unknown succeeded failed processing",
    "adopt": "unknown unknown succeeded failed not_done",
    "person yes": "succeeded succeeded succeeded failed not_done",
    "person no": "unknown failed succeeded failed not_done",  # nobody knows yet that its owner is dead
    "person rerun": "unknown not_done succeeded failed not_done",
    "person hold": "unknown unknown succeeded failed not_done",
}
BEFORE = (S.PROCESSING, S.UNKNOWN, S.SUCCEEDED, S.FAILED, S.NOT_DONE)


def record(state: State, **changes: Any) -> Call:
    """A write with one attempt as it would be in that state."""
    standing = {S.PROCESSING: OPEN, S.UNKNOWN: MAYBE, S.SUCCEEDED: DONE}.get(state, NONE)
    changes = {"terms": {"lifetime": 10.0}} | changes
    return call(state, attempt(1, standing), result=VALUE if state is S.SUCCEEDED else None, **changes)


@pytest.mark.parametrize("seconds", [20.0, 120.0], ids=["within the lease", "behind it"])
@pytest.mark.parametrize("name", list(TRANSITIONS))
@pytest.mark.parametrize("state", BEFORE, ids=str)
def test_every_transition_in_every_state(state: State, name: str, seconds: float) -> None:
    table = LIVE if seconds < 30 else AFTER
    store = journal(record(state), seconds=seconds)
    store.perform(TRANSITIONS[name])
    after = store.get("op_1")
    assert after is not None
    assert after.state == table[name].split()[BEFORE.index(state)]
    if state in FINAL:
        assert (after.result, after.state) == (record(state).result, state)
    assert list(broken_chains(store.books.rows)) == []


@pytest.mark.parametrize("name", list(TRANSITIONS))
@pytest.mark.parametrize("state", BEFORE, ids=str)
def test_a_transition_made_twice_is_made_once(state: State, name: str) -> None:
    """The answer of the journal may be lost: whoever asks again changes nothing more."""
    store = journal(record(state), seconds=20.0)
    store.perform(TRANSITIONS[name])
    once = store.get("op_1")
    store.perform(TRANSITIONS[name])
    twice = store.get("op_1")
    assert once is not None
    assert twice is not None
    assert (twice.state, twice.attempts, twice.result, twice.epoch) == (
        once.state,
        once.attempts,
        once.result,
        twice.epoch,
    )
    if name != "person hold":
        assert twice.epoch == once.epoch


FENCED = ["begin", "end ok", "end refused", "end lost", "close", "probe yes", "probe no"]


@pytest.mark.parametrize("name", FENCED)
@pytest.mark.parametrize("state", [S.PROCESSING, S.UNKNOWN], ids=str)
def test_an_owner_with_an_old_epoch_changes_nothing_but_evidence(state: State, name: str) -> None:
    store = journal(record(state, epoch=2), seconds=20.0)
    store.perform(TRANSITIONS[name])
    after = store.get("op_1")
    assert after is not None
    if name == "end ok":
        assert (after.state, after.epoch, after.decided) == (S.SUCCEEDED, 3, "late")
    elif name == "end refused" and state is S.UNKNOWN:
        assert (after.state, after.decided) == (S.FAILED, "late")
    else:
        assert after.state is state


# --- claim --------------------------------------------------------------------------------


def test_a_new_call_is_recorded_with_its_first_intent_in_one_commit() -> None:
    store = journal()
    reply = store.perform(Claim(ask(key="new", operation_id="op_9")))
    made = reply.call
    assert (made.state, made.epoch, made.key, made.claim) == (S.PROCESSING, 1, "new", "op_9")
    assert [(a.no, a.epoch, a.owner, a.standing) for a in made.attempts] == [(1, 1, OTHER, OPEN)]
    assert (made.lease.mono, made.created.mono) == (32.0, 2.0)
    assert len(store.books.rows) == 1


def test_a_claim_whose_answer_was_lost_recognises_itself() -> None:
    store = journal()
    first = store.perform(Claim(ask(key="new")))
    again = store.perform(Claim(ask(key="new")))
    assert again == first
    assert len(store.books.rows) == 1


def test_a_claim_that_may_not_begin_records_nothing() -> None:
    store = journal()
    assert type(store.perform(Claim(ask(key="new"), begin=False))).__name__ == "WouldRun"
    assert store.books.calls == {}


@pytest.mark.parametrize("state", list(State), ids=str)
@pytest.mark.parametrize("change", [{"fingerprint": "1:other"}, {"tool": "refund"}])
def test_other_arguments_conflict_in_every_state(state: State, change: dict[str, str]) -> None:
    store = journal(record(state, key="key-1"), seconds=120.0)
    reply = store.perform(Claim(ask(**change)))
    assert type(reply).__name__ == "Conflict"
    assert store.get("op_1") == record(state)


def test_taking_over_raises_the_epoch_and_begins_an_attempt() -> None:
    store = journal(record(S.NOT_DONE, reason="deadline", fault=BUSY))
    taken = store.perform(Claim(ask())).call
    assert (taken.epoch, taken.owner, taken.claim, taken.before, taken.reason, taken.fault) == (
        2,
        OTHER,
        "op_2",
        1,
        "",
        None,
    )
    assert [a.no for a in taken.attempts] == [1, 2]
    assert taken.attempts[-1].epoch == 2


def test_who_waited_for_a_series_shares_its_answer() -> None:
    store = journal(record(S.NOT_DONE))
    reply = store.perform(Claim(ask(), joined="op_1", pinned="op_1"))
    assert type(reply).__name__ == "Stands"


def test_a_parked_call_is_not_tried_before_its_time() -> None:
    parked = record(S.PARKED, not_before=at(10).wall)
    assert type(journal(parked, seconds=9.9).perform(Claim(ask()))).__name__ == "Stands"
    assert type(journal(parked, seconds=10.0).perform(Claim(ask()))).__name__ == "Begun"


@pytest.mark.parametrize("effect", [Effect.READ, Effect.IDEMPOTENT])
def test_an_orphan_that_may_be_repeated_is_run_by_an_asker(effect: Effect) -> None:
    orphan = record(S.PROCESSING, terms={"effect": effect})
    reply = journal(orphan, seconds=31.0).perform(Claim(ask(terms={"effect": effect}), repeat=True))
    assert type(reply).__name__ == "Begun"
    assert reply.call.epoch == 3  # taken from its owner, then taken by the asker


def test_an_orphan_of_which_nothing_is_in_doubt_is_run_again() -> None:
    orphan = call(S.PROCESSING, attempt(1, NONE))
    reply = journal(orphan, seconds=31.0).perform(Claim(ask()))
    assert type(reply).__name__ == "Begun"


def test_what_a_person_holds_is_not_repeated() -> None:
    held = record(S.UNKNOWN, terms={"effect": Effect.IDEMPOTENT}, held=True)
    assert type(journal(held).perform(Claim(ask(), repeat=True))).__name__ == "Doubtful"


def test_an_asker_of_a_superseded_entry_starts_nothing() -> None:
    store = journal()
    first = store.perform(EnterRun("r", ""))
    store.perform(EnterRun("r", ""))
    for entry, name in ((first.no, "Superseded"), (2, "Begun")):
        reply = store.perform(Claim(ask(key=f"k{entry}", operation_id=f"op_{entry}", run_id="r", run_entry=entry)))
        assert type(reply).__name__ == name
    assert type(store.perform(Claim(ask(operation_id="op_3", run_id="no such run")))).__name__ == "Superseded"


# --- attempts -----------------------------------------------------------------------------


def test_a_further_intent_is_on_record_and_the_lease_begins_anew() -> None:
    store = journal(call(S.PROCESSING, attempt(1, NONE)), seconds=20.0)
    begun = store.perform(Begin("op_1", 1, 2, own()))
    assert isinstance(begun, Call)
    assert [a.standing for a in begun.attempts] == [NONE, OPEN]
    assert begun.lease.mono == 50.0


def test_a_write_in_doubt_begins_no_further_attempt() -> None:
    store = journal(record(S.PROCESSING), seconds=20.0)
    assert isinstance(store.perform(Begin("op_1", 1, 2, own())), FencedOut)


def test_an_unknown_operation_fences_out() -> None:
    store = journal()
    for transition in (Begin("x", 1, 1, own()), End("x", 1, 1, None), Close("x", 1, "")):
        assert store.perform(transition) == FencedOut(None)
    for transition in (Evidence("x", 1, None), Adopt("x"), Over("x", [1]), Settle("x", 1, happened=True, began=at(1))):
        assert store.perform(transition) is None
    assert isinstance(store.perform(Resolve("x", "hold", "a", "b")), Refused)
    assert store.perform(Expire("x")) is False


def test_the_runs_budget_is_debited_with_the_intent() -> None:
    store = journal(call(S.PROCESSING, attempt(1, NONE)))
    store.perform(EnterRun("r", ""))
    charge = Charge("r", RetryBudget(total=1))
    assert isinstance(store.perform(Begin("op_1", 1, 2, own(), charge)), Call)
    run = store.books.run("", "r")
    assert run is not None
    assert run.spent == {"pay": 1}
    store.perform(End("op_1", 1, 2, BUSY, go_on=True))
    refused = store.perform(Begin("op_1", 1, 3, own(), charge))
    assert isinstance(refused, BudgetSpent)
    assert refused.pool.startswith("retry_budget:run")
    after = store.get("op_1")
    assert after is not None
    assert len(after.attempts) == 2


def test_an_end_that_goes_on_keeps_the_call_with_its_owner() -> None:
    store = journal(record(S.PROCESSING))
    kept = store.perform(End("op_1", 1, 1, BUSY, go_on=True))
    assert isinstance(kept, Call)
    assert (kept.state, kept.attempts[0].standing, kept.attempts[0].fault) == (S.PROCESSING, NONE, BUSY)


def test_an_end_in_doubt_of_a_write_does_not_go_on() -> None:
    store = journal(record(S.PROCESSING))
    ended = store.perform(End("op_1", 1, 1, LOST, go_on=True))
    assert isinstance(ended, Call)
    assert ended.state is S.UNKNOWN
    assert [a.kind for a in store.alerts()] == ["unknown"]


def test_an_attempt_left_running_is_not_over() -> None:
    store = journal(record(S.PROCESSING))
    ended = store.perform(End("op_1", 1, 1, LOST, over=False))
    assert isinstance(ended, Call)
    assert ended.attempts[0].over is None
    assert ended.attempts[0].ended is not None


def test_done_without_a_usable_answer_is_done() -> None:
    store = journal(record(S.PROCESSING))
    ended = store.perform(End("op_1", 1, 1, UNREADABLE))
    assert isinstance(ended, Call)
    assert (ended.state, ended.result) == (S.SUCCEEDED, None)
    read = journal(record(S.PROCESSING, terms={"effect": Effect.READ})).perform(End("op_1", 1, 1, UNREADABLE))
    assert isinstance(read, Call)
    assert read.state is S.NOT_DONE


def test_done_in_part_is_partial() -> None:
    ended = journal(record(S.PROCESSING)).perform(End("op_1", 1, 1, SOME, VALUE))
    assert isinstance(ended, Call)
    assert (ended.state, ended.result) == (S.PARTIAL, VALUE)


def test_what_is_to_wait_is_parked_only_if_nothing_is_in_doubt() -> None:
    parked = journal(record(S.PROCESSING)).perform(End("op_1", 1, 1, BUSY, park=60.0))
    assert isinstance(parked, Call)
    assert (parked.state, parked.not_before) == (S.PARKED, at(62).wall)
    doubt = journal(record(S.PROCESSING)).perform(End("op_1", 1, 1, LOST, park=60.0))
    assert isinstance(doubt, Call)
    assert (doubt.state, doubt.not_before) == (S.UNKNOWN, None)


def test_a_refusal_from_the_key_store_clears_the_doubt_of_a_deduplicated_tool() -> None:
    terms = {"effect": Effect.DEDUPLICATED, "remote_errors": "stored", "remote_retention": 1e6}
    store = journal(call(S.PROCESSING, attempt(1, MAYBE), attempt(2), terms=terms))
    ended = store.perform(End("op_1", 1, 2, REFUSED))
    assert isinstance(ended, Call)
    assert ended.state is S.FAILED
    assert not ended.doubtful


def test_a_lease_is_prolonged_never_shortened_and_never_revived() -> None:
    store = journal(record(S.PROCESSING), seconds=20.0)
    assert store.perform(Renew([("op_1", 1, 5.0)])) == ()
    assert store.get("op_1") == record(S.PROCESSING)
    assert store.perform(Renew([("op_1", 1, 15.0)])) == ()
    after = store.get("op_1")
    assert after is not None
    assert after.lease.mono == 35.0
    assert store.perform(Renew([("op_1", 2, 99.0), ("op_x", 1, 9.0)])) == ("op_1", "op_x")
    assert journal(record(S.UNKNOWN)).perform(Renew([("op_1", 1, 99.0)])) == ("op_1",)


# --- evidence -----------------------------------------------------------------------------


def test_a_late_success_raises_the_epoch_and_fences_a_second_attempt() -> None:
    store = journal(call(S.PROCESSING, attempt(1, NONE), attempt(2)))
    late = store.perform(Evidence("op_1", 1, None, VALUE))
    assert late is not None
    assert (late.state, late.epoch, late.disputed) == (S.SUCCEEDED, 2, True)  # what was held for proof was none
    store = journal(call(S.PROCESSING, attempt(1, MAYBE), attempt(2), terms={"effect": Effect.IDEMPOTENT}))
    late = store.perform(Evidence("op_1", 1, None, VALUE))
    assert late is not None
    assert (late.state, late.epoch, late.result, late.disputed) == (S.SUCCEEDED, 2, VALUE, False)


def test_a_late_refusal_settles_only_when_nothing_else_is_in_doubt() -> None:
    two = call(S.UNKNOWN, attempt(1, MAYBE), attempt(2, MAYBE), terms={"effect": Effect.IDEMPOTENT})
    store = journal(two)
    first = store.perform(Evidence("op_1", 1, REFUSED))
    assert first is not None
    assert first.state is S.UNKNOWN
    second = store.perform(Evidence("op_1", 2, REFUSED))
    assert second is not None
    assert second.state is S.FAILED


def test_a_late_success_after_a_final_refusal_makes_it_disputed() -> None:
    store = journal(call(S.FAILED, attempt(1, MAYBE), asserted=True))
    late = store.perform(Evidence("op_1", 1, None, VALUE))
    assert late is not None
    assert (late.state, late.disputed, late.result) == (S.FAILED, True, None)
    assert [a.kind for a in store.alerts()] == ["disputed"]


def test_two_effects_of_a_write_are_disputed() -> None:
    store = journal(call(S.SUCCEEDED, attempt(1, MAYBE), attempt(2, DONE), result=VALUE))
    late = store.perform(Evidence("op_1", 1, None, codec.dumps("other")))
    assert late is not None
    assert (late.disputed, late.result) == (True, VALUE)
    repeatable = {"effect": Effect.IDEMPOTENT}
    store = journal(call(S.SUCCEEDED, attempt(1, MAYBE), attempt(2, DONE), result=VALUE, terms=repeatable))
    late = store.perform(Evidence("op_1", 1, None, codec.dumps("other")))
    assert late is not None
    assert late.disputed is False


def test_what_is_known_of_an_attempt_is_not_changed() -> None:
    store = journal(record(S.SUCCEEDED))
    assert store.perform(Evidence("op_1", 1, REFUSED)) == record(S.SUCCEEDED)
    assert store.perform(Evidence("op_1", 9, None)) == record(S.SUCCEEDED)


# --- settling -----------------------------------------------------------------------------


def test_a_negative_probe_is_no_proof_before_its_time() -> None:
    store = journal(record(S.UNKNOWN), seconds=20.0)
    assert store.perform(Settle("op_1", 1, happened=False, began=at(10.9))) == record(S.UNKNOWN)
    settled = store.perform(Settle("op_1", 1, happened=False, began=at(11)))
    assert settled is not None
    assert (settled.state, settled.epoch, settled.decided) == (S.NOT_DONE, 2, "probe")
    assert not settled.doubtful


def test_a_fence_is_proof_at_once() -> None:
    settled = journal(record(S.UNKNOWN)).perform(Settle("op_1", 1, happened=False, began=at(2), fence=True))
    assert settled is not None
    assert settled.state is S.NOT_DONE


def test_the_wait_for_proof_starts_when_an_attempt_is_seen_over_and_not_again() -> None:
    store = journal(call(S.UNKNOWN, attempt(1, MAYBE, over=None)), seconds=20.0)
    seen = store.perform(Over("op_1", [1]))
    assert seen is not None
    assert seen.attempts[0].over == at(20)
    rows = len(store.books.rows)
    store._clock.moment = at(25)
    assert store.perform(Over("op_1", [1])) == seen
    assert len(store.books.rows) == rows
    store._clock.moment = at(3, boot="boot-2")
    anew = store.perform(Over("op_1", [1]))
    assert anew is not None
    assert anew.attempts[0].over == at(3, boot="boot-2")


def test_a_verdict_waits_until_a_probe_could_prove_it() -> None:
    early = Resolve("op_1", "did_not_happen", "ann", "asked")
    refused = journal(record(S.UNKNOWN), seconds=5.0).perform(early)
    assert isinstance(refused, Refused)
    assert "max_request_lifetime" in refused.why
    forced = Resolve("op_1", "did_not_happen", "ann", "asked", force=True)
    asserted = journal(record(S.UNKNOWN), seconds=5.0).perform(forced)
    assert isinstance(asserted, Call)
    assert (asserted.state, asserted.asserted, asserted.decided, asserted.reason) == (
        S.FAILED,
        True,
        "person:ann",
        "asked",
    )
    ripe = journal(record(S.UNKNOWN), seconds=11.0).perform(early)
    assert isinstance(ripe, Call)
    assert (ripe.state, ripe.asserted) == (S.FAILED, False)


def test_a_verdict_without_a_lifetime_is_always_asserted() -> None:
    word = Resolve("op_1", "did_not_happen", "ann", "asked")
    refused = journal(record(S.UNKNOWN, terms={})).perform(word)
    assert isinstance(refused, Refused)
    assert "no max_request_lifetime" in refused.why
    settled = journal(record(S.UNKNOWN, terms={})).perform(replace(word, force=True))
    assert isinstance(settled, Call)
    assert (settled.state, settled.asserted) == (S.FAILED, True)


def test_a_verdict_is_taken_under_an_optimistic_lock() -> None:
    store = journal(record(S.UNKNOWN))
    refused = store.perform(Resolve("op_1", "happened", "ann", "seen", epoch=7))
    assert isinstance(refused, Refused)
    taken = store.perform(Resolve("op_1", "happened", "ann", "seen", epoch=1))
    assert isinstance(taken, Call)
    assert (taken.state, taken.asserted, taken.epoch) == (S.SUCCEEDED, True, 2)


def test_a_held_call_is_let_go_by_a_later_verdict() -> None:
    store = journal(record(S.UNKNOWN))
    held = store.perform(Resolve("op_1", "hold", "ann", "later"))
    assert isinstance(held, Call)
    assert (held.state, held.held, held.asserted) == (S.UNKNOWN, True, False)
    taken = store.perform(Resolve("op_1", "did_not_happen", "bob", "asked", then="rerun", force=True))
    assert isinstance(taken, Call)
    assert (taken.state, taken.held) == (S.NOT_DONE, False)


# --- expiry -------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "expired"), [(99.9, False), (100.0, True)])
def test_a_settled_call_expires_after_its_retention(seconds: float, expired: bool) -> None:
    store = journal(record(S.SUCCEEDED, terms={"retention": 100.0}), seconds=seconds)
    assert store.perform(Expire("op_1")) is expired
    after = store.get("op_1")
    assert after is not None
    assert (after.state, after.result, after.arguments) == (
        (S.EXPIRED, None, b"") if expired else (S.SUCCEEDED, VALUE, b"1j{}")
    )


@pytest.mark.parametrize(
    "kept",
    [
        record(S.UNKNOWN, terms={"retention": 1.0}),
        record(S.PROCESSING, terms={"retention": 1.0}),
        record(S.SUCCEEDED, terms={"retention": 1.0}, disputed=True),
        record(S.SUCCEEDED, terms={"retention": None}),
        call(S.NOT_DONE, attempt(1, MAYBE), terms={"retention": 1.0}),
    ],
    ids=["unknown", "processing", "disputed", "for ever", "in doubt"],
)
def test_what_is_open_or_disputed_never_expires(kept: Call) -> None:
    assert journal(kept, seconds=1e6).perform(Expire("op_1")) is False


def test_a_tombstone_stays_where_the_key_can_come_again() -> None:
    terms = {"retention": 1.0}
    store = journal(record(S.SUCCEEDED, terms=terms), seconds=100.0)
    store.perform(Expire("op_1"))
    reply = store.perform(Claim(ask()))
    assert type(reply).__name__ == "Stands"
    assert reply.call.state is S.EXPIRED
    store = journal(record(S.SUCCEEDED, terms=terms, kind=KeyKind.RANDOM), seconds=100.0)
    store.perform(Expire("op_1"))
    assert store.get("op_1") is None


def test_a_late_refusal_of_every_attempt_speaks_against_a_verdict_of_happened() -> None:
    store = journal(record(S.UNKNOWN))
    store.perform(Resolve("op_1", "happened", "ann", "seen", result=VALUE))
    late = store.perform(Evidence("op_1", 1, REFUSED))
    assert late is not None
    assert (late.state, late.disputed, late.result) == (S.SUCCEEDED, True, VALUE)
    two = call(S.SUCCEEDED, attempt(1, MAYBE), attempt(2, DONE), result=VALUE, terms={"effect": Effect.IDEMPOTENT})
    late = journal(two).perform(Evidence("op_1", 1, REFUSED))
    assert late is not None
    assert late.disputed is False


def test_no_transition_raises_in_any_state() -> None:
    of_owners = {"adopt dead": Adopt("op_1", dead=1), "over": Over("op_1", [1, 2])}
    tried = [
        (state, disputed, name, seconds)
        for state in BEFORE
        for disputed in (False, True)
        for name, transition in (TRANSITIONS | of_owners).items()
        for seconds in (20.0, 120.0)
        if raised(journal(record(state, disputed=disputed), seconds=seconds).perform, transition)
    ]
    assert tried == []
    assert raised(journal().perform, TRANSITIONS["claim"]) is None

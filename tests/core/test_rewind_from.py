"""Where a rewind begins and what goes with it: calls without an attempt, parts, drafts, inner runs, late requests."""

import pytest

from settled.core.approval.drafts import scope_of_draft
from settled.core.attempts.progress import Begin, End
from settled.core.books import RunState
from settled.core.instead.by_hand import SET_ASIDE
from settled.core.matching.claim import Claim
from settled.core.model import Effect, KeyKind, Leave, Terms
from settled.core.parts import OF, part_key
from settled.core.runs.entering import Held, LeaveRun
from settled.core.runs.joins import JoinRun
from settled.core.runs.rewind import HoldRun, LookFrom, SetAside, UndoOne
from settled.core.states import State
from settled.core.values import replace
from settled.testing.records import LOST, OTHER, OWNER, Look, begun, ended, entered, make_ask, scoped

LEAVE = Leave("more than 500", 0.0)
BY_HAND = Leave("all else failed", 0.0, by_hand="take cash")


@pytest.fixture
def entry(journal):
    return entered(journal, "trip", owner=OWNER, claim="c1")


@pytest.fixture
def step(journal, entry):
    """Make a call of the run that is done."""
    return lambda **changes: ended(journal, begun(journal, scoped("trip", entry, **changes)))


@pytest.fixture
def waiting(journal, entry):
    """Ask for a call of the run that waits for a person: no attempt of it is begun."""

    def wait(leave=LEAVE, **changes):
        return journal.perform(Claim(scoped("trip", entry, leave=leave, **changes))).call

    return wait


@pytest.fixture
def seen(journal):
    """Look at what would be set aside from a call on."""
    return lambda call: journal.perform(LookFrom("trip", "acme", call.operation_id))


@pytest.fixture
def set_aside(journal):
    """Set aside what was begun from a call on, whatever it did."""

    def aside(first, *more):
        ids = [call.operation_id for call in (first, *more)]
        journal.perform(HoldRun("trip", "acme", "h1", OTHER, 30.0, dead="c1"))
        journal.perform(SetAside("trip", "acme", "h1", ids[0], ids, True, "eva", "the date was wrong"))
        return [journal.get(operation_id) for operation_id in ids]

    return aside


def ids(calls):
    return {call.operation_id for call in calls}


# --- from where on ---


def test_a_call_without_an_attempt_has_its_place_by_when_it_was_asked_for(seen, step, waiting, clock):
    early = waiting()
    clock.advance(1.0)
    done = step()
    clock.advance(1.0)
    late = waiting()
    assert ids(seen(early).calls) == ids((early, done, late))
    assert ids(seen(done).calls) == ids((done, late))
    assert ids(seen(late).calls) == ids((late,))


def test_what_was_asked_for_at_the_same_instant_goes_with_it(seen, step, waiting):
    early, done, late = waiting(), step(), waiting()
    for first in (early, done, late):
        assert ids(seen(first).calls) == ids((early, done, late))


def test_among_calls_with_attempts_the_order_of_the_intents_counts_and_not_the_clock(journal, seen, step, clock):
    first, second = step(), step()
    older = replace(journal.get(second.operation_id), created=replace(clock(), wall=0.0))
    journal.perform(Look(lambda books: books._set(older)))
    assert ids(seen(first).calls) == ids((first, second))
    assert ids(seen(second).calls) == ids((second,))


def test_a_part_of_a_batch_stays_with_its_batch(seen, step):
    batch = step()
    between = step()
    part = step(key=part_key(batch), message=f"{OF}{batch.operation_id}", kind=KeyKind.BUSINESS)
    more = step(key=part_key(part), message=f"{OF}{part.operation_id}", kind=KeyKind.BUSINESS)
    assert ids(seen(batch).calls) == ids((batch, between, part, more))
    assert ids(seen(between).calls) == ids((between,))
    assert [seen(call).part_of for call in (batch, between, part, more)] == ["", "", *[batch.operation_id] * 2]


# --- what goes with it ---


@pytest.mark.parametrize(("drafted", "doubted"), [(True, True), (False, False)])
def test_a_draft_in_doubt_of_a_call_that_has_confirmed_nothing_is_to_be_settled_first(
    journal, seen, waiting, drafted, doubted
):
    call = waiting(terms=Terms(drafted=drafted))
    draft = begun(journal, make_ask(scope=scope_of_draft(call.operation_id)))
    for fault, is_open in ((LOST, doubted), (None, False)):
        journal.perform(End(draft.operation_id, 1, 1, fault))
        assert ids(seen(call).open) == ({draft.operation_id} if is_open else set())
        assert ids(seen(call).calls) == {call.operation_id}
        assert seen(call).standing == ()


def test_a_draft_in_doubt_of_a_call_that_was_confirmed_is_no_more_to_settle(journal, seen, step):
    call = step(terms=Terms(drafted=True))
    draft = begun(journal, make_ask(scope=scope_of_draft(call.operation_id)))
    journal.perform(End(draft.operation_id, 1, 1, LOST))
    assert seen(call).open == ()


def test_inner_runs_count_until_they_are_undone_and_lanes_never(journal, seen, step):
    call = step()
    journal.perform(JoinRun("trip", "acme", "aside", 1, journal.now().wall + 1000.0, claim="g1", owner=OTHER))
    assert seen(call).inner == ()
    for state, counts in ((RunState.ACTIVE, True), (RunState.KEPT, True), (RunState.COMPENSATED, False)):
        name = f"leg {state}"
        entered(journal, name, owner=OWNER, claim=name, parent="trip", parent_entry=1)
        run = replace(journal.run("acme", name), state=state)
        journal.perform(Look(lambda books, run=run: books.put_run(run)))
        assert (name in seen(call).inner) is counts


# --- requests that may still arrive ---


def twice(journal, entry, terms):
    """A call whose first attempt was lost, and whose second succeeded."""
    ask = scoped("trip", entry, terms=terms)
    call = begun(journal, ask)
    journal.perform(End(call.operation_id, 1, 1, LOST, go_on=True))
    journal.perform(Begin(call.operation_id, 1, 2, ask))
    return journal.perform(End(call.operation_id, 1, 2, None))


def test_what_was_undone_before_an_earlier_request_arrives_would_be_done_anew(journal, entry, seen, clock):
    lost = twice(journal, entry, Terms(Effect.IDEMPOTENT, lifetime=60.0, compensate="refund"))
    assert lost.state is State.SUCCEEDED
    assert seen(lost).arriving == (lost,)
    clock.advance(59.0)
    assert seen(lost).arriving == (lost,)
    journal.perform(LeaveRun("trip", "acme", 1, RunState.KEPT))
    journal.perform(HoldRun("trip", "acme", "h1", OTHER, 30.0))
    undoing = journal.perform(UndoOne("trip", "acme", "h1", lost.operation_id))
    assert undoing.state is State.COMPENSATING
    assert seen(lost).arriving == (undoing,)
    clock.advance(1.0)
    assert seen(lost).arriving == ()


@pytest.mark.parametrize(
    "terms",
    [Terms(Effect.IDEMPOTENT), Terms(Effect.READ, lifetime=60.0), Terms(Effect.DEDUPLICATED, remote_retention=1e6)],
    ids=["no lifetime declared", "a read", "de-duplicated"],
)
def test_nothing_is_waited_for_where_a_late_request_does_no_harm_or_nobody_knows_how_long(journal, entry, seen, terms):
    call = twice(journal, entry, terms)
    assert (call.state, seen(call).arriving) == (State.SUCCEEDED, ())


def test_what_did_nothing_is_not_waited_for(journal, entry, seen):
    call = begun(journal, scoped("trip", entry, terms=Terms(Effect.IDEMPOTENT, lifetime=60.0)))
    journal.perform(End(call.operation_id, 1, 1, LOST))
    assert (len(seen(call).open), seen(call).arriving) == (1, ())


# --- setting aside ---


def test_what_a_person_was_to_do_is_closed_with_it(journal, waiting, set_aside, clock):
    call = waiting(BY_HAND)
    clock.advance(1.0)
    [after] = set_aside(call)
    assert (after.state, after.reason, after.decided) == (State.REFUSED, SET_ASIDE, "rewind")
    [closed, noted] = journal.log(call.operation_id)[-2:]
    assert (closed.event, closed.at, noted.detail) == ("refuse", clock().wall, "rewound by eva: the date was wrong")


def test_what_waits_for_leave_is_not_decided_by_it(waiting, set_aside):
    [after] = set_aside(waiting())
    assert (after.state, after.decided) == (State.AWAITING_APPROVAL, "")


@pytest.mark.parametrize(("confirmed", "state"), [(False, State.COMPENSATING), (True, State.SUCCEEDED)])
def test_the_draft_of_a_call_that_has_confirmed_nothing_is_thrown_away_with_it(
    journal, step, waiting, set_aside, *, confirmed, state
):
    call = (step if confirmed else waiting)(terms=Terms(drafted=True))
    draft = ended(journal, begun(journal, make_ask(scope=scope_of_draft(call.operation_id))))
    set_aside(call)
    assert journal.get(draft.operation_id).state is state


def test_that_a_call_is_undone_by_itself_says_why(journal, step):
    call = step(terms=Terms(compensate="refund"))
    journal.perform(LeaveRun("trip", "acme", 1, RunState.KEPT))
    journal.perform(HoldRun("trip", "acme", "h1", OTHER, 30.0))
    journal.perform(UndoOne("trip", "acme", "h1", call.operation_id))
    assert journal.log(call.operation_id)[-1].detail == "rewind"


def test_who_takes_a_run_holds_it_from_then_on_and_others_hear_who(journal, entry, clock):
    clock.advance(3.0)
    assert journal.perform(HoldRun("trip", "acme", "h1", OTHER, 30.0)) == Held(journal.run("acme", "trip"))
    taken = journal.perform(HoldRun("trip", "acme", "h1", OTHER, 30.0, dead="c1"))
    assert (taken.lease, taken.changed) == (clock().plus(30.0), clock().wall)

"""What an asker finds instead of a new call: other owners, doubts, what bars, and what it was not told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.attempts.outcome import NEVER_SENT
from settled.core.commands import AwaitCall, CheckOwners, Report, Shut, Spill, Tell
from settled.core.doubt.late import Evidence
from settled.core.doubt.settling import Adopt
from settled.core.encoding import codec
from settled.core.matching.claim import Claim
from settled.core.matching.entry import Entry
from settled.core.matching.owed import Heard
from settled.core.model import Effect, KeyKind, Standing
from settled.core.policy import Limits
from settled.core.runs.entering import EnterRun
from settled.core.states import State
from settled.core.values import replace
from settled.errors import JournalError
from tests.core.build import ME, at, attempt, call, journal
from tests.core.script import LOST, SAID_NO, SAID_NOTHING, SAID_YES, Script, drive, life, policy, sent, told

if TYPE_CHECKING:
    from settled.core.machine import Life

S = State
MAYBE, DONE, NONE = Standing.MAYBE, Standing.DONE, Standing.NONE
RUN = "run:0::r"
FOUND = codec.dumps("found")


def working(**changes: Any) -> Any:
    """A like call at work under the asker's key, with a long lease."""
    return call(S.PROCESSING, attempt(), **({"key": "new", "lease": at(1000)} | changes))


def scoped(state: State, *attempts: Any, **changes: Any) -> Any:
    """A call of the run's first entry."""
    return call(state, *attempts, **({"kind": KeyKind.SCOPED, "scope": RUN, "entry": 1, "series": 1} | changes))


def asker(entry: Entry, **changes: Any) -> Life:
    made = life(policy(**changes.pop("policy", {})), limits=changes.pop("limits", None))
    assert made.ask is not None
    in_run = {"kind": KeyKind.SCOPED, "scope": RUN, "key": "", "entry": entry}
    made.ask = replace(made.ask, **(in_run | changes))
    return made


def test_an_entry_that_was_superseded_while_it_settled_begins_nothing_more() -> None:
    store = journal()
    made = asker(store.perform(EnterRun("r", "")), run_id="r", run_entry=1, policy={"lifetime": 0.0, "probe": print})

    def supersede(script: Script, name: str) -> None:
        if name == "Settle" and script.counts["Transact"] == 3:
            store.perform(EnterRun("r", ""))

    script = Script(store, [LOST], [SAID_NO], meddle=supersede)
    answer = drive(script, made)
    assert (answer.status, answer.reason) == ("in_progress", "superseded")
    assert script.names().count("Invoke") == 1
    tell = sent(script, Tell)[-1]
    assert (tell.event, tell.call and tell.call.operation_id) == ("retry_not_made", "op_2")
    assert tell.facts == {"reason": "superseded"}


def outside(**changes: Any) -> Life:
    made = life(policy(**changes.pop("policy", {})), limits=changes.pop("limits", None))
    assert made.ask is not None
    made.ask = replace(made.ask, **({"kind": KeyKind.RANDOM, "key": "fresh"} | changes))
    return made


# --- who is told what ---------------------------------------------------------------------


def test_who_is_given_an_outcome_that_was_owed_says_so_in_the_journal() -> None:
    shown = {"kind": KeyKind.RANDOM, "key": "old", "decided": "probe", "result": codec.dumps("value")}
    done = call(S.SUCCEEDED, attempt(1, Standing.DONE), **shown)
    store = journal(done)
    store.books.put_owed(done)
    script = Script(store, ["another"])
    answer = drive(script, outside())
    assert (answer.status, "Invoke" in script.names()) == ("succeeded", False)
    assert sent(script, Heard) == [Heard("op_1")]
    assert list(store.books.owed("", "pay", "1:i")) == []


def test_who_is_given_an_outcome_that_was_never_in_doubt_or_still_is_says_nothing() -> None:
    script = Script(journal(), ["value"])
    assert told(drive(script, outside())) == ("succeeded", "")
    assert sent(script, Heard) == []
    script = Script(journal(), [LOST])
    assert drive(script, outside()).status == "unknown"
    assert sent(script, Heard) == []


def test_who_is_answered_has_been_told_and_waits_no_more() -> None:
    entry = Entry()
    drive(Script(journal(), ["value"]), asker(entry))
    assert (entry.told, entry.open, entry.waiting) == ({"op_2": S.SUCCEEDED}, {}, {})


def test_who_has_gone_was_told_nothing() -> None:
    entry = Entry()
    made = asker(entry)
    script = Script(journal(), ["value"], meddle=lambda _, name: made.abandon() if name == "End" else None)
    drive(script, made)
    assert (entry.told, list(entry.open), entry.waiting) == ({}, ["op_2"], {})
    assert made.abandoned is True


@pytest.mark.parametrize(("outcome", "told"), [("value", S.SUCCEEDED), (LOST, S.PROCESSING)])
def test_a_success_counts_as_given_also_where_the_journal_could_not_take_it(outcome: Any, told: State) -> None:
    entry = Entry()
    drive(Script(journal(), [outcome], broken={"End"}), asker(entry))
    assert (entry.told, list(entry.open)) == ({"op_2": told}, [] if outcome == "value" else ["op_2"])


def test_who_leaves_by_an_error_waits_no_more() -> None:
    entry = Entry()
    with pytest.raises(JournalError):
        drive(Script(journal(), broken={"Claim"}), asker(entry))
    assert (entry.told, entry.waiting) == ({}, {})


def test_an_asker_outside_of_runs_and_one_without_a_record_can_go_too() -> None:
    for made in (life(policy()), life(policy(effect=Effect.READ), record=False)):
        made.abandon()
        assert made.abandoned is True


@pytest.mark.parametrize(("state", "status"), [(S.SUCCEEDED, "succeeded"), (S.FAILED, "failed")])
def test_an_answer_from_a_like_call_says_so(state: State, status: str) -> None:
    kept = scoped(state, attempt(1, DONE), result=FOUND)
    answer = drive(Script(journal(kept)), asker(Entry(2, (1,))))
    assert (answer.status, answer.like, answer.call) == (status, True, kept)
    assert drive(Script(journal(), ["value"]), asker(Entry())).like is False


def test_it_says_so_however_it_was_reached() -> None:
    doubt = scoped(S.UNKNOWN, attempt(1, MAYBE), terms={"lifetime": 0.0})
    declared = {"lifetime": 0.0, "probe": True}
    found = drive(Script(journal(doubt), probes=[SAID_YES]), asker(Entry(2, (1,)), policy=declared))
    assert (found.status, found.like) == ("succeeded", True)


# --- at work elsewhere --------------------------------------------------------------------


def test_waiting_doubles_from_a_fiftieth_of_a_second_to_a_second() -> None:
    script = Script(journal(working()))
    assert told(drive(script, life(policy(), limits=Limits(wait=4.0)))) == ("in_progress", "")
    waits = [(c.operation_id, c.seconds, c.local) for c in sent(script, AwaitCall)]
    assert waits == [("op_1", s, 30.0) for s in (0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, pytest.approx(0.74))]
    assert [c.verdict for c in sent(script, Report)] == ["neutral"]


def test_without_patience_it_is_looked_at_once() -> None:
    script = Script(journal(working()))
    assert drive(script, life(policy(), limits=Limits(wait=0.0))).status == "in_progress"
    assert [c.seconds for c in sent(script, AwaitCall)] == [0.02]


def test_a_call_of_this_process_is_waited_for_as_long_as_there_is_time() -> None:
    script = Script(journal(working()), local=True)
    assert drive(script, life(policy(), limits=Limits(20.0, wait=1.0))).status == "in_progress"
    assert script.now == 20.0
    assert sent(script, AwaitCall)[-1].local <= 1.0


def test_while_it_waits_it_asks_about_that_very_call_and_begins_nothing() -> None:
    kept = working()
    script = Script(journal(kept))
    drive(script, life(policy(), limits=Limits(wait=0.02)))
    first, look = sent(script, Claim)
    assert (first.begin, first.pinned, first.joined) == (True, "", "")
    assert (look.begin, look.pinned, look.joined) == (False, "op_1", "op_1")


def ends(state: State, **changes: Any) -> Any:
    """The other owner's call ends while it is waited for."""

    def meddle(script: Script, name: str) -> None:
        books = script.journal.books
        if name == "AwaitCall" and books.calls["op_1"].state is S.PROCESSING:
            books._set(replace(books.calls["op_1"], state=state, **changes))

    return meddle


def test_who_waited_shares_the_answer() -> None:
    script = Script(journal(working()), meddle=ends(S.SUCCEEDED, result=FOUND, attempts=(attempt(1, DONE),)))
    answer = drive(script, life(policy()))
    assert (answer.status, answer.call.result, answer.fresh) == ("succeeded", FOUND, False)  # type: ignore[union-attr]
    undone = Script(journal(working()), ["mine"], meddle=ends(S.NOT_DONE, attempts=(attempt(1, NONE),)))
    assert drive(undone, life(policy())).status == "not_done"
    assert "Invoke" not in undone.counts


def test_a_dead_owners_call_is_taken_without_waiting_for_its_lease() -> None:
    script = Script(journal(working()), alive=False)
    assert told(drive(script, life(policy()))) == ("unknown", "owner_lost")
    assert sent(script, Adopt) == [Adopt("op_1", dead=1)]
    assert (sent(script, CheckOwners)[0].owners, sent(script, AwaitCall)) == ((ME,), [])
    nothing_in_doubt = working(attempts=(attempt(1, NONE),))
    again = Script(journal(nothing_in_doubt), ["value"], alive=False)
    assert drive(again, life(policy())).value == "value"


@pytest.mark.parametrize("alive", [True, None])
def test_an_owner_that_lives_or_cannot_be_seen_keeps_its_call(alive: bool | None) -> None:
    script = Script(journal(working()), alive=alive)
    assert drive(script, life(policy(), limits=Limits(wait=0.5))).status == "in_progress"
    assert sent(script, Adopt) == []


def test_a_call_does_not_wait_for_itself() -> None:
    made = life(policy())
    assert made.ask is not None
    made.ask = replace(made.ask, around=frozenset({"op_1"}))
    script = Script(journal(working()))
    assert told(drive(script, made)) == ("in_progress", "re_entrant")
    assert sent(script, AwaitCall) == []


# --- in doubt -----------------------------------------------------------------------------


def test_a_doubt_that_may_not_be_repeated_is_answered_as_it_stands() -> None:
    doubt = call(S.UNKNOWN, attempt(1, MAYBE), key="new")
    script = Script(journal(doubt))
    answer = drive(script, life(policy()))
    assert (answer.status, answer.call) == ("unknown", doubt)
    assert [(c.begin, c.repeat, c.pinned) for c in sent(script, Claim)] == [(True, False, ""), (False, True, "op_1")]


def test_a_doubt_that_may_be_repeated_is_answered_as_it_stands_where_no_attempt_may_be_made() -> None:
    declared = policy(effect=Effect.IDEMPOTENT)
    doubt = call(S.UNKNOWN, attempt(1, MAYBE), key="new", terms={"effect": Effect.IDEMPOTENT})
    shut = Shut("tool:pay", 7.0, 0.0)
    script = Script(journal(doubt), shut={1: shut, 2: shut})
    answer = drive(script, life(declared))
    assert (answer.status, answer.call, answer.retry_after) == ("unknown", doubt, 7.0)
    assert script.journal.get("op_1") == doubt


def test_what_a_person_holds_at_the_last_moment_is_not_repeated() -> None:
    doubt = call(S.UNKNOWN, attempt(1, MAYBE), key="new", terms={"effect": Effect.IDEMPOTENT})

    def hold(script: Script, _: str) -> None:
        if script.names().count("Claim") == 3:
            script.journal.books._set(replace(doubt, held=True))

    script = Script(journal(doubt), ["value"], meddle=hold)
    assert drive(script, life(policy(effect=Effect.IDEMPOTENT))).status == "unknown"
    assert "Invoke" not in script.counts


def test_a_settled_doubt_answers_for_that_very_call() -> None:
    doubt = scoped(S.UNKNOWN, attempt(1, MAYBE), terms={"lifetime": 0.0})
    twin = scoped(S.SUCCEEDED, attempt(1, DONE), operation_id="op_3", key="3", n=2)
    script = Script(journal(doubt, twin), ["value"], [SAID_NO])
    answer = drive(script, asker(Entry(2, (1,)), policy={"lifetime": 0.0, "probe": True}))
    assert answer.call is not None
    assert (answer.status, answer.value, answer.call.operation_id) == ("succeeded", "value", "op_1")
    assert [c.pinned for c in sent(script, Claim)] == ["", "op_1"]


# --- what bars ----------------------------------------------------------------------------

OTHER_CALL = {"identity": "1:x", "words": "1:x", "fingerprint": "1:x"}


def barring(**changes: Any) -> Any:
    return call(S.UNKNOWN, attempt(1, MAYBE), **({"kind": KeyKind.RANDOM, "key": "old", **OTHER_CALL} | changes))


def test_doubts_that_bar_are_settled_first() -> None:
    first, second = (barring(operation_id=op, key=op, terms={"lifetime": 0.0}) for op in ("op_a", "op_b"))
    declared = {"lifetime": 0.0, "probe": True}
    for said in ([SAID_YES], [SAID_NOTHING, SAID_YES, SAID_YES]):
        script = Script(journal(first, second), ["value"], said)
        assert drive(script, outside(while_unknown="any", policy=declared)).value == "value"
    script = Script(journal(first, second), [], [SAID_NOTHING])
    answer = drive(script, outside(while_unknown="any", policy=declared))
    assert (told(answer), answer.earlier) == (("rejected", "unknown_before"), (first, second))
    assert "Invoke" not in script.counts


def test_a_model_is_told_what_it_did_before_it_does_something_else() -> None:
    done = scoped(S.SUCCEEDED, attempt(1, DONE), **OTHER_CALL)
    script = Script(journal(done), ["value"])
    answer = drive(script, asker(Entry(2, (1,)), by_model=True))
    assert (told(answer), answer.earlier, answer.like) == (("rejected", "untold_before"), (done,), False)
    assert "Invoke" not in script.counts


def test_a_model_that_has_gone_has_not_heard_what_it_did() -> None:
    done = scoped(S.SUCCEEDED, attempt(1, DONE), **OTHER_CALL)
    for goes in (True, False):
        entry = Entry(2, (1,))
        made = asker(entry, by_model=True)
        gone = (lambda _, name, one=made: one.abandon() if name == "Report" else None) if goes else None
        drive(Script(journal(done), meddle=gone), made)
        assert (entry.told, list(entry.refused)) == (({}, []) if goes else ({"op_1": S.SUCCEEDED}, ["op_2"]))


def test_a_model_whose_ask_was_broken_off_has_not_heard_what_it_did() -> None:
    entry = Entry(2, (1,))
    script = Script(journal(scoped(S.SUCCEEDED, attempt(1, DONE), **OTHER_CALL)))
    flow = asker(entry, by_model=True).run()
    command = next(flow)
    while not isinstance(command, Report):
        command = flow.send(script.perform(command))
    assert entry.told == {"op_1": S.SUCCEEDED}
    flow.close()
    assert (entry.told, entry.refused, entry.listed) == ({}, {}, {})


def test_an_entry_that_was_fenced_out_is_told_so() -> None:
    assert told(drive(Script(journal()), asker(Entry(), run_id="r", run_entry=1))) == ("rejected", "superseded")


# --- like calls at work outside of runs ---------------------------------------------------


def suspect(operation_id: str = "op_1", **changes: Any) -> Any:
    return working(**({"kind": KeyKind.RANDOM, "key": f"key {operation_id}", "operation_id": operation_id} | changes))


def test_like_calls_of_live_processes_are_other_actions() -> None:
    script = Script(journal(suspect(), suspect("op_3")), ["value"])
    assert drive(script, outside()).value == "value"
    assert sent(script, Claim)[-1].ask.alive == {"op_1", "op_3"}
    assert sent(script, AwaitCall) == []


def test_a_like_call_of_a_dead_process_is_in_doubt_and_answers() -> None:
    third = replace(ME, pid=9)
    script = Script(journal(suspect(), suspect("op_3", owner=third)), lives={third: False})
    answer = drive(script, outside())
    assert answer.call is not None
    assert (told(answer), answer.call.operation_id, answer.like) == (("unknown", "owner_lost"), "op_3", True)
    assert sent(script, Claim)[1].ask.alive == {"op_1"}


def test_a_like_call_whose_owner_cannot_be_seen_is_waited_for() -> None:
    script = Script(journal(suspect()), alive=None)
    answer = drive(script, outside(limits=Limits(wait=2.0)))
    assert (answer.status, answer.call) == ("in_progress", suspect())
    waits = sent(script, AwaitCall)
    assert [c.seconds for c in waits] == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0]
    assert {(c.operation_id, c.local == c.seconds) for c in waits} == {("op_1", True)}
    assert "Invoke" not in script.counts
    impatient = Script(journal(suspect()), alive=None)
    assert drive(impatient, outside(limits=Limits(wait=0.0))).status == "in_progress"
    assert sent(impatient, AwaitCall) == []


def removed(script: Script, name: str) -> None:
    """The other owner's call is removed while it is waited for."""
    if name == "AwaitCall":
        script.journal.books.forget(script.journal.books.calls["op_1"])


def test_its_end_makes_this_ask_another_action_and_its_loss_a_doubt() -> None:
    ended = Script(journal(suspect()), ["value"], alive=None, meddle=ends(S.SUCCEEDED))
    assert drive(ended, outside()).value == "value"
    gone = Script(journal(suspect()), ["value"], alive=None, meddle=removed)
    assert drive(gone, outside()).value == "value"
    lost = Script(journal(suspect(lease=at(2.5))), alive=None)
    assert told(drive(lost, outside())) == ("unknown", "owner_lost")


# --- the journal and the breakers ---------------------------------------------------------


def test_a_claim_whose_answer_is_lost_says_that_nothing_was_sent() -> None:
    script = Script(journal(), broken={"Claim"})
    with pytest.raises(JournalError):
        drive(script, life(policy()))
    assert sent(script, Spill) == [Spill(Evidence("op_2", 1, NEVER_SENT))]
    assert [c.verdict for c in sent(script, Report)] == ["neutral"]


def test_an_open_breaker_says_which_time_to_wait_without_a_record_too() -> None:
    script = Script(journal(), shut={1: Shut("tool:pay", 7.0, 0.0)})
    answer = drive(script, life(policy(effect=Effect.READ), record=False))
    assert (told(answer), answer.retry_after) == (("rejected", "breaker_open"), 7.0)
    assert [c.begin for c in sent(script, Claim)] == []


@pytest.mark.parametrize(("seconds", "is_sent"), [(29.0, True), (30.0, False)])
def test_what_was_claimed_too_late_is_not_sent(seconds: float, is_sent: bool) -> None:
    script = Script(journal(), ["value"], slow={"Claim": seconds}, now=400.0)
    made = life(policy(attempts=1))
    made.at = 400.0
    assert drive(script, made).status == ("succeeded" if is_sent else "not_done")

"""Which record answers an ask: keys, steps, likeness, and the rule of doubt and repetition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.ask import Ask, Barred, Conflict, Suspect, Untold
from settled.core.matching.entry import Entry
from settled.core.matching.match import Match, find, preference, reserve
from settled.core.model import Effect, KeyKind
from settled.core.states import State
from settled.core.values import replace
from tests.core.build import ME, OTHER, ask, at, call, journal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.call import Call
    from settled.core.matching.match import Found

S = State
RUN = "run:0::r"
FIRST, SECOND = "m1\x1f0", "m1\x1f1"


def made(operation_id: str = "op_1", state: State = S.SUCCEEDED, **changes: Any) -> Call:
    """A call of the run, made in its first entry."""
    of_run = {"kind": KeyKind.SCOPED, "scope": RUN, "entry": 1, "series": 1}
    named = {"operation_id": operation_id, "key": f"key of {operation_id}", "claim": operation_id}
    return call(state, **(of_run | named | changes))


def asked(entry: Entry | None = None, **changes: Any) -> Ask:
    """An ask of code in the run's second entry."""
    return ask(**({"kind": KeyKind.SCOPED, "scope": RUN, "key": "", "entry": entry or again()} | changes))


def by_model(entry: Entry | None = None, **changes: Any) -> Ask:
    return asked(entry, by_model=True, **changes)


def again(**changes: Any) -> Entry:
    """The second entry of one turn."""
    return Entry(2, (1,), **changes)


def outside(**changes: Any) -> Ask:
    """An ask outside of any run."""
    return ask(**({"kind": KeyKind.RANDOM, "key": "fresh"} | changes))


def random(operation_id: str = "op_1", state: State = S.UNKNOWN, **changes: Any) -> Call:
    named = {"operation_id": operation_id, "key": f"key of {operation_id}", "kind": KeyKind.RANDOM}
    return call(state, **(named | changes))


def found(
    wish: Ask,
    *calls: Call,
    steps: Sequence[tuple[str, str]] = (),
    seconds: float = 2.0,
    scope: str = RUN,
    owed: Sequence[Call] = (),
    mine: Call | None = None,
) -> Found | None:
    store = journal(*calls)
    for each in owed:
        store.books.put_owed(each)
    for step, operation_id in steps:
        store.books.put_step(scope, step, operation_id)
    return find(store.books, wish, mine, at(seconds))


def same(call: Call) -> Match:
    return Match(call)


def like(call: Call) -> Match:
    return Match(call, like=True)


OTHERS = [{"identity": "1:other"}, {"tool": "refund"}, {"lane": "aside"}]
HARMLESS = [Effect.READ, Effect.IDEMPOTENT]
MAY_HAVE_HAPPENED = [S.SUCCEEDED, S.UNKNOWN, S.PROCESSING, S.PARTIAL]


# --- by key -------------------------------------------------------------------------------


def test_under_a_random_key_an_ask_finds_the_call_that_it_has_made_itself() -> None:
    kept = call(S.NOT_DONE, kind=KeyKind.RANDOM)
    assert found(ask(kind=KeyKind.RANDOM), kept, mine=kept) == same(kept)
    assert found(ask(kind=KeyKind.RANDOM, fingerprint="1:x"), kept, mine=kept) == Conflict(kept)
    assert found(ask(kind=KeyKind.RANDOM), kept) is None  # nobody else draws the same key


@pytest.mark.parametrize("kind", [KeyKind.BUSINESS, KeyKind.STEP])
def test_the_same_key_finds_its_call_or_conflicts(kind: KeyKind) -> None:
    kept = call(S.SUCCEEDED)
    assert found(ask(kind=kind), kept) == same(kept)
    assert found(ask(kind=kind, fingerprint="1:x"), kept) == Conflict(kept)
    assert found(ask(kind=kind, tool="refund"), kept) == Conflict(kept)
    assert found(ask(kind=kind, key="another"), kept) is None


@pytest.mark.parametrize("kind", [KeyKind.BUSINESS, KeyKind.STEP])
def test_what_is_in_doubt_under_another_key_does_not_bar_a_declared_one(kind: KeyKind) -> None:
    doubt = call(S.UNKNOWN, kind=KeyKind.RANDOM, key="another")
    assert found(ask(kind=kind, key="mine", while_unknown="any"), doubt) is None


def test_in_a_run_the_key_is_not_asked_for() -> None:
    assert found(asked(key="key-1", entry=Entry()), call(S.SUCCEEDED)) is None


def test_an_ask_without_an_entry_finds_nothing_but_steps_and_doubts() -> None:
    assert found(asked(entry=None), made()) == like(made())
    bare = ask(kind=KeyKind.SCOPED, scope=RUN, key="")
    assert found(bare, made()) is None
    assert found(bare, made(state=S.UNKNOWN)) == like(made(state=S.UNKNOWN))


# --- outside of runs ----------------------------------------------------------------------


def test_an_equal_fingerprint_in_doubt_bars() -> None:
    assert found(outside(), random()) == like(random())
    assert found(outside(fingerprint="1:x"), random()) is None
    assert found(outside(), random(state=S.SUCCEEDED)) is None
    assert found(outside(despite=frozenset({"op_1"})), random()) is None
    assert found(outside(), random(kind=KeyKind.BUSINESS)) is None
    assert found(outside(tenant="acme"), random()) is None


def test_the_doubt_that_bars_is_found_behind_others() -> None:
    at_work, doubt = random("op_0", S.PROCESSING, owner=OTHER), random("op_1")
    here = frozenset({"op_0"})
    assert found(outside(here=here), random("op_x", fingerprint="1:x"), at_work, doubt) == like(doubt)


def test_what_may_be_done_twice_is_not_barred_outside_of_runs() -> None:
    assert found(outside(while_unknown="allow"), random()) is None
    for effect in HARMLESS:
        assert found(outside(terms={"effect": effect}), random()) is None
    for effect in (Effect.WRITE, Effect.DEDUPLICATED):
        assert found(outside(terms={"effect": effect}), random()) == like(random())


def test_any_doubt_of_the_tool_bars_where_it_says_so() -> None:
    doubt = random(fingerprint="1:x")
    at_work = random("op_2", S.PROCESSING, fingerprint="1:y")
    assert found(outside(while_unknown="any"), doubt, at_work) == Barred((doubt,))
    assert found(outside(while_unknown="any"), at_work) is None
    assert found(outside(while_unknown="identity"), doubt) is None


def test_an_equal_call_at_work_elsewhere_is_suspect() -> None:
    at_work = random(state=S.PROCESSING, owner=ME)
    assert found(outside(), at_work) == Suspect((at_work,))
    of_mine = outside(owner=ME, here=frozenset({"op_1"}))
    assert found(of_mine, at_work) is None  # its asker waits in this very process: another action
    assert found(outside(owner=ME), at_work) == like(at_work)  # nobody waits for it any more
    assert found(outside(alive=frozenset({"op_1"})), at_work) is None
    assert found(outside(), random(state=S.PROCESSING, fingerprint="1:x")) is None
    assert found(outside(), at_work, seconds=30) == like(at_work)  # its lease is over: in doubt


def test_what_was_told_as_open_and_settled_since_answers_the_next_like_ask() -> None:
    done = random(state=S.SUCCEEDED)
    assert found(outside(told="op_1"), done) == like(done)
    assert found(outside(told="op_gone"), done) is None
    assert found(outside(told="op_1", despite=frozenset({"op_1"})), done) is None
    for change in ({"fingerprint": "1:x"}, {"tool": "refund"}):
        assert found(outside(told="op_1", **change), done) is None
    doubt = random("op_2")
    assert found(outside(told="op_1"), done, doubt) == like(doubt)  # what is in doubt now goes first
    at_work = random("op_3", S.PROCESSING, owner=ME)
    assert found(outside(told="op_1"), at_work, done) == like(done)


def test_what_was_settled_and_told_to_nobody_answers_a_like_ask() -> None:
    done = random(state=S.SUCCEEDED)
    assert found(outside(), done, owed=[done]) == like(done)
    for change in ({"fingerprint": "1:x"}, {"tool": "refund"}, {"tenant": "acme"}, {"while_unknown": "allow"}):
        assert found(outside(**change), done, owed=[done]) is None
    assert found(outside(despite=frozenset({"op_1"})), done, owed=[done]) is None
    undone, other = random(state=S.NOT_DONE), random("op_2", S.PARTIAL)
    assert found(outside(), undone, owed=[undone]) is None
    assert found(outside(), undone, other, owed=[undone, other]) == like(other)


# --- what this asker was told before ------------------------------------------------------


def test_an_asker_that_asks_again_is_matched_as_before() -> None:
    other = made("op_7")
    waits = again(waiting={"op_2": ("op_7", True)}, answered={"op_7": "1:i"})
    assert found(asked(waits), made(), other) == like(other)
    waits.waiting["op_2"] = ("op_7", False)
    assert found(asked(waits), made(), other) == same(other)
    waits.waiting["op_2"] = ("op_gone", False)
    assert found(asked(waits), made(), other) == like(made())


def test_an_asker_that_was_told_what_it_did_not_know_is_told_it_again() -> None:
    told = again(refused={"op_2": (made(),)}, waiting={"op_2": ("op_1", False)})
    assert found(by_model(told), made()) == Untold((made(),))


# --- steps --------------------------------------------------------------------------------

STEP = (("s1", "op_1"),)


def test_a_step_finds_the_call_that_it_stands_for() -> None:
    kept = made(step="s1")
    assert found(asked(Entry(), step="s1"), kept, steps=STEP) == same(kept)
    assert found(asked(Entry(), step="s2"), kept, steps=STEP) is None
    assert found(asked(Entry(), step="s1"), kept, steps=STEP, scope="elsewhere") is None
    assert found(asked(Entry(), step="s1", despite=frozenset({"op_1"})), kept, steps=STEP) is None
    assert found(asked(Entry(), step="s1"), steps=STEP) is None


def test_a_call_made_for_another_step_answers_as_a_like_one() -> None:
    kept = made(step="s0")
    assert found(asked(Entry(), step="s1"), kept, steps=STEP) == like(kept)


def test_a_step_that_was_told_what_it_did_not_know_is_told_it_again() -> None:
    told = again(refused={"s1": (made("op_3"),)})
    assert found(by_model(told, step="s1"), made(step="s1"), steps=STEP) == Untold((made("op_3"),))


@pytest.mark.parametrize("change", [{"identity": "1:other"}, {"tool": "refund"}])
def test_a_step_for_another_action_conflicts_by_code_and_is_new_by_an_adapter(change: dict[str, str]) -> None:
    kept = made(step="s1")
    assert found(asked(Entry(), step="s1", **change), kept, steps=STEP) == Conflict(kept)
    assert found(by_model(Entry(), step="s1", **change), kept, steps=STEP) is None


def test_a_step_whose_call_has_answered_another_step_is_matched_by_likeness() -> None:
    mine, twin = made(step="s1"), made("op_2", n=2)
    swapped = again(answered={"op_1": "1:i"}, steps={"op_1": "s2"})
    assert found(asked(swapped, step="s1"), mine, twin, steps=STEP) == like(twin)
    kept = again(answered={"op_1": "1:i"}, steps={"op_1": "s1"})
    assert found(asked(kept, step="s1"), mine, twin, steps=STEP) == same(mine)
    alias = made(step="s0")  # not made for this step: an alias of it may answer many
    assert found(asked(swapped, step="s1"), alias, twin, steps=STEP) == like(alias)


@pytest.mark.parametrize("state", [S.NOT_DONE, S.PARKED])
def test_a_step_that_was_not_done_is_answered_by_a_like_call_that_was(state: State) -> None:
    undone, done, failed = made(state=state, step="s1"), made("op_2", n=2), made("op_2", S.FAILED, n=2)
    assert found(asked(step="s1"), undone, done, steps=STEP) == like(done)
    assert found(asked(step="s1"), undone, failed, steps=STEP) == same(undone)
    assert found(asked(step="s1"), undone, steps=STEP) == same(undone)
    of_now = made(state=state, step="s1", series=2)
    assert found(asked(step="s1"), of_now, done, steps=STEP) == same(of_now)
    finished = made(state=S.FAILED, step="s1")
    assert found(asked(step="s1"), finished, done, steps=STEP) == same(finished)


# --- likeness -----------------------------------------------------------------------------


def test_a_call_of_an_earlier_entry_answers_a_like_one() -> None:
    assert found(asked(), made()) == like(made())
    assert found(asked(), made(entry=2)) is None
    assert found(asked(Entry(3, (2,))), made(entry=1)) is None
    assert found(asked(Entry(3, (2,))), made(entry=2)) == like(made(entry=2))
    assert found(asked(scope="run:0::other"), made()) is None
    for change in OTHERS:
        assert found(asked(), made(**change)) is None


def test_two_intended_like_calls_stay_two() -> None:
    one, two = made("op_1", n=1), made("op_2", n=2)
    assert found(asked(), two, one) == like(one)
    assert found(asked(again(answered={"op_1": "1:i"})), one, two) == like(two)
    assert found(asked(again(answered={"op_1": "1:i", "op_2": "1:i"})), one, two) is None


def test_what_may_have_happened_comes_first_and_what_was_not_done_last() -> None:
    for best in (*MAY_HAVE_HAPPENED, S.AWAITING_APPROVAL):
        better = made("op_2", best, n=9, lease=at(99))
        assert found(asked(), made("op_1", S.FAILED), better, made("op_3", S.NOT_DONE)) == like(better)
    for last in (S.NOT_DONE, S.PARKED):
        failed = made("op_2", S.FAILED, n=9)
        assert found(asked(), made("op_1", last), failed) == like(failed)


def test_among_several_the_same_words_come_first_then_the_same_position() -> None:
    reworded, worded = made("op_1", n=1, words="1:old"), made("op_2", n=2)
    assert found(asked(), reworded, worded) == like(worded)
    undone = made("op_2", S.NOT_DONE)
    assert found(asked(), reworded, undone) == like(reworded)  # what may have happened goes before words


@pytest.mark.parametrize("state", [S.NOT_DONE, S.PARKED])
def test_what_was_not_done_is_made_again_in_the_same_words_only(state: State) -> None:
    undone = made(state=state, words="1:old", step="s1")
    assert found(asked(), undone) is None
    assert found(asked(words="1:old"), undone) == like(undone)
    assert found(asked(Entry(), step="s1"), undone, steps=STEP) is None
    assert found(asked(Entry(), step="s1", words="1:old"), undone, steps=STEP) == same(undone)
    done = made(words="1:old")
    assert found(asked(), done) == like(done)


def test_what_despite_says_is_another_action_does_not_answer() -> None:
    assert found(asked(despite=frozenset({"op_1"})), made()) is None
    twin = made("op_2", n=2)
    assert found(asked(despite=frozenset({"op_1"})), made(), twin) == like(twin)


def test_what_is_reserved_for_this_sibling_comes_before_all() -> None:
    entry = again(reserved={"op_3": SECOND})
    wish = asked(entry, message="m1", sibling=SECOND)
    mine = made("op_3", S.FAILED, n=3, words="1:old")
    assert found(wish, made("op_1"), mine) == like(mine)
    assert preference(mine, wish) == (False, 1, True, 3)
    assert preference(made("op_1"), wish) == (True, 0, False, 1)
    assert preference(made("op_1", S.REFUSED), ask()) == (True, 1, False, 1)
    assert preference(mine, asked(again(), sibling="")) == (True, 1, True, 3)
    assert preference(made("op_1", S.NOT_DONE), asked(entry, sibling=FIRST)) == (True, 2, False, 1)


def test_what_is_reserved_for_another_sibling_is_not_taken() -> None:
    one, two = made("op_1", n=1), made("op_2", n=2)
    entry = again(reserved={"op_1": FIRST})
    assert found(asked(entry, message="m1", sibling=SECOND), one, two) == like(two)
    assert found(asked(entry, message="m1", sibling=FIRST), one, two) == like(one)
    assert found(asked(entry, message="m2", sibling="m2\x1f0"), one, two) == like(one)  # that message is over
    assert found(asked(entry), one, two) == like(one)


def test_a_reworded_match_does_not_use_up_the_record_for_the_old_words() -> None:
    reworded = again(answered={"op_1": "1:new"})
    assert found(asked(reworded, words="1:i"), made()) == like(made())
    assert found(asked(reworded, words="1:new"), made()) is None
    assert found(asked(reworded, words="1:third"), made()) is None


def test_a_model_is_asked_what_the_old_words_mean_when_it_was_answered_in_new_ones() -> None:
    reworded = again(answered={"op_1": "1:new"}, told={"op_1": S.SUCCEEDED})
    assert found(by_model(reworded, words="1:i"), made()) == Untold((made(),))
    assert found(by_model(), made()) == like(made())
    for effect in HARMLESS:
        assert found(by_model(reworded, terms={"effect": effect}), made()) == like(made())


# --- told as open, and settled since ------------------------------------------------------


def opened(state: State = S.UNKNOWN, **changes: Any) -> Entry:
    """An entry whose asker was told that its call stands so."""
    return Entry(no=1, open={"op_1": None}, told={"op_1": state}, answered={"op_1": "1:i"}, **changes)


@pytest.mark.parametrize("state", [S.SUCCEEDED, S.FAILED, S.NOT_DONE])
def test_what_was_told_as_unknown_and_settled_since_answers_a_like_call(state: State) -> None:
    assert found(asked(opened()), made(state=state)) == like(made(state=state))
    for change in OTHERS:
        assert found(asked(opened()), made(state=state, **change)) is None


def test_what_is_still_as_it_was_told_does_not_answer_by_that() -> None:
    assert found(asked(opened(), while_unknown="allow"), made(state=S.UNKNOWN)) is None
    assert found(asked(opened(S.SUCCEEDED)), made()) is None


def test_what_was_listed_to_one_sibling_answers_the_other() -> None:
    listed = opened(S.SUCCEEDED, listed={"op_1": "m1"})
    assert found(asked(listed, message="m1"), made()) == like(made())
    assert found(asked(listed, message="m2"), made()) is None


def test_a_sibling_that_a_call_is_kept_for_is_not_answered_from_a_list() -> None:
    listed = opened(S.SUCCEEDED, listed={"op_1": "m1"}, reserved={"op_2": SECOND})
    listed.open.clear()
    assert found(asked(listed, message="m1", sibling=SECOND), made()) is None
    assert found(asked(listed, message="m1", sibling=FIRST), made()) == like(made())


def test_a_call_in_flight_answers_though_it_was_told_of() -> None:
    flight = made(state=S.PROCESSING)
    assert found(asked(opened(S.PROCESSING)), flight) == like(flight)


def test_who_waits_meanwhile_has_an_intention_of_its_own() -> None:
    awaited = opened(waiting={"op_9": ("op_1", False)})
    assert found(asked(awaited), made(state=S.PROCESSING)) is None


@pytest.mark.parametrize("effect", HARMLESS)
def test_what_does_no_harm_is_simply_made_again(effect: Effect) -> None:
    assert found(asked(opened(), terms={"effect": effect}), made()) is None


def test_business_keys_siblings_and_other_actions_are_exempt() -> None:
    assert found(asked(opened()), made(kind=KeyKind.BUSINESS)) is None
    assert found(asked(opened(), despite=frozenset({"op_1"})), made()) is None
    sibling = made(message="m1")
    assert found(asked(opened(), message="m1"), sibling) is None
    assert found(asked(opened(), message="m2"), sibling) == like(sibling)
    assert found(asked(opened(), message=""), made(message="")) == like(made(message=""))
    earlier = made(message="m1", series=7)  # the same message, sent again in another entry
    assert found(asked(opened(), message="m1"), earlier) == like(earlier)


def test_an_open_call_is_found_behind_others() -> None:
    entry = opened(waiting={"op_9": ("op_w", False)})
    entry.open = {"op_gone": None, "op_w": None, "op_x": None, "op_1": None}
    awaited, other = made("op_w", S.PROCESSING), made("op_x", tool="refund")
    assert found(asked(entry), awaited, other, made()) == like(made())


# --- what a model was not told ------------------------------------------------------------

OTHER_CALL = {"identity": "1:other", "words": "1:other", "fingerprint": "1:other"}


@pytest.mark.parametrize("state", MAY_HAVE_HAPPENED)
def test_a_model_that_asks_for_something_else_is_told_what_was_done(state: State) -> None:
    kept = made(state=state)
    other = {**OTHER_CALL, "alive": frozenset({"op_1"})}
    assert found(by_model(**other), kept) == Untold((kept,), once=True)
    assert found(by_model(**other, untold="block"), kept) == Untold((kept,), once=False)


def test_what_an_earlier_entry_has_at_work_is_looked_at_before_it_can_be_missed() -> None:
    """Its process may be dead: then it is in doubt, or proved undone; neither is said of it as it stands."""
    left = made(state=S.PROCESSING)
    assert found(by_model(**OTHER_CALL), left) == Suspect((left,))
    assert found(by_model(**OTHER_CALL, while_unknown="allow"), left) == Suspect((left,))
    assert found(asked(again(), **OTHER_CALL), left) is None
    assert found(asked(again(), **OTHER_CALL, while_unknown="any"), left) == Suspect((left,))
    of_another_turn = Entry(no=3)
    assert found(asked(of_another_turn), left) == Suspect((left,))
    assert found(asked(of_another_turn, while_unknown="allow"), left) is None
    assert found(asked(of_another_turn, alive=frozenset({"op_1"})), left) is None
    assert found(asked(of_another_turn, despite=frozenset({"op_1"})), left) is None
    for effect in HARMLESS:
        assert found(by_model(**OTHER_CALL, terms={"effect": effect}), left) is None


def test_what_another_agent_has_at_work_is_looked_at_where_its_process_can_be_seen() -> None:
    of_another_lane = asked(Entry(no=3), lane="b")
    left, afar = (made(state=S.PROCESSING, owner=replace(ME, pid=7, **more)) for more in ({}, {"host": "afar"}))
    assert found(of_another_lane, left) == Suspect((left,))
    assert found(replace(of_another_lane, alive=frozenset({"op_1"})), left) is None
    assert found(of_another_lane, afar) is None, "it means a call of its own"
    assert found(asked(Entry(no=3), lane="b", **OTHER_CALL), left) is None


def test_what_runs_on_in_this_process_with_nobody_waiting_is_waited_for_in_any_turn() -> None:
    left, of_another_turn = made(state=S.PROCESSING, owner=ME), Entry(no=3)
    assert found(asked(of_another_turn, owner=ME), left) == like(left)
    assert found(asked(of_another_turn, owner=ME, here=frozenset({"op_1"})), left) is None


def test_only_a_model_is_told_and_only_of_what_may_have_happened_with_this_tool() -> None:
    assert found(asked(**OTHER_CALL), made()) is None
    assert found(by_model(**OTHER_CALL), made(state=S.FAILED)) is None
    assert found(by_model(**OTHER_CALL), made(tool="refund")) is None
    assert found(by_model(**OTHER_CALL), made(entry=2)) is None
    assert found(by_model(**OTHER_CALL, scope="run:0::other"), made()) is None
    for effect in HARMLESS:
        assert found(by_model(**OTHER_CALL, terms={"effect": effect}), made()) is None


def test_a_model_that_was_told_goes_on() -> None:
    assert found(by_model(again(answered={"op_1": "1:i"}), **OTHER_CALL), made()) is None


def test_a_model_that_was_listed_a_call_and_asks_for_just_that_one_is_asked_about_it_by_itself() -> None:
    done, other = made(), made(operation_id="op_2", key="key of op_2", words="1:b", identity="1:b", n=1)
    entry = again()
    entry.refuse("s1", by_model(entry, **OTHER_CALL), (done, other))
    assert found(by_model(entry), done, other) == Untold((done,))
    entry.refuse("s2", by_model(entry), (done,))
    assert found(by_model(entry), done, other) is None


def test_exempt_calls_are_not_told_of() -> None:
    assert found(by_model(**OTHER_CALL), made(kind=KeyKind.BUSINESS)) is None
    assert found(by_model(**OTHER_CALL, despite=frozenset({"op_1"})), made()) is None
    assert found(by_model(Entry(no=1), **OTHER_CALL, message="m1"), made(message="m1")) is None
    kept = again(reserved={"op_1": FIRST})
    assert found(by_model(kept, **OTHER_CALL, message="m1", sibling=SECOND), made()) is None
    assert found(by_model(kept, **OTHER_CALL, message="m2", sibling="m2\x1f0"), made()) == Untold((made(),))
    assert found(by_model(kept, **OTHER_CALL), made()) == Untold((made(),))


def test_what_is_kept_for_a_sibling_in_other_words_is_told_of_all_the_same() -> None:
    kept = again(reserved={"op_1": FIRST}, loose={"op_1"})
    assert found(by_model(kept, **OTHER_CALL, message="m1", sibling=SECOND), made()) == Untold((made(),))


def test_what_a_sibling_was_answered_with_in_other_words_is_told_of_all_the_same() -> None:
    taken = again(reserved={"op_1": FIRST}, loose={"op_1"}, answered={"op_1": "1:other"})
    assert found(by_model(taken, **OTHER_CALL, message="m1", sibling=SECOND), made()) == Untold((made(),))
    assert found(by_model(taken, **OTHER_CALL, message="m2", sibling="m2\x1f0"), made()) is None
    surely = again(reserved={"op_1": FIRST}, answered={"op_1": "1:i"})
    assert found(by_model(surely, **OTHER_CALL, message="m1", sibling=SECOND), made()) is None


def test_siblings_of_who_was_told_had_not_read_it() -> None:
    listed = again(answered={"op_1": "1:i"}, listed={"op_1": "m1"}, told={"op_1": S.SUCCEEDED})
    assert found(by_model(listed, **OTHER_CALL, message="m1"), made()) == Untold((made(),))
    assert found(by_model(listed, **OTHER_CALL, message="m2"), made()) is None


def test_what_was_open_in_this_entry_and_is_known_since_is_told() -> None:
    kept = made(entry=2, series=2)
    entry = again(open={"op_1": None}, told={"op_1": S.UNKNOWN}, answered={"op_1": "1:i"})
    assert found(by_model(entry, **OTHER_CALL), kept) == Untold((kept,))
    assert found(by_model(entry, **OTHER_CALL), made(entry=2, state=S.FAILED)) is None
    assert found(by_model(entry, **OTHER_CALL, tool="refund"), kept) is None
    entry.told["op_1"] = S.SUCCEEDED
    assert found(by_model(entry, **OTHER_CALL), kept) is None
    entry.told.clear()
    entry.waiting["op_9"] = ("op_1", False)
    assert found(by_model(entry, **OTHER_CALL), kept) is None
    entry.open["op_gone"] = None
    assert found(by_model(entry, **OTHER_CALL), kept) is None


def test_each_is_told_of_once_with_the_earlier_ones_first() -> None:
    earlier, now = made("op_1"), made("op_2", entry=2, series=2, n=2)
    entry = again(open={"op_2": None, "op_1": None}, told={"op_2": S.UNKNOWN})
    assert found(by_model(entry, **OTHER_CALL), now, earlier) == Untold((earlier, now))


@pytest.mark.parametrize("state", [S.NOT_DONE, S.PARKED])
def test_to_make_again_what_was_not_done_is_something_new_for_a_model(state: State) -> None:
    undone, done = made(state=state), made("op_2", **OTHER_CALL)
    assert found(by_model(), undone, done) == Untold((done,))
    assert found(asked(), undone, done) == like(undone)
    of_now = made(state=state, series=2)
    assert found(by_model(), of_now, done) == like(of_now)
    assert found(by_model(), undone) == like(undone)


def test_a_failed_call_answers_though_others_are_untold() -> None:
    failed, done = made(state=S.FAILED), made("op_2", **OTHER_CALL)
    assert found(by_model(), failed, done) == like(failed)


# --- what bars ----------------------------------------------------------------------------


def test_what_is_unknown_bars_calls_of_the_same_identity() -> None:
    doubt = made(state=S.UNKNOWN)
    entry = opened()
    assert found(asked(entry), doubt) == like(doubt)
    assert found(asked(entry, **OTHER_CALL), doubt) is None
    assert found(asked(entry), made(state=S.PROCESSING, identity="1:other")) is None
    assert found(asked(entry, while_unknown="allow"), doubt) is None
    assert found(asked(entry, despite=frozenset({"op_1"})), doubt) is None
    assert found(asked(entry), made(state=S.UNKNOWN, kind=KeyKind.BUSINESS)) is None
    assert found(asked(entry, message="m1"), made(state=S.UNKNOWN, message="m1")) is None


def test_a_doubt_that_is_kept_for_another_sibling_bars_none_of_its_message() -> None:
    doubt = made(state=S.UNKNOWN)
    entry = opened(reserved={"op_1": FIRST})
    assert found(asked(entry, message="m1", sibling=SECOND), doubt) is None
    assert found(asked(entry, message="m1", sibling=FIRST), doubt) == like(doubt)
    assert found(asked(entry, message="m2", sibling="m2\x1f0"), doubt) == like(doubt)


def test_in_another_lane_it_bars_too() -> None:
    doubt = made(state=S.UNKNOWN, lane="aside")
    assert found(asked(opened()), doubt) == Barred((doubt,))  # it is another agent's, and answers nobody here


def test_the_same_identity_is_found_behind_other_doubts() -> None:
    other, doubt = made("op_0", S.UNKNOWN, identity="1:other"), made("op_1", S.UNKNOWN)
    assert found(asked(opened(), while_unknown="any"), other, doubt) == like(doubt)


def test_for_a_model_without_declared_identity_any_doubt_of_the_tool_bars() -> None:
    doubt = made(state=S.UNKNOWN)
    flight = made("op_2", S.PROCESSING, n=2)
    assert found(by_model(opened(), **OTHER_CALL), doubt, flight) == Barred((doubt,))
    assert found(by_model(opened(), **OTHER_CALL, identity_declared=True), doubt) is None
    assert found(asked(opened(), **OTHER_CALL, while_unknown="any"), doubt) == Barred((doubt,))
    assert found(by_model(opened(), **OTHER_CALL, while_unknown="allow"), doubt) is None
    assert found(by_model(opened(), **OTHER_CALL, tool="refund"), doubt) is None


@pytest.mark.parametrize("state", [S.NOT_DONE, S.PARKED])
def test_what_was_not_done_is_made_again_only_when_nothing_bars(state: State) -> None:
    undone, doubt = made(state=state), made("op_2", S.UNKNOWN, n=2, **OTHER_CALL)
    told = again(answered={"op_2": "1:other"}, told={"op_2": S.UNKNOWN})
    assert found(by_model(told), undone, doubt) == Barred((doubt,))
    for effect in HARMLESS:
        assert found(by_model(told, terms={"effect": effect}), undone, doubt) == like(undone)


# --- the calls of one message -------------------------------------------------------------


def reserved(asks: Sequence[Ask], *calls: Call, steps: Sequence[tuple[str, str]] = ()) -> dict[str, str]:
    store = journal(*calls)
    for step, operation_id in steps:
        store.books.put_step(RUN, step, operation_id)
    reserve(store.books, asks)
    return entry_of(asks).reserved


def entry_of(asks: Sequence[Ask]) -> Entry:
    return next(each.entry for each in asks if each.entry)


def siblings(entry: Entry, *changes: dict[str, Any]) -> list[Ask]:
    return [by_model(entry, message="m1", sibling=f"m1\x1f{no}", **each) for no, each in enumerate(changes)]


def test_all_calls_of_a_message_are_matched_before_any_is_answered() -> None:
    one, two = made("op_1", n=1), made("op_2", n=2)
    assert reserved(siblings(again(), {}, {}), one, two) == {"op_1": FIRST, "op_2": SECOND}
    assert reserved(siblings(again(), {}, {}, {}), one, two) == {"op_1": FIRST, "op_2": SECOND}


def test_the_second_sibling_keeps_its_words_whatever_the_first_says() -> None:
    one, two = made("op_1", words="1:a"), made("op_2", n=2, words="1:b")
    swapped = siblings(again(), {"words": "1:b"}, {"words": "1:a"})
    assert reserved(swapped, one, two) == {"op_2": FIRST, "op_1": SECOND}


def test_siblings_in_the_same_words_are_matched_before_reworded_ones() -> None:
    one, two = made("op_1", words="1:a"), made("op_2", n=2, words="1:b")
    reworded_first = siblings(again(), {"words": "1:new"}, {"words": "1:a"})
    assert reserved(reworded_first, one, two) == {"op_1": SECOND, "op_2": FIRST}
    assert entry_of(reworded_first).loose == {"op_2"}
    undone = made("op_1", S.NOT_DONE, words="1:a")
    other = siblings(again(), {"words": "1:a"}, {"words": "1:new"})
    assert reserved(other, undone, two) == {"op_2": FIRST}


def test_steps_are_matched_before_likeness() -> None:
    one, two = made("op_1", step="s1"), made("op_2", n=2)
    asks = siblings(again(), {}, {"step": "s1"})
    assert reserved(asks, one, two, steps=STEP) == {"op_1": SECOND, "op_2": FIRST}
    for change in OTHERS:
        asks = siblings(again(), {"step": "s1", **change}, {"step": "s9"})
        assert reserved(asks, one, two, steps=STEP) == {"op_1": SECOND}
    assert reserved(siblings(again(), {"step": "s1"}), steps=STEP) == {}


def test_a_call_that_a_step_stands_for_is_kept_surely() -> None:
    asks = siblings(again(), {"step": "s1", "words": "1:new"})
    assert reserved(asks, made(entry=2, step="s1"), steps=STEP) == {"op_1": FIRST}
    assert entry_of(asks).loose == set()


def test_only_calls_of_a_run_are_reserved() -> None:
    business = by_model(again(), kind=KeyKind.BUSINESS, message="m1", sibling=FIRST)
    bare = ask(kind=KeyKind.SCOPED, scope=RUN, sibling=FIRST)
    scoped = siblings(again(), {"identity": "1:none"})
    assert reserved([business], made(), steps=STEP) == {}
    assert reserved([bare, business, *scoped], made()) == {}

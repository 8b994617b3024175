"""Plan, weather and kills follow from the seed; a model that starts over says the same things in another way."""

import json
from collections import Counter

import pytest

from settled.demo.books import mark_in
from settled.demo.faults import KINDS, draw, plan_kills
from settled.demo.script import FREE_TEXT, make_plan, speak

PLAN = make_plan(1, 200)


def wishes(plan):
    return [wish for run in plan for wish in run.wishes]


def test_the_plan_has_as_many_calls_as_asked_for():
    assert [len(wishes(make_plan(seed, calls))) for seed, calls in [(1, 1), (2, 30), (3, 200)]] == [1, 30, 200]


def test_the_same_seed_means_the_same_plan():
    assert make_plan(7, 50) == make_plan(7, 50) != make_plan(8, 50)


def test_some_calls_are_meant_twice_word_for_word():
    twice = [mark for mark, count in Counter(wish.mark for wish in wishes(PLAN)).items() if count > 1]
    assert twice
    for mark in twice:
        assert len({json.dumps(wish.arguments) for wish in wishes(PLAN) if wish.mark == mark}) == 1


def test_every_effect_bears_its_mark_in_its_text():
    assert all(mark_in(json.dumps(wish.arguments)) == wish.mark for wish in wishes(PLAN) if wish.effect)


def test_at_first_the_model_says_the_plan():
    assert [said.wishes for said in speak(PLAN[0], 1, 1)] == list(PLAN[0].messages)


def test_anew_it_means_the_same_with_new_ids_and_in_part_in_other_words():
    first = [said for run in PLAN for said in speak(run, 1, 1)]
    again = [said for run in PLAN for said in speak(run, 1, 2)]
    assert not {said.message_id for said in first} & {said.message_id for said in again}
    assert Counter(w.mark for s in first for w in s.wishes) == Counter(w.mark for s in again for w in s.wishes)
    words = Counter(json.dumps(wish.arguments) for said in first for wish in said.wishes)
    same = sum((words & Counter(json.dumps(wish.arguments) for said in again for wish in said.wishes)).values())
    assert 100 < same < 190
    assert [s.wishes for s in first] != [s.wishes for s in again]


def test_what_the_history_holds_is_not_said_again():
    numbers = {said.number for said in speak(PLAN[0], 1, 2)}
    assert numbers == set(range(len(PLAN[0].messages)))
    assert {said.number for said in speak(PLAN[0], 1, 2, but=frozenset({0, 2}))} == numbers - {0, 2}


def test_other_words_change_the_free_text_alone():
    fixed = {w.mark: {n: v for n, v in w.arguments.items() if n not in FREE_TEXT.get(w.tool, ())} for w in wishes(PLAN)}
    for run in PLAN:
        for wish in (wish for said in speak(run, 1, 3) for wish in said.wishes):
            assert fixed[wish.mark].items() <= wish.arguments.items()


def test_the_same_request_meets_the_same_fault():
    assert [draw(1, "M0001", no).kind for no in range(50)] == [draw(1, "M0001", no).kind for no in range(50)]


def test_every_kind_of_fault_comes_and_most_requests_meet_none():
    kinds = Counter(draw(1, f"M{number:04}", 0).kind for number in range(4000))
    assert set(kinds) == {"", *KINDS}
    assert 0.75 < kinds[""] / 4000 < 0.9


@pytest.mark.parametrize(("calls", "count"), [(30, 2), (200, 4), (500, 10)])
def test_the_agent_is_killed_more_than_once_and_in_more_than_one_way(calls, count):
    plan = make_plan(3, calls)
    kills = plan_kills(plan, 3, calls)
    assert len(kills) == count
    assert len(set(kills.values())) == min(3, count)
    assert set(kills) <= {wish.mark for wish in wishes(plan) if wish.effect}

"""The scripted model acts on nothing but the JSON that a result shows to a model."""

import json
import random

import pytest

from settled.demo.model import MOST_TRIES, Model
from settled.demo.script import Said, Wish


def wish(mark, tool="post_note"):
    return Wish(mark, tool, {"text": f"note [{mark}]"})


def model_of(*messages):
    said = [Said(f"msg_{place}", place, message) for place, message in enumerate(messages)]
    return Model(said, random.Random(1))


def answer(status, **facts):
    return json.dumps({"status": status, **facts})


def listed(mark, status="succeeded", operation_id="op_1"):
    return {"operation_id": operation_id, "status": status, "arguments": {"text": f"a note [{mark}]"}}


def untold(*earlier):
    return answer("rejected", message="already made", next="ask_again", earlier_calls=list(earlier))


def test_it_says_one_message_after_the_other():
    model = model_of((wish("M0001"), wish("M0002")), (wish("M0003"),))
    first = model.speak()
    model.hear(first, [answer("succeeded", result={"id": n}, operation_id=f"op_{n}") for n in (1, 2)])
    second = model.speak()
    model.hear(second, [answer("succeeded", result={"id": 3}, operation_id="op_3")])
    assert model.speak() is None
    assert [(call.wish.mark, call.said, call.answer) for call in model.calls] == [
        ("M0001", "done", {"id": 1}),
        ("M0002", "done", {"id": 2}),
        ("M0003", "done", {"id": 3}),
    ]


def test_what_is_unknown_is_not_asked_for_again():
    model = model_of((wish("M0001"),))
    model.hear(model.speak(), [answer("unknown", message="may have happened", operation_id="op_9")])
    assert model.speak() is None
    assert (model.calls[0].said, model.calls[0].operation_id) == ("unknown", "op_9")


@pytest.mark.parametrize("status", ["not_done", "in_progress"])
def test_what_was_not_done_is_asked_for_again_a_bounded_number_of_times(status):
    model = model_of((wish("M0001"),))
    ids = []
    while turn := model.speak():
        ids.append(turn.message_id)
        model.hear(turn, [answer(status, message="later", retry_after_seconds=0.3)])
    assert len(ids) == len(set(ids)) == MOST_TRIES
    assert model.calls[0].said == {"not_done": "not_done", "in_progress": "unknown"}[status]


def test_it_waits_as_long_as_it_is_told():
    model = model_of((wish("M0001"),))
    model.hear(model.speak(), [answer("rejected", message="open", next="wait", retry_after_seconds=0.3)])
    assert model.speak().pause == pytest.approx(0.3)


def test_it_recognises_what_it_did_before():
    model = model_of((wish("M0001"),), (wish("M0002"),), (wish("M0003"),))
    model.hear(model.speak(), [untold(listed("M0001"), listed("M0002", "unknown", "op_2"))])
    turn = model.speak()
    assert [call.wish.mark for call in turn.calls] == ["M0003"]
    assert [call.said for call in model.calls] == ["done", "unknown", None]


def test_it_asks_again_for_what_is_not_listed():
    model = model_of((wish("M0003"),), (wish("M0001"),))
    model.hear(model.speak(), [untold(listed("M0001"))])
    assert [call.wish.mark for call in model.speak().calls] == ["M0003"]


def test_of_two_it_meant_one_listing_stands_for_one():
    model = model_of((wish("M0001"), wish("M0001")))
    model.hear(model.speak(), [untold(listed("M0001"))] * 2)
    assert [call.said for call in model.calls] == ["done", None]


def test_a_call_that_is_spoken_for_stands_for_no_other_wish():
    model = model_of((wish("M0001"),), (wish("M0001"),), (wish("M0001"),))
    model.hear(model.speak(), [answer("succeeded", result={"id": 1}, operation_id="op_1")])
    model.hear(model.speak(), [untold(listed("M0001"))])
    assert [call.said for call in model.calls] == ["done", None, None]
    model.hear(model.speak(), [answer("succeeded", result={"id": 1}, operation_id="op_1")])
    assert [call.said for call in model.calls] == ["done", None, None]
    model.hear(model.speak(), [answer("succeeded", result={"id": 2}, operation_id="op_2")])
    assert [call.said for call in model.calls] == ["done", "done", None]


def test_what_waits_for_a_person_is_left():
    model = model_of((wish("M0001"),))
    model.hear(model.speak(), [answer("rejected", message="unknown calls", next="ask_human")])
    assert model.speak() is None
    assert model.calls[0].said == "blocked"


def test_what_failed_for_good_is_left():
    model = model_of((wish("M0001"),))
    model.hear(model.speak(), [answer("failed", message="no", next="give_up")])
    assert (model.speak(), model.calls[0].said) == (None, "failed")

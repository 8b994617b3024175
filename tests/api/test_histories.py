"""Which call of which message: told from a history, without any framework."""

from itertools import pairwise

import pytest

from settled.adapters.history import MOST_KEPT, Histories
from settled.adapters.neutral import inner, refuse_inside
from settled.errors import DeclarationError

GO, ALSO = {"to": "ann"}, {"to": "bob"}


def read(history, messages):
    for kind, *rest in messages:
        {"says": history.says, "asks": history.asks, "answers": history.answers}[kind](*rest)


@pytest.fixture
def histories():
    return Histories(read)


def asked(histories, messages, call_id="c1", arguments=GO):
    return histories.asked("run", messages, call_id, "send", arguments)


def ask(*calls, name="m1"):
    return ("asks", [(call_id, "send", arguments) for call_id, arguments in calls], name)


def test_a_call_is_named_by_message_and_place(histories):
    found = asked(histories, [("says", "go"), ask(("c0", ALSO), ("c1", GO))])
    assert (found.message, found.steps, found.seen) == ("m1", ["m1/1"], frozenset())


def test_what_was_answered_before_is_seen(histories):
    messages = [("says", "go"), ask(("c1", GO))]
    asked(histories, messages)
    messages += [("answers", "c1"), ask(("c1", GO), name="m2")]  # the id is used again
    found = asked(histories, messages)
    assert (found.steps, found.seen) == (["m2/0"], {"m1/0"})


def test_calls_that_are_alike_are_all_named(histories):
    messages = [("says", "go"), ask(("c1", GO), ("c1", ALSO), ("c1", GO))]
    assert asked(histories, messages).steps == ["m1/0", "m1/2"]
    assert asked(histories, messages, arguments=ALSO).steps == ["m1/1"]
    assert asked(histories, messages, arguments={}).steps == ["m1/0", "m1/1", "m1/2"]  # edited on the way


def test_a_call_that_the_history_does_not_ask_for_has_no_step(histories):
    found = asked(histories, [("says", "go"), ask(("c2", GO))])
    assert (found.steps, found.message, found.run) == ((), "", "run")
    assert asked(histories, []).steps == ()


def test_a_message_without_id_is_named_by_its_place_in_the_turn(histories):
    first = asked(histories, [("says", "go"), ask(("c1", GO), name="")])
    again = asked(Histories(read), [("says", "go"), ask(("c1", GO), name="")])
    later = asked(histories, [("says", "go"), ask(("c1", GO), name=""), ("answers", "c1"), ask(("c1", GO), name="")])
    assert first.steps == again.steps != later.steps


def test_a_text_that_is_sent_again_is_the_same_turn_unless_it_was_answered(histories):
    once = asked(histories, [("says", "go"), ask(("c1", GO))]).turn
    twice = asked(Histories(read), [("says", "go"), ("says", "go"), ask(("c1", GO))]).turn
    answered = asked(Histories(read), [("says", "go"), ("asks", []), ("says", "go"), ask(("c1", GO))]).turn
    assert once == twice != answered


def test_a_history_that_was_changed_is_read_anew(histories):
    asked(histories, [("says", "go"), ask(("c1", GO), name="m1")])
    found = asked(histories, [("says", "come"), ask(("c1", GO), name="m9")])
    assert found.steps == ["m9/0"]


def test_a_history_that_was_changed_before_its_last_message_is_read_anew(histories):
    """Where an answer is taken out of it, the model has not seen that, and may want it anew."""
    go, first, answer, last = ("says", "go"), ask(("c1", GO)), ("answers", "c1"), ask(("c1", GO), name="m2")
    assert asked(histories, [go, first, answer, last]).seen == {"m1/0"}
    assert asked(histories, [go, first, ("answers", "another"), last]).seen == set()


def test_of_many_histories_those_read_last_are_kept_and_the_others_read_anew(histories):
    once = [("says", "go"), ask(("c1", GO))]
    for no in range(2 * MOST_KEPT):
        histories.asked(f"run {no}", once, "c1", "send", GO)
    longer = [*once, ("answers", "c1"), ask(("c1", GO), name="m2")]
    for no in (0, 2 * MOST_KEPT - 1):
        found = histories.asked(f"run {no}", longer, "c1", "send", GO)
        assert (found.steps, found.seen) == (["m2/0"], {"m1/0"})


def test_a_history_that_could_not_be_read_to_its_end_is_read_anew(histories):
    messages = [("says", "go"), ask(("c1", GO)), ("answers", "c1")]
    asked(histories, messages)
    with pytest.raises(KeyError):
        asked(histories, [*messages, ask(("c1", GO), name="m2"), ("is torn", "")])
    whole = [*messages, ask(("c1", GO), name="m2"), ("answers", "c1"), ask(("c1", GO), name="")]
    assert asked(histories, whole) == asked(Histories(read), whole)


def turns(*histories):
    """The name of the turn of the last of these histories of one conversation, and what it was named by before."""
    known = Histories(read)
    for messages in histories:
        found = asked(known, messages)
    return found.turn, found.turn_was


def test_a_turn_goes_on_where_its_history_is_shortened():
    """What was said before names the turn: where that is gone, the user's message or its answers tell it."""
    done = [ask(("c1", GO), name="m1"), ("answers", "c1"), ask(("c1", GO), name="m2")]
    whole = [("says", "hi"), ("asks", []), ("says", "go", "u2"), *done]
    turn, _ = turns(whole)
    for short in ([("says", "go", "u2"), done[2]], [("says", "in short: go", "sum"), *done]):
        named, was = turns(whole, short)
        assert (named, was) == (turns(short)[0], turn) != (turn, turn)
    for other in ([("says", "go", "u3"), done[2]], [("says", "come", ""), done[2]]):
        assert turns(whole, other)[1] == ""
    assert turns(whole, [("says", "go", "u2"), done[2]], [("says", "hi"), ("says", "go", "u5"), done[2]])[1] == ""


def test_a_window_that_slides_over_a_turn_stays_in_it():
    """Of what the last one showed the next one has nothing but the answer to what was asked for then."""
    m1, m2, m3, m4 = (ask(("c1", GO), name=f"m{n}") for n in range(1, 5))
    answered = ("answers", "c1")
    turn, _ = turns([("says", "go"), m1])
    windows = [("says", "go"), m1, answered, m2], [m2, answered, m3], [m3, answered, m4]
    nameless = turns(windows[1])[0]
    assert turns(*windows[:2]) == turns(*windows) == (nameless, turn)
    assert turns(windows[0], [m4])[1] == ""  # of this one nothing was asked for before


class ToolRetry:
    def call(self):
        raise AssertionError


def closed_over(call):
    """A function over a method, over itself, and over a name that gets its value later."""

    def through():
        return call, through, later

    found = inner(through, ["ToolRetry"])
    later = 1
    return found, later


def wrapped_around(call):
    def wrapper():
        raise AssertionError

    wrapper.__wrapped__ = call
    return wrapper


def test_what_stands_inside_is_found_through_closures_and_wrappers():
    call = ToolRetry().call
    assert closed_over(call) == (["ToolRetry"], 1)
    assert inner(wrapped_around(wrapped_around(call)), ["ToolRetry"]) == ["ToolRetry"]
    assert inner(wrapped_around(len), ["ToolRetry"]) == []
    with pytest.raises(DeclarationError, match="ToolRetry stands after Guarded"):
        refuse_inside(("ToolRetry",), call)
    with pytest.raises(DeclarationError, match="ToolRetry stands after Guarded"):
        refuse_inside(("ToolRetry",), wrapped_around(call), "langgraph.prebuilt.tool_node")  # a layer of another module


def windows(reused=False):
    """Turns of a window in which all look alike: what was asked for, and the history that showed it."""
    said, shown = [], []
    for no in range(9):
        call_id = "c1" if reused else f"c{no}"
        said += [("says", "next"), ("asks", [(call_id, "send", GO)])]
        shown.append((call_id, said[-6:]))
        said += [("answers", call_id), ("asks", [])]
    return shown


@pytest.mark.parametrize("reused", [False, True])
def test_turns_that_look_alike_are_told_apart_by_what_was_answered_before_them(reused):
    found = [Histories(read).asked("run", said, call_id, "send", GO) for call_id, said in windows(reused)]
    names = {each.turn for each in found[2:]}
    assert len(names) == 1
    for before, after in pairwise(found[2:]):
        assert before.steps[0] in after.after
        assert (before.after[0] == after.after[0]) is reused

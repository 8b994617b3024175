"""Bugs in fallbacks, planted one at a time: the oracle must see each of them, and nothing without them."""

import itertools

import pytest

from settled.core.instead import chain, fallback
from settled.core.matching import claim, entry, match
from settled.core.runs import saga
from settled.core.values import replace
from settled.testing.simulation import chains
from settled.testing.simulation.profiles import PROFILES

ALONE, STORM, UNDONE = (PROFILES[name] for name in ("fallbacks", "fallbacks in a storm", "fallbacks undone"))

IN_OTHER_WORDS = replace(ALONE, name="in other words", models=1.0, loners=0, variations=("identity",))


def given_up_unasked(outcome, ask, original=chain._given_up):
    """Take any call for given up, however it stands."""
    if not outcome.operation_id:
        return (yield from original(outcome, ask))
    return (yield fallback.GiveWay(outcome.operation_id))


@pytest.mark.case("CASE-067-fallback-after-effect")
@pytest.mark.parametrize("words", ["before it was done", "before it may yet be done", " effects, by "])
@pytest.mark.parametrize("profile", [ALONE, UNDONE], ids=lambda profile: profile.name)
def test_what_is_unknown_gives_way(monkeypatch, seen, profile, words):
    original = chain.may_give_way
    monkeypatch.setattr(chain, "may_give_way", lambda outcome: outcome.status == "unknown" or original(outcome))
    monkeypatch.setattr(chain, "_given_up", given_up_unasked)
    seen(profile, words)


def test_a_call_is_not_given_up_before_something_else_is_done(monkeypatch, seen):
    monkeypatch.setattr(fallback, "give_way", lambda books, call, now: call)
    monkeypatch.setattr(claim, "give_way", lambda books, call, now: call)
    monkeypatch.setattr(chain, "_given_up", given_up_unasked)
    seen(ALONE, "in its place has begun before")


def test_what_is_done_instead_has_a_fresh_key_each_time(monkeypatch, seen):
    """This one was in the library itself: a fallback of a call under a business key was made for each ask."""
    numbers = itertools.count()
    monkeypatch.setattr(chains, "instead_key", lambda *_: f"fresh{next(numbers)}")
    seen(STORM, " effects, by ")


def test_a_call_counts_as_answered_while_what_is_done_instead_is_in_doubt(monkeypatch, seen):
    """The simulator found this one in the library itself: asked for again, the call was made after all."""
    monkeypatch.setattr(entry.Entry, "go_on", lambda self, asker, call: None)
    monkeypatch.setattr(entry.Entry, "came_to", lambda self, asker, call, state: None)
    seen(ALONE, " I1 ")


def test_a_model_is_not_told_of_what_was_done_instead(monkeypatch, seen):
    monkeypatch.setattr(match, "_made_instead", lambda books, ask, entry: [])
    seen(ALONE, " I1 ")


def test_a_call_that_is_to_be_replaced_is_exempt_from_the_rule_of_doubt(monkeypatch, seen):
    """The simulator found this one in the library itself."""
    monkeypatch.setattr(match, "_goes_down", lambda books, call, ask: False)
    seen(IN_OTHER_WORDS, " I1 ")


def test_a_run_is_undone_and_a_person_is_still_to_do_a_step_of_it(monkeypatch, seen):
    monkeypatch.setattr(saga, "close_waiting", lambda books, scope, now: ())
    seen(UNDONE, "left to a person, and its run is")

"""The oracles of batches, drafts, rewinds, joined runs and fallbacks see what they are there for: each planted bug."""

import pytest

from settled.api.calls import asking, fallbacks
from settled.api.tools import undoing
from settled.core.doubt import settling
from settled.core.instead import chain
from settled.core.matching import claim
from settled.core.runs import rewind, saga
from settled.core.values import replace
from settled.testing.kill.judge import judge
from settled.testing.kill.nursery import KILLED
from settled.testing.kill.plan import Plan
from settled.testing.kill.visits import Visit
from tests.kill.test_judge import run_again


@pytest.fixture
def killed(nursery, tmp_path):
    """Let a process play a script until it dies at a boundary."""

    def at(script, boundary):
        plan = Plan(str(tmp_path), script, at=boundary)
        assert nursery.live(plan) == KILLED
        return plan

    return at


def test_a_batch_in_doubt_that_is_asked_for_again_is_seen(killed, monkeypatch):
    plan = killed("batch", "stow: after the effect")
    monkeypatch.setattr(claim, "orphaned", run_again)
    monkeypatch.setattr(settling, "orphaned", run_again)
    problems = judge(plan)
    assert any("item a: stored 2 times" in problem for problem in problems)
    assert any("item a: asked for again without a proof" in problem for problem in problems)


def test_items_that_were_not_done_and_are_undone_are_seen(killed, monkeypatch):
    plan = killed("undone batch", "noted the items")
    monkeypatch.setattr(undoing, "own_done", lambda call, batch, arguments: dict(arguments))
    assert any("item d: removed 1 times, stored 0" in problem for problem in judge(plan))


def test_a_letter_that_is_sent_without_leave_is_seen(killed, monkeypatch):
    plan = killed("draft", "before Claim")
    monkeypatch.setattr(asking, "leave_for", lambda tool, arguments: None)
    assert any("unwanted: sent without leave" in problem for problem in judge(plan))


def test_a_rewind_that_forgets_what_stands_is_seen(killed, monkeypatch):
    plan = killed("rewind", "before HoldRun")
    monkeypatch.setattr(rewind, "did_some", lambda call: False)
    assert any("cook: done while it stood" in problem for problem in judge(plan))


def test_a_fallback_behind_a_doubt_is_seen(killed, monkeypatch):
    plan = killed("fallback", "card: before the effect")
    for module in (fallbacks, chain):
        monkeypatch.setattr(module, "may_give_way", lambda result: not result.ok)
    monkeypatch.setattr(chain, "_given_up", given_up)
    problems = judge(plan)
    assert any("card:lost: done 2 times" in problem for problem in problems)
    assert any("card:dropped: invoice was asked while card stood at ['card asked']" in problem for problem in problems)


def given_up(*_):
    """Take a call for given up, however it stands."""
    return None
    yield


def test_two_agents_undone_in_the_wrong_order_are_seen(nursery, tmp_path, monkeypatch):
    visit = Visit(nursery, tmp_path / "visit", host="inside StartRollback", scripts=("pair", "pair guest"))
    visit.start()
    visit.end()
    assert visit.died == ["inside StartRollback"]
    original = saga.outline

    def reversed_outline(books, tenant, run_id):
        seen = original(books, tenant, run_id)
        return replace(seen, undo=seen.undo[::-1])

    monkeypatch.setattr(saga, "outline", reversed_outline)
    assert any("undone in the order" in problem for problem in visit.problems())

"""The judge sees what it is there for: each planted bug, each piece of evidence taken away, is named."""

import json
from types import SimpleNamespace

import pytest

from settled.core import rules
from settled.core.call import evolve
from settled.core.doubt import settling
from settled.core.matching import claim
from settled.core.runs import rollback, saga
from settled.core.states import Event
from settled.core.values import replace
from settled.testing.kill.judge import judge
from settled.testing.kill.nursery import KILLED
from settled.testing.kill.plan import Plan
from settled.testing.kill.rounds import crash


@pytest.fixture
def killed_after_the_effect(nursery, tmp_path):
    plan = Plan(str(tmp_path), "slow")
    crash(nursery, plan, {"held": 1})
    return plan


def run_again(books, call, now, **_):
    """Take the end of a lease for proof that nothing happened."""
    changed, row = evolve(call, Event.ABSENT, now, epoch=call.epoch + 1, attempts=(), series=0)
    books.put(changed, row)
    return changed


def test_an_honest_library_passes(killed_after_the_effect):
    assert judge(killed_after_the_effect) == []


def test_a_call_that_runs_again_when_its_lease_is_over_is_seen(killed_after_the_effect, monkeypatch):
    monkeypatch.setattr(claim, "orphaned", run_again)
    monkeypatch.setattr(settling, "orphaned", run_again)
    problems = judge(killed_after_the_effect)
    assert any("done 2 times" in problem for problem in problems)
    assert any("was made again" in problem for problem in problems)


def test_an_owner_who_may_live_and_is_not_respected_is_seen(nursery, tmp_path, monkeypatch):
    plan = Plan(str(tmp_path), "slow", elsewhere=True)
    crash(nursery, plan, {"held": 1})
    blind = SimpleNamespace(**{**vars(rules), "lease_over": lambda call, now: True})
    monkeypatch.setattr(claim, "rules", blind)
    problems = judge(plan)
    assert any("its owner may live, and it is told unknown" in problem for problem in problems)


def test_a_success_that_never_happened_is_seen(nursery, tmp_path):
    plan = Plan(str(tmp_path), "desk")
    nursery.live(plan)
    (tmp_path / "ledger").unlink()
    assert "invoice: told succeeded, and it never happened" in judge(plan)


@pytest.mark.parametrize(("at", "seen"), [(float("inf"), True), (0.0, False)], ids=["a lie", "true until it ran again"])
def test_not_done_is_a_lie_unless_all_that_was_done_was_begun_later(nursery, tmp_path, at, seen):
    plan = Plan(str(tmp_path), "desk")
    nursery.live(plan)
    lines = [json.loads(line) for line in plan.told.read_text().splitlines()]
    lines.append(lines[0] | {"status": "not_done", "value": None, "at": at})
    plan.told.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert ("invoice: told not_done, and it happened" in judge(plan)) is seen


def test_another_value_than_the_first_is_seen(nursery, tmp_path):
    plan = Plan(str(tmp_path), "desk")
    nursery.live(plan)
    lines = [json.loads(line) for line in plan.told.read_text().splitlines()]
    lines[0]["value"] = "invoice-other"
    plan.told.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    problems = judge(plan)
    assert any("told a value that nothing has returned" in problem for problem in problems)
    assert any("told 2 different values" in problem for problem in problems)


def test_a_call_that_nobody_is_alerted_of_is_seen(killed_after_the_effect, monkeypatch):
    monkeypatch.setattr("settled.journals.sqlite.books.SqliteBooks.alert", lambda *_: None)
    assert any("nobody is alerted" in problem for problem in judge(killed_after_the_effect))


# --- of runs that are undone ---


@pytest.fixture
def killed_while_undoing(nursery, tmp_path):
    plan = Plan(str(tmp_path), "saga", at="give_back: after the effect")
    assert nursery.live(plan) == KILLED
    return plan


def test_an_honest_rollback_passes(killed_while_undoing):
    assert judge(killed_while_undoing) == []


def test_a_step_that_is_undone_twice_is_seen(killed_while_undoing, monkeypatch):
    monkeypatch.setattr(claim, "orphaned", run_again)
    monkeypatch.setattr(settling, "orphaned", run_again)
    assert any("give_back" in problem and "2 times" in problem for problem in judge(killed_while_undoing))


def test_the_wrong_order_of_undoing_is_seen(nursery, tmp_path, monkeypatch):
    plan = Plan(str(tmp_path), "saga", at="inside StartRollback")
    assert nursery.live(plan) == KILLED
    original = saga.outline

    def reversed_outline(books, tenant, run_id):
        seen = original(books, tenant, run_id)
        return replace(seen, undo=seen.undo[::-1])

    monkeypatch.setattr(saga, "outline", reversed_outline)
    assert any("undone in the order" in problem for problem in judge(plan))


def test_a_step_that_is_forgotten_is_seen(killed_while_undoing, monkeypatch):
    monkeypatch.setattr(saga.Outline, "is_undone", True)
    monkeypatch.setattr(rollback, "worth_another", lambda *_: False)
    monkeypatch.setattr(rollback.Rollback, "_undo", lambda self, step, _: forgetting(self, step))
    assert any("neither undone nor in the queue" in problem for problem in judge(killed_while_undoing))


def forgetting(self, step):
    """Take every step for undone."""
    self.tried.add(step.operation_id)
    return True
    yield

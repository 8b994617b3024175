"""Calls that need no record: what a machine would have begun with, and how it goes on with what came of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.attempts.backoff import Backoff
from settled.core.attempts.budget import TokenWindow
from settled.core.attempts.metering import LookAtTokens, Meter
from settled.core.attempts.retry import Again
from settled.core.commands import Admitted, Ended, Invoke, Owners, Refund, Repeat, Report, Shut, Woke, another, first_of
from settled.core.model import Effect
from settled.core.policy import Limits
from settled.core.runs.entering import EnterRun, SaveState
from settled.core.runs.joins import JoinRun
from settled.core.runs.lanes import lane_id
from settled.core.values import replace
from settled.errors import NotExecuted
from tests.core.build import OTHER, at, journal
from tests.core.script import BUSY, LOST, REFUSED, Script, drive, life, policy, sent, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.core.answer import Answer
    from settled.core.machine import Life

AWAY = NotExecuted("x", retryable=True, retry_after=6000.0)


def read(limits: Limits | None = None, **changes: Any) -> Life:
    return life(policy(effect=Effect.READ, **changes), record=False, limits=limits)


class GoingOn(Script):
    """Makes the first attempt where no machine is, as the drivers do, and lets one go on with what came of it."""

    def drive(self, life: Life) -> Answer:
        """Go on to the answer."""
        self.life = life
        return self.to_its_end(life.go_on(self.perform(first_of(life.policy.timeout))))


class Asking(Script):
    """Makes all attempts where no machine is at work, as the drivers do where nothing limits a call."""

    def drive(self, life: Life) -> Answer:
        """Ask after each attempt what follows."""
        self.life = life
        step = life.after(self.perform(first_of(life.policy.timeout)))
        while isinstance(step, Again):
            ready = self.perform(Repeat(step.cost, step.delay, None, step.refresh))
            if not isinstance(ready, Admitted):
                return self.to_its_end(life.not_ready(step, ready))
            step = life.after(self.perform(another(life.policy.timeout, life.made + 1)))
        return step


@pytest.mark.parametrize("timeout", [None, 7.0])
def test_the_first_attempt_without_a_machine_is_the_one_that_a_machine_makes(timeout: float | None) -> None:
    script = Script(journal(), ["value"])
    drive(script, read(timeout=timeout))
    assert sent(script, Invoke) == [first_of(timeout)] == [Invoke(None, 1, timeout, None, first=True)]
    assert first_of(timeout) is first_of(timeout)  # such calls are many


STORIES: dict[str, dict[str, Any]] = {
    "succeeds": {"outcomes": ["value"]},
    "succeeds at the third attempt": {"outcomes": [LOST, BUSY, "value"]},
    "is never there": {"outcomes": [LOST]},
    "is refused for good": {"outcomes": [REFUSED]},
    "is to be tried much later": {"outcomes": [AWAY]},
    "finds the breaker open": {"shut": {1: Shut("tool:pay", 7.0, 0.0)}},
    "finds the breaker open after an attempt": {"outcomes": [LOST], "shut": {2: Shut("tool:pay", 7.0, 0.0)}},
    "finds the pool empty": {"outcomes": [LOST], "refusals": {2: "retry_budget:process"}},
    "is left by its asker": {"outcomes": [LOST], "abandon_at": "Repeat"},
}


@pytest.mark.parametrize("way", [GoingOn, Asking])
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_a_machine_that_goes_on_comes_to_what_it_would_have_come_to_from_the_start(
    story: dict[str, Any], way: type[Script]
) -> None:
    whole, later = Script(journal(), **story), way(journal(), **story)
    assert drive(later, read()) == drive(whole, read())
    assert (later.sent, later.now) == (whole.sent, whole.now)


@pytest.mark.parametrize("outcomes", [["value"], [LOST, "value"], [LOST, LOST, "value"]], ids=len)
def test_each_attempt_counts_and_the_value_is_the_last_ones(outcomes: list[Any]) -> None:
    answer = drive(GoingOn(journal(), outcomes), read())
    assert (answer.status, answer.value, answer.attempts) == ("succeeded", "value", len(outcomes))
    assert (answer.fresh, answer.recorded, answer.call, answer.reason) == (True, False, None, "")


def test_attempts_are_bounded_with_the_first_one_counted() -> None:
    script = GoingOn(journal(), [LOST])
    answer = drive(script, read(attempts=2))
    assert (told(answer), answer.attempts) == (("not_done", "connection_reset"), 2)
    assert [i.no for i in sent(script, Invoke)] == [1, 2]
    assert [i.first for i in sent(script, Invoke)] == [True, False]  # only the first pays into the pool


@pytest.mark.parametrize("way", [GoingOn, Asking])
def test_decorrelated_waits_grow_from_the_one_before(way: Any) -> None:
    script = way(journal(), [LOST, LOST, LOST, "value"])
    drive(script, read(attempts=4, backoff=Backoff(jitter="decorrelated", base=1.0)))
    assert [c.seconds for c in sent(script, Repeat)] == [2.0, 3.5, 5.75]  # 1 + half of what lies up to 3 * the last


def test_how_long_to_wait_is_reckoned_from_the_end_of_the_first_attempt() -> None:
    script = GoingOn(journal(), [LOST, "value"], now=50.0)
    assert drive(script, read(Limits(53.0), attempts=2)).status == "succeeded"
    assert [c.seconds for c in sent(script, Repeat)] == [0.5]
    late = GoingOn(journal(), [LOST, "value"], now=53.0)
    assert told(drive(late, read(Limits(53.0)))) == ("not_done", "deadline")
    assert sent(late, Repeat) == []


def test_an_asker_that_goes_during_the_first_attempt_makes_no_further_one() -> None:
    script = GoingOn(journal(), [LOST], abandon_at="Invoke")
    assert told(drive(script, read())) == ("not_done", "cancelled")
    assert (sent(script, Repeat), sent(script, Refund)) == ([], [])


def test_an_event_that_no_attempt_comes_to_is_refused() -> None:
    with pytest.raises(TypeError, match="not with Shut"):
        next(read().go_on(Woke(0.0)))
    script = Script(journal(), [LOST])
    asker = script.life = read()
    raised = script.perform(first_of(None))
    assert isinstance(raised, Ended)
    with pytest.raises(TypeError, match="not with Returned"):
        next(asker.go_on(replace(raised, fault=None)))


@pytest.mark.parametrize("deadline", [0.0, 0.0009])
def test_without_time_no_first_attempt_is_made(deadline: float) -> None:
    script = Script(journal(), ["value"])
    assert told(drive(script, read(Limits(deadline)))) == ("rejected", "deadline")
    assert script.sent == []


# --- before a repeat ----------------------------------------------------------------------


def at_repeat(what: Callable[[Script], object]) -> Any:
    """Something happens while a repeat is waited for."""
    return lambda script, name: what(script) if name == "Repeat" else None


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (lambda script: script.life.abandon(), "cancelled"),
        (lambda script: script._pass(20.0), "deadline"),
        (lambda script: (script.life.abandon(), script._pass(20.0)), "cancelled"),
    ],
    ids=["its asker has gone", "it took too long", "both"],
)
def test_a_repeat_that_is_not_made_after_all_is_given_back(happens: Callable[[Script], object], reason: str) -> None:
    script = GoingOn(journal(), [LOST, "value"], meddle=at_repeat(happens))
    assert told(drive(script, read(Limits(10.0)))) == ("not_done", reason)
    assert script.names() == ["Invoke", "Repeat", "Report", "Refund"]
    assert [c.verdict for c in sent(script, Report)] == ["neutral"]
    assert [c.cost for c in sent(script, Refund)] == [1.0]


@pytest.mark.parametrize(
    ("tokens", "shared", "broken", "elsewhere"),
    [(100, True, set(), 70), (100, False, set(), None), (0, True, set(), None), (100, True, {"LookAtTokens"}, None)],
    ids=["others send too", "nobody else does", "it sends nothing", "the journal fails"],
)
def test_before_a_repeat_it_is_looked_up_what_others_have_sent_in_the_same_run(
    tokens: int,
    shared: bool,
    broken: set[str],
    elsewhere: int | None,
) -> None:
    store = journal()
    store.perform(EnterRun("r", ""))
    store.perform(JoinRun("r", "", "aside", 1, store.now().wall + 100.0, claim="g", owner=OTHER))
    store.perform(SaveState(lane_id("r", "aside"), "", 1, (), 70))
    asker = read()
    meter = Meter(TokenWindow(1000), LookAtTokens("r", "", "r"))
    meter.shared, asker.share = shared, meter.share(tokens)
    script = GoingOn(store, [LOST, "value"], broken=broken)
    assert drive(script, asker).status == "succeeded"
    assert [c.elsewhere for c in sent(script, Repeat)] == [elsewhere]


def test_a_wrong_event_instead_of_a_repeat_is_refused() -> None:
    script = Script(journal(), [LOST])
    asker = script.life = read()
    flow = asker.go_on(script.perform(first_of(None)))
    assert isinstance(next(flow), Repeat)
    with pytest.raises(TypeError, match="not with Woke"):
        flow.send(Owners((), at(0), 0.0))

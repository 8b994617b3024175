"""What a run has sent, and its state, are kept in commits that are made anyway: before it leaves, and once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.attempts.budget import TokenWindow
from settled.core.attempts.metering import LookAtTokens, Meter, Share
from settled.core.attempts.progress import Begin, End
from settled.core.books import Change
from settled.core.commands import Shut
from settled.core.matching.claim import Claim
from settled.core.model import Effect, Standing
from settled.core.states import State
from tests.core.build import attempt, call
from tests.core.script import LOST, Script, drive, entered, in_run, sent

if TYPE_CHECKING:
    from collections.abc import Sequence

S = State


def metered(made: Any, tokens: int = 100) -> Share:
    """Let the asker's attempts send so many tokens each, of a window of 1000."""
    made.share = Meter(TokenWindow(1000), LookAtTokens("r", "", "r")).share(tokens)
    return made.share  # type: ignore[no-any-return]  # just set


class City:
    """A run's state of one name, which is set again by each attempt."""

    def __init__(self) -> None:
        self.unkept: tuple[Change, ...] = ()
        self.serial = 0

    def set(self, city: bytes) -> None:
        self.serial += 1
        self.unkept = (Change("city", city, self.serial),)

    def changes(self) -> tuple[Change, ...]:
        return self.unkept

    def kept(self, changes: Sequence[Change]) -> None:
        self.unkept = tuple(change for change in self.unkept if change not in changes)


def at_invoke(what: Any) -> Any:
    return lambda script, name: what(script) if name == "Invoke" else None


def on_record(script: Script) -> int:
    return script.journal.run("", "r").tokens  # type: ignore[union-attr]  # it was entered


# --- what it sends ------------------------------------------------------------------------


@pytest.mark.parametrize("attempts", [1, 3])
def test_what_each_attempt_sends_is_on_record_before_it_leaves_and_once(attempts: int) -> None:
    seen: list[int] = []
    made = in_run({"effect": Effect.IDEMPOTENT})
    share, outcomes = metered(made), [*[LOST] * (attempts - 1), "value"]
    script = Script(entered(), outcomes, meddle=at_invoke(lambda script: seen.append(on_record(script))))
    assert drive(script, made).status == "succeeded"
    assert seen == [100 * no for no in range(1, attempts + 1)]
    assert (share.meter.window.used, share.meter.unkept()) == (100 * attempts, 0)


def test_what_sends_nothing_or_is_not_counted_says_nothing_of_it() -> None:
    for tokens in (0, None):
        made = in_run({"effect": Effect.IDEMPOTENT})
        if tokens is not None:
            metered(made, tokens)
        script = Script(entered(), [LOST, "value"])
        assert drive(script, made).status == "succeeded"
        assert [t.checkpoint for kind in (Claim, Begin, End) for t in sent(script, kind)] == [None] * 4


def test_what_is_not_sent_counts_for_nothing() -> None:
    kept = call(S.SUCCEEDED, attempt(1, Standing.DONE), key="new")
    for shut in ({}, {1: Shut("tool:pay", 7.0, 0.0)}):
        store, made = entered(), in_run()
        store.books._add(kept)
        share = metered(made)
        script = Script(store, shut=shut)
        assert drive(script, made).status == "succeeded"
        assert (share.meter.unkept(), on_record(script)) == (0, 0)
        assert [c.checkpoint is None for c in sent(script, Claim)] == [bool(shut)]


# --- its state ----------------------------------------------------------------------------


@pytest.mark.parametrize(("effect", "ends"), [(Effect.IDEMPOTENT, 2), (Effect.WRITE, 1)])
def test_what_an_attempt_changed_of_the_runs_state_is_kept_with_its_end_whatever_that_is(
    effect: Effect, ends: int
) -> None:
    made, city = in_run({"effect": effect}), City()
    made.state = city
    script = Script(entered(), [LOST, "value"], meddle=at_invoke(lambda script: city.set(f"c{script.now}".encode())))
    drive(script, made)
    kept = [end.checkpoint for end in sent(script, End)]
    assert [(c.run_id, c.entry, len(c.changes), c.tokens) for c in kept] == [("r", 1, 1, 0)] * ends
    assert city.unkept == ()
    assert script.journal.books.run_state("", "r", 2) == {"city": kept[-1].changes[0].value}


def test_state_that_has_not_changed_is_not_kept_once_more() -> None:
    made, city = in_run({"effect": Effect.IDEMPOTENT}), City()
    made.state = city
    city.set(b"Bern")
    script = Script(entered(), [LOST, "value"])
    drive(script, made)
    first, last = (end.checkpoint for end in sent(script, End))
    assert ([change.value for change in first.changes], last) == ([b"Bern"], None)


def test_what_models_were_asked_since_is_on_record_with_the_next_end() -> None:
    made, city = in_run(), City()
    made.state = city
    share = metered(made)
    script = Script(entered(), ["value"], meddle=at_invoke(lambda _: share.meter.window.use(7)))
    drive(script, made)
    assert (on_record(script), share.meter.unkept()) == (107, 0)
    [end] = sent(script, End)
    assert (end.checkpoint.changes, end.checkpoint.tokens) == ((), 107)

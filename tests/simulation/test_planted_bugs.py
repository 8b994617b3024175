"""Bugs planted one at a time: the oracle must see each of them, and nothing without them."""

import pytest

from settled.core import commands, rules
from settled.core.ask import Begun
from settled.core.attempts import progress, series
from settled.core.call import attempt_of, evolve, opened
from settled.core.doubt import late
from settled.core.matching import claim, match
from settled.core.matching.entry import Entry
from settled.core.model import Evidence, FaultClass, Standing
from settled.core.runs import entering as runs
from settled.core.states import Event, State
from settled.core.values import replace
from settled.testing.simulate import simulate
from settled.testing.simulation.profiles import PROFILES

MOST_SEEDS = 400


def seen(profile, promise):
    """Play seeds until the oracle objects that this promise is broken; return the seeds that were played."""
    for seed in range(MOST_SEEDS):
        if any(f" {promise} " in violation for violation in simulate(seed, profile).violations):
            return range(seed + 1)
    pytest.fail(f"{MOST_SEEDS} worlds, and the bug was not seen")


@pytest.fixture
def planted(monkeypatch):
    """Return a check: with the bug in place the oracle objects; without it the same seeds are clean."""

    def check(profile, promise):
        seeds = seen(profile, promise)
        monkeypatch.undo()
        assert [v for seed in seeds for v in simulate(seed, profile).violations] == []

    return check


STORM = replace(PROFILES["storm"], name="storm for bugs", reconcilers=3, workers=3)
PAUSES = replace(
    PROFILES["pauses"], name="long pauses", pause=0.03, crash=0.0, weather="busy", tools=("ticket", "post")
)
THREADS = replace(PROFILES["plain"], name="threads", tools=("print",), reconcilers=4, errands=3)
JUMPS = replace(PROFILES["crowd"], name="jumps", jumps=60, weather="storm", crash=0.0, pause=0.0)
LOSSES = replace(PROFILES["journal"], name="losses", journal_faults=0.15, crash=0.02, models=0.0, errands=3)
NESTED = replace(PROFILES["nested"], name="inside", pause=0.02, tools=("bundle",), errands=3)
REWORDING = replace(PROFILES["models"], name="rewording", variations=("identity", "content"), tools=("post", "note"))
IN_FLIGHT = replace(REWORDING, name="in flight", workers=4, pause=0.03)
SAFE = replace(PROFILES["pauses"], name="safe tools", tools=("set_status", "refund"), weather="storm", reconcilers=3)


def test_a_transition_without_the_fence(monkeypatch, planted):
    """An old owner takes an attempt that a newer one has begun for its own."""
    monkeypatch.setattr(rules, "fenced", lambda call, epoch: False)
    monkeypatch.setattr(progress.Begin, "_begun", lambda self, call: attempt_of(call, self.no) is not None)
    planted(PAUSES, "I1")


def test_an_expired_lease_runs_again(monkeypatch, planted):
    def released(books, call, now):
        attempts = tuple(replace(a, standing=Standing.NONE, over=now) for a in call.attempts)
        changed, row = evolve(call, Event.ABSENT, now, epoch=call.epoch + 1, attempts=attempts, decided="owner_lost")
        books.put(changed, row)
        return changed

    monkeypatch.setattr(claim, "orphaned", released)
    planted(PROFILES["crashes"], "I1")


def test_a_negative_probe_that_began_before_the_attempt_was_over(monkeypatch, planted):
    monkeypatch.setattr(rules, "_over_at", lambda attempt, call: attempt.begun)
    planted(THREADS, "I2")


def test_a_negative_probe_that_began_before_the_lifetime_had_passed(monkeypatch, planted):
    original = rules.proves_absence

    def at_once(call, probe_began, now):
        return original(replace(call, terms=replace(call.terms, lifetime=0.0)), probe_began, now)

    monkeypatch.setattr(rules, "proves_absence", at_once)
    planted(STORM, "I2")


def test_a_negative_probe_that_aged_until_the_lifetime_had_passed(monkeypatch, planted):
    original = rules.proves_absence
    monkeypatch.setattr(rules, "proves_absence", lambda call, probe_began, now: original(call, now, now))
    planted(replace(STORM, name="slow probes", probe_time=20.0), "I2")


def test_release_on_exception(monkeypatch, planted):
    monkeypatch.setattr(progress, "standing_of", lambda fault: Standing.DONE if fault is None else Standing.NONE)
    planted(PROFILES["plain"], "I2")


def test_no_intent_before_the_first_byte(monkeypatch, planted):
    def unrecorded(self, books, now):
        bare = self._draft(books, now)
        return Begun(replace(bare, attempts=opened(bare, bare.owner, 1, now)))

    monkeypatch.setattr(claim.Claim, "_new", unrecorded)
    planted(PROFILES["plain"], "I3")


def test_a_late_answer_overwrites_a_final_state(monkeypatch, planted):
    original = late.Evidence._success

    def overwriting(self, books, call, heard, now):
        if call.state is not State.SUCCEEDED:
            return original(self, books, call, heard, now)
        changed, row = evolve(call, Event.NOTE, now, attempts=heard.attempts, result=self.result)
        books.put(changed, row)
        return changed

    monkeypatch.setattr(late.Evidence, "_success", overwriting)
    planted(SAFE, "I4")


def test_a_late_refusal_settles_while_another_attempt_is_in_doubt(monkeypatch, planted):
    original = late.Evidence._failure

    def hasty(self, books, call, heard, now):
        known = tuple(a if a.no == self.no else replace(a, standing=Standing.NONE) for a in heard.attempts)
        return original(self, books, call, replace(heard, attempts=known), now)

    monkeypatch.setattr(late.Evidence, "_failure", hasty)
    planted(SAFE, "I2")


def test_the_conflict_check_skipped_on_a_fast_path(monkeypatch, planted):
    monkeypatch.setattr(match, "same_arguments", lambda call, ask: True)
    planted(PROFILES["crowd"], "I3")


def test_an_open_breaker_costs_budget(monkeypatch, planted):
    monkeypatch.setattr(series, "Refund", lambda cost: commands.Refund(0.0))
    planted(STORM, "I5")


def test_failed_after_an_earlier_maybe(monkeypatch, planted):
    def any_refusal(call, fault):
        return fault.kind is FaultClass.PERMANENT and fault.evidence is Evidence.NONE

    monkeypatch.setattr(rules, "clears", any_refusal)
    planted(STORM, "I2")


def test_one_recorded_call_answers_two_intended_ones(monkeypatch, planted):
    monkeypatch.setattr(Entry, "free", lambda self, call, words: True)
    planted(PROFILES["programs"], "I3")


def test_n_carried_over_into_a_new_entry(monkeypatch, planted):
    monkeypatch.setattr(match, "_candidate", lambda books, ask, entry: None)
    planted(PROFILES["programs"], "I1")


def test_a_told_unknown_that_was_settled_since_is_done_again(monkeypatch, planted):
    monkeypatch.setattr(match, "_unfinished", lambda books, ask, entry: None)
    planted(PROFILES["plain"], "I1")


def test_an_untold_success_is_repeated_in_other_words(monkeypatch, planted):
    monkeypatch.setattr(match, "_not_told_of", lambda books, ask, entry: None)
    planted(PROFILES["models"], "I1")


def test_a_clock_that_jumps_ends_a_lease_early(monkeypatch, planted):
    monkeypatch.setattr(rules, "lease_over", lambda call, now: now.wall >= call.lease.wall)
    planted(JUMPS, "I5")


def test_a_detached_threads_attempt_counted_as_over(monkeypatch, planted):
    original = progress.End._ended
    monkeypatch.setattr(progress.End, "_ended", lambda self, *seen: original(replace(self, over=True), *seen))
    planted(THREADS, "I2")


# --- bugs that the simulator found in the library itself ---


def test_a_claim_whose_answer_was_lost_is_decided_anew(monkeypatch, planted):
    monkeypatch.setattr(match, "_as_before", lambda books, ask, entry: None)
    planted(LOSSES, "I1")


def test_a_call_that_is_in_flight_counts_as_told(monkeypatch, planted):
    original = match._unfinished

    def only_untold(books, ask, entry):
        found = original(books, ask, entry)
        return found if found is not None and entry.untold(found.call) else None

    monkeypatch.setattr(match, "_unfinished", only_untold)
    planted(IN_FLIGHT, "I1")


def test_what_was_listed_to_one_call_of_a_message_counts_as_told_to_its_siblings(monkeypatch, planted):
    monkeypatch.setattr(Entry, "unread", lambda self, call, message: False)
    planted(REWORDING, "I1")


def test_an_older_attempt_goes_on_making_calls_inside(monkeypatch, planted):
    def by_run_alone(books, ask):
        run = books.run(ask.tenant, ask.run_id) if ask.run_id else None
        return "superseded" if run is not None and run.entry != ask.run_entry else ""

    monkeypatch.setattr(runs, "barred", by_run_alone)
    planted(NESTED, "I1")


def test_a_refusal_at_the_gate_clears_an_earlier_doubt(monkeypatch, planted):
    original = rules.clears
    monkeypatch.setattr(rules, "clears", lambda call, fault: original(call, replace(fault, gate=False)))
    planted(replace(STORM, name="gates", tools=("pay",)), "I2")

"""The small rules that everything rests on, one function each.

Remove any one of them and a duplicate, a lie or a loss comes back: the tests do just that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.model import Effect, Evidence, FaultClass, Standing
from settled.core.states import State
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.call import Call
    from settled.core.model import Attempt, Fault, Moment, Terms


def fenced(call: Call, epoch: int) -> bool:
    """Whether an owner with ``epoch`` has lost the call to a later one."""
    return call.epoch != epoch


def lease_over(call: Call, now: Moment) -> bool:
    """Whether the owner's lease has ended, by a clock that never jumps.

    Another boot of the same machine means that every owner of the former one is dead.
    """
    left = now.since(call.lease)
    return left is None or left >= 0


def repeatable(call: Call, now: Moment) -> bool:
    """Whether the call may be made again while an earlier attempt is in doubt.

    For ``deduplicated`` tools only while the other side surely remembers our key.
    """
    effect = call.terms.effect
    if effect is Effect.DEDUPLICATED:
        return _remembered(call, now)
    return effect in (Effect.READ, Effect.IDEMPOTENT)


def _remembered(call: Call, now: Moment) -> bool:
    if call.terms.remote_retention is None:
        return False
    first = call.first_intent
    passed = now.since(first)
    passed = now.wall - first.wall if passed is None else passed
    reserve = (call.terms.timeout or 0.0) + (call.terms.lifetime or 0.0)
    return passed + reserve < call.terms.remote_retention


def is_over(attempt: Attempt, call: Call, now: Moment) -> bool:
    """Whether the attempt can do nothing more."""
    if attempt.over is not None:
        return True
    limit = call.terms.attempt_lifetime
    passed = now.since(attempt.begun)
    return limit is not None and passed is not None and passed >= limit


def all_over(call: Call, now: Moment) -> bool:
    """Whether no attempt of the call can do anything more."""
    return all(a.standing is Standing.NONE or is_over(a, call, now) for a in call.attempts)


def under(call: Call, today: Terms | None) -> Call:
    """Return the call as it is to be judged: a bound that was declared since then fills in a missing one."""
    if today is None:
        return call
    lifetime = call.terms.lifetime if call.terms.lifetime is not None else today.lifetime
    attempts = call.terms.attempt_lifetime if call.terms.attempt_lifetime is not None else today.attempt_lifetime
    return replace(call, terms=replace(call.terms, lifetime=lifetime, attempt_lifetime=attempts))


def proof_time(call: Call, now: Moment) -> Moment | None:
    """Return from when on a negative probe proves that nothing happened, if it ever does.

    Every doubtful attempt must be over, and ``max_request_lifetime`` must then have passed on this
    boot's clock. ``None``: not yet known, or never.
    """
    lifetime = call.terms.lifetime
    if lifetime is None:
        return None
    latest = now.plus(-1e18)
    for attempt in call.doubtful:
        end = _over_at(attempt, call)
        if end is None or now.since(end) is None:
            return None
        latest = max(latest, end, key=lambda m: m.mono)
    return latest.plus(lifetime)


def may_arrive(call: Call) -> bool:
    """Whether a request of an earlier attempt may still arrive, and would do anew what was undone meanwhile.

    An idempotent call is made again while it is in doubt. Where no ``max_request_lifetime`` is declared nobody knows
    how long to wait, and this is not asked.
    """
    return call.terms.effect is Effect.IDEMPOTENT and call.terms.lifetime is not None and bool(call.doubtful)


def seconds_to_rest(call: Call, now: Moment) -> float | None:
    """Return how long to wait before a call is undone, so that it stays undone; ``None``: it cannot be told yet."""
    if not may_arrive(call):
        return 0.0
    since = proof_time(call, now)
    passed = None if since is None else now.since(since)
    return None if passed is None else max(0.0, -passed)


def _over_at(attempt: Attempt, call: Call) -> Moment | None:
    if attempt.over is not None:
        return attempt.over
    limit = call.terms.attempt_lifetime
    return None if limit is None else attempt.begun.plus(limit)


def proves_absence(call: Call, probe_began: Moment, now: Moment) -> bool:
    """Whether a negative probe that began then proves that nothing happened or will happen."""
    since = proof_time(call, now)
    passed = None if since is None else probe_began.since(since)
    return passed is not None and passed >= 0


def may_begin(call: Call, now: Moment) -> bool:
    """Whether a further attempt may begin: for a ``write`` never before the last one is over."""
    if repeatable(call, now):
        return True
    return all_over(call, now) and not call.doubtful


def clears(call: Call, fault: Fault) -> bool:
    """Whether a refusal clears earlier doubt: only an answer from the other side's own key store does.

    A 401, a 403, a 429 or a refused connection on the repeat says nothing about the first try.
    """
    stored = call.terms.effect is Effect.DEDUPLICATED and call.terms.remote_errors == "stored"
    ours = fault.refresh or fault.throttled or fault.local or fault.own_success or fault.in_progress
    return (
        stored
        and not ours
        and not fault.gate
        and fault.kind is FaultClass.PERMANENT
        and fault.evidence is Evidence.NONE
    )


def done_in_part(call: Call) -> bool:
    """Whether an attempt had a part of its effect: then the call is never "not done", whatever the others say."""
    return call.terms.effect is not Effect.READ and any(a.standing is Standing.SOME for a in call.attempts)


def closing_state(call: Call, *, final: bool) -> State:
    """Return where a call stands when its owner stops without success.

    ``final``: the last failure was permanent. Once an attempt was in doubt, a later definite
    failure clears nothing.
    """
    if call.terms.effect is Effect.READ:
        return State.FAILED if final else State.NOT_DONE
    if call.doubtful:
        return State.UNKNOWN
    if done_in_part(call):
        return State.PARTIAL
    return State.FAILED if final else State.NOT_DONE

"""Settling one unknown call by its tool's probe: when a negative answer is proof, and when to wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core import rules
from settled.core.commands import AwaitCall, CheckOwners, Owners, Probe, Probed, Reply, Transact, expect
from settled.core.doubt.settling import Over, Settle
from settled.core.states import State

if TYPE_CHECKING:
    from settled.core.call import Call
    from settled.core.commands import Flow
    from settled.core.model import Moment
    from settled.core.policy import Policy


PROBE_LIMIT = 30.0
"""Seconds."""


def settle(call: Call, policy: Policy, patience: float, limit: float = PROBE_LIMIT) -> Flow[Call]:
    """Return the call, settled if evidence can be had; wait for proof at most ``patience`` seconds.

    ``limit``: seconds that one probe may take.
    """
    if call.held:
        return call
    call = yield from see_over(call)
    while policy.probe and call.state is State.UNKNOWN and not call.held:
        probed = expect((yield Probe(call, limit)), Probed)
        if probed.happened is None:
            return call
        call = yield from _record(call, probed, policy)
        wait = _seconds_to_proof(rules.under(call, policy.terms), probed.ended)
        if call.state is not State.UNKNOWN or wait is None or wait > patience:
            return call
        patience -= wait
        yield AwaitCall(call.operation_id, wait, wait)
    return call


def _record(call: Call, probed: Probed, policy: Policy) -> Flow[Call]:
    verdict = Settle(
        call.operation_id,
        call.epoch,
        happened=bool(probed.happened),
        began=probed.began,
        result=probed.data,
        note=probed.note,
        fence=probed.fence,
        today=policy.terms,
    )
    settled: Call | None = expect((yield Transact(verdict)), Reply).value
    return settled or call


def _seconds_to_proof(call: Call, now: Moment) -> float | None:
    since = rules.proof_time(call, now)
    passed = None if since is None else now.since(since)
    return None if passed is None else max(0.0, -passed) + 0.001


def see_over(call: Call) -> Flow[Call]:
    """Find doubtful attempts whose process is dead: they can do nothing more."""
    doubtful = call.doubtful
    if not doubtful:
        return call
    owners = expect((yield CheckOwners(tuple(a.owner for a in doubtful))), Owners)
    dead = [
        a.no
        for a, alive in zip(doubtful, owners.alive, strict=True)
        if (a.over is None and alive is False) or (a.over is not None and owners.now.since(a.over) is None)
    ]
    if not dead:
        return call
    seen: Call | None = expect((yield Transact(Over(call.operation_id, dead))), Reply).value
    return seen or call

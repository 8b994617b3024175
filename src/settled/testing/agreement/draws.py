"""What hypothesis draws for journals: terms, faults, flags of an ask, queries, awkward texts."""

from __future__ import annotations

from hypothesis import strategies as st

from settled.core.model import Effect, Fault, FaultClass, Leave, Terms
from settled.core.model import Evidence as Proof
from settled.core.runs.entering import scope_of_run
from settled.core.states import State
from settled.ports import CallQuery
from settled.testing.records import AWKWARD

TEXTS = st.sampled_from(["", "x", "\0", AWKWARD]) | st.text(max_size=8)
RESULTS = st.none() | st.binary(max_size=20)
TENANTS = st.sampled_from(["acme", "other"])
RUNS = st.sampled_from(["r1", "r1", "r2"])
THEN = st.sampled_from(["", "done", "lost", "refused"])
"""How a call that was begun goes on at once, so that there is much to ask for again."""
WORDS = st.sampled_from(["w1", "w2"])
SECONDS = st.sampled_from([0.0, 0.1, 5.0, 30.0, 100.0])
FAULTS = st.none() | st.builds(
    Fault,
    kind=st.sampled_from([FaultClass.UNKNOWN, *FaultClass]),
    evidence=st.sampled_from([Proof.MAYBE, *Proof]),
    code=st.sampled_from(["timeout", "http_502"]),
    message=TEXTS,
    throttled=st.booleans(),
    retry_after=st.none() | st.floats(0, 1e6),
    refresh=st.booleans(),
)
TERMS = st.builds(
    Terms,
    effect=st.just(Effect.WRITE) | st.sampled_from(Effect),
    version=TEXTS,
    lifetime=st.none() | st.just(10.0),
    attempt_lifetime=st.none() | st.just(20.0),
    remote_retention=st.none() | st.just(60.0),
    remote_errors=st.sampled_from(["", "stored"]),
    retention=st.sampled_from([None, 0.0, 50.0]),
    compensate=st.sampled_from(["", "refund"]),
    irreversible=st.sampled_from([False, False, True]),
    waived=st.booleans(),
)
FLAGS = st.fixed_dictionaries(
    {
        "by_model": st.booleans(),
        "identity_declared": st.booleans(),
        "untold": st.sampled_from(["tell", "block"]),
        "while_unknown": st.sampled_from(["identity", "any", "allow"]),
        "step": st.sampled_from(["", "m1/0", "m1/1", "m2/0", AWKWARD]),
        "message": st.sampled_from(["", "m1", "m2"]),
        "sibling": st.sampled_from(["", "m1\x1f0", "m1\x1f1"]),
        "lane": st.sampled_from(["", "writer"]),
        "tool": st.sampled_from(["pay", "mail"]),
        "lease": SECONDS,
        "leave": st.none()
        | st.none()
        | st.sampled_from([Leave("large", 0.0), Leave("", 0.0, "2", 2, 30.0), Leave("w", 0.0, by_hand="b")]),
    }
)
QUERIES = st.builds(
    CallQuery,
    states=st.none() | st.lists(st.sampled_from(State), max_size=3),
    tool=st.none() | st.sampled_from(["pay", "mail"]),
    tenant=st.none() | TENANTS,
    scope=st.none() | st.sampled_from(["", scope_of_run("acme", "r1")]),
    disputed=st.none() | st.booleans(),
    lease_over=st.booleans(),
    past_retention=st.booleans(),
    limit=st.integers(1, 4),
)

"""A call and its row are the same thing."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from settled.core.call import Call
from settled.core.model import (
    Attempt,
    BatchItem,
    Effect,
    Evidence,
    Exchange,
    Fault,
    FaultClass,
    KeyKind,
    Leave,
    Moment,
    Owner,
    Part,
    Phase,
    Standing,
    Terms,
)
from settled.core.states import State
from settled.journals import rows
from settled.journals.books import INSERT_CALL, SELECT_CALL, read_call
from settled.journals.sqlite import schema
from settled.journals.sqlite.books import execute

TEXTS = (
    st.text() | st.text(st.characters(min_codepoint=0xD700, max_codepoint=0xE100)) | st.text("\0\ud83d\ude00\\u'\"\n")
)
FLOATS = st.floats(allow_nan=False)
OF_TYPE = {
    "str": TEXTS,
    "int": st.integers(0, 2**62),
    "float": FLOATS,
    "bool": st.booleans(),
    "bytes": st.binary(),
    "bytes | None": st.none() | st.binary(),
    "float | None": st.none() | FLOATS,
    "int | None": st.none() | st.integers(0, 2**62),
    "tuple[str, ...]": st.lists(TEXTS, max_size=2).map(tuple),
    "tuple[tuple[str, str], ...]": st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple),
    **{
        kind.__name__: st.sampled_from(kind)
        for kind in (KeyKind, State, Effect, FaultClass, Evidence, Standing, Phase, Part)
    },
}


def all_fields(kind):
    """Draw every field there is: one that is added to the model and forgotten in the rows is found."""
    return st.builds(kind, **{name: OF_TYPE[hint] for name, hint in kind.__annotations__.items()})


OF_TYPE["tuple[BatchItem, ...]"] = st.lists(all_fields(BatchItem), max_size=2).map(tuple)
OF_TYPE["tuple[Exchange, ...]"] = st.lists(all_fields(Exchange), max_size=2).map(tuple)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
for kind in (Moment, Owner, Fault, Leave, Terms, Attempt):
    OF_TYPE[kind.__name__] = all_fields(kind) if kind is not Moment else st.builds(Moment, FINITE, TEXTS, FINITE)
    OF_TYPE[f"{kind.__name__} | None"] = st.none() | OF_TYPE[kind.__name__]
OF_TYPE["tuple[Attempt, ...]"] = st.lists(OF_TYPE["Attempt"], max_size=2).map(tuple)
CALLS = all_fields(Call)


@pytest.fixture(scope="module")
def table():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.climb(connection, 0, "jn_test")
    yield connection
    connection.close()


def exact(value):
    """Tell 1 from 1.0 and True, and 0.0 from -0.0, which == does not."""
    return repr(value)


@given(call=CALLS)
@settings(max_examples=100)
def test_a_call_reads_back_as_it_was(call, table):
    table.execute("DELETE FROM calls")
    execute(table, INSERT_CALL, (*rows.fixed(call), *rows.changing(call)))
    read = read_call(table.execute(SELECT_CALL).fetchone())
    assert read == call
    assert exact(read) == exact(call)


def test_a_fault_that_was_written_before_requests_were_seen_still_reads():
    fault = Fault(FaultClass.UNKNOWN, Evidence.MAYBE, "http_502", "bad gateway", uncertain=True, gate=True)
    written = ("unknown", "maybe", "http_502", "bad gateway", False, None, False, False, False, False, True, True)
    assert rows.fault_of(written) == fault
    assert rows.fault_list(fault)[:12] == list(written)


def test_numbers_that_json_lacks_are_kept_in_a_request_too(table):
    """Written the quick way they would come back as nothing."""
    seen = Exchange("GET", "http://localhost/", Phase.SENT, took=float("inf"))
    fault = Fault(FaultClass.UNKNOWN, Evidence.MAYBE, "timeout", seen=(seen,))
    moment = Moment(1.0, "boot", 2.0)
    owner = Owner("host", "boot", "space", 1, "0")
    attempt = Attempt(no=1, epoch=1, owner=owner, begun=moment, fault=fault)
    terms = Terms(Effect.WRITE, declared=True)
    texts = dict.fromkeys(("operation_id", "key", "tenant", "tool", "scope", "lane"), "a")
    texts |= dict.fromkeys(("identity", "words", "fingerprint", "claim"), "b")
    times = dict.fromkeys(("lease", "created", "changed"), moment)
    call = Call(
        **texts,
        **times,
        kind=KeyKind.RANDOM,
        terms=terms,
        n=1,
        arguments=b"",
        state=State.UNKNOWN,
        epoch=1,
        owner=owner,
        attempts=(attempt,),
    )
    assert rows.call_of((*rows.fixed(call), *rows.changing(call))) == call

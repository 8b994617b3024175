"""Failures seen in the field that are the journal's to prevent; each id is one of cases.md."""

import sqlite3
import threading

import pytest

from settled.core.ask import Busy
from settled.core.attempts.progress import Renew
from settled.core.doubt.settling import Adopt
from settled.core.matching.claim import Claim
from settled.core.model import Terms
from settled.core.states import State
from settled.core.values import replace
from settled.journals.memory import MemoryJournal
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import FakeClock, begun, ended, make_ask


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def nodes(request, clock, tmp_path):
    """Two nodes on one journal: each has handles of its own, where there are any."""
    if request.param == "memory":
        journal = MemoryJournal(clock)
        yield journal, journal
        return
    both = [SqliteJournal(tmp_path / "journal.db", clock=clock) for _ in range(2)]
    yield tuple(both)
    for journal in both:
        journal.close()


@pytest.mark.case("CASE-010-remaining-time-zero-is-none")
@pytest.mark.parametrize("nothing", [0, 0.0, -1.0])
def test_no_time_left_is_not_no_limit(nodes, nothing):
    one, two = nodes
    call = begun(one, make_ask(lease=nothing))
    assert two.perform(Adopt(call.operation_id)).state is State.UNKNOWN


@pytest.mark.case("CASE-011-live-record-taken-for-orphan")
def test_a_call_without_a_time_limit_is_nobodys_orphan(nodes, clock):
    """As long as its owner renews the lease, the same on every backend."""
    one, two = nodes
    ask = make_ask(terms=Terms(timeout=None, attempt_lifetime=None, lifetime=None))
    call = begun(one, ask)
    for _ in range(100):
        clock.advance(20.0)
        assert one.perform(Renew([(call.operation_id, 1, 30.0)])) == ()
        assert isinstance(two.perform(Claim(replace(ask, operation_id="op_second"))), Busy)
    assert ended(one, call).state is State.SUCCEEDED


@pytest.mark.case("CASE-018-lease-judged-by-other-clock")
@pytest.mark.parametrize("jump", [60.0, -3600.0, 86400.0])
def test_a_wall_clock_that_is_set_ends_no_lease(nodes, clock, jump):
    one, two = nodes
    ask = make_ask(lease=20.0)
    call = begun(one, ask)
    clock.wall += jump
    assert isinstance(two.perform(Claim(replace(ask, operation_id="op_second"))), Busy)
    one.perform(Renew([(call.operation_id, 1, 20.0)]))
    assert two.get(call.operation_id).lease.since(call.lease) == 0.0
    clock.advance(19.0)
    assert isinstance(two.perform(Claim(replace(ask, operation_id="op_third"))), Busy)


@pytest.mark.case("CASE-026-serialization-failure-made-durable")
def test_a_busy_store_is_tried_again_inside_and_recorded_nowhere(tmp_path, clock):
    journal = SqliteJournal(tmp_path / "journal.db", clock=clock, busy_timeout=30.0)
    call = begun(journal, make_ask())
    other = sqlite3.connect(journal.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.05, other.execute, ["ROLLBACK"])
    release.start()
    assert ended(journal, call, result=b"1").result == b"1"
    release.join(30)
    other.close()
    assert [row.event.value for row in journal.log(call.operation_id)] == ["claim", "succeed"]
    journal.close()


TEXTS = ["W\0s\0l\0", "\\u0000", '{"\0": "\0"}', "ok \ud83d", "\ud83c\udf78", "\ud83d\ude00 beside \U0001f600"]


@pytest.mark.case("CASE-030-nul-in-jsonb")
@pytest.mark.case("CASE-032-lone-surrogate")
@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_any_text_is_kept_as_it_is(nodes, text):
    one, two = nodes
    data = text.encode("utf-8", "surrogatepass")
    call = begun(one, make_ask(step=text, tool=f"tool {text}", arguments=data))
    done = ended(one, call, result=data)
    read = two.get(call.operation_id)
    assert read == done
    assert (read.step, read.tool, read.arguments, read.result) == (text, f"tool {text}", data, data)
    assert two.verify().ok

"""The log of a call: a row for each change, chained to the one before it."""

from __future__ import annotations

from hashlib import sha256

import pytest

from settled.core.answer import from_record, rejected
from settled.core.call import any_in_doubt, attempt_of, chain, evolve, named, opened, standing_of, with_attempt
from settled.core.commands import Admitted, Woke, expect
from settled.core.expiry import Expire
from settled.core.model import Standing
from settled.core.states import Event, IllegalTransition, State, next_state
from settled.core.values import replace
from tests.core.build import BUSY, LOST, OTHER, REFUSED, SOME, UNREADABLE, at, attempt, call, journal
from tests.core.raised import raised

S = State
NONE, MAYBE = Standing.NONE, Standing.MAYBE
PAYLOAD = b"1jvalue"


def test_a_change_is_one_row_with_what_it_brought() -> None:
    before = call(S.PROCESSING, attempt(), log_no=4, log_head="head-4")
    after, row = evolve(before, Event.SUCCEED, at(7), detail="why", result=PAYLOAD, epoch=3)
    assert (row.operation_id, row.no, row.at, row.event, row.state) == (
        "op_1",
        5,
        at(7).wall,
        Event.SUCCEED,
        S.SUCCEEDED,
    )
    assert (row.epoch, row.attempt, row.detail, row.digest) == (3, 1, "why", sha256(PAYLOAD).hexdigest())
    assert (after.state, after.changed, after.log_no, after.log_head) == (S.SUCCEEDED, at(7), 5, row.head)
    assert (after.result, after.epoch) == (PAYLOAD, 3)


def test_a_change_without_a_payload_keeps_epoch_and_attempts() -> None:
    after, row = evolve(call(S.PROCESSING, attempt(), attempt(2), epoch=6, log_no=1), Event.DOUBT, at(7))
    assert (row.epoch, row.attempt, row.detail, row.digest) == (6, 2, "", "")
    assert (after.epoch, after.state) == (6, S.UNKNOWN)
    _, grown = evolve(call(), Event.BEGIN, at(7), attempts=(attempt(),))
    assert grown.attempt == 1


def test_the_first_change_brings_the_arguments_and_what_is_called() -> None:
    made = call(S.PROCESSING, arguments=PAYLOAD)
    _, row = evolve(made, Event.CLAIM, at(7), detail="pay")
    assert row.digest == f"{sha256(PAYLOAD).hexdigest()}/{named(made)}"


@pytest.mark.parametrize("field", ["tenant", "tool", "scope", "lane", "identity", "key"])
def test_what_is_called_is_told_by_each_of_its_names(field: str) -> None:
    made = call()
    assert named(replace(made, **{field: "another"})) != named(made)
    assert named(replace(made, n=made.n + 1)) != named(made)


def test_what_is_called_stays_where_only_its_own_key_was_set_aside() -> None:
    made = call(key="once")
    assert named(replace(made, key="aside", sent_key="once")) == named(made)
    assert named(replace(made, tool="a', 'b", tenant="c")) != named(replace(made, tool="b", tenant="c', 'a"))


def test_any_text_has_a_head() -> None:
    assert [text for text in ("", "é", "d\ud800") if raised(evolve, call(), Event.DOUBT, at(7), detail=text)] == []


def test_the_head_is_sha_256_over_the_former_head_and_all_fields() -> None:
    _, row = evolve(call(S.PROCESSING, log_no=1, log_head="before"), Event.DOUBT, at(7), detail="d\ud800")
    fields = ["before", "op_1", "2", repr(at(7).wall), "doubt", "unknown", "1", "0", "d\ud800", ""]
    assert row.head == sha256("\x1f".join(fields).encode("utf-8", "surrogatepass")).hexdigest()
    assert chain("before", row) == row.head


@pytest.mark.parametrize(
    "change",
    [
        {"operation_id": "x"},
        {"no": 9},
        {"at": 1.5},
        {"event": Event.FAIL},
        {"state": S.FAILED},
        {"epoch": 9},
        {"attempt": 9},
        {"detail": "x"},
        {"digest": "x"},
    ],
    ids=str,
)
def test_no_field_of_an_old_row_can_be_changed_unseen(change: dict[str, object]) -> None:
    _, row = evolve(call(S.PROCESSING), Event.DOUBT, at(7))
    assert chain("", replace(row, **change)) != row.head
    assert chain("another", row) != row.head


def test_what_may_not_follow_is_refused_with_state_and_event() -> None:
    with pytest.raises(IllegalTransition, match=r"^doubt is not possible for a call that is failed$"):
        next_state(S.FAILED, Event.DOUBT)
    with pytest.raises(IllegalTransition):
        evolve(call(S.FAILED), Event.DOUBT, at(7))


def test_what_an_end_says_about_the_effect() -> None:
    ends = {None: Standing.DONE, BUSY: NONE, LOST: MAYBE, SOME: Standing.SOME, UNREADABLE: Standing.DONE}
    assert {fault: standing_of(fault) for fault in ends} == ends


def test_attempts_are_found_changed_and_opened_by_number() -> None:
    made = call(S.PROCESSING, attempt(1, NONE), attempt(2))
    assert attempt_of(made, 2) == attempt(2)
    assert [raised(attempt_of, made, no) for no in (0, 1, 2, 3)] == [None] * 4
    assert attempt_of(made, 3) is None
    assert with_attempt(made, 2, standing=MAYBE) == (attempt(1, NONE), replace(attempt(2), standing=MAYBE))
    new = opened(made, OTHER, 5, at(9))[-1]
    assert (new.no, new.epoch, new.owner, new.begun, new.standing) == (3, 5, OTHER, at(9), Standing.OPEN)
    assert len(opened(made, OTHER, 5, at(9))) == 3


def test_doubt_is_what_is_open_or_may_have_happened() -> None:
    assert any_in_doubt([attempt(1, NONE), attempt(2)])
    assert any_in_doubt([attempt(1, MAYBE)])
    assert not any_in_doubt([attempt(1, NONE), attempt(2, Standing.DONE), attempt(3, Standing.SOME)])
    assert not any_in_doubt([])
    made = call(S.PROCESSING, attempt(1, MAYBE), attempt(2))
    assert made.doubted_before
    assert not call(S.PROCESSING, attempt(1, NONE), attempt(2)).doubted_before
    assert (made.first_intent, call(created=at(3)).first_intent) == (at(0), at(3))


def test_a_record_answers_with_all_that_it_holds() -> None:
    kept = call(S.FAILED, attempt(1, NONE), fault=REFUSED, note="a note")
    said = from_record(kept)
    assert (said.status, said.reason, said.call, said.fault) == ("failed", "http_422", kept, REFUSED)
    assert (said.like, said.attempts, said.note, said.recorded, said.fresh) == (False, 1, "a note", True, False)
    assert from_record(kept, like=True).like
    assert from_record(replace(kept, reason="deadline")).reason == "deadline"
    assert from_record(call(S.SUCCEEDED)).reason == ""


def test_a_rejected_ask_names_what_stands_in_its_way() -> None:
    said = rejected("untold_before", calls=(call(),), retry_after=7.0)
    assert (said.status, said.reason, said.earlier, said.retry_after) == ("rejected", "untold_before", (call(),), 7.0)
    assert (said.call, said.attempts) == (None, 0)


def test_what_expires_gives_up_its_payload_and_says_why() -> None:
    kept = call(S.FAILED, attempt(1, NONE), fault=REFUSED, note="a note", result=PAYLOAD, terms={"retention": 1.0})
    store = journal(kept, seconds=100)
    assert store.perform(Expire("op_1"))
    left = store.get("op_1")
    assert left is not None
    assert (left.state, left.arguments, left.result, left.fault) == (S.EXPIRED, b"", None, None)
    assert left.note == "was failed"
    assert (left.reason, left.key, left.fingerprint) == ("retention", kept.key, kept.fingerprint)
    assert [row.event for row in store.log("op_1")] == [Event.EXPIRE]


def test_a_driver_that_mixes_up_its_events_is_told_so() -> None:
    assert expect(Woke(1.0), Woke) == Woke(1.0)
    with pytest.raises(TypeError, match=r"^the driver answered with Admitted, not with Woke$"):
        expect(Admitted(1.0), Woke)

"""Outcomes that nobody was given: which calls owe one, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.attempts.progress import Close, End
from settled.core.doubt.settling import Adopt
from settled.core.matching.owed import Heard, doubted, owed_to, was_owed
from settled.core.model import Effect, KeyKind, Standing
from settled.core.states import State
from tests.core.build import LOST, ask, attempt, call, journal
from tests.core.raised import raised

if TYPE_CHECKING:
    from settled.journals.memory import MemoryJournal

S = State
MAYBE = Standing.MAYBE


def owed(store: MemoryJournal) -> list[str]:
    return list(store.books.owed("", "pay", "1:i"))


@pytest.mark.parametrize("transition", [End("op_1", 1, 1, LOST), Close("op_1", 1, "deadline"), Adopt("op_1", dead=1)])
@pytest.mark.parametrize(
    ("kind", "effect", "owes"),
    [
        (KeyKind.RANDOM, Effect.WRITE, True),
        (KeyKind.RANDOM, Effect.DEDUPLICATED, True),
        (KeyKind.RANDOM, Effect.IDEMPOTENT, False),
        (KeyKind.SCOPED, Effect.WRITE, False),
        (KeyKind.BUSINESS, Effect.WRITE, False),
        (KeyKind.BUSINESS, Effect.IDEMPOTENT, False),
    ],
)
def test_a_call_in_doubt_under_a_random_key_owes_its_outcome(
    kind: KeyKind, effect: Effect, owes: bool, transition: Any
) -> None:
    store = journal(call(S.PROCESSING, attempt(), kind=kind, terms={"effect": effect}))
    store.perform(transition)
    assert owed(store) == (["op_1"] if owes else [])
    assert [alert.kind for alert in store.alerts()] == ["unknown"]


def test_a_read_in_doubt_owes_nothing() -> None:
    store = journal()
    doubted(store.books, call(S.UNKNOWN, kind=KeyKind.RANDOM, terms={"effect": Effect.READ}))
    assert owed(store) == []


def test_an_outcome_is_owed_until_it_is_heard() -> None:
    done = call(S.SUCCEEDED, attempt(1, Standing.DONE), kind=KeyKind.RANDOM)
    store = journal(done)
    assert raised(owed_to, store.books, ask()) is None
    assert owed_to(store.books, ask()) is None
    doubted(store.books, done)
    assert owed_to(store.books, ask()) == done
    store.perform(Heard("op_gone"))
    assert owed(store) == ["op_1"]
    store.perform(Heard("op_1"))
    assert owed(store) == []
    assert owed_to(store.books, ask()) is None


@pytest.mark.parametrize(
    ("kind", "decided", "standing", "was"),
    [
        (KeyKind.RANDOM, "answer", Standing.DONE, False),
        (KeyKind.RANDOM, "answer", MAYBE, True),
        (KeyKind.RANDOM, "late", Standing.DONE, True),
        (KeyKind.RANDOM, "probe", Standing.NONE, True),
        (KeyKind.RANDOM, "person:ann", Standing.NONE, True),
        (KeyKind.RANDOM, "owner_lost", Standing.NONE, False),
        (KeyKind.BUSINESS, "late", MAYBE, False),
        (KeyKind.SCOPED, "probe", MAYBE, False),
    ],
)
def test_which_calls_may_have_owed_one(kind: KeyKind, decided: str, standing: Standing, was: bool) -> None:
    assert was_owed(call(S.SUCCEEDED, attempt(1, standing), kind=kind, decided=decided)) is was

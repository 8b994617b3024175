"""The log of a call, byte for byte: what journals hold today must still be chained as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.attempts.progress import Begin, End
from settled.core.call import LogRow, chain
from settled.core.matching.claim import Claim
from settled.core.matching.entry import Entry
from settled.core.model import Effect, KeyKind
from settled.core.states import Event, State
from tests.core.build import BUSY, LOST, REFUSED, SOME, ask, at, journal

if TYPE_CHECKING:
    from settled.core.call import Call

RANDOM = {"kind": KeyKind.RANDOM, "key": "pay:fresh", "operation_id": "op_9"}
SCOPED = {"kind": KeyKind.SCOPED, "key": "", "operation_id": "op_9", "scope": "run:r"}
IN_ODD_WORDS = {**RANDOM, "tool": "zählen\x1f\ud800"}


def heads(wish: dict[str, Any], *ends: Any) -> tuple[str, list[str]]:
    """Claim, and end each attempt as told; return the key and the heads of the log."""
    books, asked, rows = journal().books, ask(**wish, entry=Entry()), []
    put = books.put

    def keep(call: Call, row: LogRow) -> None:
        rows.append(row)
        put(call, row)

    books.put = keep  # type: ignore[method-assign]
    call = Claim(asked).apply(books, at(1.25)).call  # type: ignore[union-attr]
    for no, end in enumerate(ends, 1):
        if no > 1:
            Begin("op_9", 1, no, asked).apply(books, at(no))
        End("op_9", 1, no, end, b'1j{"a":1}' if end is None else None, go_on=no < len(ends)).apply(books, at(no + 0.1))
    return call.key, [row.head for row in rows]


@pytest.mark.parametrize(
    ("wish", "ends", "key", "length", "head"),
    [
        (RANDOM, (None,), "pay:fresh", 2, "724bf1d1976667b682e5be092dce8817ef35cd2b9fdee8c164044e0953eb4404"),
        (RANDOM, (LOST,), "pay:fresh", 2, "079e180eed5a44490e8bb11fecd73c6228f7e40e8dcf0073a5eedead091b096d"),
        (RANDOM, (REFUSED,), "pay:fresh", 2, "50ea51d2696221d799cad0c5f39f868eaf76a590e157094c65155e6594f572d5"),
        (RANDOM, (SOME,), "pay:fresh", 2, "9ef70bd54d0126700923f5a5ee71553c01a02c0637820640826610b4368f1831"),
        (IN_ODD_WORDS, (None,), "pay:fresh", 2, "7aed7e9a828c893783eaf82b4307115f62e192c48794f5aae6551376547ff35d"),
        (
            SCOPED,
            (None,),
            "pay:c57027c695e76a37325d5ed1af848068",
            2,
            "307ec679ec7829471ce54c243c4fa2fbf4a5de41b578f9b87df047a71a62532c",
        ),
        (
            {**SCOPED, "terms": {"effect": Effect.IDEMPOTENT}},
            (BUSY, LOST, None),
            "pay:c57027c695e76a37325d5ed1af848068",
            6,
            "1f56c43020de03631b2024c460e6cd2c640ceb44bd1730298626e19caa3da5e8",
        ),
    ],
)
def test_the_key_and_the_head_that_all_rows_are_chained_to(
    wish: dict[str, Any], ends: tuple[Any, ...], key: str, length: int, head: str
) -> None:
    made, chained = heads(wish, *ends)
    assert (made, len(chained), chained[-1]) == (key, length, head)


def test_a_row_from_before_the_first_one_told_what_is_called() -> None:
    old = LogRow("op_9", 1, 1.25, Event.CLAIM, State.PROCESSING, 1, 1, "zählen\x1f\ud800", "ab" * 32, "")
    assert chain("", old) == "e5bec0c86394b90947e3b076efbb4cbaaea524cf5c0d128ea03ddb1d798095ab"

"""The log of a call, byte for byte: what journals hold today must still be chained as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.claim import Claim
from settled.core.entry import Entry
from settled.core.model import Effect, KeyKind
from settled.core.progress import Begin, End
from tests.core.build import BUSY, LOST, REFUSED, SOME, ask, at, journal

if TYPE_CHECKING:
    from settled.core.call import Call, LogRow

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
        (RANDOM, (None,), "pay:fresh", 2, "c2d591e555c587ede6266cdeb2c4efa04d7337a2918e9d9a33abc3f7e8646d9f"),
        (RANDOM, (LOST,), "pay:fresh", 2, "5f0ea0d890d884e33335d0090ee3152f9e2edb18f2cf18ed96902726d2482c9a"),
        (RANDOM, (REFUSED,), "pay:fresh", 2, "92fdb23e9501cb7f66855cb67be63fdc85ba9a84ad5136ec45cd9ceeb09322e8"),
        (RANDOM, (SOME,), "pay:fresh", 2, "d8bda6aa661ae5e48eac5cb24f291fb2ce8289fd795154737549a863bfa98a39"),
        (IN_ODD_WORDS, (None,), "pay:fresh", 2, "e224bae4588f0d31033174cedfebd1b14f13c51e9312720d401d1b46a5d41909"),
        (
            SCOPED,
            (None,),
            "pay:c57027c695e76a37325d5ed1af848068",
            2,
            "c2d591e555c587ede6266cdeb2c4efa04d7337a2918e9d9a33abc3f7e8646d9f",
        ),
        (
            {**SCOPED, "terms": {"effect": Effect.IDEMPOTENT}},
            (BUSY, LOST, None),
            "pay:c57027c695e76a37325d5ed1af848068",
            6,
            "68ddd789278cdbf9352faf582d8ced3ece3c431a8f6361d56a4d3eebcfe1dceb",
        ),
    ],
)
def test_the_key_and_the_head_that_all_rows_are_chained_to(
    wish: dict[str, Any], ends: tuple[Any, ...], key: str, length: int, head: str
) -> None:
    made, chained = heads(wish, *ends)
    assert (made, len(chained), chained[-1]) == (key, length, head)

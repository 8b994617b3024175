"""The log of a call, byte for byte: what journals hold today must still be chained as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.attempts.progress import Begin, End
from settled.core.matching.claim import Claim
from settled.core.matching.entry import Entry
from settled.core.model import Effect, KeyKind
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
        (RANDOM, (None,), "pay:fresh", 2, "7abd5f3dca682cdf83388db4124d1a188233337d1c4a13a3c8f4863bb4f34a7f"),
        (RANDOM, (LOST,), "pay:fresh", 2, "55fc5b93da26baeb737c2f02ace3d47312e743af4fa3b99e3b480acf99c49586"),
        (RANDOM, (REFUSED,), "pay:fresh", 2, "4165d38d8155c2c76ced183dbc541caf4b779e3a1934508d09101c3983c788a3"),
        (RANDOM, (SOME,), "pay:fresh", 2, "b5b8942d7ae9fc550d06417cd44542a6a82bd5e30243611e59b084cf6f7d4f26"),
        (IN_ODD_WORDS, (None,), "pay:fresh", 2, "ba71d56a5fe70de7f2d944d9433d1ce501d235788bac7206f0293955be1510ea"),
        (
            SCOPED,
            (None,),
            "pay:c57027c695e76a37325d5ed1af848068",
            2,
            "7abd5f3dca682cdf83388db4124d1a188233337d1c4a13a3c8f4863bb4f34a7f",
        ),
        (
            {**SCOPED, "terms": {"effect": Effect.IDEMPOTENT}},
            (BUSY, LOST, None),
            "pay:c57027c695e76a37325d5ed1af848068",
            6,
            "94876ce70444d520707867fccbc2399fb25dfa91fc063e79293a7abf267b43bc",
        ),
    ],
)
def test_the_key_and_the_head_that_all_rows_are_chained_to(
    wish: dict[str, Any], ends: tuple[Any, ...], key: str, length: int, head: str
) -> None:
    made, chained = heads(wish, *ends)
    assert (made, len(chained), chained[-1]) == (key, length, head)

"""Sealing the log while others write to it.

Rows get their numbers before they are committed, so one with a lower number may come later. A seal covers only rows
behind which nothing can come: whoever could still bring one had begun when the highest number was read, and has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from settled.journals.audit import MOST_IN_SEAL, seal_over
from settled.journals.books import SELECT_HEAD, read_head
from settled.journals.postgres.locks import number_of
from settled.journals.postgres.statements import TRY_LOCK

if TYPE_CHECKING:
    from settled.core.model import Moment
    from settled.journals.postgres.books import PostgresBooks

_NEWEST: Final = "SELECT coalesce(max(id), 0) FROM log"
# None where the transaction has one already: then others may have got a higher one, and drawn a lower number for a row.
_MY_NUMBER: Final = "SELECT CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN pg_current_xact_id()::text END"
# Not the snapshot's list of open transactions: it ends at the last one that has completed.
_ALL_OVER: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::numeric >= ?::text::numeric"
_UPTO: Final = (
    "SELECT max(id), count(*) FROM (SELECT id FROM log WHERE id > ? AND id <= ? ORDER BY id LIMIT ?) AS next (id)"
)


class Sealer:
    """Seals for one process; remembers what it could not seal yet."""

    def __init__(self, journal_id: str) -> None:
        self._lock = number_of(journal_id, "seal")
        self._waiting: tuple[int, str] | None = None

    def seal(self, books: PostgresBooks, now: Moment) -> int:
        """Chain the heads that are new since the last seal, ``MOST_IN_SEAL`` at most; return how many there were."""
        alone = books.look(TRY_LOCK, self._lock).fetchone()
        if not alone or not alone[0]:
            return 0  # another process is at it
        upto, covered, previous = books.look(
            "SELECT upto, covered, text FROM seals ORDER BY upto DESC LIMIT 1"
        ).fetchone() or (0, 0, "")
        settled = self._settled(books, upto)
        if settled <= upto:
            return 0
        last, rows = books.look(_UPTO, upto, settled, MOST_IN_SEAL).fetchone() or (None, 0)
        if last is None:
            return 0
        log = books.look(f"{SELECT_HEAD} WHERE id > ? AND id <= ? ORDER BY id", upto, last).fetchall()
        books.write(
            "INSERT INTO seals (upto, covered, at, text) VALUES (?, ?, ?, ?)",
            last,
            covered + rows,
            now.wall,
            seal_over(previous, map(read_head, log)),
        )
        return int(rows)

    def _settled(self, books: PostgresBooks, sealed: int) -> int:
        """Return the highest number up to which every row that will ever be is there.

        Whoever has drawn one of these had the number of its transaction before, and so a lower one than we get now:
        not while we have none, and so in a transaction of our own, which has written nothing yet.
        """
        (newest,) = books.look(_NEWEST).fetchone() or (0,)
        if newest <= sealed:
            return 0
        (number,) = books.look(_MY_NUMBER).fetchone() or (None,)
        if number is None:
            return 0
        for candidate in ((newest, number), self._waiting):
            if candidate is not None and (books.look(_ALL_OVER, candidate[1]).fetchone() or (False,))[0]:
                self._waiting = None if candidate[0] == newest else (newest, number)
                return int(candidate[0])
        self._waiting = self._waiting or (newest, number)
        return 0

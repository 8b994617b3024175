"""Is it still the journal that was in use here? What the server says, against a mark on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.errors import JournalError
from settled.journals import mark as marks
from settled.journals.mark import Mark, mark_path, read_mark, write_mark

if TYPE_CHECKING:
    import os

    from settled.journals.postgres.address import Address


def place_of(address: Address, spill: str | os.PathLike[str] | None) -> str:
    """Return the path of the spill file, beside which the mark lies too.

    Raises:
        JournalError: Its folder cannot be made.
    """
    return marks.place_of(address.file_name, address.shown, spill)


class Identity:
    """What is known of the journal: its identity, and the highest row of its log that was seen."""

    def __init__(self, address: Address, place: str) -> None:
        self.address, self.place = address, place
        self.journal_id = ""
        self.seen = 0

    def look_first(self) -> Mark | None:
        """Return the mark that lies here. Raises ``JournalError`` if it cannot be read."""
        return read_mark(self.place)

    def mark(self) -> Mark:
        """Return what is known."""
        return Mark(self.journal_id, self.seen)

    def check(self, journal_id: str, highest: int, mark: Mark | None) -> None:
        """Compare what the server says with what is known.

        Raises:
            JournalError: It is another journal, or an older copy of this one.
        """
        known = mark or self.mark()
        if known.journal_id and journal_id != known.journal_id:
            raise self._other(f"is {journal_id}, and {known.journal_id} was in use here: it was replaced")
        if highest < known.commits:
            raise self._other(
                f"ends at log row {highest}, and row {known.commits} was seen of it: it is an older copy, and what was "
                "done since is not in it"
            )

    def take(self, journal_id: str, highest: int) -> None:
        """This is the journal."""
        self.journal_id, self.seen = journal_id, max(self.seen, highest)

    def leave_mark(self, *, must: bool = False) -> None:
        """Note how far the journal has come. One that is too low is harmless; ``must``: there has to be one."""
        try:
            mark = read_mark(self.place)
            if mark is None or mark.journal_id != self.journal_id or mark.commits < self.seen:
                write_mark(self.place, self.mark())
        except OSError as fault:
            if must:
                raise JournalError(
                    f"no mark can be written at {mark_path(self.place)} ({fault}): without it an emptied or replaced "
                    "journal would not be noticed; give spill='/path/of/a/file' in a folder that can be written"
                ) from fault

    def gone(self) -> JournalError:
        """Return the error for a journal that is not there although it was in use here."""
        return self._other("holds no tables, but a journal was in use here")

    def _other(self, what: str) -> JournalError:
        return JournalError(
            f"the journal {self.address.shown} {what}; nothing was executed. Bring the right one back; if what is "
            f"there now is to count, delete {mark_path(self.place)}: calls that only the former one knew may then be "
            "made once more"
        )

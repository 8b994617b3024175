"""Is it still the journal that was in use here? What the server says, against a mark on this machine."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from settled.errors import JournalError
from settled.journals.mark import Mark, mark_path, read_mark, write_mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.journals.redis.address import Address

GAP: Final = 10_000_000
"""Numbers of commits left out, at the least, when the server lives anew: more than it can have lost."""
FORMAT: Final = "1"
_LOG: Final = logging.getLogger("settled")


class Identity:
    """What is known of the journal: its identity, and the highest commit that was seen."""

    def __init__(self, address: Address, place: str, *, accept_loss: bool) -> None:
        self.address, self.place, self.accept_loss = address, place, accept_loss
        self.journal_id = ""
        self.seen = 0
        self._told: tuple[str, ...] = ()

    def look_first(self, journal_id: str | None) -> Mark | None:
        """Return the mark that lies here, and go by it. Raises ``JournalError`` if it cannot be read."""
        mark = read_mark(self.place)
        if mark is not None:
            if journal_id is not None and mark.journal_id != journal_id:
                raise self._wanted(mark.journal_id, journal_id)
            self.seen = mark.commits
        return mark

    def recognise(self, found: str, mark: Mark | None, wanted: str | None) -> None:
        """Check that the journal found is the one in use here. Raises ``JournalError``."""
        known = self.journal_id or (mark.journal_id if mark else "")
        if wanted is not None and found != wanted:
            raise self._wanted(found, wanted)
        if known and found != known:
            raise self._other(f"is {found}, and {known} was in use here: it was replaced")
        self.journal_id = found

    def _wanted(self, found: str, wanted: str) -> JournalError:
        return JournalError(
            f"the journal {self.address.shown} is {found}, and journal_id= asks for {wanted}: it is not the one that "
            "was in use; nothing was executed. Correct the address, or journal_id="
        )

    def lost(self, lost: Sequence[bytes]) -> None:
        """Commits that were seen here are not there any more. Raises ``JournalError`` unless that is accepted."""
        last, seen = (int(each) for each in lost)
        what = f"ends at commit {last}, and commit {seen} was seen of it: what was done since is not in it"
        if not self.accept_loss:
            raise self._other(f"{what} (accept_loss=True lets it go on without)")
        if (what,) != self._told:
            _LOG.warning("the journal %s %s; accept_loss=True lets it go on", self.address.shown, what)
            self._told = (what,)

    def error_for(self, answer: Sequence[Any]) -> JournalError | None:
        """Return the error for an answer of a script that found another journal, or half of one."""
        match answer[0]:
            case b"gone":
                return self._other("is not there any more (emptied, evicted, or an empty replica took over)")
            case b"none":
                return self._other("is not there (emptied, or an empty replica took over), but was in use here")
            case b"other":
                return self._other(f"is {answer[1].decode()}, and {self.journal_id} was in use here: it was replaced")
            case b"behind":
                return self._other(
                    f"ends at commit {answer[1].decode()}, and commit {self.seen} was seen of it: it is an older copy"
                )
            case b"damaged":
                return self._other(
                    f"is not whole: its parts held {answer[1].decode()} and hold {answer[2].decode()} entries (calls, "
                    "rows, index, log): some were evicted or deleted"
                )
            case _:
                return None

    def saw(self, commits: int) -> None:
        """Remember how far the journal has come."""
        self.seen = max(self.seen, commits)

    def leave_mark(self, *, must: bool = False) -> None:
        """Note how far the journal has come. One that is too low is harmless; ``must``: there has to be one."""
        try:
            mark = read_mark(self.place)
            if mark is None or mark.journal_id != self.journal_id or mark.commits < self.seen:
                write_mark(self.place, Mark(self.journal_id, self.seen))
        except OSError as fault:
            if must:
                raise JournalError(
                    f"no mark can be written at {mark_path(self.place)} ({fault}): without it an emptied or replaced "
                    "journal would not be noticed; give spill='/path/of/a/file' in a folder that can be written"
                ) from fault

    def _other(self, what: str) -> JournalError:
        return JournalError(
            f"the journal {self.address.shown} {what}; nothing was executed. Bring the right one back; if what is "
            f"there now is to count, delete {mark_path(self.place)} (and what is left under its prefix, if it is not "
            "whole) and start anew: calls that only the former one knew may then be made once more"
        )

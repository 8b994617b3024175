"""A person's leave for one exact call: asked for before the first intent, given or refused, and used once.

It is bound to the record (so to its key and its words) and to the version of the tool. The commit of the first intent
uses it; that covers the attempts of that series, and no further one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.approval.drafts import drop
from settled.core.call import Call, evolve
from settled.core.doubt.settling import Refused
from settled.core.instead.by_hand import is_by_hand
from settled.core.model import KeyKind, Leave, Terms
from settled.core.runs import entering as runs
from settled.core.runs.closing import BY_ROLLBACK
from settled.core.states import Event, State
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.books import Books
    from settled.core.model import Moment


def given(call: Call, terms: Terms, now: Moment) -> bool:
    """Whether a person's leave for this call is there to be used."""
    leave = call.leave
    return leave is not None and leave.given and not leave.used and _counts(leave, terms, now)


def _counts(leave: Leave, terms: Terms, now: Moment) -> bool:
    return leave.version == terms.version and now.wall < leave.until


def use(leave: Leave | None) -> Leave | None:
    """Return the leave as it stands once the call has begun under it."""
    return None if leave is None else replace(leave, used=True)


def ask_for(books: Books, call: Call, wanted: Leave, now: Moment) -> Call:
    """Put on record that a call waits for leave; people are told in the same commit."""
    leave = _fresh(wanted, now)
    asked, row = evolve(call, Event.ASK_LEAVE, now, detail=leave.why, reason=leave.why, leave=leave, fault=None)
    books.put(asked, row)
    books.alert(asked, "approval")
    if asked.kind is KeyKind.RANDOM:
        books.put_owed(asked)  # the next like ask, of whatever process, finds it
    return asked


def asked_anew(books: Books, call: Call, wanted: Leave | None, now: Moment) -> Call:
    """Ask once more where nobody has decided in time, or another version of the tool asks now."""
    leave = call.leave
    if wanted is None or leave is None or (now.wall < leave.until and leave.version == wanted.version):
        return call
    asked, row = evolve(call, Event.NOTE, now, detail="asked for leave anew", leave=_fresh(wanted, now))
    books.put(asked, row)
    books.alert(asked, "approval")
    return asked


def needs_none(books: Books, call: Call, now: Moment) -> Call:
    """Let go of a call that nobody decided on in time, and whose tool asks for no leave any more."""
    free, row = evolve(call, Event.GRANT, now, detail=_NO_MORE, epoch=call.epoch + 1, series=0, leave=None)
    books.put(free, row)
    return free


_NO_MORE = "nobody decided in time, and its tool asks for no leave any more"


def _fresh(wanted: Leave, now: Moment) -> Leave:
    return replace(wanted, until=now.wall + wanted.within, by=(), given=False, used=False)


_UNDONE = "its run was rolled back: nothing of it is done any more"


class Decide(Struct, frozen=True):
    """A person gives or refuses leave, under an optimistic lock (``log_no``) if one is given."""

    operation_id: str
    give: bool
    by: str
    reason: str = ""
    log_no: int | None = None

    def apply(self, books: Books, now: Moment) -> Call | Refused:
        """Take the decision, or say why it cannot be taken."""
        call = books.by_id(self.operation_id)
        if call is None:
            return Refused("no call has this operation id")
        if not person(self.by):
            return Refused("a decision needs the name of who takes it", call)
        if call.state is State.REFUSED and call.decided == BY_ROLLBACK:
            return Refused(_UNDONE, call)
        if call.state is not State.AWAITING_APPROVAL or call.leave is None:
            return Refused(f"the call is {call.state}, and waits for nobody's leave{_already(call)}", call)
        if self.log_no is not None and self.log_no != call.log_no:
            return Refused("the call has changed since it was looked at", call)
        if self.give and is_by_hand(call):
            return Refused("no program makes it any more: once it is done by hand, say that it happened", call)
        if not self.give:
            return self._put(books, call, Event.REFUSE, now, leave=call.leave, decided=f"person:{self.by}")
        if now.wall >= call.leave.until:
            return Refused("nobody decided in time: it waits for its program to ask again", call)
        if runs.of_a_run_undone(books, call):
            return Refused(_UNDONE, call)
        return self._agree(books, call, call.leave, now)

    def _agree(self, books: Books, call: Call, leave: Leave, now: Moment) -> Call | Refused:
        if person(self.by) in map(person, leave.by):
            return Refused(f"{self.by} has agreed already: it takes somebody else", call)
        by = (*leave.by, self.by)
        if len(by) < leave.persons:
            return self._put(books, call, Event.NOTE, now, leave=replace(leave, by=by))
        granted = replace(leave, by=by, given=True, until=now.wall + leave.within)
        return self._put(books, call, Event.GRANT, now, leave=granted, decided=f"person:{self.by}", series=0)

    def _put(self, books: Books, call: Call, event: Event, now: Moment, **changes: object) -> Call:
        verb = "leave given" if self.give else "refused"
        detail = f"{verb} by {self.by}" + (f": {self.reason}" if self.reason else "")
        changes["reason"] = self.reason or call.reason
        changed, row = evolve(call, event, now, detail=detail, epoch=call.epoch + 1, **changes)
        books.put(changed, row)
        if event is Event.REFUSE:
            drop(books, changed, now)
        return changed


def _already(call: Call) -> str:
    leave = call.leave
    if call.state is not State.NOT_DONE or leave is None or not leave.given or leave.used:
        return ""
    return f": {' and '.join(leave.by)} gave it, and it is made when its program asks for it again"


def person(name: str) -> str:
    """Return a name as it is compared: blanks around it, and its case, make nobody somebody else."""
    return name.strip().casefold()


def waits(call: Call, now: Moment) -> bool:
    """Whether a person may decide on it now."""
    return call.state is State.AWAITING_APPROVAL and call.leave is not None and now.wall < call.leave.until


__all__ = ["Decide", "ask_for", "asked_anew", "given", "needs_none", "person", "use", "waits"]

"""What a run has sent to models, counted over all of its entries, and kept with what is recorded anyway.

Each record (the run's, and one for each lane) keeps what was sent in it, so that none waits for another: a window is
used up by their sum. What a call sends is on record with its intent, before it leaves; what models were asked, whose
calls are never on record, with the next intent or end of a call, the state, the lease, or when the entry is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from settled.core.runs.lanes import lanes_of

if TYPE_CHECKING:
    from settled.core.attempts.budget import TokenWindow
    from settled.core.books import Books
    from settled.core.model import Moment


class Sent(NamedTuple):
    """Tokens on record."""

    own: int
    """Of the record that was asked for."""
    elsewhere: int
    """Of the run's other records."""


class LookAtTokens(Struct, frozen=True):
    """Read what a run has sent; changes nothing."""

    run_id: str
    tenant: str
    record_id: str
    """The run's own id, or that of a lane of it."""

    def apply(self, books: Books, now: Moment) -> Sent:
        """Return it."""
        del now
        run = books.run(self.tenant, self.run_id)
        records = [*([run] if run else []), *lanes_of(books, self.tenant, self.run_id)]
        own = sum(record.tokens for record in records if record.run_id == self.record_id)
        return Sent(own, sum(record.tokens for record in records) - own)


class Meter:
    """One entry's window. Whoever shares it between threads holds one lock around what changes the window."""

    __slots__ = ("_elsewhere", "_intended", "_kept", "look", "shared", "window")

    def __init__(self, window: TokenWindow, look: LookAtTokens) -> None:
        self.window, self.look = window.anew(), look
        self.shared = False
        """Others may send in this run at the same time."""
        self._elsewhere = self._kept = 0
        self._intended: dict[int, int] = {}
        """What is about to be sent by first attempts whose intent is on its way to the record."""

    def resume(self, sent: Sent) -> None:
        """An entry begins: it goes on with what is on record."""
        self.window = self.window.anew()
        self.window.use(sent.own + sent.elsewhere)
        self._elsewhere, self._kept = sent.elsewhere, sent.own

    def heed(self, elsewhere: int) -> None:
        """Others have sent so much meanwhile, in all."""
        more = max(0, elsewhere - self._elsewhere)
        self.window.use(more)
        self._elsewhere += more

    def unkept(self) -> int:
        """Return what was sent here over all entries, if the record does not say so yet; else 0."""
        own = self.window.used - self._elsewhere + sum(list(self._intended.values()))
        return own if own > self._kept else 0

    def kept(self, tokens: int) -> None:
        """So much is on record."""
        self._kept = max(self._kept, tokens)

    def share(self, tokens: int) -> Share:
        """Return what one call sends."""
        return Share(self, tokens, self._intended)


class Share:
    """What each attempt of one call sends."""

    __slots__ = ("_intended", "_paid", "meter", "tokens")

    def __init__(self, meter: Meter, tokens: int, intended: dict[int, int]) -> None:
        self.meter, self.tokens = meter, tokens
        self._intended, self._paid = intended, False

    def intend(self) -> None:
        """A first attempt is about to be put on record."""
        if not self._paid:
            self._intended[id(self)] = self.tokens

    def forgo(self) -> None:
        """It is not on its way any more."""
        self._intended.pop(id(self), None)

    def begin(self) -> None:
        """A first attempt is made: it counts, whatever was left."""
        self.forgo()
        if not self._paid:  # it goes on with what was tried before, and was granted as a repeat
            self.meter.window.use(self.tokens)

    def grants(self, elsewhere: int | None) -> bool:
        """Whether a repeat stays within the window; ``elsewhere``: what others have sent, where that was looked up."""
        if elsewhere is not None:
            self.meter.heed(elsewhere)
        return self.meter.window.grants(self.tokens)

    def spend(self) -> None:
        """Count a repeat that was granted."""
        self.meter.window.use(self.tokens)
        self._paid = True

    def refund(self) -> None:
        """Uncount a repeat that was not made."""
        self.meter.window.refund(self.tokens)
        self._paid = False

"""Delivering alerts: from the outbox to every receiver, once more until each has taken them, and their end as well.

One process delivers at a time. What is no longer so is not told; what is told already is not told again; what was told
and is over is told as resolved. A receiver that is away holds up nothing but what is meant for it.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from settled import host
from settled.api.alerts import notices
from settled.api.alerts.delivering import Deliveries
from settled.core.noted import notes
from settled.core.noted.alarms import Raise, TakeDelivery, Tried, deliverer, delivers_since
from settled.core.values import replace
from settled.drivers.floor import LOG
from settled.errors import JournalError
from settled.journals.unread import UnreadableError, passing_over
from settled.ports import Notice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from settled.api.alerts.delivering import Failure
    from settled.ports import Alert, Journal, Receiver

LEASE: Final = 60.0
"""Seconds for which a process delivers before another one may, unless it goes on or is seen dead; longer than one
delivery takes."""
LONGEST: Final = 3600.0
"""Seconds between tries at the most."""
BATCH: Final = 2000
"""Rows of the outbox in one round that nobody was told of yet."""
LOOK: Final = 2.0
"""Seconds between looks whether open alarms are still so."""
LOOK_EACH: Final = 0.02
"""Seconds by which each open alarm makes them rarer."""
PRESENT: Final = 3600.0
"""Seconds between notes that receivers are told here, also while there is nothing to tell."""
GONE: Final = 86_400.0
"""Seconds after the last such note from which on functions of other processes are all that is told."""
LAST: Final = 5.0
"""Seconds that closing waits for what can still be delivered."""


class Postman:
    """Delivers the alerts of one journal to the receivers of this process, in a thread of its own.

    Args:
        journal: whose outbox it is.
        receivers: who is told.
        told: whether the sinks of this process have taken a row, which then may go.
    """

    def __init__(self, journal: Journal, receivers: Sequence[Receiver], told: Callable[[int], bool]) -> None:
        self.journal, self.receivers, self._told = journal, list(receivers), told
        self._look_next = self._present_next = 0.0
        self._rests: dict[str, float] = {}
        """Receiver -> until when it is left alone, on this process's monotonic clock."""
        self.forked()

    def forked(self) -> None:
        """In a forked child: the parent's thread is not here."""
        self._wanted, self._closed, self._at_work = threading.Event(), threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._nonce, self._delivers = token_hex(8), False
        self._deliveries = Deliveries()

    def poke(self) -> None:
        """Look soon whether there is something to deliver. From the keeper's thread; does not block."""
        if not self.receivers or self._closed.is_set():
            return
        self._wanted.set()
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="settled-alerts", daemon=True)
            thread.start()  # raises where there are no more threads: then the next one who pokes tries again
            self._thread = thread

    def close(self) -> None:
        """Deliver what can be delivered within a few seconds; the rest stays in the outbox."""
        thread = self._thread
        self._closed.set()
        self._wanted.set()
        if thread is not None:
            thread.join(LAST)
        if self._delivers and not self._at_work.locked():
            with suppress(JournalError):
                self.journal.perform(TakeDelivery(self._nonce, 0.0))

    def _work(self) -> None:
        last = False
        while not last:
            self._wanted.wait()
            self._wanted.clear()
            last = self._closed.is_set()
            try:
                self.round()
            except JournalError:
                continue  # the next round tries again
            except BaseException as error:  # noqa: BLE001 - a receiver's own, or a record of a later release
                LOG.warning("alerts could not be delivered: %s", type(error).__name__)

    # --- one round ---

    def round(self) -> None:
        """Deliver what is due now. Raises ``JournalError``."""
        with self._at_work:
            self._round()

    def _round(self) -> None:
        if time.monotonic() >= self._present_next:
            self.journal.perform(TakeDelivery(self._nonce, 0.0, host.this_process()))
            self._present_next = time.monotonic() + PRESENT
        looks = time.monotonic() >= self._look_next
        if not looks and not self.journal.alerts(1):
            return
        rows, alarms, over = self._seen(looks=looks)
        if not (rows or over) or not self._ours():
            return
        rows, alarms, over = self._seen(looks=looks)  # whoever delivered until now may have told of them
        tries = {name: notes.read(text) for name, text in self.journal.notes(notes.DELIVERY).items()}
        for row in rows:
            with _apart():
                if self._told(row.alert_id) and self._opened(row, alarms, tries, looks=looks):
                    over.pop(row.operation_id, None)
        for subject, told in over.items():
            with _apart():
                self._ended(subject, told, tries)
        if over:  # somebody is settling them: the next are not to wait as long as all of them together take to look at
            self._look_next = min(self._look_next, time.monotonic() + LOOK)

    def _seen(self, *, looks: bool) -> tuple[Sequence[Alert], dict[str, Any], dict[str, Any]]:
        """Return the rows of the outbox, the alarms that receivers know of, and those of them that are over."""
        tried = len(self.journal.notes(notes.DELIVERY))  # rows that wait for a receiver hide none of the next ones
        rows = self.journal.alerts(BATCH + tried)
        alarms = {subject: notes.read(text) for subject, text in self.journal.notes(notes.ALARM).items()}
        return rows, alarms, self._over(alarms) if looks else {}

    def _over(self, alarms: dict[str, Any]) -> dict[str, Any]:
        """Return the alarms that are no longer so; with many of them, they are looked at less often."""
        self._look_next = time.monotonic() + LOOK + LOOK_EACH * len(alarms)
        return {subject: told for subject, told in alarms.items() if not self._is_so(subject, told)}

    def _ours(self) -> bool:
        take = TakeDelivery(self._nonce, LEASE, host.this_process())
        self._delivers = self.journal.perform(take)
        if not self._delivers and (dead := self._seen_dead()):
            self._delivers = self.journal.perform(replace(take, dead=dead))
        return self._delivers

    def _seen_dead(self) -> str:
        """Return the nonce of who delivers, if its process is seen dead."""
        found = deliverer(notes.read(self.journal.notes(notes.SENDING).get("alerts")))
        return found[0] if found is not None and host.alive(found[1]) is False else ""

    def _is_so(self, subject: str, told: dict[str, Any]) -> bool:
        try:
            return notices.describe(self.journal, told["kind"], subject, told["name"], told["at"]) is not None
        except UnreadableError:
            return True  # as far as anybody knows

    def _opened(self, row: Alert, alarms: dict[str, Any], tries: dict[str, Any], *, looks: bool) -> bool:
        """Tell of a row, unless that was done; return whether all were told of it anew.

        ``looks``: see whether it is still so, also where nobody can be told now.
        """
        subject, name = row.operation_id, str(row.alert_id)
        told = alarms.get(subject)
        if told is not None and told["kind"] == row.kind and self._is_so(subject, told):
            self.journal.delivered([row.alert_id])  # they know
            return False
        due = self._due(name, tries)
        if not (due or looks) or (row.kind == "unknown" and notices.settles_soon(self.journal, row)):
            return False
        notice = notices.describe(self.journal, row.kind, subject, name, row.at)
        if notice is None:
            self._withdraw(row, tries.get(name, {}))
            return False
        if not due or not self._tell(name, notice, tries, {receiver.name for receiver in self.receivers}):
            return False
        everybody = [receiver.name for receiver in self.receivers]
        alarms[subject] = _alarm(row, notice.title, everybody, dict(notice.facts))
        self.journal.perform(Raise(subject, alarms[subject], name))
        self.journal.delivered([row.alert_id])
        return True

    def _withdraw(self, row: Alert, tried: dict[str, Any]) -> None:
        """It is over before all were told: nobody is, and who was told is told of its end in the next round."""
        if tried.get("done"):
            told = _alarm(row, tried["title"], tried["done"], {})
            self.journal.perform(Raise(row.operation_id, told, str(row.alert_id)))
            self._look_next = 0.0
        elif tried:
            self.journal.perform(Tried(str(row.alert_id), None))
        self.journal.delivered([row.alert_id])

    def _ended(self, subject: str, told: dict[str, Any], tries: dict[str, Any]) -> None:
        """Tell those who were told of an alarm that it is over."""
        name = f"{told['name']} resolved"
        notice = notices.resolved(self.journal, told, self.journal.now().wall)
        ours = {receiver.name for receiver in self.receivers}
        if self._tell(name, notice, tries, ours & set(told.get("receivers", ()))):
            self.journal.perform(Raise(subject, None, name))
        else:
            self._look_next = min(self._look_next, time.monotonic() + LOOK)

    def _due(self, name: str, tries: dict[str, Any]) -> bool:
        """Whether somebody can be told now, or all have been told."""
        so_far = tries.get(name, {})
        left = [receiver for receiver in self.receivers if receiver.name not in so_far.get("done", ())]
        return not left or any(self._may_try(receiver, so_far) for receiver in left)

    def _may_try(self, receiver: Receiver, so_far: dict[str, Any]) -> bool:
        if self._deliveries.hangs(receiver.name):
            return False
        if receiver.name in so_far.get("done", ()) or self._rests.get(receiver.name, 0.0) > time.monotonic():
            return False
        waits: float = so_far.get("failed", {}).get(receiver.name, {}).get("next", 0.0)
        left = waits - self.journal.now().wall
        return left <= 0 or left > LONGEST  # more than any pause: the clock was set back since

    def _tell(self, name: str, notice: Notice, tries: dict[str, Any], whom: set[str]) -> bool:
        """Tell those that have not taken it so far and may be tried; return whether all of them have taken it."""
        so_far = tries.get(name, {})
        done, failed, changed = list(so_far.get("done", ())), dict(so_far.get("failed", {})), False
        for receiver in self.receivers:
            if receiver.name not in whom or not self._may_try(receiver, so_far):
                continue
            if not self._ours():
                return False
            failure, changed = self._deliveries.tell(receiver, notice), True
            if failure is None:
                done.append(receiver.name)
                failed.pop(receiver.name, None)
            else:
                failed[receiver.name] = self._failed(receiver, failed.get(receiver.name, {}), failure)
        whole = whom <= set(done)
        if changed and not whole:
            tries[name] = {"done": done, "failed": failed, "title": notice.title}
            self.journal.perform(Tried(name, tries[name]))
        return whole

    def _failed(self, receiver: Receiver, before: dict[str, Any], failure: Failure) -> dict[str, Any]:
        number = before.get("attempts", 0) + 1
        pause = pause_after(number, random.random(), failure.retry_after)  # noqa: S311 - spreads the tries
        if failure.away:
            self._rests[receiver.name] = time.monotonic() + pause
        return {"attempts": number, "next": self.journal.now().wall + pause, "error": failure.why}


def others_deliver(journal: Journal) -> bool:
    """Whether receivers of other processes are to be told of the outbox, of late. Raises ``JournalError``."""
    facts = notes.read(journal.notes(notes.SENDING).get("alerts"))
    return delivers_since(facts, journal.now().wall - GONE)


@contextmanager
def _apart() -> Iterator[None]:
    """Within this, an alert that cannot be told of, since its record cannot be read, say, holds up no other."""
    with passing_over():
        try:
            yield
        except JournalError:
            raise
        except Exception as error:  # noqa: BLE001 - a record of a later release; it is tried again in the next round
            LOG.warning("an alert could not be delivered: %s", type(error).__name__)


def _alarm(row: Alert, title: str, receivers: Sequence[str], known: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "subject": row.operation_id,
        "name": str(row.alert_id),
        "at": row.at,
        "title": title,
        "receivers": list(receivers),
        "facts": known,
    }


def pause_after(number: int, draw: float, wished: float | None = None) -> float:
    """Return the seconds to the next try after ``number`` of them: twice as long each time, half of it by chance."""
    longest = min(LONGEST, 2.0 ** min(number, 12))
    return max(longest * (0.5 + draw / 2), min(wished or 0.0, LONGEST))


def probe_notice(journal: Journal, at: float) -> Notice:
    """Return a notice that only shows whether a receiver takes one."""
    identity = notices.notice_id(journal.journal_id, f"test {token_hex(8)}")
    title, text = "settled: this is a test", "No call is behind it. It was sent by `settled alerts test`."
    return Notice(identity, "test", "test", title, text, "info", at, journal.journal_id)


__all__ = ["Postman", "others_deliver", "pause_after", "probe_notice"]

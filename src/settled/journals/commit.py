"""Group commit: those who come while a commit is under way share the next one.

Whoever finds nobody at work leads: it commits for all who wait, tells them, and hands the lead on. So a caller alone
pays for no other thread, and many callers pay for one commit together. Callers on an event loop are served by whoever
leads; where nobody does, by one thread of the journal's own.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from settled.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from settled.core.books import Transition

R = TypeVar("R")
LONGEST_ALONE: Final = 60.0
"""Seconds that a caller waits for a tool that is at work in the journal's transaction: it may be waiting for him. On an
event loop up to twice as long."""
MOST_TOGETHER: Final = 256
"""Transitions in one commit at most, so that none waits for many others' work."""


class Member(Struct, eq=False):
    """One transition on its way, and whoever waits for it."""

    transition: Transition[Any]
    future: asyncio.Future[Any] | None = None
    reply: Any = None
    error: BaseException | None = None
    done: bool = False
    leads: bool = False
    handed_on: bool = False
    wake: threading.Lock | None = None

    def fail(self, error: BaseException) -> None:
        """Let it end with an error instead of a reply."""
        self.reply, self.error = None, error

    def outcome(self) -> Any:
        """Return the reply, or raise the error."""
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # else error and traceback hold each other
        return self.reply


class GroupCommit:
    """A queue of transitions and the lead, which one thread holds at a time.

    ``run`` performs a batch in one transaction and gives every member its reply or its error.
    """

    def __init__(self, run: Callable[[Sequence[Member]], None], closed: Callable[[], JournalError]) -> None:
        self._run = run
        self._closed_error = closed
        self.start_anew(closed=False)

    def start_anew(self, *, closed: bool) -> None:
        """Begin with an empty queue and nobody leading: at first, and in a forked child."""
        self._mutex = threading.Lock()
        self._queue: deque[Member] = deque()
        self._led = False
        self._closed = closed
        self._batons: deque[threading.Lock] = deque()
        self._calls: SimpleQueue[None] = SimpleQueue()  # a semaphore of threading's is many steps of Python
        self._thread: threading.Thread | None = None
        self._leader: int | None = None
        self._alone = False
        """Somebody does work of their own while they lead."""
        self._watched: set[asyncio.AbstractEventLoop] = set()
        """The loops where a timer sees to those who wait."""

    # --- callers ---

    def perform(self, transition: Transition[Any]) -> Any:
        """Have it committed, leading if nobody does; return its reply."""
        member = Member(transition)
        try:
            if self._enter(member):
                self._lead(member, [member])
            elif self._wait(member):
                self._lead(member)
        except BaseException:  # a signal may come at any point: a lead that was taken is never left behind
            if member.leads:
                self._hand_on(member)
            raise
        return member.outcome()

    async def aperform(self, transition: Transition[Any]) -> Any:
        """Have it committed by whoever leads. It is committed also if the caller is cancelled while it waits."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        member = Member(transition, future)
        if self._enter(member):
            self._call_thread()
        if loop not in self._watched:
            self._watch(loop)
        return await future

    def _enter(self, member: Member) -> bool:
        """Queue up; return whether the lead falls to the caller."""
        if self._leader is not None and self._leader == threading.get_ident():
            raise JournalError(
                "a tool at work in the journal's transaction asks for another one, which would wait for itself: make "
                "guarded calls, enter runs and give leave before it or after it"
            )
        with self._mutex:
            if self._closed:
                raise self._closed_error()
            if not self._led:  # then nobody waits
                self._led = member.leads = True
                if member.future is not None:
                    self._queue.append(member)  # for the thread that serves it
                return True
            self._queue.append(member)
            if member.future is None:
                member.wake = threading.Lock()
                member.wake.acquire()
            return False

    def _wait(self, member: Member) -> bool:
        """Wait until told; return whether that was to take the lead."""
        assert member.wake is not None  # noqa: S101 - tells the type checker what _enter did
        try:
            while not member.wake.acquire(timeout=LONGEST_ALONE):
                if self._alone and self._leave(member):
                    return _tired_of_waiting(member)
        except BaseException:  # a signal: nobody will wait here any more
            self._leave(member)
            raise
        return not member.done

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """See that none who waits on a loop does so forever: by one timer for all of them."""
        self._watched = {each for each in self._watched if not each.is_closed()} | {loop}
        loop.call_later(LONGEST_ALONE, self._look, loop, ())

    def _look(self, loop: asyncio.AbstractEventLoop, before: Sequence[Member]) -> None:
        """On the loop: see who waits there, and who of them waited at the last look."""
        with self._mutex:
            waiting = [each for each in self._queue if each.future is not None and each.future.get_loop() is loop]
        for member in before if self._alone else ():
            if member in waiting and not member.leads and self._leave(member):
                _tired_of_waiting(member)
                _resolve([member])
        if waiting:
            loop.call_later(LONGEST_ALONE, self._look, loop, waiting)
        else:
            self._watched.discard(loop)

    def _leave(self, member: Member) -> bool:
        """Take it out of the queue; return whether it was there still: then nobody performs it."""
        with self._mutex, suppress(ValueError):
            self._queue.remove(member)
            return True
        return False

    # --- the leader ---

    def _lead(self, own: Member, batch: Sequence[Member] = ()) -> None:
        """Serve all who wait until ``own`` is done; at first ``batch``, where it is given."""
        try:
            while not own.done:
                self._serve(batch or self._waiting())
                batch = ()
        finally:
            self._hand_on(own)

    def _waiting(self) -> Sequence[Member]:
        """Take from the queue those who are served next."""
        with self._mutex:
            queue = self._queue
            if len(queue) > MOST_TOGETHER:
                return [queue.popleft() for _ in range(MOST_TOGETHER)]
            batch = list(queue)
            queue.clear()
            return batch

    def _serve(self, batch: Sequence[Member]) -> None:
        self._leader = threading.get_ident()
        try:
            self._run(batch)
        except BaseException as interruption:
            for member in batch:
                error = JournalError("performing was interrupted, perhaps before the commit: perform again")
                error.__cause__ = interruption
                member.fail(error)
            raise
        finally:
            self._leader = None
            _tell(batch)

    def _hand_on(self, own: Member | None = None) -> None:
        """Give the lead to who waits for it first; what ``own`` had it gives once."""
        with self._mutex:
            if own is not None:
                if own.handed_on:
                    return
                own.handed_on = True
            if self._batons:
                self._batons.popleft().release()
                return
            if not self._queue:
                self._led = False
                return
            first = self._queue[0]
            first.leads = True
            if first.wake is not None:
                first.wake.release()
                return
        self._call_thread()

    def _call_thread(self) -> None:
        """Let the journal's own thread serve those who wait; where none can be started, whoever is here does."""
        try:
            self._start_thread()
        except RuntimeError:  # the system has no more threads, or the interpreter is ending
            self._serve_waiting()
        else:
            self._calls.put(None)

    def _start_thread(self) -> None:
        with self._mutex:
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._work, name="settled-journal", daemon=True)
                thread.start()
                self._thread = thread

    def _work(self) -> None:
        while True:
            self._calls.get()
            if self._closed and not self._queue:
                return
            self._serve_waiting()

    def _serve_waiting(self) -> None:
        with suppress(BaseException):  # every member was told; what ends a thread is not to end those who come next
            self._serve(self._waiting())
        self._hand_on()

    # --- alone ---

    def alone(self, work: Callable[[], R], seconds: float) -> R:
        """Do work in the calling thread while nobody leads. Raises what it raises.

        Raises:
            JournalError: The lead was not to be had within ``seconds``.
        """
        if self._closed:
            raise self._closed_error()
        if not self.hold(seconds):
            raise JournalError("the journal is busy: its transactions took too long; nothing was executed: try again")
        self._leader, self._alone = threading.get_ident(), True
        try:
            return work()
        finally:
            self._leader, self._alone = None, False
            self.let_go()

    # --- holding still ---

    def hold(self, seconds: float) -> bool:
        """Take the lead without any work, waiting up to ``seconds``; return whether that succeeded."""
        if self._leader == threading.get_ident():
            return False  # a signal handler, inside of the leader's own work
        with self._mutex:
            if not self._led:
                self._led = True
                return True
            baton = threading.Lock()
            baton.acquire()
            self._batons.append(baton)
        if baton.acquire(timeout=seconds):
            return True
        with self._mutex, suppress(ValueError):
            self._batons.remove(baton)
            return False
        return True  # it came between the two

    def let_go(self) -> None:
        """Give the lead back."""
        self._hand_on()

    def close(self, seconds: float) -> bool:
        """Take no more work, finish what is queued, and stop the thread; return whether all of it ended in time."""
        with self._mutex:
            self._closed = True
        if not self.hold(seconds):
            return False
        while self._queue:
            with suppress(Exception):  # every member was told
                self._serve(self._waiting())
        thread, self._thread = self._thread, None
        self._calls.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)
        return True


def _tired_of_waiting(member: Member) -> bool:
    """Let it end; return whether it was given the lead at the last moment, to hand on."""
    member.done = True
    member.fail(
        JournalError(
            f"a tool has been at work in the journal's transaction for {LONGEST_ALONE:.0f} s; nothing was put on "
            "record. If it waits for a guarded call of another thread, that waits for it: make such calls before "
            "it or after it"
        )
    )
    return member.leads


def _tell(batch: Sequence[Member]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[Member]] = {}
    for member in batch:
        member.done = True
        if member.wake is not None:
            member.wake.release()
        elif member.future is not None:
            loops.setdefault(member.future.get_loop(), []).append(member)
    for loop, members in loops.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits there
            loop.call_soon_threadsafe(_resolve, members)


def _resolve(members: Sequence[Member]) -> None:
    for member in members:
        future = member.future
        if future is None or future.done():
            continue
        if member.error is not None:
            future.set_exception(member.error)
        else:
            future.set_result(member.reply)

"""A driver for tests that answers a machine's commands from lists, and lives for it to drive."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from settled.core.attempts.backoff import Backoff
from settled.core.attempts.joint import Look, Made
from settled.core.attempts.outcome import read
from settled.core.commands import (
    Admit,
    Admitted,
    AwaitCall,
    CheckOwners,
    Command,
    Ended,
    Event,
    Invoke,
    Join,
    Joined,
    Owners,
    Probe,
    Probed,
    Raised,
    Refused,
    Repeat,
    Reply,
    Returned,
    Shut,
    Sleep,
    Transact,
    Woke,
)
from settled.core.encoding import codec
from settled.core.machine import Life
from settled.core.model import Terms
from settled.core.policy import Limits, Policy
from settled.core.runs.entering import EnterRun
from settled.core.values import replace
from settled.errors import JournalError, NotExecuted, PartlyDone
from tests.core.build import ask, at, journal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from settled.core.answer import Answer
    from settled.core.ask import Ask
    from settled.core.commands import Flow
    from settled.core.model import Owner
    from settled.journals.memory import MemoryJournal

LOST = ConnectionResetError("reset")
REFUSED = NotExecuted("no")
BUSY = NotExecuted("busy", retryable=True)
RUN = "run:0::r"
ENDLESS = 1000
"""Commands: no story told here needs so many."""
SAID_NO = Probed(happened=False, began=at(0), ended=at(0), at=0.0)
SAID_YES = Probed(happened=True, began=at(0), ended=at(0), at=0.0, data=codec.dumps("found"))
SAID_NOTHING = Probed(happened=None, began=at(0), ended=at(0), at=0.0)


@dataclass
class Script:
    """A driver that answers from lists: what the tool does, what the probe says, what breakers and pools say."""

    journal: MemoryJournal
    outcomes: Sequence[Any] = ()
    probes: Sequence[Probed] = ()
    shut: dict[int, Shut] = field(default_factory=dict)
    refusals: dict[int, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    alive: bool | None = True
    over: bool = True
    abandon_at: str = ""
    took: float = 0.0
    slow: dict[str, float] = field(default_factory=dict)
    """Seconds that transitions of one kind take."""
    lives: dict[Owner, bool | None] = field(default_factory=dict)
    """Which owners live; of the others ``alive`` is said."""
    local: bool = False
    """Calls that are waited for are at work in this process."""
    meddle: Callable[[Script, str], object] | None = None
    """What others do just before a command is performed."""
    now: float = 0.0
    life: Any = None
    """Of the asker at work."""
    sent: list[Command] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def drive(self, life: Life) -> Answer:
        """Run the life to its answer."""
        self.life = life
        return self.to_its_end(life.run())

    def to_its_end(self, flow: Flow[Answer]) -> Answer:
        """Perform what a flow commands until it answers."""
        try:
            command = next(flow)
            while True:
                try:
                    event = self.perform(command)
                except JournalError as error:
                    command = flow.throw(error)
                else:
                    command = flow.send(event)
        except StopIteration as stop:
            answer: Answer = stop.value
            return answer

    def perform(self, command: Command) -> Event:
        """Answer one command."""
        self.sent.append(command)
        assert len(self.sent) < ENDLESS, "the machine goes on for ever"
        name = type(command).__name__
        nth = self.counts[name] = self.counts.get(name, 0) + 1
        if self.meddle:
            self.meddle(self, self.names()[-1])
        match command:
            case Transact(transition):
                kind = type(transition).__name__
                if kind in self.broken:
                    raise JournalError(kind)
                self.now += self.slow.get(kind, self.took)
                return Reply(self.journal.perform(transition), self.now)
            case Admit():
                return self._admit()
            case Repeat():
                return self._repeat(command, nth)
            case Invoke():
                if self.life.share is not None and command.first:
                    self.life.share.begin()
                return self._unrecorded(command, nth) if command.call is None else self._invoke(nth)
            case Join():
                return self._join(command, nth)
            case Probe():
                probed = self.probes[min(nth, len(self.probes)) - 1]
                moment = self.journal.now()
                return replace(probed, began=moment, ended=moment, at=self.now)
            case CheckOwners(owners):
                return Owners(tuple(self.lives.get(o, self.alive) for o in owners), self.journal.now(), self.now)
            case Sleep(seconds) | AwaitCall(_, seconds):
                self._pass(seconds)
                return Woke(self.now, local=self.local, abandoned=self.abandon_at == name)
            case _:
                return Woke(self.now)

    def _join(self, command: Join, nth: int) -> Joined:
        reply = self.journal.perform(Look(command.first))
        if reply is not None:
            return Joined(reply, None, self.now)
        ended, made = self._invoke(nth), None
        if isinstance(ended.outcome, Returned):
            made = Made(command.first, ended.outcome.data, checkpoint=command.checkpoint)
        return Joined(made and self.journal.perform(made), ended, self.now)

    def _unrecorded(self, command: Invoke, nth: int) -> Ended | Shut:
        shut = self._admit() if command.first else None
        if isinstance(shut, Shut):
            return shut
        ended = self._invoke(nth)
        return replace(ended, fault=read(ended, self.life.policy, str, attempt=command.no, doubtful=False))

    def _admit(self) -> Admitted | Shut:
        nth = self.counts["admission"] = self.counts.get("admission", 0) + 1
        return self.shut.get(nth) or Admitted(self.now)

    def _repeat(self, command: Repeat, nth: int) -> Event:
        if nth in self.refusals:
            return Refused(self.refusals[nth], self.now)
        if self.life.share is not None:
            self.life.share.spend()
        self._pass(command.seconds)
        return Woke(self.now, abandoned=True) if self.abandon_at == "Repeat" else self._admit()

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        clock: Any = self.journal._clock
        clock.moment = clock.moment.plus(seconds)

    def _invoke(self, nth: int) -> Ended:
        outcome = self.outcomes[min(nth, len(self.outcomes)) - 1]
        made = (
            Raised(outcome, data=b"part" if isinstance(outcome, PartlyDone) else None)
            if isinstance(outcome, BaseException)
            else Returned(outcome, codec.dumps(outcome))
        )
        return Ended(made, self.over, 0.5, self.now, abandoned=self.abandon_at == "Invoke")

    def names(self) -> list[str]:
        """The commands that went out, in order."""
        return [type(c.transition).__name__ if isinstance(c, Transact) else type(c).__name__ for c in self.sent]


def sent(script: Script, kind: type) -> list[Any]:
    """The commands, or the transitions, of one kind that went out."""
    made = [c.transition if isinstance(c, Transact) else c for c in script.sent]
    return [each for each in made if isinstance(each, kind)]


def told(answer: Answer) -> tuple[str, str]:
    return answer.status, answer.reason


def policy(**changes: Any) -> Policy:
    terms = {k: changes.pop(k) for k in ("effect", "lifetime", "remote_retention") if k in changes}
    return Policy(terms=replace(Terms(), **terms), **{"backoff": Backoff(base=1.0, throttled_base=2.0), **changes})


def life(policy: Policy, *, record: bool = True, limits: Limits | None = None, **changes: Any) -> Life:
    asked: Ask | None = ask(terms={}, key="new", lease=30.0, **changes) if record else None
    asked = replace(asked, terms=policy.terms) if asked else None
    return Life(asked, policy, limits or Limits(wait=5.0), 0.0)


def entered() -> MemoryJournal:
    """A journal in which the run ``r`` has been entered once."""
    store = journal()
    store.perform(EnterRun("r", ""))
    return store


def in_run(policies: dict[str, Any] | None = None, **changes: Any) -> Life:
    """An asker in that entry."""
    return life(policy(**(policies or {})), run_id="r", run_entry=1, scope=RUN, **changes)


def drive(script: Script, made: Life) -> Answer:
    return script.drive(made)

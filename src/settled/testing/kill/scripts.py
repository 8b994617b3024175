"""What a process does: scripts that yield calls and are sent their results, for plain code and asyncio alike."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from settled.errors import DeclarationError, RunError
from settled.journals.prune import prune
from settled.journals.sqlite import SqliteJournal
from settled.testing.kill import batches, drafts, fallbacks, joins, rewinds, sagas
from settled.testing.kill.forks import forking
from settled.testing.kill.ledger import append
from settled.testing.kill.script import Script, asked
from settled.testing.kill.service import MOST_PATIENCE, Action

if TYPE_CHECKING:
    from collections.abc import Callable

    import settled
    from settled.testing.kill.script import Flow
    from settled.testing.kill.stage import Stage


def one_by_one(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask for each action; once more where the answer was what else the model has done."""
    for action in actions:
        yield from asked(stage, action)


def side_by_side(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask for all actions at once."""
    results: list[Any] = yield [stage.bind(action) for action in actions]
    for action, result in zip(actions, results, strict=True):
        stage.tell(action, result)


def with_verdicts(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask; where the outcome is unknown, let a person look into the other side's books and say; ask again."""
    for action in actions:
        result = yield stage.bind(action)
        stage.tell(action, result)
        if result.status == "unknown":
            _say(stage, action, result)
            stage.tell(action, (yield stage.bind(action)))


def _say(stage: Stage, action: Action, result: settled.Result[Any]) -> None:
    effects, op = stage.ledger.of(action.order), result.operation_id
    with suppress(DeclarationError):  # another process was faster
        stage.guard.resolve(op, "hold", by="Ada", reason="looking into it")
        if effects:
            stage.guard.resolve(op, "happened", result=effects[0].value, by="Ada", reason="seen in the books")
        else:
            stage.guard.resolve(op, "did_not_happen", then="rerun", by="Ada", reason="not in the books", force=True)


def with_care(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask; then seal the log, hand out the alerts, expire what is due, and compact the file."""
    yield from one_by_one(stage, actions)
    journal = stage.journal
    journal.seal()
    alerts = journal.alerts()
    append(stage.plan.home / "alerted", "\n".join(alert.operation_id for alert in alerts))
    journal.delivered([alert.alert_id for alert in alerts])
    prune(journal, limit=1)
    prune(journal)
    journal.seal()
    stage.fuse.cross("before compacting")
    if isinstance(journal, SqliteJournal):
        journal.compact()
    stage.fuse.cross("after compacting")


def with_a_late_answer(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask for what outlives its time-out, and wait until its late answer is on record."""
    for action in actions:
        result = yield stage.bind(action)
        stage.tell(action, result)
        (stage.plan.home / "go-on").touch()
        end = time.monotonic() + MOST_PATIENCE
        while _status(stage, result) != "succeeded" and time.monotonic() < end:
            time.sleep(0.005)
        stage.tell(action, (yield stage.bind(action)))


def _status(stage: Stage, result: settled.Result[Any]) -> str:
    found = stage.guard.look(result.operation_id)
    return found.status if found else ""


def at_a_signal(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask once all who race are ready."""
    stage.fuse.cross("ready")
    end = time.monotonic() + MOST_PATIENCE
    while not (stage.plan.home / "go").exists() and time.monotonic() < end:
        time.sleep(0.001)
    yield from one_by_one(stage, actions)


def with_a_jumping_clock(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask while the wall clock of this process jumps by ten minutes, now forward, now back, at each look."""
    honest, jumps = time.time, itertools.cycle((600.0, -600.0, 0.0))
    time.time = lambda: honest() + next(jumps)
    try:
        yield from one_by_one(stage, actions)
    finally:
        time.time = honest


def settling(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Settle what an earlier process left; ask for nothing."""
    del actions
    if stage.plan.is_async:
        asyncio.run(stage.guard.areconcile())
    else:
        stage.guard.reconcile()
    yield from ()


def _saga(actions: tuple[Action, ...], flow: Callable[..., Flow], **more: Any) -> Script:
    return Script(actions, flow, in_run=True, saga=True, declare=sagas.declare, end=sagas.end, **more)


TRIP = (Action("hire", "guide"), Action("rent", "tent"), Action("hire", "cook"), Action("rent", "boat"))
DOUBTFUL_TRIP = (
    *(Action("rent", sagas.LEFT_IN_DOUBT), Action("hire", "guide", "lost")),
    *(Action("rent", "boat", "lost"), Action("hire", "porter")),
)
PAIR = (Action("hire", "guide"), Action("rent", "raft"), Action("hire", "porter", "lost"), Action("rent", "boat"))
PAIR_GUEST = (Action("rent", "tent"), Action("hire", "cook"), Action("rent", "mule"))
AGENT = (
    Action("look", "timetable"),
    Action("send", "letter"),
    Action("put", "address"),
    Action("send", "parcel", "busy"),
)
DOUBT = (Action("book", "table", "dropped"), Action("charge", "card", "lost"))
CRASHED = (
    Action("send", "sent", "held"),
    Action("send", "unsent", "stuck"),
    Action("book", "booked", "held"),
    Action("book", "unbooked", "stuck"),
    Action("charge", "charged", "held"),
)
SCRIPTS = {
    "agent": Script(AGENT, one_by_one, in_run=True),
    "doubt": Script(DOUBT, one_by_one, in_run=True),
    "desk": Script((Action("send", "invoice"), Action("book", "seat", "lost")), one_by_one),
    "fan": Script((Action("send", "one"), Action("send", "two"), Action("book", "three")), side_by_side, in_run=True),
    "person": Script((Action("send", "seen", "lost"), Action("send", "unseen", "dropped")), with_verdicts),
    "care": Script((Action("note", "first"), Action("note", "second"), Action("send", "kept", "lost")), with_care),
    "late": Script((Action("crawl", "site", "held"),), with_a_late_answer),
    "slow": Script((Action("send", "freight", "held"),), one_by_one),
    "tardy": Script((Action("send", "freight", "stuck"),), one_by_one),
    "booker": Script((Action("book", "berth", "stuck"),), one_by_one),
    "jumpy": Script((Action("send", "freight", "held"),), with_a_jumping_clock),
    "race": Script((Action("send", "prize", "held"),), at_a_signal),
    "forks": Script((Action("send", "before"), Action("look", "shared look")), forking),
    "asleep": Script((Action("send", "later", "away"),), one_by_one),
    "crash": Script(CRASHED, side_by_side, in_run=True),
    "settle": Script(CRASHED, settling, in_run=True, outside=True),
    "saga": _saga(TRIP, sagas.failing),
    "doubtful saga": _saga(DOUBTFUL_TRIP, sagas.failing),
    "host": _saga((TRIP[0], TRIP[3]), joins.hosting),
    "guest": _saga(TRIP[1:3], joins.visiting, guest=True),
    "stuck guest": _saga((Action("rent", "tent", "stuck"), TRIP[2]), joins.visiting, guest=True),
    "pair": _saga(PAIR, joins.hosting),
    "pair guest": _saga(PAIR_GUEST, joins.visiting, guest=True),
    "undoing": _saga(TRIP, sagas.undoing, outside=True, again="saga"),
    **batches.SCRIPTS,
    **drafts.SCRIPTS,
    **fallbacks.SCRIPTS,
    **rewinds.SCRIPTS,
}


def play(stage: Stage, script: Script) -> None:
    """Play a script with the driver that the plan names, and then those that follow it."""
    _play_one(stage, script)
    for name in script.then:
        _play_one(stage, SCRIPTS[name])
    stage.plan.over.touch()


def _play_one(stage: Stage, script: Script) -> None:
    flow = script.flow(stage, script.actions)
    if script.outside:
        list(flow)
    elif script.saga:
        _play_saga(stage, flow)
    elif stage.plan.is_async:
        asyncio.run(_aplay(stage, flow))
    else:
        _play(stage, flow)


def _play_saga(stage: Stage, flow: Flow) -> None:
    try:
        if stage.plan.is_async:
            asyncio.run(_aplay(stage, flow))
        else:
            _play(stage, flow)
    except (sagas.GivenUp, RunError) as error:
        sagas.note_the_end(stage, error)


def _play(stage: Stage, flow: Flow) -> None:
    with stage.run() as run:
        reply = None
        while True:
            try:
                asked = flow.send(reply)
            except StopIteration:
                return
            reply = run.gather(*asked) if isinstance(asked, list) else asked.call()


async def _aplay(stage: Stage, flow: Flow) -> None:
    async with stage.run() as run:
        reply = None
        while True:
            try:
                asked = flow.send(reply)
            except StopIteration:
                return
            reply = await (run.gather(*asked) if isinstance(asked, list) else asked.acall())

"""A rollback in which a tool's own functions raise what ends programs, or anything else: the other steps are undone."""

import asyncio
import re
import shlex
import sys
from collections.abc import Mapping

import pytest

import settled
from settled.api.people.queue import waiting
from settled.api.runs import carrying_on
from settled.cli.app import app
from settled.core.runs.saga import EndRollback, StartRollback


class Failed(Exception):
    """Of the program."""


class Stop(BaseException):
    """No ``Exception``: as of a library that ends tasks with its own (gevent's time-out, say)."""


class Torn(Mapping):
    """Says that it has the argument, and does not give it."""

    def __getitem__(self, name):
        raise KeyError(name)

    def __iter__(self):
        return iter(["booking"])

    def __len__(self):
        return 1


def raising(error):
    def function(*_, **__):
        raise error

    return function


WHERE = {
    "undo": lambda error: ({"undo": raising(error)}, {}, None),
    "tool": lambda error: ({}, {}, error),
    "approve": lambda error: ({}, {"approve": raising(error)}, None),
    "classify": lambda error: ({}, {"classify": raising(error)}, None),
    "probe": lambda error: ({}, {"probe": raising(error), "max_request_lifetime": 0.01}, TimeoutError("lost")),
}
ERRORS = [Stop(), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), StopIteration()]


def declared(guard, cancelled, book, cancel, error):
    @guard.tool(effect="write", name="odd_cancel", **cancel)
    def odd_cancel(booking: str) -> str:
        if error is not None:
            raise error
        return booking

    def cancels(booking: str) -> None:
        cancelled.append(booking)

    undo = {"undo": lambda call, result: {"booking": result}}
    guard.tool(effect="write", name="odd", compensate="odd_cancel", **(undo | book))(lambda what: what)
    guard.tool(effect="write", name="plain", compensate="plain_cancel", **undo)(lambda what: what)
    guard.tool(effect="write", name="plain_cancel")(cancels)
    return guard


@pytest.fixture(params=["memory", "sqlite"])
def guard(request, tmp_path):
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/agent.db"
    with settled.Guard(url) as guard:
        yield guard


STEPS = (("plain", "flight"), ("odd", "hotel"), ("plain", "car"))


def leave(guard):
    """Return what leaves a run that fails after three steps, of which the middle one is odd to undo."""
    with pytest.raises(BaseException) as left, guard.run("trip", on_error="compensate", undo_within=0.0):  # noqa: PT011
        for tool, what in STEPS:
            guard.tools[tool](what)
        raise Failed
    return left.value


async def aleave(guard):
    with pytest.raises(BaseException) as left:  # noqa: PT011 - which one is what is tested
        async with guard.run("trip", on_error="compensate", undo_within=0.0):
            for tool, what in STEPS:
                await guard.tools[tool].acall(what)
            raise Failed
    return left.value


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_what_a_tools_own_function_raises_ends_its_step_and_no_other(guard, where, error):
    cancelled = []
    declared(guard, cancelled, *WHERE[where](error))
    left = leave(guard)
    ends_programs = isinstance(error, Stop | KeyboardInterrupt) or (isinstance(error, SystemExit) and where != "probe")
    assert type(left) is (type(error) if ends_programs else Failed)
    assert cancelled == ["car", "flight"]
    assert guard.journal.run("", "trip").state == "partly_compensated"
    assert len(waiting(guard.journal)) == 1


@pytest.mark.parametrize("where", ["undo", "approve", "probe"])
@pytest.mark.parametrize("error", [Stop(), GeneratorExit(), asyncio.CancelledError()], ids=lambda e: type(e).__name__)
async def test_so_it_is_in_async_code(guard, where, error):
    cancelled = []
    declared(guard, cancelled, *WHERE[where](error))
    assert type(await aleave(guard)) is (Stop if isinstance(error, Stop) else Failed)
    assert cancelled == ["car", "flight"]
    assert guard.journal.run("", "trip").state == "partly_compensated"


def test_what_could_not_be_made_is_told_and_made_once_it_can(guard):
    cancelled, torn = [], [True]
    declared(guard, cancelled, {"undo": lambda call, result: Torn() if torn else {"booking": result}}, {}, None)
    left = leave(guard)
    assert type(left) is Failed
    assert "could not be made so far, and may be tried again (KeyError)" in left.__notes__[0]
    torn.clear()
    assert carrying_on.carry_on(guard) == carrying_on.CarriedOn(compensated=1)
    assert waiting(guard.journal) == []


def test_one_run_that_cannot_be_undone_keeps_no_other_from_it(guard):
    stops = [raising(Stop())]
    undo = {"undo": lambda call, result: stops[0]() if stops else {"booking": result}}
    declared(guard, [], undo, {}, None)
    for name in ("first", "second"):
        with pytest.raises(Stop), guard.run(name, on_error="compensate", undo_within=0.0):
            guard.tools["odd"](name)
            raise Failed
    stops.clear()
    assert carrying_on.carry_on(guard) == carrying_on.CarriedOn(compensated=2)


def test_an_interruption_in_a_compensation_is_raised_once_the_rest_is_undone(guard):
    cancelled = []
    declared(guard, cancelled, *WHERE["tool"](KeyboardInterrupt()))
    with guard.run("trip") as run:
        guard.tools["plain"]("flight")
        guard.tools["odd"]("hotel")
        with pytest.raises(KeyboardInterrupt):
            run.compensate("no car")
        assert run.status == "partly_compensated"
    [doubt] = waiting(guard.journal)
    assert (doubt.tool, doubt.state, cancelled) == ("odd_cancel", "unknown", ["flight"])
    guard.resolve(doubt.operation_id, "happened", by="ann", reason="seen")
    assert guard.journal.run("", "trip").state == "compensated"


class Speechless(Exception):
    """Cannot say what it is."""

    def __str__(self):
        raise RuntimeError("no words")


class OfAnotherType(Exception):
    def __str__(self):
        return 5  # noqa: PLE0307 - that is what is wrong with it


@pytest.mark.parametrize("on_error", ["compensate", "keep"])
@pytest.mark.parametrize("error", [Speechless, OfAnotherType])
def test_an_error_that_cannot_say_what_it_is_ends_its_run_as_any_other(guard, error, on_error):
    cancelled = []
    declared(guard, cancelled, {}, {}, None)
    with pytest.raises(error), guard.run("trip", on_error=on_error):
        guard.tools["plain"]("flight")
        raise error
    run = guard.journal.run("", "trip")
    assert (run.state, run.reason) == ("compensated" if on_error == "compensate" else "kept", error.__name__)
    assert cancelled == (["flight"] if on_error == "compensate" else [])


@pytest.mark.parametrize("which", [StartRollback, EndRollback])
def test_a_journal_that_is_away_when_a_run_fails_leaves_it_to_the_command_that_the_error_names(
    monkeypatch, capsys, tmp_path, which
):
    guard = settled.Guard(f"sqlite:///{tmp_path}/agent.db", lease=1.0)
    perform = guard.journal.perform
    declared(guard, [], {}, {}, None)

    def away(transition):
        if isinstance(transition, which):
            raise settled.JournalError("away")
        return perform(transition)

    with monkeypatch.context() as patched, pytest.raises(Failed) as raised:
        patched.setattr(guard.journal, "perform", away)
        with guard.run("trip 42", on_error="compensate"):
            guard.tools["plain"]("flight")
            raise Failed
    [note] = raised.value.__notes__
    command = shlex.split(re.search("`settled (.+)`", note)[1])
    (tmp_path / "desk.py").write_text(DESK.format(url=guard.journal.url))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "desk", raising=False)
    guard.close()
    with pytest.raises(SystemExit) as left:
        app([*command, "--yes", "--journal", guard.journal.url, "--app", "desk:guard"])
    assert left.value.code in (0, None)
    assert "trip 42 is compensated" in capsys.readouterr().out


DESK = """
import settled

guard = settled.Guard({url!r})
undo = {{"undo": lambda call, result: {{"booking": result}}}}


@guard.tool(effect="write")
def plain_cancel(booking: str) -> None: ...


@guard.tool(effect="write", compensate=plain_cancel, **undo)
def plain(what: str) -> str: ...
"""

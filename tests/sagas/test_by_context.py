"""A tool finds its run by context: in tasks, in ``asyncio.to_thread``, and in threads that are given the context."""

import asyncio
import contextlib
import contextvars
import threading

import pytest

import settled
from settled.ports import CallQuery


def scopes(guard):
    return [call.scope for call in guard.journal.find(CallQuery(tool="note", limit=100))]


async def test_a_task_and_a_thread_of_the_loop_are_in_the_run(desk):
    guard = desk.open()
    note = guard.tools["note"]
    async with guard.run("trip"):
        await asyncio.to_thread(note, "in a thread of the loop")
        await asyncio.create_task(note.bind("in a task").acall())
        async with asyncio.TaskGroup() as group:
            group.create_task(note.bind("in a group").acall())
            group.create_task(asyncio.to_thread(note, "in a group's thread"))
    assert scopes(guard) == ["run:0::trip"] * 4


async def test_two_runs_side_by_side_keep_apart(desk):
    guard = desk.open()

    async def work(name):
        async with guard.run(name):
            await asyncio.sleep(0)
            await asyncio.to_thread(guard.tools["note"], name)

    await asyncio.gather(*(work(f"trip {number}") for number in range(4)))
    made = guard.journal.find(CallQuery(tool="note", limit=100))
    assert sorted(call.scope for call in made) == [f"run:0::trip {number}" for number in range(4)]


def test_a_thread_is_in_the_run_if_it_is_given_its_context(desk):
    guard = desk.open()
    with guard.run("trip"):
        given = contextvars.copy_context()
        threads = [
            threading.Thread(target=given.run, args=(guard.tools["note"], "given")),
            threading.Thread(target=guard.tools["note"], args=("not given",)),
        ]
        for thread in threads:
            thread.start()
            thread.join(30)
    assert sorted(scopes(guard)) == ["", "run:0::trip"]


def test_runs_that_are_left_in_another_order_than_they_were_entered_keep_their_calls(desk):
    """As by two generators, or an ``ExitStack``: the one that is left does not take the other away, nor comes back."""
    guard = desk.open()
    note, one, other = guard.tools["note"], guard.run("one"), guard.run("other")
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(one)
        second.enter_context(other)
        first.close()
        note("in the other")
    note("in none")
    assert sorted(scopes(guard)) == ["", "run:0::other"]
    with pytest.raises(settled.DeclarationError, match="is not entered"):
        one.gather(note.bind("x"))


def test_a_run_inside_of_two_that_are_left_gives_back_the_one_around_them(desk):
    guard = desk.open()
    note, names = guard.tools["note"], ("inner", "innermost")
    with guard.run("outer"):
        runs = [guard.run(name) for name in names]
        for run in runs:
            run.__enter__()
        for run in runs:
            run.__exit__(None, None, None)
        note("after")
    assert scopes(guard) == ["run:0::outer"]

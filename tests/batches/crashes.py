"""Kills programs at every boundary there is: ``python -m tests.batches.crashes batch FOLDER``; a line of JSON for each.

A boundary lies before each transition of the journal, and before and after each effect. Each round forks a process that
dies there, and then one that goes on to the end.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import settled
from settled.api import sagas
from settled.api.queue import waiting
from settled.core.parts import LookAtItems
from settled.ports import CallQuery

DIED = 137


class Fuse:
    """Ends the process at the n-th boundary that it crosses."""

    def __init__(self, left):
        self.left = left

    def cross(self):
        self.left -= 1
        if self.left == 0:
            os._exit(DIED)


class World:
    """What happened outside, in a file that outlives the processes."""

    def __init__(self, folder, fuse):
        self.path, self.fuse = folder / "effects.txt", fuse

    def add(self, *words):
        self.fuse.cross()
        with self.path.open("a") as file:
            file.write(json.dumps(words) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.fuse.cross()

    def read(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []


def guard_of(folder, fuse):
    guard = settled.Guard(
        f"sqlite:///{folder}/agent.db", synchronous="NORMAL"
    )  # a killed process loses nothing with it
    perform = guard.journal.perform

    def watched(transition):
        fuse.cross()
        return perform(transition)

    guard.journal.perform = watched
    return guard


def batch(folder, fuse):
    """A batch whose second item is refused at first, and of whose third no answer comes."""
    world, quick = World(folder, fuse), settled.Backoff(base=0.001)
    with guard_of(folder, fuse) as guard:

        @guard.tool(effect="write", breaker=None)
        def drop(docs: list[str]) -> None:
            for doc in docs:
                world.add("drop", doc)

        @guard.tool(effect="write", partial=settled.partial.http_207, compensate=drop, retry=quick, breaker=None)
        def store(docs: list[dict]) -> list:
            answer = []
            for doc in docs:
                name = doc["id"]
                busy = name == "b" and ["asked", "b"] not in world.read()
                world.add("asked", name)
                if not busy:
                    world.add("stored", name)
                if name != "c":
                    answer.append({"id": name, "status": 429 if busy else 201})
            return answer

        with guard.run("r"):
            result = store.call(docs=[{"id": name} for name in "abcd"])
        call, items, _ = guard.journal.perform(LookAtItems(result.operation_id))
        told = [str(item.part) for item in items] or [{"succeeded": "done"}.get(result.status, result.status)] * 4
        return {"told": told, "queue": len(waiting(guard.journal)), "state": str(call.state)}


def letter(folder, fuse, *, leave="", undo=False):
    """A letter that is drafted, and confirmed, refused or undone with its run."""
    world = World(folder, fuse)
    with guard_of(folder, fuse) as guard:

        def find(kind):
            def probe(call):
                made = [words for words in world.read() if words[0] == kind]
                return settled.Happened("d") if made else settled.NotHappened()

            return probe

        probed = {"max_request_lifetime": 0.0, "breaker": None}

        @guard.tool(effect="write", probe=find("drafted"), **probed)
        def write(to: str) -> str:
            world.add("drafted", to)
            return "d"

        @guard.tool(effect="write", probe=find("discarded"), **probed)
        def discard(draft: str) -> None:
            world.add("discarded", draft)

        @guard.tool(effect="write", probe=find("recalled"), **probed)
        def recall(to: str) -> None:
            world.add("recalled", to)

        def send(draft: str) -> str:
            world.add("sent", draft)
            return "d"

        @guard.tool(
            effect="write",
            draft=write,
            confirm=send,
            discard=discard,
            approve=bool(leave) or None,
            compensate=recall,
            probe=find("sent"),
            **probed,
        )
        def mail(to: str) -> str:
            """Send a letter."""

        with suppress(settled.RunUndone), guard.run("r", on_error="keep") as run:
            result = mail.options(wait=0.2).call("ann")
            if leave and result.status == "awaiting_approval":
                (guard.approve if leave == "given" else guard.refuse)(result.operation_id, by="eva", reason="x")
                result = mail.options(wait=0.2).call("ann")
            if undo:
                run.compensate("over")
        sagas.carry_on(guard)
        [call] = guard.journal.find(CallQuery(tool="mail"))
        return {"state": str(call.state), "queue": len(waiting(guard.journal))}


PLAYS = {
    "batch": batch,
    "approved": lambda folder, fuse: letter(folder, fuse, leave="given"),
    "refused": lambda folder, fuse: letter(folder, fuse, leave="refused"),
    "undone": lambda folder, fuse: letter(folder, fuse, undo=True),
}


def played(play, folder, left):
    """Play in a process of its own; return its exit code and what it told."""
    told = folder / "told.json"
    child = os.fork()
    if child == 0:
        try:
            told.write_text(json.dumps(play(folder, Fuse(left))))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code, json.loads(told.read_text()) if code == 0 else None


def main(name, folder):
    left, code = 0, DIED
    while code == DIED:
        left += 1
        own = Path(folder) / str(left)
        own.mkdir()
        code, said = played(PLAYS[name], own, left)
        if code == DIED:
            again, said = played(PLAYS[name], own, 0)
            code = DIED if again == 0 else again
        effects = World(own, Fuse(0)).read()
        print(json.dumps({"boundary": left, "code": code, "said": said, "effects": effects}))


if __name__ == "__main__":
    main(*sys.argv[1:])

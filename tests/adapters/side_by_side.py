"""What every adapter must do where two runs of one conversation are worked on at the same time."""

from __future__ import annotations

import asyncio
import threading

import pytest

import settled
from tests.adapters.contract import EFFECTS, mail


class SideBySide:
    """Subclass it where ``chat`` and ``book`` fixtures are at hand."""

    shows_siblings = True
    """Whether the framework shows which calls one message asks for."""

    async def test_turns_that_are_worked_on_at_once_lose_nothing(self, chat, book, tmp_path):
        """Agents that share a conversation's name, each with a task of its own: none takes the others' work away."""
        names = ["ann", "bob", "cid", "dan"]
        chats = []
        for name in names:
            home = tmp_path / name
            home.mkdir()
            both = [mail(name, "a"), mail(f"{name}-2", "b")]
            replies = [both] if self.shows_siblings else [[each] for each in both]
            replies += [[mail(f"{name}-3", "c")], "done"]
            guard = chats[0].guard if chats else None
            chats.append(chat([book.mailer()], replies, effects=EFFECTS, guard=guard, home=home))
        await asyncio.gather(*(one.say(f"mail {name}") for one, name in zip(chats, names, strict=True)))
        assert sorted(book.lines) == sorted(name + each for name in names for each in ("", "-2", "-3"))
        for one, name in zip(chats, names, strict=True):
            answers = [one.script.answer(each) for each in ("a", "b", "c")]
            assert answers == [f"sent to {name}", f"sent to {name}-2", f"sent to {name}-3"]

    @pytest.mark.parametrize("elsewhere", [False, True], ids=["one process", "two processes"])
    async def test_a_message_that_is_sent_again_meanwhile_is_done_once(self, chat, book, tmp_path, elsewhere):
        """CASE-069: somebody is impatient, and the tool is at work; the model is asked anew, and mints new ids."""
        started, release = threading.Event(), threading.Event()

        def send_mail(to: str, text: str = "hi") -> str:
            """Send a mail."""
            started.set()
            release.wait(10)
            return book.note(to)

        one = chat([send_mail], [[mail("ann", "c1")], "done"], effects=EFFECTS)
        home = tmp_path / "again"
        home.mkdir()
        guard = None if elsewhere else one.guard
        two = chat([send_mail], [[mail("ann", "d1")], "done"], effects=EFFECTS, guard=guard, home=home)
        first = asyncio.ensure_future(one.say("mail ann"))
        await asyncio.to_thread(started.wait, 10)
        second = asyncio.ensure_future(two.say("mail ann"))
        while not two.script.shown:  # noqa: ASYNC110 - a script tells nobody
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # it asks for its call
        release.set()
        await asyncio.gather(first, second)
        assert book.lines == ["ann"]
        assert (one.script.answer("c1"), two.script.answer("d1")) == ("sent to ann", "sent to ann")

    async def test_a_turn_that_another_process_has_entered_goes_on_once_that_was_told(self, chat, book, tmp_path):
        """It may have died since, and nothing here would tell: what it did answers, and what it did not is done."""
        replies = [[mail("ann", "c1")], [mail("bob", "c2")], [mail("bob", "c3")], [mail("cid", "c4")], "done"]
        one = chat([book.mailer()], replies, effects=EFFECTS)
        reply = one.script.reply

        def meanwhile(history):
            if len(one.script.shown) == 1:
                with settled.Guard(one.guard.journal.url) as other:
                    other.run("t1", turn=other.journal.run("", "t1").turn).enter_here()
            return reply(history)

        one.script.reply = meanwhile
        await one.say("mail all")
        assert book.lines == ["ann", "bob", "cid"]
        assert "another process works on this run" in one.script.answer("c2")

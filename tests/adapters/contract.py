"""What every adapter must do, whatever the framework. Each framework's tests bring a ``chat`` fixture.

``chat(tools, replies, effects=…, guarded=True)`` gives a ``Chat`` over one store that outlives it: ``say`` sends a user
message, ``go_on`` continues from what the framework has stored, as its users do after a failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time

import pytest

import settled
from tests.adapters.script import Call, ModelDown


class Outbox:
    """The effects of the tools, and what is to go wrong."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.fails: list[BaseException] = []
        self.started = threading.Event()

    def tools(self, *, is_async: bool) -> list:
        return self._async_tools() if is_async else self._plain_tools()

    def _async_tools(self) -> list:
        async def send_mail(to: str, text: str = "hi") -> str:
            """Send a mail."""
            return self._send(to)

        async def search(query: str) -> str:
            """Search."""
            return self._send(f"search {query}")

        async def nothing(to: str) -> None:
            """Return nothing."""
            self._send(to)

        async def table(to: str) -> dict:
            """Return structured content."""
            self._send(to)
            return {"rows": [1, 2.5, None], "ok": True}

        return [send_mail, search, nothing, table]

    def _plain_tools(self) -> list:
        def send_mail(to: str, text: str = "hi") -> str:
            """Send a mail."""
            return self._send(to)

        def search(query: str) -> str:
            """Search."""
            return self._send(f"search {query}")

        def nothing(to: str) -> None:
            """Return nothing."""
            self._send(to)

        def table(to: str) -> dict:
            """Return structured content."""
            self._send(to)
            return {"rows": [1, 2.5, None], "ok": True}

        return [send_mail, search, nothing, table]

    def _send(self, what: str) -> str:
        self.started.set()
        if self.fails:
            error = self.fails.pop(0)
            if error is not None:
                raise error
        self.sent.append(what)
        return f"sent to {what}"


def mail(to: str, call_id: str, **more) -> Call:
    return Call("send_mail", {"to": to, **more}, call_id)


EFFECTS = {"search": "read", "send_mail": settled.tool_options(identity=("to",)), "nothing": "write", "table": "write"}


async def fails(chat, doing) -> None:
    """The framework's run ends by the model's failure."""
    with pytest.raises(ModelDown):
        await doing


SAID = [
    pytest.param(("mail ann", "now another one", "and another"), id="other words"),
    pytest.param(("mail ann", "mail ann", "mail ann"), id="the same words"),
]
"""What the user says in three turns."""


def stored_by_framework(home) -> dict[str, bytes]:
    """Its files, without the journal's."""
    return {path.name: path.read_bytes() for path in home.iterdir() if not path.name.startswith("agent.db")}


def restore(home, stored: dict[str, bytes]) -> None:
    """The framework's store is as it was."""
    for name in stored_by_framework(home):
        (home / name).unlink()
    for name, content in stored.items():
        (home / name).write_bytes(content)


class AdapterContract:
    """Subclass it where a ``chat`` fixture is at hand."""

    reused = ("call_0", "call_0")
    """Ids of two calls of different messages: servers give the same ones again and again."""
    turn_ids = ("call_0", "call_0", "call_0")
    """The same of three turns."""

    # --- one call -------------------------------------------------------------------------------------

    async def test_a_call_is_made_once_and_its_answer_reaches_the_model(self, chat, tools, outbox):
        one = chat(tools, [[mail("ann", "c1")], "done"], effects=EFFECTS)
        await one.say("mail ann")
        assert outbox.sent == ["ann"]
        assert one.script.answer("c1") == "sent to ann"

    async def test_an_error_that_proves_nothing_leaves_a_write_unknown_and_the_run_goes_on(self, chat, tools, outbox):
        outbox.fails = [TimeoutError("no answer")]
        one = chat(tools, [[mail("ann", "c1")], "done"], effects=EFFECTS)
        await one.say("mail ann")
        said = json.loads(one.script.answer("c1"))
        assert said["status"] == "unknown"
        assert said["next"] == "ask_human"
        assert outbox.sent == []
        assert one.guard.look(said["operation_id"]).status == "unknown"  # it stands in the queue

    async def test_what_is_proved_not_done_is_tried_again_within_the_call(self, chat, tools, outbox):
        outbox.fails = [ConnectionRefusedError("nobody listens"), None]
        one = chat(tools, [[mail("ann", "c1")], "done"], effects=EFFECTS)
        await one.say("mail ann")
        assert one.script.answer("c1") == "sent to ann"
        assert outbox.sent == ["ann"]

    async def test_what_is_tried_again_is_what_was_asked_for(self, chat, outbox):
        """A tool may change its arguments while it works; each attempt gets them as they were."""
        outbox.fails = [settled.NotExecuted("busy", retryable=True)]

        def tag(names: list[str]) -> str:
            """Tag."""
            names.append("late")
            return outbox._send(", ".join(names))

        one = chat([tag], [[Call("tag", {"names": ["a"]}, "c1")], "done"], effects={"tag": "write"})
        await one.say("tag it")
        assert outbox.sent == ["a, late"]

    async def test_an_error_for_good_is_told_and_the_run_goes_on(self, chat, tools, outbox):
        outbox.fails = [settled.NotExecuted("no such address")]
        one = chat(tools, [[mail("ann", "c1")], "done"], effects=EFFECTS)
        await one.say("mail ann")
        said = json.loads(one.script.answer("c1"))
        assert said["status"] == "failed"
        assert "no such address" in said["message"]

    async def test_an_undeclared_tool_counts_as_a_write(self, chat, tools, outbox):
        outbox.fails = [TimeoutError("no answer")]
        one = chat(tools, [[mail("ann", "c1")], "done"])
        await one.say("mail ann")
        assert json.loads(one.script.answer("c1"))["status"] == "unknown"

    async def test_a_read_is_repeated(self, chat, tools, outbox):
        outbox.fails = [TimeoutError("no answer"), None]
        one = chat(tools, [[Call("search", {"query": "x"}, "c1")], "done"], effects=EFFECTS)
        await one.say("search x")
        assert one.script.answer("c1") == "sent to search x"

    async def test_two_agents_may_have_tools_of_one_name(self, chat, outbox):
        """Each takes its own arguments."""

        def by_city(query: str) -> str:
            """Search."""
            return outbox._send(f"search {query}")

        def by_number(number: int, within: str) -> str:
            """Search."""
            return outbox._send(f"search {within} {number}")

        by_city.__name__ = by_number.__name__ = "search"
        given = {"query": "x"}, {"number": 7, "within": "y"}
        one = chat([by_city], [[Call("search", given[0], "c1")], "done", [Call("search", given[0], "c3")], "done"])
        two = chat([by_number], [[Call("search", given[1], "c2")], "done"], guard=one.guard)
        for each, text in ((one, "first"), (two, "second"), (one, "third")):
            await each.say(text)
        assert outbox.sent == ["search x", "search y 7", "search x"]

    async def test_a_misspelt_option_is_refused(self, chat, tools):
        with pytest.raises(settled.DeclarationError, match="identity"):
            chat(tools, ["done"], effects={"send_mail": {"identiti": ("to",)}})

    # --- several calls --------------------------------------------------------------------------------

    async def test_one_failure_of_three_loses_no_sibling(self, chat, tools, outbox):
        """CASE-060: the others' results are kept, and only the failed one may be asked for again."""
        outbox.fails = [settled.NotExecuted("bounced", retryable=False), None, None]
        calls = [mail("ann", "c1"), mail("bob", "c2"), mail("cid", "c3")]
        one = chat(tools, [calls, "done"], effects=EFFECTS)
        await one.say("mail all")
        assert len(outbox.sent) == 2
        texts = [one.script.answer(call.id) for call in calls]
        assert sum(text.startswith("sent to") for text in texts) == 2
        assert sum("bounced" in text for text in texts) == 1

    async def test_two_intended_identical_calls_stay_two_with_the_same_id(self, chat, tools, outbox):
        one = chat(tools, [[mail("ann", each)] for each in self.reused] + ["done"], effects=EFFECTS)
        await one.say("mail ann twice")
        assert outbox.sent == ["ann", "ann"]

    async def test_the_next_turn_with_the_same_words_means_something_new(self, chat, tools, outbox):
        first, second = self.reused
        one = chat(tools, [[mail("ann", first)], "done", [mail("ann", second)], "done"], effects=EFFECTS)
        await one.say("mail ann")
        await one.say("mail ann")
        assert outbox.sent == ["ann", "ann"]

    # --- turns ----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("said", SAID)
    @pytest.mark.parametrize("anew", [False, True], ids=["one process", "a process each"])
    async def test_three_turns_with_the_same_call_are_three_effects(self, chat, tools, outbox, said, anew):
        replies = [[mail("ann", self.turn_ids[0])], "done", [mail("ann", self.turn_ids[1])], "done"]
        replies += [[mail("ann", self.turn_ids[2])], "done"]
        one = chat(tools, replies, effects=EFFECTS)
        for at, text in enumerate(said):
            if anew and at:
                one = chat(tools, replies[2 * at :], effects=EFFECTS)
            await one.say(text)
            assert outbox.sent == ["ann"] * (at + 1)
            assert one.script.answer(self.turn_ids[at]) == "sent to ann"

    @pytest.mark.parametrize("said", SAID)
    async def test_a_turn_that_is_lost_and_repeated_doubles_nothing(self, chat, tools, outbox, tmp_path, said):
        """The second turn asks for two at once; what the framework stored of it is lost, and the model asked anew."""
        one = chat(tools, [[mail("ann", self.turn_ids[0])], "done"], effects=EFFECTS)
        await one.say(said[0])
        stored = stored_by_framework(tmp_path)
        for lost in range(2):
            two = chat(tools, [[mail("ann", f"d{lost}"), mail("ann", f"e{lost}")], ModelDown], effects=EFFECTS)
            await fails(two, two.say(said[1]))
            assert outbox.sent == ["ann"] * 3
            restore(tmp_path, stored)
        three = chat(
            tools, [[mail("ann", "f0"), mail("ann", "f1")], "done", [mail("ann", "g")], "done"], effects=EFFECTS
        )
        await three.say(said[1])
        assert outbox.sent == ["ann"] * 3
        assert [three.script.answer(each) for each in ("f0", "f1")] == ["sent to ann"] * 2
        await three.say(said[2])
        assert outbox.sent == ["ann"] * 4

    async def test_the_same_words_after_an_answer_are_a_new_turn_where_only_texts_are_kept(self, chat, tools, outbox):
        """Many applications store what was said, and no calls: nothing else tells that the first mail was answered."""
        said, ids = [], self.turn_ids
        for at in range(3):
            one = chat(tools, [[mail("ann", ids[at])], ModelDown, [mail("ann", "d")], "done"], effects=EFFECTS)
            one.keep(said)
            await fails(one, one.say("mail ann"))
            one.keep(said)
            await one.say("mail ann")  # it failed: the same turn
            assert outbox.sent == ["ann"] * (at + 1)
            said += ["mail ann", "done"]

    @pytest.mark.parametrize("anew", [False, True], ids=["one process", "a process each"])
    async def test_turns_that_look_alike_in_a_window_are_turns_each(self, chat, tools, outbox, anew):
        """Four messages are one turn; one turn is shown before the new one. The fourth is lost, and said again."""
        calls = [[mail("ann", f"c{at}")] for at in range(6)]
        replies = [reply for at, call in enumerate(calls) for reply in (call, ModelDown if at == 3 else "done")]
        one, shown = chat(tools, replies, effects=EFFECTS), []
        for at in range(len(calls)):
            if anew and at:
                one = chat(tools, replies[2 * at :], effects=EFFECTS)
            try:
                shown = await one.say_in_window("next", shown[-4:])
            except ModelDown:
                assert at == 3
            assert len(outbox.sent) == (at + 1 if at < 4 else at)

    # --- what is lost and asked for again -------------------------------------------------------------

    async def test_a_model_that_is_asked_anew_is_answered_from_what_was_done(self, chat, tools, outbox):
        one = chat(tools, [[mail("ann", "c1")], ModelDown], effects=EFFECTS)
        await fails(one, one.say("mail ann"))
        two = chat(tools, [[mail("ann", "c9", text="Dear Ann")], "done"], effects=EFFECTS, forget=True)
        await two.say("mail ann")
        assert outbox.sent == ["ann"]
        said = json.loads(two.script.answer("c9"))
        assert said["result"] == "sent to ann"
        assert "words differ" in said["message"]

    async def test_without_the_guard_the_same_is_done_twice(self, chat, tools, outbox):
        one = chat(tools, [[mail("ann", "c1")], ModelDown], guarded=False)
        await fails(one, one.say("mail ann"))
        two = chat(tools, [[mail("ann", "c9")], "done"], guarded=False, forget=True)
        await two.say("mail ann")
        assert outbox.sent == ["ann", "ann"]

    async def test_in_one_process_too(self, chat, tools, outbox):
        one = chat(
            tools, [[mail("ann", "c1")], ModelDown, [mail("ann", "c2")], [mail("ann", "c3")], "done"], effects=EFFECTS
        )
        await fails(one, one.say("mail ann"))
        one.forget()
        await one.say("mail ann")
        assert outbox.sent == [
            "ann",
            "ann",
        ]  # c2 is c1 made again; c3 is one more, which the model wants having seen c2
        assert one.script.answer("c2") == "sent to ann"

    async def test_what_goes_on_from_the_store_is_answered_once(self, chat, tools, outbox):
        one = chat(tools, [[mail("ann", "c1"), mail("bob", "c2")], ModelDown], effects=EFFECTS)
        await fails(one, one.say("mail both"))
        two = chat(tools, ["done"], effects=EFFECTS)
        await two.go_on()
        assert sorted(outbox.sent) == ["ann", "bob"]
        assert two.script.answer("c1") == "sent to ann"
        assert two.script.answer("c2") == "sent to bob"

    async def test_a_replay_keeps_none_and_structured_content(self, chat, tools, outbox):
        calls = lambda n: [Call("nothing", {"to": "a"}, f"n{n}"), Call("table", {"to": "b"}, f"t{n}")]  # noqa: E731
        one = chat(tools, [calls(1), ModelDown], effects=EFFECTS)
        await fails(one, one.say("go"))
        first = [each.text for each in one.script.answers()]
        two = chat(tools, [calls(2), "done"], effects=EFFECTS, forget=True)
        await two.say("go")
        assert sorted(outbox.sent) == ["a", "b"]
        assert [each.text for each in two.script.answers()] == first
        assert [each.id for each in two.script.answers()] == ["n2", "t2"]

    async def test_a_different_plan_is_told_once_of_what_was_done(self, chat, tools, outbox):
        one = chat(tools, [[mail("ann", "c1")], ModelDown], effects=EFFECTS)
        await fails(one, one.say("mail somebody"))
        two = chat(tools, [[mail("bob", "c2")], [mail("bob", "c3")], "done"], effects=EFFECTS, forget=True)
        await two.say("mail somebody")
        told = json.loads(two.script.answer("c2"))
        assert told["status"] == "rejected"
        assert told["earlier_calls"][0]["arguments"]["to"] == "ann"
        assert two.script.answer("c3") == "sent to bob"
        assert outbox.sent == ["ann", "bob"]

    # --- time -----------------------------------------------------------------------------------------

    async def test_a_cancelled_run_leaves_the_write_on_record(self, chat, outbox):
        """What was sent is on record, though nobody waited for it; asked again, it is answered."""
        release = threading.Event()

        def send_mail(to: str) -> str:
            """Send a mail."""
            outbox.started.set()
            release.wait(10)
            outbox.sent.append(to)
            return f"sent to {to}"

        one = chat([send_mail], [[mail("ann", "c1")]], effects=EFFECTS | {"send_mail": "write"})
        task = asyncio.ensure_future(one.say("mail ann"))
        await asyncio.to_thread(outbox.started.wait, 10)
        task.cancel()
        release.set()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
        two = chat([send_mail], [[mail("ann", "c2")], "done"], effects=EFFECTS | {"send_mail": "write"}, forget=True)
        await two.say("mail ann")
        assert outbox.sent == ["ann"]
        assert two.script.answer("c2") == "sent to ann"

    async def test_a_sync_tool_that_is_left_is_unknown_until_its_answer_comes(self, chat, outbox):
        release = threading.Event()

        def send_mail(to: str) -> str:
            """Send a mail."""
            release.wait(10)
            outbox.sent.append(to)
            return f"sent to {to}"

        effects = {"send_mail": settled.tool_options(effect="write", timeout=0.2)}
        one = chat([send_mail], [[mail("ann", "c1")], "done"], effects=effects)
        await one.say("mail ann")
        assert json.loads(one.script.answer("c1"))["status"] == "unknown"
        release.set()
        operation = json.loads(one.script.answer("c1"))["operation_id"]
        until = time.monotonic() + 10
        while (found := one.guard.look(operation)).status != "succeeded" and time.monotonic() < until:  # noqa: ASYNC110 - the journal tells nobody
            await asyncio.sleep(0.02)
        assert found.status == "succeeded"
        assert outbox.sent == ["ann"]

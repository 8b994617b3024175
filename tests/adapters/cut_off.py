"""What every adapter must do about a turn that ended without an answer to the user; mixed into its contract's tests."""

from __future__ import annotations

import contextlib
import json

from tests.adapters.contract import EFFECTS, fails, mail
from tests.adapters.script import ModelDown


class CutOff:
    """The mail was sent, nobody has seen an answer, and the user writes again."""

    async def test_what_a_turn_has_done_that_was_cut_off_is_told_in_the_next_ones(self, chat, tools, outbox):
        """The history tells of nothing that was done."""
        said, ids = ["mail ann", "are you there?", "go on", "thanks; another one"], self.turn_ids
        one = chat(tools, [[mail("ann", ids[0])], ModelDown], effects=EFFECTS)
        await fails(one, one.say(said[0]))
        for at in (1, 2):
            one = chat(tools, [[mail("ann", ids[at])], ModelDown if at == 1 else "done"], effects=EFFECTS)
            one.keep([text for each in said[:at] for text in (each, None)])
            with contextlib.suppress(ModelDown):
                await one.say(said[at])
            told = json.loads(one.script.answer(ids[at]))
            assert (told["status"], told["earlier_calls"][0]["arguments"]["to"]) == ("rejected", "ann")
        one = chat(tools, [[mail("ann", ids[0])], "done"], effects=EFFECTS)
        one.keep([said[0], None, said[1], None, said[2], "it was sent before"])
        await one.say(said[3])
        assert outbox.sent == ["ann", "ann"]  # what was answered is over: this is another one

    async def test_what_was_done_for_a_message_that_was_edited_is_told_to_who_is_asked_by_the_new_one(
        self, chat, tools, outbox
    ):
        """The history goes on from before it; what was done stands in the world all the same."""
        one = chat(tools, [[mail("ann", self.turn_ids[0])], "done"], effects=EFFECTS)
        one.keep(["hello", "hi"])
        await one.say("mail ann")
        two = chat(
            tools, [[mail("bob", "d1")], [mail("bob", "d2")], "done", [mail("ann", "d3")], "done"], effects=EFFECTS
        )
        two.keep(["hello", "hi"])
        await two.say("mail bob")
        told = json.loads(two.script.answer("d1"))
        assert (told["status"], told["earlier_calls"][0]["arguments"]["to"]) == ("rejected", "ann")
        two.keep(["hello", "hi", "mail bob", "done"])
        await two.say("mail ann, too")  # a turn after that one: this is another mail
        assert outbox.sent == ["ann", "bob", "ann"]

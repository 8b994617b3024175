"""Several runs of a framework within one run of the program's: what each asks for is an action of its own."""

from __future__ import annotations

from tests.adapters.contract import EFFECTS, mail


class InARow:
    """For every framework: beside ``AdapterContract``."""

    async def test_runs_that_are_told_the_same_each_do_it_though_their_ids_are_the_same(self, chat, tools, outbox):
        """Servers use one id again and again: an id says nothing beyond the message that it stands in.

        Entered again, the program is answered call by call from what it did.
        """
        for _ in range(2):
            one = chat(tools, [[mail("ann", "call_0")], "done"] * 3, effects=EFFECTS)
            async with one.guard.run("three mails"):
                for _ in range(3):
                    one.forget()
                    await one.say("mail ann")
            assert outbox.sent == ["ann"] * 3

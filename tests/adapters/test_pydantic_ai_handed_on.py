"""What one agent has left in doubt bars the next one that the task is handed to."""

import pytest

from tests.adapters.doubtful import TASKS, Worker, check, losing
from tests.adapters.script import Call, Script
from tests.adapters.test_pydantic_ai_outputs import agent


@pytest.mark.parametrize("effect", ["write", "read"])
async def test_a_task_that_is_handed_on_once_more_does_nothing_that_is_in_doubt(book, guard, effect):
    made, answers = guard(), []

    async def ask(what: str) -> str:
        """Ask another agent."""
        answers.append((await agent(made, Worker(), [losing(book)]).run(what)).output)
        return "I am not sure"

    script = Script([*([Call("ask", {"what": what}, f"c{at}")] for at, what in enumerate(TASKS)), "done"])
    await agent(made, script, [ask], {"ask": effect}).run("mail ann", conversation_id="t1")
    check(answers, book)

"""What one agent has left in doubt bars the next one that the task is handed to."""

from agents import Agent, RunConfig, Runner, function_tool

from settled.adapters.openai_agents import guarded
from tests.adapters.chat_openai_agents import Scripted
from tests.adapters.contract import EFFECTS
from tests.adapters.doubtful import TASKS, Worker, check, losing
from tests.adapters.script import Call, Script


async def test_a_task_that_is_handed_on_once_more_does_nothing_that_is_in_doubt(book, guard):
    made = guard()
    worker = Agent("worker", tools=[function_tool(losing(book))], model=Scripted(Worker()))
    asks = guarded(worker, made, EFFECTS).as_tool("ask", "Ask.")
    script = Script([*([Call("ask", {"input": what}, f"c{at}")] for at, what in enumerate(TASKS)), "done"])
    one = guarded(Agent("asker", tools=[asks], model=Scripted(script)), made, EFFECTS)
    await Runner.run(one, "mail ann", run_config=RunConfig(group_id="t1"))
    check([script.answer(f"c{at}") for at in range(2)], book)

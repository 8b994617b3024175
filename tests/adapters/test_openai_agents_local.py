"""Tools that are no functions and run here: each effect is counted in a book on disk."""

import pytest
from agents import (
    Agent,
    ApplyPatchResult,
    ApplyPatchTool,
    CustomTool,
    LocalShellTool,
    RunConfig,
    Runner,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
    WebSearchTool,
)
from agents.tracing import set_trace_processors, set_tracing_disabled
from openai.types.responses import (
    ResponseApplyPatchToolCall,
    ResponseCustomToolCall,
    ResponseFunctionShellToolCall,
)
from openai.types.responses.response_output_item import LocalShellCall

import settled
from settled.adapters.openai_agents import guarded
from tests.adapters.chat_openai_agents import Model, ModelResponse, Usage, output
from tests.adapters.script import ModelDown

GROUP = RunConfig(group_id="t1")


class Says(Model):
    """Says what it is given, whatever it is shown."""

    def __init__(self, *replies):
        self.replies, self.shown = list(replies), []

    async def get_response(self, system_instructions, input, *_, **__):  # noqa: A002 - the SDK's name
        self.shown.append(input)
        said = self.replies.pop(0)
        if said is ModelDown:
            raise ModelDown
        return ModelResponse(output=output(said) if isinstance(said, str) else said, usage=Usage(), response_id=None)

    async def stream_response(self, *_, **__):
        raise NotImplementedError  # the SDK demands it of a model; nothing in these tests streams
        yield

    @property
    def told(self):
        return [item for item in self.shown[-1] if str(item.get("type")).endswith("_output")][-1]


@pytest.fixture(autouse=True)
def traced():
    """A trace tells these tools the group that they work for; it is sent nowhere."""
    set_trace_processors([])
    set_tracing_disabled(False)
    yield
    set_tracing_disabled(True)


class Editor:
    def __init__(self, does):
        self.does = does

    def create_file(self, operation):
        return ApplyPatchResult("completed", self.does(operation.path))

    update_file = delete_file = create_file


def shell(does):
    async def run(request):
        return ShellResult([ShellCommandOutput(stdout=does(command)) for command in request.data.action.commands])

    return ShellTool(run)


TOOLS = {
    "custom_tool": lambda does: CustomTool("custom_tool", "Do it.", lambda _, text: does(text)),
    "local_shell": lambda does: LocalShellTool(lambda request: does(request.data.action.command[0])),
    "shell": shell,
    "apply_patch": lambda does: ApplyPatchTool(Editor(does)),
}


def asks(name, call_id, what):
    """The model's message that asks the tool of this name to do something."""
    made = {"id": f"i-{call_id}", "call_id": call_id, "status": "completed"}
    shell_action = {"type": "exec", "command": [what], "env": {}}
    patch = {"type": "create_file", "path": what, "diff": "+x"}
    return [
        {
            "custom_tool": lambda: ResponseCustomToolCall(
                call_id=call_id, input=what, name=name, type="custom_tool_call"
            ),
            "local_shell": lambda: LocalShellCall(**made, action=shell_action, type="local_shell_call"),
            "shell": lambda: ResponseFunctionShellToolCall(**made, action={"commands": [what]}, type="shell_call"),
            "apply_patch": lambda: ResponseApplyPatchToolCall(**made, operation=patch, type="apply_patch_call"),
        }[name]()
    ]


@pytest.fixture(params=TOOLS)
def name(request):
    return request.param


@pytest.fixture
def agent(name, guard, book):
    """Makes an agent of a process of its own that has one such tool."""

    def make(*replies, does=book.note, guarded_by=guard, effects=None):
        made = Agent("a", tools=[TOOLS[name](does)], model=Says(*replies))
        return guarded(made, guarded_by(), effects) if guarded_by else made

    return make


async def say(agent, *said):
    return (await Runner.run(agent, [*said, {"role": "user", "content": "go"}], run_config=GROUP)).to_input_list()


@pytest.mark.parametrize("is_guarded", [True, False])
async def test_a_model_that_is_asked_anew_is_answered_from_what_was_done(agent, name, guard, book, is_guarded):
    guarded_by = guard if is_guarded else None
    one = agent(asks(name, "c1", "x"), ModelDown, guarded_by=guarded_by)
    with pytest.raises(ModelDown):
        await say(one)
    two = agent(asks(name, "d1", "x"), "done", guarded_by=guarded_by)
    await say(two)
    assert "sent to x" in str(two.model.told["output"])
    assert book.lines == (["x"] if is_guarded else ["x", "x"])


async def test_the_same_in_each_turn_is_done_in_each(agent, name, book):
    said = []
    for at in range(3):
        one = agent(asks(name, f"c{at}", "x"), asks(name, f"d{at}", "x"), "done")
        said = await say(one, *said)
        assert book.lines == ["x", "x"] * (at + 1)


async def test_an_error_that_proves_nothing_leaves_it_unknown(agent, name, book):
    """The SDK would end the run by that of a local shell, and show the others' to the model, which would try again."""

    def fails(what):
        book.note(what)
        raise TimeoutError("no answer")

    one = agent(asks(name, "c1", "x"), asks(name, "c2", "x"), "done", does=fails)
    await say(one)
    told = one.model.told
    assert "unknown" in str(told["output"])
    assert told.get("status", "failed") == "failed"
    assert book.lines == ["x"]


async def test_what_is_declared_of_it_holds(agent, name, book):
    errors = [TimeoutError("no answer")]

    def fails_once(what):
        if errors:
            raise errors.pop()
        return book.note(what)

    one = agent(asks(name, "c1", "x"), "done", does=fails_once, effects={name: "idempotent"})
    await say(one)
    assert "sent to x" in str(one.model.told["output"])


async def test_without_a_trace_the_program_names_the_run(agent, name, guard, book):
    """The SDK shows these tools no group then; custom tools alone are shown it anyway."""
    set_tracing_disabled(True)
    if name != "custom_tool":
        with pytest.warns(RuntimeWarning, match="belongs to no run"):
            await say(agent(asks(name, "c1", "x"), "done"))
    for call_id in ("c1", "d1"):
        made = guard()
        one = agent(asks(name, call_id, "y"), "done", guarded_by=lambda made=made: made)
        async with made.run("task-7"):
            await say(one)
    assert book.lines.count("y") == 1


def test_what_runs_at_the_provider_is_left_as_it_is(guard):
    tool = WebSearchTool()
    assert guarded(Agent("a", tools=[tool]), guard()).tools == [tool]
    twice = guarded(guarded(Agent("a", tools=[TOOLS["shell"](str)]), made := guard()), made)
    assert guarded(twice, made).tools[0] is twice.tools[0]


async def test_a_patch_of_several_changes_is_made_change_by_change(guard, book):
    """What was made before a change failed is not made again with it, nor when the model is asked anew."""
    broken = []

    def does(path):
        if path == "b" and not broken:
            broken.append(path)
            raise settled.NotExecuted("no space left", retryable=True)
        return book.note(path)

    changes = [{"type": "create_file", "path": path, "diff": "+x"} for path in ("a", "b")]
    for call_id in ("c1", "d1"):
        call = asks("apply_patch", call_id, "a")[0].model_copy(update={"operation": None, "operations": changes})
        made = guard()
        await say(guarded(Agent("a", tools=[ApplyPatchTool(Editor(does))], model=Says([call], "done")), made))
    assert book.lines == ["a", "b"]

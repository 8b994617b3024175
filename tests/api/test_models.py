"""Calls of models: own budgets, no record, and a smaller model where the context is too long."""

import httpx
import openai
import pytest

import settled
from settled.ports import CallQuery


class DownError(TimeoutError):
    """No answer came."""


@pytest.fixture
def guard():
    guard = settled.Guard("memory://", retries=settled.RetryBudget(total=1))
    yield guard
    guard.close()


def too_long():
    request = httpx.Request("POST", "http://127.0.0.1:1/v1/chat/completions")
    body = {"code": "context_length_exceeded", "message": "maximum context length is 8192 tokens"}
    return openai.BadRequestError("400", response=httpx.Response(400, request=request), body=body)


def failing(times, error, asked):
    """Return a model that fails so many times."""

    def ask(prompt: str) -> str:
        asked.append(prompt)
        if len(asked) <= times:
            raise error()
        return f"answer to {prompt}"

    return ask


AT_ONCE = settled.Backoff(base=1e-9, cap=1e-9)


def test_a_context_that_is_too_long_goes_to_the_fallback_and_is_not_repeated(guard):
    asked = []
    small = guard.model(name="small")(lambda prompt: f"short answer to {prompt}")
    large = guard.model(name="large", fallback=small, retry=AT_ONCE)(failing(9, too_long, asked))
    result = large.call("x")
    assert (result.value, result.fallback, asked) == ("short answer to x", "small", ["x"])


async def test_so_does_an_async_model(guard):
    @guard.model
    async def small(prompt: str) -> str:
        return f"short answer to {prompt}"

    @guard.model(fallback=["small", settled.Skip("none")])
    async def large(prompt: str) -> str:
        raise too_long()

    assert await large("x") == "short answer to x"


def test_a_model_that_is_not_there_is_asked_again(guard):
    asked = []
    model = guard.model(name="m", retry=AT_ONCE)(failing(2, DownError, asked))
    assert (model("x"), len(asked)) == ("answer to x", 3)


def test_its_retries_are_not_the_tools_and_those_of_tools_are_not_its(guard):
    tried, asked = [], []
    tool = guard.tool(effect="read", name="t", retry=AT_ONCE)(failing(9, DownError, tried))
    model = guard.model(name="m", retry=AT_ONCE, attempts=4, breaker=None)(failing(3, DownError, asked))
    assert tool.call("x").reason == "retry_budget:session"
    assert (model("x"), len(tried)) == ("answer to x", 2)


def test_its_own_budget_ends_its_retries(guard):
    asked = []
    options = {"retry": AT_ONCE, "attempts": 9, "retries": settled.RetryBudget(total=1), "breaker": None}
    model = guard.model(name="m", **options)(failing(99, DownError, asked))
    assert [model.call("x").reason for _ in range(2)] == ["retry_budget:session", "retry_budget:session"]
    assert len(asked) == 3


def test_in_a_run_too_nothing_is_recorded_or_charged_and_it_is_asked_anew(guard):
    asked = []
    model = guard.model(name="m", retry=AT_ONCE)(failing(1, DownError, asked))
    for _ in range(2):
        with guard.run("trip", retries=settled.RetryBudget(total=0), on_error="compensate"):
            assert model("x") == "answer to x"
    assert (asked, guard.journal.find(CallQuery())) == (["x"] * 3, [])
    assert not guard.journal.run("", "trip").spent


def test_no_model_can_ask_for_a_model(guard):
    guard.model(name="m")(lambda prompt: prompt)
    assert guard.dispatch("m", {"prompt": "x"}).reason == "unknown_tool"


@pytest.mark.parametrize("options", [{"effect": "write"}, {"key": "x"}, {"approve": True}])
def test_what_is_no_option_of_a_model_is_refused(guard, options):
    with pytest.raises(settled.DeclarationError, match="a model has no option"):
        guard.model(**options)(lambda prompt: prompt)


@pytest.mark.parametrize("declared", ["tool", "model"])
def test_a_name_stands_for_one_thing(guard, declared):
    guard.model(name="m")(lambda prompt: prompt)
    with pytest.raises(settled.DeclarationError, match="there is another"):
        getattr(guard, declared)(name="m")(lambda prompt: prompt)

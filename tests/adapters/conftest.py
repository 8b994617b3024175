"""The adapters' tests run where their framework is installed (`dev.py adapters`), and are not looked at elsewhere."""

from importlib.util import find_spec

import pytest

import settled

pytest.register_assert_rewrite(
    *(f"tests.adapters.{name}" for name in ("contract", "cut_off", "in_a_row", "script", "side_by_side", "spelled"))
)

from tests.adapters.book import Book  # noqa: E402 - as below
from tests.adapters.contract import Outbox  # noqa: E402 - its asserts are to be rewritten first

NEEDS = {"langchain": "langchain", "pydantic_ai": "pydantic_ai", "openai_agents": "agents"}
collect_ignore_glob = [f"test_{name}*.py" for name, framework in NEEDS.items() if find_spec(framework) is None]


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path / "book")


@pytest.fixture
def guard(tmp_path):
    """Makes guards over one journal: each stands for a process of its own."""
    made = []

    def make():
        made.append(settled.Guard(f"sqlite:///{tmp_path}/agent.db"))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def outbox():
    return Outbox()


@pytest.fixture(params=["def", "async def"])
def tools(request, outbox):
    return outbox.tools(is_async=request.param == "async def")

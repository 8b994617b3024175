"""The Python of the documentation's pages, run as it stands there."""

import ast
import asyncio
import re
from pathlib import Path

from tests.shared import ROOT

_FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[str]:
    """Return the pages that a newcomer types code from."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in found if blocks(str(path.relative_to(ROOT)))]


def blocks(page: str) -> list[str]:
    """Return the blocks of Python on a page, each after as many empty lines as stand before it there."""
    text = (ROOT / page).read_text()
    return ["\n" * text.count("\n", 0, found.start(1)) + found[1] for found in _FENCED.finditer(text)]


def run(page: str, number: int, names: dict | None = None, /, **given) -> dict:
    """Run one block of a page with what it takes for granted; return its names. ``names``: of the blocks before it.

    Texts that are given under ``replace`` stand for others, such as the address of a service.
    """
    names = {} if names is None else names
    source = blocks(page)[number]
    for old, new in given.pop("replace", {}).items():
        assert old in source
        source = source.replace(old, new)
    names.update(given)
    code = compile(source, str(ROOT / page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    left = eval(code, names)
    if left is not None:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # a thread keeps its own loop
            runner.run(left)
    return names


def run_by(*tests: Path) -> set[tuple[str, int]]:
    """Return the blocks that these tests run, by page and number."""
    calls = re.compile(r'\brun\(\s*"([^"]+)",\s*(\d+)')
    return {(page, int(number)) for test in tests for page, number in calls.findall(test.read_text())}

"""No page shows code that no test runs, none is hidden, and no link leads nowhere."""

import re

from tests.pages import blocks, pages, run_by
from tests.shared import ROOT

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
"""What it says, and where it leads."""


def test_every_block_of_python_is_run_by_a_test():
    shown = {(page, number) for page in pages() for number in range(len(blocks(page)))}
    tests = [*(ROOT / "tests" / "docs").glob("test_*.py"), *(ROOT / "tests" / "adapters").glob("test_*_page.py")]
    assert shown == run_by(*tests)


def test_every_page_stands_in_the_list_under_its_own_title():
    docs = ROOT / "docs"
    listed = dict(LINK.findall((docs / "README.md").read_text()))
    title = re.compile(r"# (?:\d+\. )?(.+)")  # a decision's own number is its place in the list
    titles = {title.match(page.read_text())[1]: str(page.relative_to(docs)) for page in docs.glob("*/*.md")}
    assert listed == titles | {"README": "../README.md"}


def test_no_link_between_pages_leads_nowhere():
    everywhere = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    links = [(page, to) for page in everywhere for _, to in LINK.findall(page.read_text()) if "://" not in to]
    assert [(page.name, to) for page, to in links if not (page.parent / to.partition("#")[0]).exists()] == []

"""No page shows code that no test runs, or a name that is not there; none is hidden, and no link leads nowhere."""

import pkgutil
import re
import subprocess
import sys

import pytest

import settled
from tests.pages import blocks, pages, run_by
from tests.shared import ROOT

NAMED = re.compile(r"(?<![\w.])settled((?:\.[A-Za-z_]+)+)(\(?)")
EVENTS = ("alert.opened", "alert.resolved")  # types of what a webhook gets
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
"""What it says, and where it leads."""


def test_every_block_of_python_is_run_by_a_test():
    shown = {(page, number) for page in pages() for number in range(len(blocks(page)))}
    tests = [*(ROOT / "tests" / "docs").glob("test_*.py"), *(ROOT / "tests" / "adapters").glob("test_*_page.py")]
    assert shown == run_by(*tests)


def names():
    """Return what the pages and examples name of the package, and whether it is called there."""
    texts = [path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))]
    texts += [path.read_text() for path in (ROOT / "examples").glob("*.py")]
    found = {(name[1:], bool(called)) for text in texts for name, called in NAMED.findall(text)}
    return {(name, called) for name, called in found if name not in EVENTS and not name.startswith("adapters.")}


def test_every_name_on_a_page_is_there():
    for name, _ in names():
        pkgutil.resolve_name(f"settled.{name}")


def test_what_a_page_calls_by_its_full_name_needs_no_other_import():
    called = sorted(name for name, called in names() if called)
    assert "transports.install" in called
    code = f"import operator, settled; [operator.attrgetter(name)(settled) for name in {called}]"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60, capture_output=True)


def test_a_name_that_no_part_has_is_not_found():
    with pytest.raises(AttributeError, match="no_such_name"):
        settled.no_such_name  # noqa: B018 - asked for


def test_every_page_stands_in_the_list_under_its_own_title():
    docs = ROOT / "docs"
    listed = dict(LINK.findall((docs / "README.md").read_text()))
    title = re.compile(r"# (?:\d+\. )?(.+)")  # a decision's own number is its place in the list
    titles = {title.match(page.read_text())[1]: str(page.relative_to(docs)) for page in docs.glob("*/*.md")}
    assert listed == titles | {"README": "../README.md"}


def headings(page):
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_leads_somewhere():
    lost = []
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for _, link in LINK.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
            path, _, heading = link.partition("#")
            target = page.parent / path if path else page
            if "://" not in link and not (target.exists() and (not heading or heading in headings(target))):
                lost.append(f"{page.relative_to(ROOT)}: {link}")
    assert lost == []

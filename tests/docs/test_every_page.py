"""No page shows code that no test runs."""

from tests.pages import blocks, pages, run_by
from tests.shared import ROOT


def test_every_block_of_python_is_run_by_a_test():
    shown = {(page, number) for page in pages() for number in range(len(blocks(page)))}
    tests = [*(ROOT / "tests" / "docs").glob("test_*.py"), *(ROOT / "tests" / "adapters").glob("test_*_page.py")]
    assert shown == run_by(*tests)

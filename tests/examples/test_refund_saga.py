"""The example does what its text says."""

import ast
import subprocess
import sys

from tests.shared import ROOT


def test_three_cases_end_completed_undone_and_undone_in_part():
    command = [sys.executable, str(ROOT / "examples" / "refund_saga.py")]
    environment = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("case-") and " is " in line] == [
        "case-1 is completed; credits: ['credit-1'], voucher: cancelled",
        "case-2 is compensated; credits: ['credit-1'], voucher: valid",
        "case-3 is partly_compensated; credits: ['credit-1', 'credit-2'], voucher: valid",
    ]
    words = [line.strip() for line in lines]
    assert words[1:3] == ["v-2 is made valid again", "credit-2 is to be taken back"], "the last first"
    (left,) = [line for line in words if "undone only in part" in line]
    assert "card 2 is closed" in left
    assert "`settled queue list --run case-3`" in left


def test_the_examples_use_what_is_public():
    for path in (ROOT / "examples").glob("*.py"):
        imported = [each for node in ast.walk(ast.parse(path.read_text())) for each in modules_of(node)]
        ours = {name for name in imported if name.partition(".")[0] == "settled"}
        assert {name for name in ours if name != "settled" and not name.startswith("settled.adapters.")} == set()


def modules_of(node):
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [each.name for each in node.names] if isinstance(node, ast.Import) else []

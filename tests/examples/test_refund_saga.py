"""The example does what its text says."""

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
    assert lines[-1].startswith("left for a person: refund of case-3, undo_failed")
    undoing = [
        line.strip() for line in lines if line.strip().startswith(("make_valid", "take_back")) and "begins" in line
    ]
    assert undoing[:2] == ["make_valid(voucher='v-2') begins", "take_back(credit='credit-2') begins"]

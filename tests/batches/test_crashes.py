"""Whenever a program dies over a batch or a draft, what it does afterwards is done once, and reported as it is."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from tests.shared import ROOT


def rounds(play, tmp_path):
    """Return what each round has shown: the program died at one boundary, and went on."""
    command = [sys.executable, "-m", "tests.batches.crashes", play, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == 0, ended.stderr
    assert found[-1]["code"] == 0, ended.stderr  # the last one met no boundary any more
    assert len(found) > 5
    return found


def test_items_are_stored_once_whenever_the_program_dies(tmp_path):
    seen = set()
    for each in rounds("batch", tmp_path):
        stored = Counter(name for kind, name in each["effects"] if kind == "stored")
        assert set(stored.values()) <= {1}, each
        told = each["said"]["told"]
        seen.add(tuple(told))
        for name, part in zip("abcd", told, strict=True):
            assert part != "done" or stored[name] == 1, each
            assert part not in ("failed", "not_done") or stored[name] == 0, each
        assert each["said"]["queue"] or "unknown" not in told, each
    assert ("done", "done", "unknown", "done") in seen
    assert ("unknown",) * 4 in seen  # it died while the batch was out: nobody can tell


LETTERS = {
    "approved": [["drafted", "sent"]],
    "refused": [["drafted", "discarded"]],
    "undone": [["drafted", "sent", "recalled"], ["drafted", "discarded"]],
}


@pytest.mark.parametrize("play", LETTERS)
def test_a_letter_is_drafted_and_sent_or_thrown_away_once(play, tmp_path):
    for each in rounds(play, tmp_path):
        assert [kind for kind, _ in each["effects"]] in LETTERS[play], each
        assert each["said"]["queue"] == 0, each

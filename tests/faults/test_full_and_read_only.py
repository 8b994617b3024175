"""The disk is full, or the file cannot be written: real limits, in processes of their own."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import settled
from tests.shared import ROOT


@pytest.fixture
def act(tmp_path):
    """Play an act in a process of its own; return what it saw."""

    def play(name, folder=tmp_path):
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, str(Path(__file__).with_name("actors.py")), name, str(folder)]
        env = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return play


def test_full_before_the_call_nothing_is_executed(act):
    seen = act("full_before")
    assert "full" in seen["refused"]["error"] or "limit on file size" in seen["refused"]["error"]
    assert seen["effects"] == []
    assert (seen["then"]["status"], seen["then"]["recorded"]) == ("succeeded", True)
    assert seen["after"] == ["a"]


def test_full_after_the_effect_the_value_arrives_and_the_outcome_comes_back(act):
    seen = act("full_after")
    assert (seen["first"]["status"], seen["first"]["value"], seen["first"]["recorded"]) == (
        "succeeded",
        "a done",
        False,
    )
    again, new = seen["meanwhile"]
    assert "error" in again or again["status"] == "in_progress"  # looking needs no room, once a connection is open
    assert "error" in new
    assert seen["effects"] == ["a"]
    assert "spill_failed" in seen["events"]
    assert seen["status"] == "succeeded"
    assert (seen["then"]["value"], seen["then"]["recorded"]) == ("a done", True)
    assert seen["after"] == ["a"]


def test_full_for_the_spill_file_too_until_the_process_dies_the_call_is_unknown_and_in_the_queue(act, tmp_path, shop):
    seen = act("full_and_gone")
    assert (seen["first"]["value"], seen["first"]["recorded"]) == ("a done", False)
    assert seen["effects"] == ["a"]
    at = shop.open()
    result = at.send.options(wait=60.0).call(order="a")
    assert result.status == "unknown"
    assert shop.effects == []
    resolved = at.guard.resolve(result.operation_id, "happened", result="a done", by="Ada", reason="the caller told")
    assert resolved.value == "a done"


def test_with_the_spill_file_on_another_disk_the_outcome_outlives_the_process(act, tmp_path):
    seen = act("full_with_spill_elsewhere")
    assert (seen["first"]["value"], seen["first"]["recorded"]) == ("a done", False)
    assert "spill_failed" not in seen["events"]
    spill = tmp_path / "other-disk" / "spill"
    assert spill.stat().st_size > 0
    with settled.Guard(f"sqlite:///{tmp_path}/agent.db?spill={spill}") as guard:
        found = guard.look(seen["first"]["id"])
        assert (found.status, found.value) == ("succeeded", "a done")
        assert spill.stat().st_size == 0


def test_read_only_files_and_folders_let_nothing_be_executed_that_is_not_on_record(act):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        seen = act("read_only", folder)
    assert seen["first"]["recorded"]
    assert seen["while_open"]["recorded"] or "error" in seen["while_open"]
    assert len(seen["effects_while_open"]) == 1 + ("error" not in seen["while_open"])
    for kind in ("file", "folder", "both"):
        assert seen[kind]["effects"] == [], (kind, seen[kind])
        said = seen[kind].get("error") or seen[kind]["answers"][1]["error"]
        assert "agent.db" in said
    assert seen["again"]["answers"][0]["value"] == "a done"
    assert seen["again"]["effects"] == ["c"]

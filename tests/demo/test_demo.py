"""The demo from end to end, small: real processes, real kills, nothing left running."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import settled
from settled.demo import run_demo
from settled.demo.__main__ import seeds_of
from settled.demo.agent import lines
from settled.demo.judge import Case, Figures
from settled.demo.report import cases, show
from settled.ports import CallQuery


def running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def started(folder):
    return [int(pid) for path in sorted(folder.rglob("pids")) for pid in path.read_text().split()]


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_small_demo_with_two_kills_and_nothing_doubled_lost_or_misreported(own_folder, capsys):
    code = run_demo(24, 11, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    guarded, careful = shown["guarded"], shown["careful"]
    assert {name: guarded[name] for name in ("doubled", "lost", "false", "needless")} == {
        name: [] for name in ("doubled", "lost", "false", "needless")
    }
    assert code == 0
    assert guarded["kills"] == careful["kills"] == 2
    assert guarded["faults"] > 0
    assert guarded["in_books"] + len(guarded["missing"]) == guarded["intended"]
    assert careful["doubled"]
    pids = started(own_folder)
    assert len(pids) == 1 + 3 + 1 + 1 + 3  # a shop, an agent started three times, its settling; a shop, an agent
    assert [pid for pid in pids if running(pid)] == []
    log = lines(Path(shown["folder"]) / "guarded" / "faults.jsonl")
    assert {line["pid"] for line in log if line["kind"] == "killed"} <= set(pids)
    with settled.Guard(shown["next"].rpartition(" ")[2], must_exist=True) as guard:
        assert len(guard.journal.find(CallQuery(limit=1000))) >= 12


def test_an_interrupted_demo_stops_all_it_started(own_folder):
    package = str(Path(settled.__file__).parents[1])
    demo = subprocess.Popen(
        [sys.executable, "-c", "import sys, settled.demo; sys.exit(settled.demo.run_demo(200, 1))"],
        env={**os.environ, "PYTHONPATH": package},
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while len(list(own_folder.rglob("reports.jsonl"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    demo.send_signal(signal.SIGINT)
    _, said = demo.communicate(timeout=60)
    assert (demo.returncode, said.startswith("stopped; its files are in")) == (130, True), said
    pids = started(own_folder)
    assert len(pids) >= 4
    assert [pid for pid in pids if running(pid)] == []


def test_the_table_is_plain_where_it_is_piped_and_lists_what_is_wrong(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    guarded = Figures(calls=10, intended=8, in_books=7, kills=2, added=0.0042, seconds=3.0)
    guarded.missing.append(Case("M0004", "post_note", "unknown: it may have happened", ("op_4",)))
    careful = Figures(calls=10, intended=8, in_books=8)
    careful.doubled.append(Case("M0001", "post_note", "2 times in the books, meant 1", rows=(3, 9)))
    show(guarded, careful, tmp_path, seed=4, command="settled queue list")
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "7/8 (87.5 %)" in out
    assert "4.2 ms" in out
    assert "post_note M0001: 2 times in the books, meant 1 [rows 3, 9]" in out
    assert "post_note M0004: unknown: it may have happened [op_4]" in out
    assert out.rstrip().endswith("settled queue list")


def test_a_long_list_of_cases_is_cut():
    assert cases("t", [Case(f"M{n}", "t", "w") for n in range(20)])[-1].strip() == "... and 8 more"


def test_what_is_wrong_in_two_ways_is_listed_once():
    assert cases("t", [Case("M", "t", "w"), Case("N", "t", "w"), Case("M", "t", "w")]) == ["t:", "  t M: w", "  t N: w"]


@pytest.mark.parametrize(("text", "seeds"), [("3", [3]), ("1-4", [1, 2, 3, 4]), ("1-2,7", [1, 2, 7])])
def test_seeds_are_read_from_text(text, seeds):
    assert seeds_of(text) == seeds


def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run_demo(10) == 2
    assert "settled[demo]" in capsys.readouterr().err

"""The judge finds what was planted: doubles, losses, lies, needless doubt. It believes the books, not the agent."""

import json

import pytest

from settled.demo.books import Books, tier_of
from settled.demo.judge import judge
from settled.demo.script import RunPlan, Wish

NOTE = Wish("M0001", "post_note", {"text": "a [M0001]"})
ADDRESS = Wish("M0002", "set_address", {"customer": "C001", "address": "b [M0002]"})
READ = Wish("M0003", "get_customer", {"customer": "C001"})


class Bench:
    """An agent's folder, filled by hand."""

    def __init__(self, folder, write_lines):
        self.folder, self._write = folder, write_lines
        self.reports, self.log, self.left = [], [], []
        self._books = Books(folder / "books.db")

    def happen(self, mark):
        return self._books.enter("/notes", {"text": f"[{mark}]"})

    def say(self, said, mark="M0001", *, entry=1, answer=None, tool="post_note"):
        self.reports.append(
            {"run_id": "r", "entry": entry, "mark": mark, "tool": tool, "said": said, "answer": answer}
            | {"why": "so", "operation_id": "op_1", "added": None}
        )

    def fault(self, kind, mark="M0001", at=10.0, *, doubt=True, **facts):
        self.log.append({"at": at, "kind": kind, "mark": mark, "path": "/notes", "doubt": doubt} | facts)

    def leave(self, mark="M0001", begun=9.9, ended=10.1, effect="write", probed=False):
        attempt = {"begun": begun, "ended": ended, "pid": 7, "fault": ""}
        call = {"operation_id": "op_1", "tool": "post_note", "effect": effect, "probed": probed, "mark": mark}
        self.left.append(call | {"attempts": [attempt]})

    def judge(self, *wishes):
        self._books.close()
        self._write(self.folder / "reports.jsonl", self.reports)
        self._write(self.folder / "faults.jsonl", self.log)
        self._write(self.folder / "requests.jsonl", [])
        facts = {"recorded": 1, "by_probe": 0, "left": self.left}
        (self.folder / "facts.json").write_text(json.dumps(facts))
        return judge(self.folder, [RunPlan("r", (wishes or (NOTE,),))])


@pytest.fixture
def bench(tmp_path, write_lines):
    return Bench(tmp_path, write_lines)


def counts(figures):
    names = ("doubled", "lost", "false", "missing", "left", "needless")
    return {name: len(getattr(figures, name)) for name in names if getattr(figures, name)}


def test_done_and_said_so(bench):
    bench.say("done", answer={"id": bench.happen("M0001")})
    figures = bench.judge()
    assert counts(figures) == {}
    assert figures.clean
    assert (figures.calls, figures.intended, figures.in_books) == (1, 1, 1)


def test_done_twice(bench):
    rows = (bench.happen("M0001"), bench.happen("M0001"))
    bench.say("done", answer={"id": rows[0]})
    figures = bench.judge()
    assert counts(figures) == {"doubled": 1}
    assert figures.doubled[0].rows == rows
    assert not figures.clean


def test_twice_is_right_if_it_was_meant_twice(bench):
    bench.say("done", answer={"id": bench.happen("M0001")})
    bench.say("done", answer={"id": bench.happen("M0001")})
    assert counts(bench.judge(NOTE, NOTE)) == {}


def test_one_effect_reported_as_two(bench):
    row = bench.happen("M0001")
    bench.say("done", answer={"id": row})
    bench.say("done", answer={"id": row})
    assert counts(bench.judge(NOTE, NOTE)) == {"lost": 1, "false": 1, "missing": 1}


def test_setting_the_same_thing_twice_is_setting_it_once(bench):
    bench.happen("M0002")
    bench.happen("M0002")
    bench.say("done", "M0002", tool="set_address")
    assert counts(bench.judge(ADDRESS)) == {}


def test_an_effect_that_nobody_meant(bench):
    bench.happen("M0666")
    bench.say("done", answer={"id": bench.happen("M0001")})
    assert counts(bench.judge()) == {"doubled": 1}


def test_said_to_be_done_and_is_not(bench):
    bench.say("done", answer={"id": 1})
    assert counts(bench.judge()) == {"lost": 1, "false": 1, "missing": 1}


def test_never_reported(bench):
    bench.happen("M0001")
    assert counts(bench.judge()) == {"lost": 1}


@pytest.mark.parametrize("said", ["failed", "not_done", "blocked"])
def test_said_not_to_be_done_and_is(bench, said):
    bench.happen("M0001")
    bench.say(said)
    assert counts(bench.judge()) == {"false": 1}


@pytest.mark.parametrize("said", ["failed", "not_done", "blocked"])
def test_said_not_to_be_done_and_is_not(bench, said):
    bench.say(said)
    figures = bench.judge()
    assert counts(figures) == {"missing": 1}
    assert figures.missing[0].what == f"{said}: so"
    assert figures.clean


def test_said_to_be_done_with_another_calls_number(bench):
    bench.happen("M0001")
    bench.say("done", answer={"id": 99})
    assert counts(bench.judge()) == {"false": 1}


@pytest.mark.parametrize("happened", [True, False])
def test_said_to_be_unknown_is_no_lie_either_way(bench, happened):
    if happened:
        bench.happen("M0001")
    bench.say("unknown")
    assert counts(bench.judge()) == ({} if happened else {"missing": 1})


def test_what_was_said_last_counts(bench):
    bench.say("failed", entry=1)
    bench.say("done", entry=2, answer={"id": bench.happen("M0001")})
    assert counts(bench.judge()) == {}


def test_a_read_must_bring_what_the_books_hold(bench):
    bench.say("done", "M0003", answer={"tier": tier_of(1)}, tool="get_customer")
    assert counts(bench.judge(READ)) == {}


def test_a_read_that_brings_another_answer_is_a_lie(bench):
    bench.say("done", "M0003", answer={"tier": tier_of(2)}, tool="get_customer")
    assert counts(bench.judge(READ)) == {"false": 1}


# --- doubt ---


def test_doubt_with_its_fault(bench):
    bench.say("unknown")
    bench.fault("502_after_effect")
    bench.leave()
    figures = bench.judge()
    assert counts(figures) == {"missing": 1, "left": 1}
    assert figures.left[0].what == "502_after_effect"
    assert figures.clean


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "throttled", "doubt": False},
        {"kind": "502_after_effect", "mark": "M0009"},
        {"kind": "502_after_effect", "at": 11.0},
        {"kind": "502_after_effect", "at": 9.0},
    ],
    ids=["without doubt", "of another call", "afterwards", "before"],
)
def test_doubt_without_a_fault_that_explains_it(bench, fault):
    bench.say("unknown")
    bench.fault(**fault)
    bench.leave()
    figures = bench.judge()
    assert len(figures.needless) == 1
    assert not figures.clean


@pytest.mark.parametrize(("pid", "ended", "tied"), [(7, None, True), (8, None, False), (7, 10.1, False)])
def test_a_kill_explains_what_its_process_had_not_ended(bench, pid, ended, tied):
    bench.say("unknown")
    bench.fault("killed", mark="", pid=pid)
    bench.leave(ended=ended)
    figures = bench.judge()
    assert (len(figures.left), len(figures.needless)) == ((1, 0) if tied else (0, 1))


@pytest.mark.parametrize(
    "tool", [{"effect": "read"}, {"effect": "idempotent"}, {"effect": "deduplicated"}, {"probed": True}]
)
def test_doubt_that_could_have_been_settled_is_needless(bench, tool):
    bench.say("unknown")
    bench.fault("502_after_effect")
    bench.leave(**tool)
    assert len(bench.judge().needless) == 1

"""The judge must see what is wrong: each test plants one thing."""

from __future__ import annotations

import json

import pytest

from bench.workloads.judge import Figures, judge
from bench.workloads.orders import Orders
from bench.workloads.report import verdicts

SEND = {"tool": "send", "arguments": {"to": "ann"}}
TWIN = {"tool": "send", "arguments": {"to": "ann"}}
OTHER = {"tool": "send", "arguments": {"to": "bob"}}
LOOK = {"tool": "look", "arguments": {}}
PLAN = {
    "tools": [{"name": "send", "changes": True}, {"name": "look", "changes": False}],
    "tasks": [{"id": "t", "calls": [SEND, TWIN, OTHER, LOOK]}],
}


def row(mark, *, key=None, fault="", executed=True, status=200, changed=None, answer="ok"):
    call = PLAN["tasks"][0]["calls"][mark]
    changed = call["tool"] == "send" and executed and status == 200 if changed is None else changed
    status = status if executed else 0
    facts = {"mark": mark, "key": key or f"k{mark}", "fault": fault, "executed": executed, "status": status}
    return {**call, **facts, "changed": changed, "answer": answer if executed else None}


def told(mark, said="done", value="ok", *, entry=1, operation=None):
    why = {"why": "", "asked": 1, "added": None}
    operation = f"op{mark}" if operation is None else operation
    return {"task": "t", "entry": entry, "mark": mark, "said": said, "value": value, "operation_id": operation, **why}


def record(mark, state="succeeded", *, key=None):
    call = PLAN["tasks"][0]["calls"][mark]
    return {**call, "task": "t", "operation_id": f"op{mark}", "key": key or f"k{mark}", "state": state}


@pytest.fixture
def left_out():
    """Places that the judge asked the world to leave out, by its questions."""
    return []


@pytest.fixture
def judged(tmp_path, left_out):
    def judge_it(rows, reports, records=None, queue=(), *, row="settled-probes", right=True, explained=True):
        (tmp_path / "reports.jsonl").write_text("".join(json.dumps(report) + "\n" for report in reports))
        if records is not None:
            (tmp_path / "journal.json").write_text(json.dumps({"calls": records, "queue": list(queue)}))

        def close(run, but):
            assert run == f"{row}/1/t"
            left_out.append(but)
            return {"right": right, "explained": explained, "rows": rows}

        return judge(Orders(tmp_path, "", row, 1, tmp_path), PLAN, close)

    return judge_it


ALL = [row(0), row(1), row(2), row(3)]
SAID = [told(0), told(1), told(2), told(3)]
RECORDS = [record(0), record(1), record(2), record(3)]


def failing(figures, name="settled-probes"):
    return [words for words, _, holds in verdicts(name, figures) if not holds]


def test_what_went_as_meant_is_clean(judged):
    figures = judged(ALL, SAID, RECORDS)
    assert failing(figures) == []
    assert (figures.runs, figures.calls, figures.right, figures.requests) == (1, 4, 1, 4)


def test_a_third_effect_of_twins_is_a_duplicate(judged):
    figures = judged([*ALL, row(0, key="k9")], SAID, [*RECORDS, record(0, key="k9")])
    assert len(figures.duplicates) == 1


def test_two_effects_under_one_key_are_a_duplicate_though_twins_were_meant(judged):
    figures = judged([row(0), row(0), row(2), row(3)], SAID, [record(0), record(2), record(3)])
    assert len(figures.duplicates) == 1
    assert "no duplicate effects" in failing(figures)


def test_a_read_may_be_executed_again(judged):
    assert failing(judged([*ALL, row(3)], SAID, RECORDS)) == []


def test_told_done_and_not_done_is_a_lie(judged):
    figures = judged([row(0), row(1), row(3)], SAID, [record(0), record(1), record(3)])
    assert len(figures.false_done) == 1


def test_told_done_with_an_answer_that_nobody_gave_is_a_lie(judged):
    figures = judged(ALL, [told(0), told(1), told(2, value="else"), told(3)], RECORDS)
    assert len(figures.false_done) == 1


@pytest.mark.parametrize("word", ["failed", "not_done", "rejected"])
def test_told_not_done_and_done_is_a_lie(judged, word):
    figures = judged(ALL, [told(0), told(1), told(2, word), told(3)], RECORDS)
    assert len(figures.false_not) == 1


def test_told_not_done_is_a_lie_also_where_the_tool_failed_in_the_middle(judged):
    rows, reports = (
        [row(0), row(1), row(2, status=500, changed=True), row(3)],
        [*SAID[:2], told(2, "not_done"), told(3)],
    )
    assert len(judged(rows, reports, RECORDS).false_not) == 1


def test_a_refusal_of_the_tool_is_none(judged):
    reports = [told(0), told(1), told(2, "failed"), told(3)]
    figures = judged(
        [row(0), row(1), row(2, status=422), row(3)], reports, [*RECORDS[:2], record(2, "failed"), record(3)]
    )
    assert failing(figures) == []


@pytest.mark.parametrize(("state", "kind"), [("not_done", "false_not"), ("failed", "false_not")])
def test_a_record_that_denies_an_effect_is_a_lie(judged, state, kind):
    figures = judged(ALL, SAID, [*RECORDS[:2], record(2, state), record(3)])
    assert len(getattr(figures, kind)) == 1


def test_a_record_that_claims_an_effect_is_a_lie(judged):
    figures = judged(ALL, SAID, [*RECORDS, record(2, key="k8")])
    assert len(figures.false_done) == 1


def test_an_effect_without_a_record_is_lost(judged):
    assert len(judged(ALL, SAID, [record(0), record(1), record(3)]).lost) == 1


def test_a_call_of_which_nothing_was_told_is_lost(judged):
    assert len(judged(ALL, SAID[:3], RECORDS).lost) == 1


def test_the_last_entry_has_the_last_word(judged):
    assert failing(judged(ALL, [told(2, "unknown"), *SAID[:2], told(2, entry=2), told(3)], RECORDS)) == []


def test_what_is_left_in_the_queue_fails_with_probes_only(judged):
    reports, records = [told(0), told(1), told(2, "unknown"), told(3)], [*RECORDS[:2], record(2, "unknown"), record(3)]
    rows = [row(0), row(1), row(2, fault="answer_lost"), row(3)]
    assert failing(judged(rows, reports, records, [record(2, "unknown")])) == ["every unknown call was settled"]
    figures = judged(rows, reports, records, [record(2, "unknown")], row="settled")
    assert (failing(figures, "settled"), len(figures.left), figures.queued) == ([], 1, 1)


def wrong_state(judged, **given):
    """A request was lost, the call was told unknown, and the state lacks its effect."""
    reports = [told(0), told(1), told(2, "unknown"), told(3)]
    rows = [row(0), row(1), row(2, fault=given.pop("fault", "request_lost"), executed=False), row(3)]
    records = [*RECORDS[:2], record(2, "unknown"), record(3)]
    return judged(
        rows, reports, records, **{"queue": [record(2, "unknown")], "right": False, "row": "settled", **given}
    )


def test_a_wrong_state_is_explained_by_a_queued_call_whose_fault_was_after_the_sending(judged, left_out):
    assert wrong_state(judged).unexplained == []
    assert left_out[-1] == [2]


def test_a_wrong_state_is_not_explained_by_a_call_that_never_stood_in_the_queue(judged):
    assert len(wrong_state(judged, queue=[]).unexplained) == 1


def test_a_wrong_state_is_not_explained_by_a_fault_before_the_sending(judged):
    assert len(wrong_state(judged, fault="refused").unexplained) == 1


def test_a_wrong_state_is_not_explained_if_more_is_missing_than_the_queued_calls(judged):
    assert len(wrong_state(judged, explained=False).unexplained) == 1


def test_with_probes_an_unknown_call_explains_no_wrong_state(judged):
    assert len(wrong_state(judged, row="settled-probes").unexplained) == 1


def test_a_call_given_up_explains_it_and_is_counted(judged):
    reports, records = (
        [told(0), told(1), told(2, "not_done"), told(3)],
        [*RECORDS[:2], record(2, "not_done"), record(3)],
    )
    figures = judged([row(0), row(1), row(2, executed=False, fault="refused"), row(3)], reports, records, right=False)
    assert (len(figures.given_up), figures.unexplained, failing(figures)) == (1, [], [])


def test_an_unknown_call_that_was_settled_as_not_done_counts_as_given_up(judged):
    reports, records = [told(0), told(1), told(2, "unknown"), told(3)], [*RECORDS[:2], record(2, "not_done"), record(3)]
    assert len(judged([row(0), row(1), row(3)], reports, records, right=False).given_up) == 1


def test_too_many_given_up_fail():
    figures = Figures(runs=100, calls=1000, given_up=["a", "b"], rejected=["c"])
    assert [words.startswith("given up and rejected: 3") for words in failing(figures)] == [True]


def test_of_careful_callers_nothing_is_demanded(judged):
    figures = judged([*ALL, row(2, key="k2")], SAID, row="careful", right=False)
    assert (len(figures.duplicates), verdicts("careful", figures)) == (1, [])

"""``settled runs``: list them, tell what one did, undo it, go on with undoing; and leave given in the queue."""

import json
import sys
from contextlib import suppress

import pytest

from settled.cli import main
from tests.cli.conftest import Ended

DESK = """
from pathlib import Path

import settled

guard = settled.Guard("sqlite:///desk.db")
REFUSED = Path("refused.txt").read_text().split() if Path("refused.txt").exists() else []


@guard.tool(effect="write")
def cancel(booking: str) -> str:
    if booking in REFUSED:
        raise settled.NotExecuted("no refund")
    return "cancelled"


@guard.tool(effect="write", compensate=cancel, undo=lambda call, result: {"booking": result})
def book(what: str) -> str:
    return f"b-{what}"


@guard.tool(effect="write", approve={"amount": 100}, waiver="money is money")
def pay(to: str, amount: int) -> str:
    return f"paid {to}"
"""


class Desk:
    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys
        (folder / "desk.py").write_text(DESK)

    def open(self):
        import importlib  # noqa: PLC0415 - the module is written by the test

        sys.modules.pop("desk", None)
        importlib.invalidate_caches()
        return importlib.import_module("desk")

    def trip(self, name, *what, error=None):
        module = self.open()
        with module.guard as guard, suppress(LookupError), guard.run(name, on_error="compensate", undo_within=0.0):
            for each in what:
                module.book(each)
            if error:
                raise LookupError(error)

    def rebook(self):
        """Let refusals be such as may pass."""
        text = DESK.replace('NotExecuted("no refund")', 'NotExecuted("busy", retryable=True)')
        (self.folder / "desk.py").write_text(text.replace('guard.tool(effect="write")', "guard.tool(attempts=1)"))

    def cli(self, *words, app=True):
        sys.modules.pop("desk", None)
        given = ["--journal", "sqlite:///desk.db", *(["--app", "desk:guard"] if app else [])]
        self.capsys.readouterr()
        code = main([*words, *given])
        said = self.capsys.readouterr()
        return Ended(code, said.out, said.err)


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("SETTLED_JOURNAL", "SETTLED_APP"):
        monkeypatch.delenv(name, raising=False)
    yield Desk(tmp_path, capsys)
    sys.modules.pop("desk", None)


def test_runs_are_listed_with_why(desk):
    desk.trip("good", "flight")
    desk.trip("bad", "flight", error="no taxi")
    listed = desk.cli("runs", "list", app=False)
    assert [line.split()[:2] for line in listed.out.splitlines()] == [
        ["RUN", "STATE"],
        ["bad", "compensated"],
        ["good", "completed"],
    ]
    assert "LookupError: no taxi" in listed.out
    assert "settled runs show bad" in listed.err
    found = desk.cli("runs", "list", "--state", "completed", "--json", app=False).json["runs"]
    assert [(run["run"], run["state"], run["entries"]) for run in found] == [("good", "completed", 1)]
    assert desk.cli("runs", "list", "--fail", app=False).code == 0


def test_a_list_that_is_not_the_whole_says_so(desk):
    """Where only the newest were looked at, 'no runs' would mean that none is like this."""
    desk.trip("old", "flight")
    desk.trip("new", "flight")
    listed = desk.cli("runs", "list", "--limit", "1", "--state", "kept", app=False)
    assert "no more than 1 were looked at" in listed.err
    assert "--limit 10" in listed.err
    assert desk.cli("runs", "list", "--limit", "1", "--json", app=False).json["more"] is True
    assert desk.cli("runs", "list", "--limit", "3", "--json", app=False).json["more"] is False
    assert "looked at" not in desk.cli("runs", "list", "--limit", "3", app=False).err


def test_a_run_that_wants_somebody_is_listed_however_old_it_is(desk):
    (desk.folder / "refused.txt").write_text("b-flight")
    desk.trip("old", "flight", error="no taxi")
    for number in range(3):
        desk.trip(f"new-{number}", "hotel")
    found = desk.cli("runs", "list", "--limit", "2", "--state", "partly_compensated", "--json", app=False).json["runs"]
    assert [run["run"] for run in found] == ["old"]


def test_a_run_reads_as_a_story(desk):
    desk.trip("bad", "flight", "hotel", error="no taxi")
    shown = desk.cli("runs", "show", "bad")
    told = [
        line.partition("  ")[2].strip().partition("  [")[0] for line in shown.out.split("What happened")[1].splitlines()
    ]
    words = [line.partition("  ")[2] for line in told if line]
    assert [each.split(" (by ")[0] for each in words] == [
        "book(what='flight') begins",
        "book(what='flight') is done",
        "book(what='hotel') begins",
        "book(what='hotel') is done",
        "book(what='hotel') is to be undone by cancel",
        "cancel(booking='b-hotel') begins",
        "cancel(booking='b-hotel') is done",
        "book(what='hotel') is undone",
        "book(what='flight') is to be undone by cancel",
        "cancel(booking='b-flight') begins",
        "cancel(booking='b-flight') is done",
        "book(what='flight') is undone",
    ]
    document = desk.cli("runs", "show", "bad", "--json").json
    assert (document["state"], document["reason"], len(document["story"]), document["next"]) == (
        "compensated",
        "LookupError: no taxi",
        12,
        [],
    )


INNER_TRIP = """
import contextlib, desk

def trip():
    run = desk.guard.run("bad", on_error="compensate", undo_within=0.0)
    with desk.guard, contextlib.suppress(LookupError), run:
        desk.book("flight")
        with desk.guard.run("stay"):
            desk.book("hotel")
            desk.book("dinner")
        raise LookupError("no taxi")
"""


def test_a_run_names_what_is_left_of_it_and_of_its_inner_runs_and_nothing_else(desk):
    (desk.folder / "refused.txt").write_text("b-hotel")
    (desk.folder / "inner.py").write_text(INNER_TRIP)
    lost = DESK.replace(
        '    return "cancelled"', '    if booking == "b-flight":\n        raise TimeoutError\n    return ""'
    )
    (desk.folder / "desk.py").write_text(lost)
    sys.modules.pop("inner", None)
    desk.open()
    import inner  # noqa: PLC0415 - written by the test

    inner.trip()
    hotel, flight = desk.cli("queue", "list", "--json", app=False).json["calls"]
    assert [(call["tool"], call["run"]) for call in (hotel, flight)] == [("book", "stay"), ("cancel", "bad")]
    table = desk.cli("queue", "list", app=False).out.splitlines()
    assert [line.split()[-1] for line in table] == ["RUN", "stay", "bad"]
    shown = desk.cli("runs", "show", "bad")
    late = "cancel(booking='b-flight'), which undoes book(what='flight'), is unknown: timeout"
    left = shown.out.split("What is left for a person\n")[1].split("\n\n")[0].splitlines()
    why = "not undone: its compensation was refused for good"
    assert left == [
        f"  book(what='hotel') is compensating: {why}  [{hotel['operation_id']}]",
        f"  {late}  [{flight['operation_id']}]",
    ]
    assert [call["operation_id"] for call in desk.cli("runs", "show", "bad", "--json").json["left"]] == [
        hotel["operation_id"],
        flight["operation_id"],
    ]
    assert "    book(what='dinner') is undone" in shown.out  # set in, as what is done inside of a call
    asked = desk.cli("queue", "show", flight["operation_id"])
    assert f"undoes   book(what='flight') [{flight['undoes']}]" in asked.out
    assert "run      bad\n" in asked.out
    inner_run = desk.cli("runs", "show", "stay", "--json").json
    assert [call["operation_id"] for call in inner_run["left"]] == [hotel["operation_id"]]


def test_a_run_that_is_not_there(desk):
    desk.trip("good", "flight")
    missing = desk.cli("runs", "show", "nobody", "--json")
    assert (missing.code, missing.error["code"]) == (4, "not_found")


def test_a_finished_run_is_undone_by_an_operator(desk):
    desk.trip("good", "flight", "hotel")
    assert "Nobody is here to be asked" in desk.cli("runs", "compensate", "good", "--reason", "cancelled").err
    undone = desk.cli("runs", "compensate", "good", "--reason", "the customer has called", "--yes", "--json")
    assert (undone.code, undone.json["runs"][0]["state"]) == (0, "compensated")
    assert undone.json["runs"][0]["reason"] == "the customer has called"
    again = desk.cli("runs", "compensate", "good", "--reason", "once more")
    assert (again.code, again.out) == (0, "good is compensated: all that it did is undone\n")


def test_undoing_needs_the_app(desk):
    desk.trip("good", "flight")
    refused = desk.cli("runs", "compensate", "good", "--reason", "x", "--yes", app=False)
    assert (refused.code, "name the app with --app" in refused.err) == (2, True)


def test_what_could_not_be_undone_is_in_the_queue_and_a_person_settles_it(desk):
    (desk.folder / "refused.txt").write_text("b-hotel")
    desk.trip("bad", "flight", "hotel", error="no taxi")
    assert desk.cli("runs", "list", "--fail", app=False).code == 1
    [waiting] = desk.cli("queue", "list", "--json", app=False).json["calls"]
    assert (waiting["waiting"], waiting["tool"], waiting["run"]) == ("undo", "book", "bad")
    assert "its compensation was refused for good" in waiting["why"]
    shown = desk.cli("queue", "show", waiting["operation_id"], app=False)
    assert f"settled queue resolve {waiting['operation_id']} undone --reason '...'" in shown.out
    assert "settled runs resume" not in shown.out  # that would bring nothing
    tried = desk.cli(
        "queue", "resolve", waiting["operation_id"], "undone", "--reason", "called", "--dry-run", app=False
    )
    assert "would be compensated on a person's word" in tried.out
    desk.cli("queue", "resolve", waiting["operation_id"], "undone", "--by", "ann", "--reason", "called", app=False)
    assert desk.cli("runs", "list", "--json", app=False).json["runs"][0]["state"] == "compensated"


def test_why_a_run_is_undone_stays_when_it_is_tried_again(desk):
    (desk.folder / "refused.txt").write_text("b-hotel")
    desk.trip("bad", "flight", "hotel", error="no taxi")
    [run] = desk.cli("runs", "list", "--json", app=False).json["runs"]
    assert (run["state"], "no taxi" in run["reason"]) == ("partly_compensated", True)
    (desk.folder / "refused.txt").unlink()
    again = desk.cli("runs", "compensate", "bad", "--reason", "once more", "--yes")
    assert f"it is partly_compensated already ({run['reason']}), and that stays the reason on record" in again.err
    [after] = desk.cli("runs", "list", "--json", app=False).json["runs"]
    assert after["reason"] == run["reason"]


def test_of_a_run_whose_rest_was_decided_on_nothing_is_said_to_stand_in_the_queue(desk):
    (desk.folder / "refused.txt").write_text("b-hotel")
    desk.trip("bad", "hotel", error="no taxi")
    [waiting] = desk.cli("queue", "list", "--json", app=False).json["calls"]
    ended = desk.cli("queue", "resolve", waiting["operation_id"], "hold", "--reason", "too dear", app=False)
    assert ended.out.endswith("is now left as it is, and not undone; out of the queue\n")
    assert desk.cli("queue", "list", "--json", app=False).json["total"] == 0
    shown = desk.cli("runs", "show", "bad")
    assert "undone in part: of the rest nothing waits for a person" in shown.out
    assert "queue" not in shown.out
    resumed = desk.cli("runs", "resume", "bad", "--wait", "0")
    assert (resumed.code, "queue" in resumed.out + resumed.err) == (1, False)


def test_leave_for_a_call_of_a_run_that_was_undone_is_not_proposed(desk):
    module = desk.open()
    with module.guard as guard, suppress(LookupError), guard.run("bad"):
        waiting = module.pay.options(wait=0).call("ann", 500).operation_id
        raise LookupError
    assert f"settled queue approve {waiting}" in desk.cli("queue", "show", waiting, app=False).out
    desk.cli("runs", "compensate", "bad", "--reason", "no taxi", "--yes")
    assert desk.cli("queue", "list", "--json", app=False).json["total"] == 0
    shown = desk.cli("queue", "show", waiting, app=False)
    assert ("queue approve" in shown.out, "by the rollback of its run" in shown.out) == (False, True)
    assert "this call waits for nobody" in shown.err
    for decision in (["approve", waiting], ["refuse", waiting, "--reason", "too late"]):
        decided = desk.cli("queue", *decision, app=False)
        assert (decided.code, "its run was rolled back" in decided.err) == (5, True)


def test_a_filter_by_run_means_what_the_queue_lists_of_it(desk):
    (desk.folder / "desk.py").write_text(DESK.replace('settled.NotExecuted("no refund")', "TimeoutError"))
    (desk.folder / "refused.txt").write_text("b-hotel")
    desk.trip("bad", "hotel", error="no taxi")
    desk.trip("good", "flight")
    [waiting] = desk.cli("queue", "list", "--json").json["calls"]
    assert (waiting["tool"], waiting["run"]) == ("cancel", "bad")
    words = ("queue", "resolve", "did-not-happen", "--then", "rerun", "--force", "--reason", "called")
    assert desk.cli(*words, "--run", "good", "--dry-run", "--json").json["total"] == 0
    ended = desk.cli(*words, "--run", "bad", "--yes")
    assert f"{waiting['operation_id']}  cancel  not_done on a person's word (asserted)" in ended.out
    assert "it runs when settled runs resume asks for it again" in ended.out
    (desk.folder / "refused.txt").unlink()
    assert desk.cli("runs", "resume", "bad").code == 0


def test_undoing_that_has_become_possible_is_gone_on_with(desk):
    desk.rebook()
    (desk.folder / "refused.txt").write_text("b-hotel")
    desk.trip("bad", "hotel", error="no taxi")
    partly = desk.cli("runs", "resume", "--wait", "0")
    assert (partly.code, "undone in part" in partly.out) == (1, True)
    (desk.folder / "refused.txt").unlink()
    resumed = desk.cli("runs", "resume", "--json")
    assert (resumed.code, [run["state"] for run in resumed.json["runs"]]) == (0, ["compensated"])
    assert desk.cli("runs", "resume").err.startswith("nothing is left")


def test_a_run_that_is_not_being_undone_is_its_programs_to_resume(desk):
    desk.trip("good", "flight")
    refused = desk.cli("runs", "resume", "good")
    assert (refused.code, "its own program goes on" in refused.err) == (5, True)


def test_a_worker_goes_on_with_undoing(desk):
    desk.rebook()
    (desk.folder / "refused.txt").write_text("b-hotel")
    desk.trip("bad", "hotel", error="no taxi")
    (desk.folder / "refused.txt").unlink()
    worked = desk.cli("worker", "--once", "--json")
    assert json.loads(worked.out)["runs_undone"] == 1
    assert desk.cli("runs", "list", "--json", app=False).json["runs"][0]["state"] == "compensated"


def test_leave_is_given_and_refused_from_the_queue(desk):
    module = desk.open()
    with module.guard:
        first = module.pay.options(wait=0).call("ann", 500)
        second = module.pay.options(wait=0).call("bob", 500)
    waiting = desk.cli("queue", "list", app=False)
    assert waiting.out.count("approval") == 2
    assert "amount is over 100" in waiting.out
    shown = desk.cli("queue", "show", first.operation_id, app=False)
    assert f"settled queue approve {first.operation_id}" in shown.out
    nobody = desk.cli("queue", "approve", first.operation_id, "--by", "", app=False)
    assert (nobody.code, "needs a name" in nobody.err) == (5, True)
    given = desk.cli("queue", "approve", first.operation_id, "--by", "eva", app=False)
    assert (given.code, "leave is given" in given.out) == (0, True)
    why = desk.cli("calls", "show", first.operation_id, "--json", app=False).json["why"]
    assert why == "leave was given by eva; it is made when its program asks for it again"
    refused = desk.cli("queue", "refuse", second.operation_id, "--by", "eva", "--reason", "no", "--json", app=False)
    assert refused.json["state"] == "refused"
    late = desk.cli("queue", "approve", second.operation_id, app=False)
    assert (late.code, "the call is refused" in late.err) == (5, True)
    module = desk.open()
    with module.guard:
        assert module.pay.call("ann", 500).value == "paid ann"
        assert module.pay.call("bob", 500).status == "refused"


def rewind(desk, *words, **options):
    call = desk.cli("calls", "list", "--json", app=False).json["calls"][-1]["operation_id"]
    given = ["--from", call, "--by", "eva", "--reason", "the date was wrong"]
    return desk.cli("runs", "rewind", "good", *given, *words, **options)


def test_a_run_is_rewound_only_once_it_is_said_what_becomes_of_its_effects(desk):
    desk.trip("good", "flight", "hotel")
    refused = rewind(desk, "--yes", "--json", app=False)
    assert (refused.code, refused.error["code"]) == (5, "refused")
    assert "--undo" in refused.error["message"]
    assert "--keep-effects" in refused.error["message"]
    dry = rewind(desk, "--keep-effects", "--dry-run", "--json", app=False)
    assert (dry.code, dry.json["dry_run"], len(dry.json["set_aside"]), dry.json["undone"]) == (0, True, 2, [])
    assert "Nobody is here to be asked" in rewind(desk, "--undo").err
    done = rewind(desk, "--undo", "--yes")
    assert done.code == 0
    assert [line.partition("] ")[2] for line in done.out.splitlines()] == ["is set aside and undone"] * 2
    assert "the next entry of run 'good' makes them anew" in done.err
    shown = desk.cli("runs", "show", "good").out
    assert "is noted: rewound by eva: the date was wrong" in shown
    assert "rewound by eva" in desk.cli("runs", "show", "good", "--json").json["reason"]
    desk.trip("good", "flight", "hotel")
    states = [each["state"] for each in desk.cli("calls", "list", "--tool", "book", "--json").json["calls"]]
    assert states == ["succeeded", "succeeded", "compensated", "compensated"]


def test_a_rewind_that_contradicts_itself_or_names_no_app(desk):
    desk.trip("good", "flight")
    assert rewind(desk, "--undo", "--keep-effects").code == 2
    assert rewind(desk, "--undo", app=False).code == 2
    assert desk.cli("runs", "rewind", "good", "--from", "op_none", "--reason", "x").code == 4
    assert desk.cli("runs", "rewind", "none", "--from", "op_none", "--reason", "x").code == 4

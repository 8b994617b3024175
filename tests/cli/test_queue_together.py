"""A queue that several people work on, and one verdict on many calls."""

import os
import signal
import subprocess
import sys

import pytest

import settled
from settled.api.people import care
from settled.core.doubt.late import Evidence
from settled.core.model import Evidence as Proof
from settled.core.model import Fault, FaultClass
from settled.core.states import State
from settled.errors import JournalError
from tests.shared import ROOT

REASON = ("--reason", "seen in the books")


def resolve(shop, *words):
    return shop.cli("queue", "resolve", *words, *REASON)


# --- claims ---


def test_who_claims_a_call_is_shown_and_nobody_else_decides(shop):
    op = shop.make("mail", to="a").operation_id
    assert shop.cli("queue", "claim", op, "--by", "Ada", "--for", "2h").code == 0
    assert "Ada looks at it" in shop.cli("queue", "list").out
    assert shop.cli("queue", "show", op, "--json").json["looked_at"]["by"] == "Ada"
    ended = resolve(shop, op, "happened", "--by", "Bob", "--json")
    assert (ended.code, ended.error["code"]) == (5, "refused")
    assert "Ada looks at it" in ended.error["message"]
    assert resolve(shop, op, "happened", "--by", "Bob", "--dry-run").code == 5
    assert shop.cli("queue", "claim", op, "--by", "Bob").code == 5
    assert resolve(shop, op, "happened", "--by", " ada ").code == 0, "names are compared as for leave"
    assert shop.look(op).state is State.SUCCEEDED


def test_a_claim_can_be_let_go_and_taken_over(shop):
    op = shop.make("mail", to="a").operation_id
    shop.cli("queue", "claim", op, "--by", "Ada")
    assert shop.cli("queue", "release", op, "--by", "Bob").code == 5
    assert shop.cli("queue", "release", op, "--by", "Ada", "--json").json["released"] is True
    assert shop.cli("queue", "release", op, "--by", "Ada", "--json").json["released"] is False
    shop.cli("queue", "claim", op, "--by", "Ada")
    assert shop.cli("queue", "claim", op, "--by", "Bob", "--take-over").code == 0
    assert resolve(shop, op, "happened", "--by", "Ada").code == 5
    assert resolve(shop, op, "happened", "--by", "Bob").code == 0


def test_a_claim_is_over_after_its_time(shop):
    op = shop.make("mail", to="a").operation_id
    assert shop.cli("queue", "claim", op, "--by", "Ada", "--for", "0.001").code == 0
    assert shop.cli("queue", "list", "--json").json["calls"][0]["looked_at"] is None
    assert resolve(shop, op, "happened", "--by", "Bob").code == 0


def test_a_decision_is_refused_once_the_call_has_changed_since_it_was_claimed(shop):
    op = shop.make("order", item="a").operation_id
    shop.cli("queue", "claim", op, "--by", "Ada")
    with settled.Guard(shop.url) as guard:
        guard.journal.perform(Evidence(op, 1, Fault(FaultClass.UNKNOWN, Proof.MAYBE, "late_word")))
    ended = resolve(shop, op, "happened", "--by", "Ada", "--json")
    assert (ended.code, "changed since you claimed it" in ended.error["message"]) == (5, True)
    shop.cli("queue", "claim", op, "--by", "Ada")
    assert resolve(shop, op, "happened", "--by", "Ada").code == 0


@pytest.mark.parametrize("time", ["", "x", "-3", "1y", "nan", "inf"])
def test_a_time_that_is_none_is_refused(shop, time):
    op = shop.make("mail", to="a").operation_id
    assert shop.cli("queue", "claim", op, f"--for={time}").code == 2


def test_what_waits_for_nobody_cannot_be_claimed(shop):
    assert shop.cli("queue", "claim", shop.make("price", item="a").operation_id).code == 5


# --- one verdict on many ---


def test_a_filter_decides_each_call_by_itself_and_tells_each_result(shop):
    mails = [shop.make("mail", to=str(number)).operation_id for number in range(3)]
    order = shop.make("order", item="a").operation_id
    shop.cli("queue", "claim", mails[1], "--by", "Bob")
    words = ("did-not-happen", "--tool", "mail", "--force", "--yes", "--by", "Ada", "--json")
    ended = resolve(shop, *words)
    assert ended.code == 1, "one of them was refused"
    rows = {row["operation_id"]: row for row in ended.json["calls"]}
    assert [rows[op]["taken"] for op in mails] == [True, False, True]
    assert "Bob looks at it" in rows[mails[1]]["refusal"]
    assert [shop.look(op).state for op in mails] == [State.FAILED, State.UNKNOWN, State.FAILED]
    assert shop.look(order).state is State.UNKNOWN
    assert shop.look(mails[0]).decided == "person:Ada"
    assert (ended.json["total"], ended.json["refused"]) == (3, 1)


def test_a_dry_run_over_a_filter_changes_nothing(shop):
    op, order = shop.make("mail", to="a").operation_id, shop.make("order", item="a").operation_id
    ended = resolve(shop, "did-not-happen", "--state", "unknown", "--dry-run", "--json")
    assert ended.code == 1
    assert {row["operation_id"]: row["taken"] for row in ended.json["calls"]} == {op: False, order: False}
    ended = resolve(shop, "did-not-happen", "--state", "unknown", "--force", "--dry-run", "--json")
    assert (ended.code, {row["state"] for row in ended.json["calls"]}) == (0, {"failed"})
    assert [shop.look(each).state for each in (op, order)] == [State.UNKNOWN] * 2


def test_all_parts_of_a_filter_must_fit(shop):
    op = shop.make("mail", to="a").operation_id
    shop.make("price", item="a")
    for words in (
        ("--older-than", "1h"),
        ("--state", "disputed"),
        ("--tool", "price"),
    ):
        ended = resolve(shop, "happened", "--tool", "mail", *words, "--yes", "--json")
        assert (ended.code, ended.json["total"]) == (0, 0), words
    assert resolve(shop, "happened", "--older-than", "0", "--limit", "1", "--yes", "--json").json["total"] == 1
    assert shop.look(op).state is State.SUCCEEDED


@pytest.mark.parametrize("command", [("resolve", "happened", "--yes", *REASON), ("list",)])
def test_a_filter_by_what_nobody_has_is_an_error_and_not_an_empty_queue(shop, command):
    shop.make("mail", to="a")
    mistyped = shop.cli("queue", *command, "--tool", "mial", "--json")
    assert (mistyped.code, mistyped.error["code"]) == (2, "usage")
    assert "no call on record is of a tool 'mial'; did you mean 'mail'?" in mistyped.error["message"]
    unknown = shop.cli("queue", *command, "--run", "r", "--json")
    assert (unknown.code, unknown.error["code"]) == (4, "not_found")
    assert "no run in" in unknown.error["message"]
    assert shop.cli("queue", *command, "--state", "maybe").code == 2
    with settled.Guard(shop.url) as guard, guard.run("r"):
        pass
    known = shop.cli("queue", *command, "--run", "r", "--json")
    assert (known.code, known.json["total"]) == (0, 0)
    if command == ("list",):
        assert "nothing that is meant by this waits" in shop.cli("queue", "list", "--run", "r").err


def test_a_filter_by_an_unknown_tenant_is_an_error(shop):
    shop.make("mail", to="a")
    ended = resolve(shop, "happened", "--tenant", "acme", "--yes", "--json")
    assert (ended.code, "no call on record is of a tenant 'acme'" in ended.error["message"]) == (2, True)


def test_the_queue_is_listed_by_filters(shop):
    mail, order = shop.make("mail", to="a").operation_id, shop.make("order", item="a").operation_id
    listed = shop.cli("queue", "list", "--tool", "mail", "--json").json
    assert (listed["total"], [row["operation_id"] for row in listed["calls"]]) == (1, [mail])
    listed = shop.cli("queue", "list", "--state", "unknown", "--state", "undo", "--json").json
    assert {row["operation_id"] for row in listed["calls"]} == {mail, order}
    assert shop.cli("queue", "list", "--tool", "mail", "--fail").code == 1
    assert shop.cli("queue", "list", "--state", "approval", "--fail").code == 0


def test_many_at_once_are_confirmed(shop, monkeypatch):
    import io  # noqa: PLC0415 - only here

    op = shop.make("mail", to="a").operation_id
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert resolve(shop, "happened", "--tool", "mail").code == 5
    assert shop.look(op).state is State.UNKNOWN


@pytest.mark.parametrize(
    "words",
    [("happened",), ("op_1", "happened", "--tool", "mail"), ("op_1", "op_2", "happened"), ("--tool", "mail", "maybe")],
)
def test_one_call_or_a_filter_is_named(shop, words):
    shop.make("mail", to="a")
    assert resolve(shop, *words).code == 2


def test_one_result_is_not_the_result_of_many(shop):
    shop.make("mail", to="a")
    assert resolve(shop, "happened", "--tool", "mail", "--result", "1").code == 2


@pytest.mark.parametrize("words", [("--tool", "mail", "--yes"), ("--tool", "mail", "--dry-run")])
def test_a_verdict_without_a_result_says_what_is_missing(shop, words):
    """A program that asks for the call again stops where it needs the value: nobody can give it later."""
    shop.make("mail", to="a")
    assert "what it returned was not said" in resolve(shop, "happened", *words).out


# --- what does not wait yet ---


def test_calls_of_a_dead_process_are_told_of_with_the_command_that_takes_them_in(shop):
    shop.make("price", item="a")
    make = "import shop; shop.guard.tools['crash'].call(item='a')"
    around = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run([sys.executable, "-c", make], cwd=shop.folder, env=around, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    for words in (("queue", "list"), ("status",)):
        told = shop.cli(*words).err
        assert "1 call under way of a process that is dead" in told
        assert "settled reconcile --app MODULE:GUARD --journal sqlite:///shop.db" in told
        assert shop.cli(*words, "--json").json["under_way"] == {"dead": 1, "unseen": 0}
    (row,) = shop.cli("calls", "list", "--state", "processing", "--json").json["calls"]
    assert "settled reconcile" in shop.cli("queue", "show", row["operation_id"]).err
    assert shop.cli("reconcile", app=True).code == 0
    assert shop.cli("queue", "list", "--json").json["under_way"] == {"dead": 0, "unseen": 0}
    assert shop.look(row["operation_id"]).state is State.UNKNOWN


def test_an_approval_shows_how_many_must_agree_and_who_did(shop):
    with settled.Guard(shop.url) as guard:

        @guard.tool(effect="write", approve=True, approvers=2)
        def pay(amount: int) -> int:
            return amount

        op = pay.options(wait=0).call(amount=5).operation_id
    assert "1 approval" in shop.cli("status").out
    shown = shop.cli("queue", "show", op)
    assert "2 persons" in shown.out
    assert "nobody so far" in shown.out
    assert shop.cli("queue", "approve", op, "--by", "Ada").code == 0
    shown = shop.cli("queue", "show", op)
    assert "Ada" in shown.out
    leave = shop.cli("queue", "show", op, "--json").json["leave"]
    assert (leave["persons"], leave["agreed"], leave["given"]) == (2, ["Ada"], False)


def test_what_is_left_to_a_person_says_what_is_wanted_and_what_to_type(shop):
    with settled.Guard(shop.url) as guard:

        @guard.tool(effect="write", fallback=settled.Person("pay it by hand"), key="bill:{number}")
        def pay(number: int) -> str:
            raise settled.NotExecuted("the card was declined")

        op, other = (pay.call(number=number).operation_id for number in (5, 6))
        assert "2 by_hand" in shop.cli("status").out
        assert "left to a person: pay it by hand" in shop.cli("queue", "list").out
        shown = shop.cli("queue", "show", op).out
        for words in ("By hand", "pay it by hand", "the card was declined", '"number": 5'):
            assert words in shown
        assert f"settled queue resolve {op} happened --result '...' --reason '...'" in shown
        assert f"settled queue refuse {op} --reason '...'" in shown
        assert "queue approve" not in shown
        done = shop.cli(
            "queue", "resolve", op, "happened", "--result", '"receipt 7"', "--reason", "paid", "--by", "Ada"
        )
        assert (done.code, "succeeded on a person's word (asserted), out of the queue" in done.out) == (0, True)
        assert shop.cli("queue", "refuse", other, "--reason", "not ours", "--by", "Ada").code == 0
        assert shop.cli("queue", "approve", other, "--by", "Ada").code != 0
        assert pay(number=5) == "receipt 7"
        assert pay.call(number=6).status == "refused"
    assert shop.cli("queue", "list").err.startswith("nothing waits for a person")


def test_what_was_closed_by_a_rollback_and_done_all_the_same_is_told_of(shop):
    with settled.Guard(shop.url) as guard:

        @guard.tool(effect="write", fallback=settled.Person(), waiver="stays")
        def pay(number: int) -> str:
            raise settled.NotExecuted("the card was declined")

        with guard.run("r", on_error="compensate") as run:
            op = pay.call(number=5).operation_id
            run.compensate("the customer is gone")
    assert "by the rollback of its run" in shop.cli("queue", "show", op).out
    late = shop.cli("queue", "resolve", op, "happened", "--reason", "I had paid", "--by", "Ada")
    assert (late.code, "refused" in late.out, "still in the queue" in late.out) == (0, True, True)
    assert "that is done by hand too" in shop.cli("queue", "show", op).out


def test_what_was_decided_before_the_journal_went_away_is_told(shop, monkeypatch):
    for to in "abc":
        shop.make("mail", to=to)
    give, given = care.resolve, []

    def resolve_twice(*arguments, **options):
        if len(given) == 2:
            raise JournalError("the journal is away")
        given.append(arguments)
        return give(*arguments, **options)

    monkeypatch.setattr(care, "resolve", resolve_twice)
    ended = resolve(shop, "happened", "--tool", "mail", "--yes", "--json")
    assert ended.code == 3
    assert "2 of 3 calls were decided on; then the journal is away" in ended.error["message"]
    assert [call["taken"] for call in ended.json["calls"]] == [True, True]
    assert ended.json["not_reached"] == 1

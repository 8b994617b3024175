"""What is on record: status, lists, one call."""

import pytest

from settled.core.runs.entering import run_of, scope_of_run
from settled.core.states import State

ROW = {
    *("operation_id", "tool", "state", "waiting", "why", "effect", "declared", "created", "changed", "attempts"),
    *(
        "reason",
        "decided",
        "disputed",
        "asserted",
        "held",
        "not_before",
        "key",
        "key_kind",
        "sent_key",
        "tenant",
        "run",
        "undoes",
        "scope",
    ),
    *("step", "part_of"),
}


def listed(shop, *words):
    return [call["operation_id"] for call in shop.cli("calls", "list", "--json", *words).json["calls"]]


def test_list_shows_the_newest_first(shop):
    made = [shop.make("price", item=str(n)).operation_id for n in range(3)]
    ended = shop.cli("calls", "list")
    assert ended.out.splitlines()[0].split() == ["OP", "STATE", "MADE", "ATTEMPTS", "TOOL"]
    assert [line.split()[0] for line in ended.out.splitlines()[1:]] == made[::-1]
    assert ended.err == ""


def test_list_as_json_has_stable_names(shop):
    shop.make("price", run="trip-42", item="a")
    document = shop.cli("calls", "list", "--json").json
    assert set(document) == {"calls", "next_after", "unreadable"}
    (row,) = document["calls"]
    assert set(row) == ROW
    assert (row["tool"], row["state"], row["run"], row["attempts"]) == ("price", "succeeded", "trip-42", 1)
    assert row["created"].endswith("+00:00")


def test_list_goes_on_after_a_call(shop):
    made = [shop.make("price", item=str(n)).operation_id for n in range(5)][::-1]
    first = shop.cli("calls", "list", "--limit", "2", "--json").json
    assert first["next_after"] == made[1]
    assert listed(shop, "--limit", "2", "--after", made[1]) == made[2:4]
    last = shop.cli("calls", "list", "--limit", "2", "--after", made[3], "--json").json
    assert ([call["operation_id"] for call in last["calls"]], last["next_after"]) == (made[4:], None)
    assert f"--after {made[1]}" in shop.cli("calls", "list", "--limit", "2").err


def test_list_after_a_call_that_is_not_there_says_so(shop):
    shop.make("price", item="a")
    assert shop.cli("calls", "list", "--after", "op_none").code == 4


def test_list_can_be_narrowed(shop):
    read = shop.make("price", item="a").operation_id
    sent = shop.make("mail", run="r1", to="a").operation_id
    assert listed(shop, "--tool", "mail") == [sent]
    assert listed(shop, "--state", "succeeded") == [read]
    assert listed(shop, "--state", "succeeded", "--state", "unknown") == [sent, read]
    assert listed(shop, "--run", "r1") == [sent]
    assert listed(shop, "--tenant", "acme") == []
    assert listed(shop, "--run", "r1", "--tenant", "acme") == []


@pytest.mark.parametrize("words", [("--state", "lost"), ("--limit", "0"), ("--limit", "many"), ("extra",)])
def test_bad_input_is_a_usage_error(shop, words):
    shop.make("price", item="a")
    ended = shop.cli("calls", "list", *words)
    assert ended.code == 2
    assert "Usage: settled calls list" in ended.err
    assert ended.out == ""


def test_a_list_without_calls_is_empty_on_stdout(shop):
    shop.open().guard.close()
    ended = shop.cli("calls", "list")
    assert (ended.code, ended.out) == (0, "")
    assert shop.cli("calls", "list", "--json").json == {"calls": [], "next_after": None, "unreadable": []}


def test_show_tells_arguments_result_attempts_and_log(shop):
    op = shop.make("price", item="a").operation_id
    ended = shop.cli("calls", "show", op)
    assert ended.code == 0
    for words in (op, "price (read)", '"item": "a"', "9.5", "Attempt 1", "success", "claim", "succeed"):
        assert words in ended.out
    document = shop.cli("calls", "show", op, "--json").json
    more = {
        "undoes_what",
        "arguments",
        "arguments_note",
        "leave",
        "result",
        "result_note",
        "doubt",
        "log",
        "draft",
        "items",
    }
    assert set(document) == ROW | more
    assert (document["arguments"], document["result"], document["doubt"]) == ({"item": "a"}, 9.5, None)
    assert [row["event"] for row in document["log"]] == ["claim", "succeed"]
    assert document["attempts"][0]["process"]["alive"] is True


def test_show_finds_a_call_by_its_key(shop):
    op = shop.make("price", item="a").operation_id
    assert shop.cli("calls", "show", shop.look(op).key, "--json").json["operation_id"] == op


def test_show_of_nothing_is_not_found(shop):
    shop.make("price", item="a")
    ended = shop.cli("calls", "show", "op_none", "--json")
    assert (ended.code, ended.out) == (4, "")
    assert ended.error["code"] == "not_found"
    assert ended.error["exit"] == 4
    assert "op_none" in ended.error["message"]


def test_an_expired_call_says_that_its_arguments_are_gone(shop):
    op = shop.make("note", run="r1", text="a").operation_id
    shop.cli("journal", "prune")
    ended = shop.cli("calls", "show", op)
    assert "erased when the record expired" in ended.out
    assert "expired" in ended.out


def test_status_counts(shop):
    shop.make("price", item="a")
    assert "empty" in shop.cli("status").out
    shop.make("order", item="a")
    shop.make("mail", to="a")
    ended = shop.cli("status")
    assert (ended.code, shop.cli("status", "--fail").code) == (0, 1)
    assert "to see why alerts are not delivered: settled alerts list" in ended.err
    for words in ("1 succeeded", "2 unknown", "1 undeclared", "s ago", "2 not delivered"):
        assert words in ended.out
    document = shop.cli("status", "--json").json
    assert document["calls"] == {"succeeded": 1, "unknown": 2}
    oldest = document["queue"].pop("oldest")
    assert oldest > "20"
    kinds = {"unknown": 2, "orphan": 0, "disputed": 0, "undo": 0, "approval": 0, "by_hand": 0}
    assert document["queue"] == {"total": 2, **kinds, "undeclared": 1, "held": 0}
    assert document["under_way"] == {"dead": 0, "unseen": 0}
    assert document["tools_paused"] == []
    assert document["alerts_undelivered"] == 2
    assert document["breakers_open"] == []
    assert document["journal"].startswith("sqlite:///")
    assert document["journal_id"].startswith("jn_")


@pytest.mark.parametrize("tenant", ["", "acme", "a:b"])
@pytest.mark.parametrize("run", ["trip-42", "a:b", ""])
def test_a_scope_gives_its_run_back(tenant, run):
    assert run_of(scope_of_run(tenant, run)) == run
    assert run_of("call:op_1") is None
    assert run_of("") is None


def test_every_state_can_be_asked_for(shop):
    shop.make("price", item="a")
    for state in State:
        assert shop.cli("calls", "list", "--state", state.value).code == 0


@pytest.mark.parametrize(
    ("words", "code"), [(("--tool", "nope"), 2), (("--run", "nope"), 4), (("--tenant", "acme"), 0)]
)
def test_a_list_of_what_nobody_knows_is_an_error_and_not_empty(shop, words, code):
    shop.make("mail", to="a")
    ended = shop.cli("calls", "list", *words)
    assert (ended.code, "nope" in ended.err) == (code, code != 0)

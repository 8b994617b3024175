"""What waits for a person: listed, shown, probed, decided."""

import io
import os
import signal
import subprocess
import sys

import pytest

import settled
from settled.core.doubt.late import Evidence
from settled.core.encoding.strict_json import parse
from settled.core.states import State
from tests.shared import ROOT

# --- list ---


def test_an_empty_queue_says_so_on_stderr_only(shop):
    shop.make("price", item="a")
    ended = shop.cli("queue", "list")
    assert (ended.code, ended.out) == (0, "")
    assert "nothing waits" in ended.err
    assert shop.cli("queue", "list", "--fail").code == 0


def test_list_shows_the_oldest_first_with_ids_in_full_and_undeclared_ones_marked(shop):
    first, second = shop.make("order", item="a"), shop.make("mail", to="b@example.org")
    ended = shop.cli("queue", "list")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["OP", "SINCE", "WHAT", "TOOL", "WHY"]
    assert lines[1].startswith(first.operation_id)
    assert "order *" not in lines[1]
    assert lines[2].startswith(second.operation_id)
    assert "mail *" in lines[2]
    assert "timeout" in lines[2]
    assert ended.code == 0


def test_list_fails_on_demand_and_counts_beyond_its_limit(shop):
    made = [shop.make("mail", to=f"{n}@example.org").operation_id for n in range(3)]
    assert shop.cli("queue", "list", "--fail").code == 1
    ended = shop.cli("queue", "list", "--limit", "2", "--json")
    assert ended.json["total"] == 3
    assert [call["operation_id"] for call in ended.json["calls"]] == made[:2]
    assert "1 more" in shop.cli("queue", "list", "--limit", "2").err


# --- show ---


def test_show_tells_what_a_person_needs_to_decide(shop):
    op = shop.make("order", item="lost book", card="4111111111111111").operation_id
    ended = shop.cli("queue", "show", op)
    for words in (
        "order (write)",
        '"item": "lost book"',
        "timeout: TimeoutError",
        "may have been done",
        "s ago)",
        "(in ",
    ):
        assert words in ended.out
    assert "4111" not in ended.out
    assert f"settled queue probe {op} --app MODULE:GUARD --journal sqlite:///shop.db" in ended.out
    assert f"settled queue resolve {op} did-not-happen --then rerun --force --yes --reason '...'" in ended.out
    log = [line.split() for line in ended.out.partition("\nLog\n")[2].splitlines()[:3]]
    assert [(row[0], *row[3:5]) for row in log[1:]] == [("1", "claim", "processing"), ("2", "doubt", "unknown")]


def test_show_says_how_a_probe_could_prove_that_nothing_happened(shop):
    op = shop.make("order", item="a").operation_id
    probe = shop.cli("queue", "show", op, "--json").json["doubt"]["probe"]
    assert probe["declared"] is True
    assert probe["proves_absence_now"] is False
    assert probe["proves_absence_from"] > "20"
    op = shop.make("mail", to="a").operation_id
    probe = shop.cli("queue", "show", op, "--json").json["doubt"]["probe"]
    assert probe["proves_absence_from"] is None
    assert probe["why"].startswith("never")


def test_show_accepts_a_key_and_says_when_nothing_waits(shop):
    op = shop.make("price", item="a").operation_id
    key = shop.look(op).key
    ended = shop.cli("queue", "show", key)
    assert op in ended.out
    assert "waits for nobody" in ended.err
    assert "What now" not in ended.out


def test_a_repeatable_tool_is_said_to_be_one(shop):
    op = shop.make("label", item="a").operation_id
    assert "does no harm" in shop.cli("queue", "show", op).out


def test_what_is_recorded_cannot_steer_the_terminal(shop):
    op = shop.make("mail", to="a\x1b[2Jb", text="x\u202ey").operation_id
    ended = shop.cli("queue", "show", op)
    assert "\x1b" not in ended.out
    assert "\u202e" not in ended.out


# --- probe ---


def test_a_probe_that_finds_the_effect_settles_the_call(shop):
    op = shop.make("order", item="lost book").operation_id
    ended = shop.cli("queue", "probe", op, app=True)
    assert ended.code == 0
    assert "it happened" in ended.out
    assert "asked for" not in ended.out, "what the app prints is talk"
    assert shop.look(op).state is State.SUCCEEDED


def test_a_probe_that_is_no_proof_yet_leaves_the_call_unknown(shop):
    op = shop.make("order", item="a").operation_id
    ended = shop.cli("queue", "probe", op, app=True)
    assert ended.code == 1
    assert "does not see it" in ended.out
    assert "max_request_lifetime" in ended.out
    assert shop.look(op).state is State.UNKNOWN


def test_waiting_makes_a_negative_answer_proof(shop):
    shop.write(lifetime=0.2)
    op = shop.make("order", item="a").operation_id
    ended = shop.cli("queue", "probe", op, "--wait", "30", "--json", app=True)
    assert (ended.code, ended.json["said"], ended.json["state"]) == (0, "not_happened", "not_done")


@pytest.mark.parametrize(
    ("tool", "said", "words"),
    [("ship", "inconclusive", "the carrier's site is down"), ("phone", "failed", "OSError: no line")],
)
def test_what_a_probe_could_not_tell_is_told(shop, tool, said, words):
    argument = {"ship": "item", "phone": "number"}[tool]
    op = shop.make(tool, **{argument: "a"}).operation_id
    ended = shop.cli("queue", "probe", op, "--json", app=True)
    assert ended.code == 1
    assert (ended.json["said"], ended.json["words"]) == (said, words)


def test_a_probe_needs_an_app_a_tool_and_a_probe(shop):
    op = shop.make("mail", to="a").operation_id
    assert shop.cli("queue", "probe", op).code == 2
    ended = shop.cli("queue", "probe", op, app=True)
    assert ended.code == 5
    assert "no probe" in ended.err
    assert shop.cli("queue", "probe", "op_none", app=True).code == 4
    (shop.folder / "other.py").write_text("import settled\nguard = settled.Guard('sqlite:///shop.db')\n")
    ended = shop.cli("queue", "probe", op, "--app", "other:guard")
    sys.modules.pop("other")
    assert ended.code == 5
    assert "no tool 'mail'" in ended.err


# --- resolve ---


def resolve(shop, op, verdict, *words, **options):
    return shop.cli("queue", "resolve", op, verdict, "--reason", "the shop says so", *words, **options)


def test_happened_with_a_result_gives_it_to_the_next_asker(shop):
    op = shop.make("order", run="r1", item="a").operation_id
    ended = resolve(shop, op, "happened", "--by", "Ada", "--result", '{"number": 4, "due": "2031-02-03"}', app=True)
    assert ended.code == 0
    assert "succeeded on a person's word (asserted), out of the queue" in ended.out
    call = shop.look(op)
    assert (call.decided, call.reason) == ("person:Ada", "the shop says so")
    module = shop.open()
    with module.guard as guard, guard.run("r1"):
        assert module.order(item="a") == module.Order(4, module.date(2031, 2, 3))
    assert shop.cli("queue", "list", "--json").json["total"] == 0


def test_a_result_that_does_not_fit_the_tool_is_refused(shop):
    op = shop.make("order", item="a").operation_id
    ended = resolve(shop, op, "happened", "--result", '{"number": "many"}', app=True)
    assert ended.code == 2
    assert "number" in ended.err
    assert "due" in ended.err
    assert "quotes" not in ended.err
    assert shop.look(op).state is State.UNKNOWN


@pytest.mark.parametrize("app", [True, False])
@pytest.mark.parametrize("text", ["ord_17", "2031-02-03", "'ord_17'", "[" * 100_000])
def test_a_text_without_quotes_is_told_how_it_is_written(shop, app, text):
    op = shop.make("mail", to="a").operation_id
    ended = resolve(shop, op, "happened", "--result", text, app=app)
    assert (ended.code, """a text stands in quotes, as in --result '"ord_17"'""" in ended.err) == (2, True)


def test_what_a_run_leaves_to_a_person_is_looked_at_before_the_run_is_undone(shop):
    shop.make("mail", run="r1", to="a")
    look, undo = shop.cli("runs", "show", "r1", "--json").json["next"]
    assert look.startswith("settled queue list --run r1")
    assert undo.startswith("settled runs compensate r1")


@pytest.mark.parametrize("app", [True, False])
@pytest.mark.parametrize("result", ['{"number": 1, "number": 2, "due": "2026-01-02"}', "NaN", "{", '"\\ud800"'])
def test_a_result_that_says_two_things_or_none_is_refused(shop, result, app):
    op = shop.make("order", item="a").operation_id
    ended = resolve(shop, op, "happened", "--result", result, app=app)
    assert (ended.code, "--result does not fit order" in ended.err) == (2, True)
    assert shop.look(op).state is State.UNKNOWN


def test_a_result_of_null_is_a_result(shop):
    op = shop.make("mail", run="r1", to="a").operation_id
    assert resolve(shop, op, "happened", "--result", "null", app=True).code == 0
    module = shop.open()
    with module.guard as guard, guard.run("r1"):
        assert module.mail.call(to="a").value_available


def test_without_an_app_the_result_is_kept_as_json_and_fits_later(shop):
    op = shop.make("order", run="r1", item="a").operation_id
    assert resolve(shop, op, "happened", "--result", '{"number": 4, "due": "2031-02-03"}').code == 0
    module = shop.open()
    with module.guard as guard, guard.run("r1"):
        assert module.order(item="a").due.year == 2031


def test_by_defaults_to_the_user_of_the_system(shop, monkeypatch):
    monkeypatch.setenv("LOGNAME", "grace")
    op = shop.make("mail", to="a").operation_id
    assert resolve(shop, op, "hold").code == 0
    assert shop.look(op).decided == "person:grace"


@pytest.mark.parametrize(("then", "state"), [("rerun", State.NOT_DONE), ("fail", State.FAILED)])
def test_did_not_happen_runs_again_or_fails(shop, then, state):
    op = shop.make("mail", to="a").operation_id
    assert resolve(shop, op, "did-not-happen", "--then", then, "--force", "--yes").code == 0
    call = shop.look(op)
    assert (call.state, call.asserted) == (state, True)


def test_hold_keeps_it_in_the_queue_with_name_and_reason(shop):
    op = shop.make("mail", to="a").operation_id
    assert "still in the queue" in resolve(shop, op, "hold", "--by", "Ada").out
    listed = shop.cli("queue", "list")
    assert "held" in listed.out
    assert "Ada holds it as it is: the shop says so" in shop.cli("queue", "show", op).out


def test_what_could_still_take_effect_is_refused_unless_forced(shop, monkeypatch):
    op = shop.make("order", item="a").operation_id
    ended = resolve(shop, op, "did-not-happen", "--json")
    assert (ended.code, ended.error["code"]) == (5, "refused")
    assert "force" in ended.error["message"]
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    ended = resolve(shop, op, "did-not-happen", "--force")
    assert ended.code == 5
    assert "--yes" in ended.err
    assert shop.look(op).state is State.UNKNOWN
    assert resolve(shop, op, "did-not-happen", "--force", "--yes").code == 0
    assert shop.look(op).asserted is True


@pytest.mark.parametrize(("typed", "code", "state"), [("y\n", 0, State.FAILED), ("n\n", 5, State.UNKNOWN)])
def test_force_asks_at_a_terminal(shop, monkeypatch, typed, code, state):
    op = shop.make("order", item="a").operation_id
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    assert resolve(shop, op, "did-not-happen", "--force").code == code
    assert shop.look(op).state is state


class Terminal(io.StringIO):
    """A text that passes for a terminal at which it is typed."""

    def isatty(self):
        return True


def test_a_dry_run_tells_and_changes_nothing(shop):
    op = shop.make("mail", to="a").operation_id
    ended = resolve(shop, op, "did-not-happen", "--force", "--dry-run", "--json")
    assert (ended.json["dry_run"], ended.json["state"], ended.json["asserted"]) == (True, "failed", True)
    assert shop.look(op).state is State.UNKNOWN
    op = shop.make("order", item="a").operation_id
    assert resolve(shop, op, "did-not-happen", "--dry-run").code == 5


@pytest.mark.parametrize(
    "words",
    [
        ("happened", "--then", "fail"),
        ("hold", "--force"),
        ("hold", "--result", "1"),
        ("happened", "--result", "{"),
        ("maybe",),
    ],
)
def test_options_that_do_not_go_together_are_usage_errors(shop, words):
    op = shop.make("mail", to="a").operation_id
    assert resolve(shop, op, *words).code == 2
    assert shop.look(op).state is State.UNKNOWN


def test_a_verdict_needs_a_reason_that_says_something(shop):
    op = shop.make("mail", to="a").operation_id
    assert shop.cli("queue", "resolve", op, "hold").code == 2
    assert shop.cli("queue", "resolve", op, "hold", "--reason", "...").code == 2
    assert shop.look(op).held is False


def test_what_is_settled_is_not_decided_again(shop):
    op = shop.make("price", item="a").operation_id
    ended = resolve(shop, op, "happened")
    assert ended.code == 5
    assert "succeeded, not unknown" in ended.err
    assert resolve(shop, "op_none", "happened").code == 4


# --- disputes and orphans ---


def disputed(shop):
    """A call that a person settled as not done, before its answer came after all."""
    op = shop.make("mail", to="a").operation_id
    resolve(shop, op, "did-not-happen", "--by", "Ada", "--force", "--yes")
    with settled.Guard(shop.url) as guard:
        guard.journal.perform(Evidence(op, 1, None))
    return op


def test_a_dispute_stands_in_the_queue_until_somebody_has_seen_it(shop):
    op = disputed(shop)
    row = shop.cli("queue", "list", "--json").json["calls"][0]
    assert (row["operation_id"], row["waiting"], row["state"]) == (op, "disputed", "failed")
    assert "recorded as failed (by Ada), and evidence against that came later" in row["why"]
    shown = shop.cli("queue", "show", op, "--json").json
    assert [choice["verdict"] for choice in shown["doubt"]["choices"]] == ["hold"]
    ended = resolve(shop, op, "hold", "--by", "Grace")
    assert "out of the queue" in ended.out
    call = shop.look(op)
    assert (call.state, call.disputed, call.held) == (State.FAILED, True, True)
    assert call.decided == "person:Ada", "the verdict stays what it was"
    assert shop.cli("queue", "list", "--json").json["total"] == 0
    assert "seen by Grace" in shop.cli("calls", "show", op).out


def test_a_disputed_call_takes_no_other_verdict(shop):
    op = disputed(shop)
    assert resolve(shop, op, "happened").code == 5
    assert resolve(shop, op, "did-not-happen").code == 5


@pytest.fixture
def orphan(shop):
    """A call whose process was killed in the middle of it."""
    shop.write(lease=2.0)
    code = "import shop; shop.crash.call(item='a')"
    around = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}"}
    died = subprocess.run([sys.executable, "-c", code], cwd=shop.folder, env=around, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL
    while not (found := shop.cli("queue", "list", "--json").json["calls"]):
        pass
    return found[0]


def test_a_call_whose_process_was_killed_waits_too(shop, orphan):
    assert (orphan["state"], orphan["waiting"]) == ("processing", "orphan")
    ended = shop.cli("queue", "show", orphan["operation_id"])
    assert "dead" in ended.out
    assert "no end on record" in ended.out
    assert "1 orphan" in shop.cli("status").out


def test_an_orphan_can_be_decided_at_once(shop, orphan):
    op = orphan["operation_id"]
    tried = resolve(shop, op, "did-not-happen", "--then", "rerun", "--force", "--dry-run", "--json")
    assert tried.json["state"] == "not_done"
    assert resolve(shop, op, "happened").code == 0
    assert shop.look(op).state is State.SUCCEEDED


def test_reconcile_takes_orphans_in_and_asks_the_probes(shop, orphan):
    found, absent = shop.make("order", item="lost book"), shop.make("order", item="a")
    ended = shop.cli("reconcile", "--json", "--fail", app=True)
    assert ended.code == 1
    counts = {"orphans": 1, "happened": 1, "did_not_happen": 0, "left": 2, "probes_failed": 0, "waiting": 2}
    assert ended.json == counts | {"unreadable": []}
    assert parse(ended.out), "what the probes print is not on stdout"
    assert shop.look(orphan["operation_id"]).state is State.UNKNOWN
    assert shop.look(found.operation_id).state is State.SUCCEEDED
    assert shop.look(absent.operation_id).state is State.UNKNOWN
    assert shop.cli("reconcile", app=True).code == 0
    assert shop.cli("reconcile").code == 2

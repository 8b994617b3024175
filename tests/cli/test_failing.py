"""What should not happen, and does: an exit code of its own, one message, no password, nothing said that is not so."""

import getpass
import os
import subprocess
import sys

import pytest

import settled
from settled.api.alerts.notices import describe
from settled.cli import main
from settled.cli.words import without_passwords
from tests.shared import ROOT


def bash(shop, command):
    """Run a command of a shell; ``settled`` in it is ours."""
    around = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "SETTLED_JOURNAL": shop.url}
    words = ["bash", "-c", command.replace("settled", f"{sys.executable} -m settled.cli", 1)]
    return subprocess.run(words, cwd=shop.folder, env=around, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("words", ["status", "status --json", "calls list", "--help", "queue list --json"])
def test_output_that_cannot_be_written_is_no_success_and_no_attention(shop, words):
    shop.make("mail", to="a")
    ended = bash(shop, f"settled {words} > /dev/full")
    assert ended.returncode == 7
    assert "No space left" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


def test_a_verdict_whose_confirmation_cannot_be_written_stands_and_is_not_called_refused(shop):
    op = shop.make("mail", to="a").operation_id
    ended = bash(shop, f"settled queue resolve {op} happened --reason seen > /dev/full")
    assert ended.returncode == 7
    assert "stands" in ended.stderr
    assert shop.look(op).state == "succeeded"


@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0)])
def test_started_without_output_it_ends_as_elsewhere(shop, closed, code):
    shop.make("mail", to="a")
    assert bash(shop, f"settled status {closed}").returncode == code


def test_what_nobody_has_thought_of_has_a_code_and_a_message_of_its_own(shop, monkeypatch, capsys):
    shop.make("mail", to="a")
    monkeypatch.setenv("SETTLED_JOURNAL", shop.url)

    def broken(*_):
        raise ArithmeticError("token=s3cret1234 is no number")

    monkeypatch.setattr("settled.cli.status.waiting", broken)
    assert main(["status"]) == 7
    shown = capsys.readouterr()
    assert "ArithmeticError" in shown.err
    assert "s3cret" not in shown.err
    assert main(["status", "--json"]) == 7
    assert '"code": "failed"' in capsys.readouterr().err


@pytest.mark.parametrize("error", [OSError("no username set in the environment"), KeyError("uid not found: 12345")])
def test_who_has_no_name_is_told_to_give_one(shop, monkeypatch, error):
    """In a container whose user is a number only."""
    op = shop.make("mail", to="a").operation_id

    def nobody():
        raise error

    monkeypatch.setattr(getpass, "getuser", nobody)
    words = ("queue", "resolve", op, "happened", "--reason", "seen")
    ended = shop.cli(*words)
    assert (ended.code, "--by" in ended.err) == (2, True)
    assert shop.cli(*words, "--by", "Ada").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--journal", "mysql://ann:s3cret@db/agent"),
        ("journal", "migrate", "--journal", "postgresql://ann:s3cret@db/agent"),
        ("journal", "accept", "--journal", "redis://:s3cret@db/0?password=s3cret"),
        ("status", "--app", "shop:guard", "--journal", "postgresql://ann:s3cret@db/agent?sslpassword=s3cret"),
        ("status", "--journal", "sqlite://ann:s3cret@db/agent"),
        ("status", "--journal", "postgresql://ann:s3cret@[db/agent"),
        ("status", "--journal", "redis://ann:s3cret@[db/agent"),
    ],
)
@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_no_password_of_an_address_is_told(shop, words, as_json):
    ended = shop.cli(*words, *as_json, journal=False)
    assert ended.code in (2, 3)
    assert "s3cret" not in ended.out + ended.err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:p@ss:w@db/x says", "postgresql://ann:***@db/x says"),
        ("'redis://:pw@db/0'", "'redis://:***@db/0'"),
        ("unix:///run/x.sock?password=a%2F&b=1", "unix:///run/x.sock?password=***&b=1"),
        ("sqlite:///a.db is not here: look", "sqlite:///a.db is not here: look"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
    ],
)
def test_passwords_in_text_are_masked_and_nothing_else(text, shown):
    assert without_passwords(text) == shown


HOSTILE = "trip; touch stolen"
"""The name of a run may come from a model, and what is shown is copied into a shell."""

HOTEL = """
from contextlib import suppress

import settled

guard = settled.Guard("sqlite:///shop.db")


@guard.tool(effect="write")
def cancel(room: str) -> str:
    raise settled.NotExecuted("busy", retryable=True)


@guard.tool(effect="write", compensate=cancel, attempts=1)
def book(room: str) -> str:
    return "booked"


if __name__ == "__main__":
    with suppress(LookupError), guard, guard.run("trip; touch stolen", on_error="compensate", undo_within=0.0):
        book(room="1")
        raise LookupError
"""


def test_a_command_to_type_next_is_one_command_whatever_a_run_is_called(shop):
    (shop.folder / "hotel.py").write_text(HOTEL)
    around = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "hotel.py"], cwd=shop.folder, env=around, timeout=60, check=True)
    [call] = shop.cli("queue", "list", "--json").json["calls"]
    told = [shop.cli("runs", "list").err, *shop.cli("runs", "show", HOSTILE, "--json").json["next"]]
    told += [each["command"] for each in shop.cli("queue", "show", call["operation_id"], "--json").json["next"]]
    with settled.Guard(shop.url) as guard:
        alerts = {alert.kind: alert for alert in guard.journal.alerts()}
        for kind in ("undo", "partly_compensated"):
            alert = alerts[kind]
            told.append(describe(guard.journal, kind, alert.operation_id, "1", alert.at).facts["command"])
    named = [command for command in told if "touch" in command]
    assert len(named) >= 5
    assert all("'trip; touch stolen'" in command for command in named)

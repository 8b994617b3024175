"""Comparing with a ledger from the command line: a report, the queue, and who has seen what."""

import pytest

LEDGER = """

LISTED = Path("ledger.txt")


def listed(since):
    for line in LISTED.read_text().splitlines() if LISTED.exists() else ():
        key, at, ref = line.split()
        yield settled.Effect(at=float(at), key=key, ref=ref)


@guard.tool(effect="write", ledger=listed, max_request_lifetime=0.0)
def send(to: str) -> str:
    return to
"""


@pytest.fixture
def desk(shop):
    written = (shop.folder / "shop.py").read_text()
    (shop.folder / "shop.py").write_text(written + LEDGER)
    return shop


def ledger(desk, *rows):
    (desk.folder / "ledger.txt").write_text("".join(f"{key} {at} {ref}\n" for key, at, ref in rows))


def compare(desk, *words):
    return desk.cli("reconcile", "--ledger", "--since", "1h", *words, app=True)


def test_an_agreement_is_told_and_ends_well(desk):
    call = desk.look(desk.make("send", to="a").operation_id)
    ledger(desk, (call.key, call.changed.wall, "r1"))
    ended = compare(desk, "--json")
    assert ended.code == 0
    (compared,) = ended.json["ledgers"]
    assert (compared["tool"], compared["effects"], compared["findings"], compared["trouble"]) == ("send", 1, [], "")


def test_what_is_found_stands_in_the_queue_until_somebody_has_seen_it(desk):
    call = desk.look(desk.make("send", to="a").operation_id)
    at = call.changed.wall
    ledger(desk, ("strange", at, "r9"))
    ended = compare(desk)
    assert ended.code == 1
    assert "missing" in ended.out
    assert "r9" in ended.out
    assert compare(desk, "--json").json["ledgers"][0]["new"] == 0
    listed = desk.cli("queue", "list", "--json").json
    assert (listed["total"], sorted(row["kind"] for row in listed["findings"])) == (2, ["missing", "orphaned"])
    assert desk.cli("queue", "list", "--fail").code == 1
    assert desk.cli("queue", "list", "--tool", "send", "--json").json["total"] == 2
    assert desk.cli("queue", "list", "--tool", "send", "--state", "unknown", "--json").json["total"] == 0
    assert "ledger findings" in desk.cli("status").out
    missing, orphaned = sorted(listed["findings"], key=lambda row: row["kind"])
    shown = desk.cli("queue", "show", missing["finding_id"])
    assert call.operation_id in shown.out
    assert f"settled queue resolve {missing['finding_id']} hold" in shown.out
    for each in (missing, orphaned):
        words = ("queue", "resolve", each["finding_id"], "hold", "--reason", "known", "--by", "Ada")
        assert desk.cli(*words).code == 0
        assert desk.cli(*words[:3], "happened", *words[4:]).code == 2
    assert desk.cli("queue", "list", "--fail").code == 0
    assert compare(desk).code == 0, "what was seen is not found anew"
    assert "seen by Ada: known" in desk.cli("queue", "show", missing["finding_id"]).out


def test_a_ledger_that_fails_is_told_and_ends_with_attention(desk):
    desk.make("send", to="a")
    (desk.folder / "ledger.txt").write_text("one-word\n")
    ended = compare(desk, "--json")
    assert (ended.code, "ValueError" in ended.json["ledgers"][0]["trouble"]) == (1, True)
    assert "not compared" in compare(desk).out


def test_a_ledger_that_fails_in_a_worker_is_told_too(desk):
    """A schedule of --once looked well for ever, and nothing was compared."""
    desk.make("send", to="a")
    (desk.folder / "ledger.txt").write_text("one-word\n")
    ended = desk.cli("worker", "--once", "--json", app=True)
    assert ended.code == 1
    assert ended.json["trouble"].startswith("send: its ledger failed: ValueError")
    assert desk.cli("worker", "--once", app=True).code == 0, "it is compared once an hour"


def test_without_a_ledger_there_is_nothing_to_compare(shop):
    shop.make("price", item="a")
    assert shop.cli("reconcile", "--ledger", app=True).code == 5
    assert shop.cli("reconcile", "--since", "1h", app=True).code == 2
    assert shop.cli("queue", "show", "fd_none").code == 4

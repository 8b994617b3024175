"""The journal's own health: check, verify, head, prune, migrate, accept; and breakers."""

import io
import sqlite3
import sys
from contextlib import closing

import pytest

import settled
from settled.core.attempts.breaker import Breaker
from settled.errors import JournalError
from tests.cli.conftest import there


def tamper(shop, statement, *, triggers=()):
    """Change the journal's file as somebody with a text editor for databases would."""
    connection = sqlite3.connect(shop.folder / "shop.db")
    for trigger in triggers:
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_check_tells_facts_and_ends_well(shop):
    shop.make("price", item="a")
    ended = shop.cli("journal", "check")
    assert ended.code == 0
    assert "integrity" in ended.out
    assert ended.out.splitlines()[-1] == "ok"
    document = shop.cli("journal", "check", "--json").json
    assert (document["ok"], document["problems"]) == (True, [])
    assert document["facts"]["calls"] == {"succeeded": 1}


def test_check_finds_problems(shop):
    shop.make("price", item="a")
    (shop.folder / "shop.db-spill").write_bytes(b"x")
    ended = shop.cli("journal", "check")
    assert ended.code == 1
    assert "problem: evidence waits" in ended.out
    assert shop.cli("journal", "check", "--json").json["ok"] is False


def test_verify_names_the_rows_that_were_changed(shop):
    op = shop.make("price", item="a").operation_id
    assert shop.cli("journal", "verify").code == 0
    tamper(shop, "UPDATE log SET detail = 'edited' WHERE no = 2", triggers=["log_no_update"])
    ended = shop.cli("journal", "verify")
    assert ended.code == 1
    assert f"{op}: log row 2 was changed" in ended.out
    document = shop.cli("journal", "verify", "--json")
    assert document.code == 1
    assert document.json["ok"] is False
    assert any(op in problem for problem in document.json["problems"])


def test_a_head_kept_elsewhere_shows_a_cut_off_log(shop):
    shop.make("price", item="a")
    head = shop.cli("journal", "head").out.strip()
    assert shop.cli("journal", "head", "--json").json["head"] == head
    shop.make("price", item="b")
    assert shop.cli("journal", "verify", "--head", head).code == 0
    tamper(shop, "DELETE FROM seals", triggers=["seals_no_delete"])
    assert shop.cli("journal", "verify").code == 0, "nothing in the file itself tells"
    ended = shop.cli("journal", "verify", "--head", head)
    assert ended.code == 1
    assert "not in this log" in ended.out


def test_prune_erases_what_is_past_its_retention(shop):
    shop.make("note", text="a")
    kept = shop.make("note", run="r1", text="b").operation_id
    shop.make("price", item="a")
    would = shop.cli("journal", "prune", "--dry-run", "--json").json
    assert would == {"dry_run": True, "tombstones": 1, "removed": 1}
    assert shop.look(kept).arguments
    ended = shop.cli("journal", "prune", "--compact")
    assert ended.code == 0
    assert ended.out == "2 calls past retention, pruned: 1 tombstone left, 1 removed whole\n"
    assert not shop.look(kept).arguments
    assert shop.cli("journal", "prune", "--json").json == {"dry_run": False, "tombstones": 0, "removed": 0}
    assert shop.cli("journal", "verify").code == 0


def test_what_could_not_be_wiped_is_not_called_wiped(shop):
    """While somebody reads, SQLite leaves the write-ahead log as it is, and says nothing."""
    with settled.Guard(f"{shop.url}?busy_timeout=1") as guard:
        guard.tool(effect="write", name="tell", retention=0.0)(lambda text: text)(text="a secret of ours")
        with closing(sqlite3.connect(shop.folder / "shop.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM calls").fetchone()
            shop.url += "?busy_timeout=1"
            ended = shop.cli("journal", "prune", "--compact", "--json")
            assert (ended.code, ended.json["removed"], ended.json["compacted"]) == (1, 1, False)
            assert "may still be in it" in ended.err
            with pytest.raises(JournalError, match="may still be in it"):
                guard.journal.compact()
        ended = shop.cli("journal", "prune", "--compact", "--json")
        assert (ended.code, ended.json["compacted"]) == (0, True)
    assert b"a secret of ours" not in b"".join(path.read_bytes() for path in shop.folder.glob("shop.db*"))


def test_migrate_of_a_current_journal_does_nothing(shop):
    shop.make("price", item="a")
    document = shop.cli("journal", "migrate", "--json").json
    assert document["before"] == document["after"]
    assert "nothing to do" in shop.cli("journal", "migrate").out


def test_migrate_and_accept_need_a_file(shop):
    assert shop.cli("journal", "migrate").code == 3
    assert shop.cli("journal", "migrate", journal=False).code == 2
    assert shop.cli("journal", "accept", "--yes", "--journal", "memory://", journal=False).code == 2
    assert there(shop.folder) == ["shop.py"]


def test_a_replaced_journal_is_refused_until_it_is_accepted(shop, monkeypatch):
    shop.make("price", item="a")
    (shop.folder / "shop.db").unlink()
    ended = shop.cli("status")
    assert ended.code == 3
    assert "settled journal accept" in ended.err
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert shop.cli("journal", "accept").code == 5
    assert shop.cli("status").code == 3
    ended = shop.cli("journal", "accept", "--yes", "--json")
    assert (ended.code, ended.json) == (0, {"journal_id": None})
    shop.make("price", item="a")
    assert shop.cli("status").code == 0


def broken_tool(shop):
    breaker = Breaker("tool:pay")
    while breaker.state(0.0) == "closed":
        breaker.record(breaker.generation, "failure", 0.0, 0.5)
    with settled.Guard(shop.url) as guard:
        guard.journal.save_breakers(
            {"tool:pay": dict(breaker.snapshot(0.0)), "tool:ask": dict(Breaker().snapshot(0.0))}
        )


def test_breakers_are_listed(shop):
    broken_tool(shop)
    ended = shop.cli("breakers", "list")
    assert ended.out.splitlines()[0].split()[:3] == ["BREAKER", "STATE", "FAILED"]
    assert "tool:pay  open" in ended.out
    rows = shop.cli("breakers", "list", "--json").json["breakers"]
    assert [row["name"] for row in rows] == ["tool:ask", "tool:pay"]
    assert (rows[1]["state"], rows[1]["trips"], rows[1]["calls"]) == ("open", 1, rows[1]["failures"])
    assert rows[1]["calls"] >= 3
    assert shop.cli("status", "--json").json["breakers_open"] == ["tool:pay"]


def test_breakers_are_reset_by_name_or_all(shop):
    broken_tool(shop)
    assert shop.cli("breakers", "reset", "tool:pay", "--json").json == {"reset": ["tool:pay"]}
    assert shop.cli("breakers", "reset", "--all").out == "reset: tool:ask, tool:pay\n"
    with settled.Guard(shop.url) as guard:
        assert guard.journal.save_breakers({}) == {"tool:pay": 2, "tool:ask": 1}


def test_a_breaker_that_is_not_there_is_not_found(shop):
    broken_tool(shop)
    ended = shop.cli("breakers", "reset", "pay")
    assert ended.code == 4
    assert "tool:ask, tool:pay" in ended.err
    assert shop.cli("breakers", "reset").code == 2
    assert shop.cli("breakers", "reset", "tool:pay", "--all").code == 2


def test_without_breakers_the_list_is_empty(shop):
    shop.open().guard.close()
    ended = shop.cli("breakers", "list")
    assert (ended.code, ended.out) == (0, "")
    assert shop.cli("breakers", "reset", "--all").out == "reset: none\n"

"""Records that cannot be read: no command fails over them but those that name one, and none counts them as nothing."""

import sqlite3
from contextlib import closing

import pytest


@pytest.fixture
def lost(shop):
    """A call of unknown outcome, and one at work, whose records cannot be read; one that can."""
    unknown, whole = (shop.make("mail", to=to).operation_id for to in "ab")
    at_work = shop.make("mail", to="c").operation_id
    shop.make("mail", run="trip", to="d")
    with closing(sqlite3.connect(shop.folder / "shop.db")) as connection, connection:
        connection.execute("UPDATE calls SET body = '[]' WHERE operation_id IN (?, ?)", (unknown, at_work))
        connection.execute("UPDATE calls SET state = 'processing' WHERE operation_id = ?", (at_work,))
        connection.execute("UPDATE runs SET body = '[]'")
    return {unknown, at_work}, whole


def test_the_queue_is_listed_and_says_what_is_not_in_it(shop, lost):
    broken, whole = lost
    document = shop.cli("queue", "list", "--tool", "mail", "--json").json
    assert whole in [call["operation_id"] for call in document["calls"]]
    assert set(document["unreadable"]) == broken
    told = shop.cli("queue", "list")
    assert "2 records cannot be read" in told.err
    assert "settled journal verify" in told.err


@pytest.mark.parametrize(
    "words", [("status",), ("calls", "list"), ("runs", "list"), ("queue", "list", "--run", "trip")]
)
def test_other_lists_do_so_too(shop, lost, words):
    shown = shop.cli(*words, "--json")
    assert (shown.code, bool(shown.json["unreadable"])) == (0, True)
    assert "cannot be read" in shop.cli(*words).err


def test_an_otherwise_empty_queue_is_not_called_empty(shop, lost):
    _, whole = lost
    with closing(sqlite3.connect(shop.folder / "shop.db")) as connection, connection:
        connection.execute("DELETE FROM calls WHERE body <> '[]'")
    for words in (("status",), ("queue", "list"), ("reconcile", "--app", "shop:guard")):
        assert shop.cli(*words, "--fail").code == 1
    assert shop.cli("worker", "--app", "shop:guard", "--once", "--fail").code == 1
    decided = shop.cli("queue", "resolve", "hold", "--state", "unknown", "--reason", "seen", "--yes", "--json")
    assert (decided.code, decided.json["total"], len(decided.json["unreadable"])) == (1, 0, 2)
    del whole


def test_pruning_goes_round_them(shop, lost):
    shop.make("note", text="old")
    assert shop.cli("journal", "prune", "--json").json["removed"] == 1


def test_verify_names_every_one(shop, lost):
    broken, _ = lost
    shown = shop.cli("journal", "verify", "--json")
    assert shown.code == 1
    for name in (*broken, "run 'trip'"):
        assert any(name in problem for problem in shown.json["problems"])


@pytest.mark.parametrize(("table", "column"), [("log", "event"), ("log", "state"), ("calls", "state")])
def test_a_word_of_a_later_release_is_a_problem_of_the_journal(shop, table, column):
    shop.make("mail", to="a")
    with closing(sqlite3.connect(shop.folder / "shop.db")) as connection, connection:
        connection.execute(f"DROP TRIGGER IF EXISTS {table}_no_update")
        connection.execute(f"UPDATE {table} SET {column} = 'reborn'")
    shown = shop.cli("journal", "verify" if table == "log" else "check")
    assert shown.code in (1, 3)
    assert "Traceback" not in shown.err
    assert "cannot be read" in shown.out + shown.err

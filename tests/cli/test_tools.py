"""Tools are paused and resumed for every process on the journal."""

import pytest

import settled

WHY = ("--reason", "it answers oddly", "--by", "Ada")


def pause(shop, name, *more):
    return shop.cli("tools", "pause", name, *WHY, *more)


def test_a_paused_tool_is_refused_in_another_process_until_it_is_resumed(shop):
    shop.make("mail", to="a")
    ended = pause(shop, "mail")
    assert (ended.code, ended.out) == (0, "mail is paused\n")
    refused = shop.make("mail", to="b")
    assert (refused.status, refused.reason, refused.operation_id) == ("rejected", "paused", "")
    assert "it answers oddly" in refused.message
    assert shop.make("order", item="a").status == "unknown", "another tool goes on"
    assert shop.cli("tools", "resume", "mail", "--reason", "mended").code == 0
    assert shop.make("mail", to="c").status == "unknown"


def test_a_read_that_leaves_no_record_is_refused_too(shop):
    with settled.Guard(shop.url) as guard:

        @guard.tool(effect="read")
        def look(what: str) -> str:
            return what

        assert look(what="a") == "a"
        guard.pause("look", by="Ada", reason="x")
        assert look.call(what="a").reason == "paused"
        guard.resume("look", by="Ada", reason="y")
        assert look(what="a") == "a"


def test_status_and_the_list_show_who_paused_it_and_why(shop):
    shop.make("mail", to="a")
    pause(shop, "mail")
    assert "tools paused" in shop.cli("status").out
    assert shop.cli("status", "--json").json["tools_paused"] == ["mail"]
    (row,) = shop.cli("tools", "list", "--json").json["tools"]
    assert (row["name"], row["paused"], row["by"], row["reason"]) == ("mail", True, "Ada", "it answers oddly")
    listed = shop.cli("tools", "list", app=True).out
    assert "order" in listed
    assert "it answers oddly" in listed


@pytest.mark.parametrize("words", [("pause", "mail"), ("resume", "order")])
def test_what_is_so_already_is_refused(shop, words):
    shop.make("mail", to="a")
    shop.make("order", item="a")
    pause(shop, "mail")
    ended = shop.cli("tools", *words, "--reason", "x", "--json")
    assert (ended.code, ended.error["code"]) == (5, "refused")


def test_a_tool_that_nobody_knows_is_not_found(shop):
    shop.make("mail", to="a")
    assert pause(shop, "male").code == 4
    ended = pause(shop, "order", "--json")
    assert (ended.code, "no app was named" in ended.error["message"]) == (4, True), "only what has calls is known"


def test_a_name_and_a_reason_are_needed(shop):
    shop.make("mail", to="a")
    assert shop.cli("tools", "pause", "mail").code == 2
    assert shop.cli("tools", "pause", "mail", "--reason", " ").code == 5
    assert shop.cli("tools", "pause", "mail", "--reason", "x", "--by", " ").code == 5


def test_what_has_begun_ends_and_a_series_goes_on(shop):
    """Pausing bars what is to begin; a call at work makes its attempts."""
    made = []
    with settled.Guard(shop.url) as guard:

        @guard.tool(effect="idempotent", attempts=2)
        def put(what: str) -> str:
            made.append(what)
            if len(made) == 1:
                guard.pause("put", by="Ada", reason="while it is at work")
                raise ConnectionRefusedError("away")
            return what

        assert put(what="a") == "a"
        assert put.call(what="b").reason == "paused"
    assert made == ["a", "a"]

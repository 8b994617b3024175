"""Alerts from the command line: what waits, what is open, and whether the receivers take anything."""

import pytest

RECEIVER = """

class Log:
    def __init__(self, name, broken=False):
        self.name, self.broken = name, broken

    def deliver(self, notice):
        if self.broken:
            raise OSError("https://hooks.example/verysecret")
        with open("told.txt", "a") as file:
            file.write(f"{self.name} {notice.kind} {notice.subject}\\n")


told = settled.Guard("sqlite:///shop.db", alerts=[Log("good"), Log("bad", broken=True)])
"""


@pytest.fixture
def desk(shop):
    written = (shop.folder / "shop.py").read_text()
    (shop.folder / "shop.py").write_text(written + RECEIVER)
    return shop


def test_what_waits_is_listed(shop):
    op = shop.make("order", item="a").operation_id
    (row,) = shop.cli("alerts", "list", "--json").json["undelivered"]
    assert (row["kind"], row["about"], row["failed"]) == ("unknown", op, [])
    listed = shop.cli("alerts", "list")
    assert op in listed.out
    assert "1 alert not delivered" in listed.err


def test_nothing_waits_is_said(shop):
    shop.make("price", item="a")
    assert "no alert waits" in shop.cli("alerts", "list").err


def test_a_test_is_sent_to_each_receiver_and_one_that_fails_is_told(desk):
    desk.make("price", item="a")
    ended = desk.cli("alerts", "test", "--app", "shop:told", "--json")
    assert ended.code == 1
    told = {row["receiver"]: row for row in ended.json["receivers"]}
    assert (told["good"]["taken"], told["bad"]["taken"], told["bad"]["error"]) == (True, False, "OSError")
    assert "verysecret" not in ended.out + ended.err
    assert (desk.folder / "told.txt").read_text() == "good test test\n"
    assert "not taken" in desk.cli("alerts", "test", "--app", "shop:told").out


def test_without_receivers_there_is_nothing_to_test(shop):
    shop.make("price", item="a")
    assert shop.cli("alerts", "test", app=True).code == 5
    assert shop.cli("alerts", "test").code == 2


def test_who_has_not_taken_what_is_shown_and_what_is_open(desk):
    op = desk.make("order", item="a").operation_id
    shop = desk.open()
    with shop.told as guard:
        guard.postman.round()
    (row,) = desk.cli("alerts", "list", "--json").json["undelivered"]
    assert (row["taken_by"], [each["receiver"] for each in row["failed"]]) == (["good"], ["bad"])
    assert "bad: OSError (1 try)" in desk.cli("alerts", "list").out
    shop = desk.open()
    with shop.told as guard:
        guard.postman.receivers.pop()
        guard.postman.round()
    document = desk.cli("alerts", "list", "--json").json
    assert (document["undelivered"], document["open"][0]["about"]) == ([], op)
    assert "open" in desk.cli("alerts", "list").out

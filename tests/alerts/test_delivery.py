"""Alerts reach their receivers: once as far as can be, for as long as it takes, and so does their end."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

import settled
from settled.api.alerts import alerting, delivering, notices
from settled.core.model import Moment
from settled.core.noted import notes
from settled.core.noted.alarms import TakeDelivery
from settled.core.noted.findings import Finding, Note
from settled.errors import DeclarationError
from settled.observe import Webhook
from settled.ports import NotTaken
from settled.testing.records import Look
from tests.alerts.conftest import SECRET, declare, round_of
from tests.shared import ROOT
from tests.waiting import until


class Dead:
    """A receiver that is away."""

    def __init__(self, name="dead"):
        self.name, self.tries = name, 0

    def deliver(self, notice):
        self.tries += 1
        raise NotTaken("nobody answers", away=True)


class Kept:
    """A receiver that keeps what it is told."""

    def __init__(self, name="kept"):
        self.name, self.notices = name, []

    def deliver(self, notice):
        self.notices.append(notice)


def opened(journal):
    return {subject: notes.read(text) for subject, text in journal.notes(notes.ALARM).items()}


# --- what is told ---


def test_an_unknown_call_is_told_and_its_end_as_well(guarded, inbox):
    result = guarded.pay.call(to="a")
    round_of(guarded)
    round_of(guarded)
    (event,) = inbox.events
    assert inbox.kinds() == [("opened", "unknown")]
    assert (event["specversion"], event["subject"], event["source"]) == (
        "1.0",
        result.operation_id,
        f"/settled/journals/{guarded.journal.journal_id}",
    )
    assert event["data"]["tool"] == "pay"
    assert event["data"]["command"].startswith(f"settled queue show {result.operation_id} --journal sqlite:")
    assert inbox.headers[0]["content-type"].startswith("application/cloudevents+json")
    assert inbox.headers[0]["webhook-id"] == event["id"]
    assert guarded.journal.alerts() == []
    guarded.resolve(result.operation_id, "happened", by="ann", reason="seen")
    round_of(guarded)
    round_of(guarded)
    assert inbox.kinds() == [("opened", "unknown"), ("resolved", "unknown")]
    assert inbox.events[1]["subject"] == result.operation_id
    assert inbox.events[1]["data"]["state"] == "succeeded"
    assert len({event["id"] for event in inbox.events}) == 2
    assert (opened(guarded.journal), guarded.journal.notes(notes.DELIVERY)) == ({}, {})


def test_what_is_settled_before_it_was_told_is_not_told(guarded, inbox):
    result = guarded.pay.call(to="a")
    guarded.resolve(result.operation_id, "happened", by="ann", reason="seen")
    round_of(guarded)
    assert (inbox.events, list(guarded.journal.alerts())) == ([], [])


def test_a_call_is_told_of_once_until_it_is_over(guarded, inbox):
    result = guarded.pay.call(to="a")
    round_of(guarded)
    guarded.journal.perform(Look(lambda books: books.alert_of("unknown", result.operation_id, 0.0)))
    round_of(guarded)
    assert len(inbox.events) == 1
    assert guarded.journal.alerts() == []


def test_leave_a_finding_and_a_breaker_are_told_of(guarded, inbox):
    asked = guarded.send.options(wait=0).call(to="a")
    found = Finding("fd_1", "missing", "pay", "", asked.operation_id)
    guarded.journal.perform(Note("pay", "", (found,), 0.0))
    snapshot = {"state": "open", "outcomes": [], "trips": 1, "usual": 0.0, "wait": 5.0, "at": 1.0}
    guarded.journal.save_breakers({"tool:pay": snapshot}, ["tool:pay"])
    round_of(guarded)
    assert sorted(inbox.kinds()) == [("opened", "approval"), ("opened", "breaker"), ("opened", "finding")]
    guarded.approve(asked.operation_id, by="ann")
    guarded.journal.save_breakers({"tool:pay": {**snapshot, "state": "closed"}})
    guarded.journal.perform(Note("pay", "", (), 0.0))
    round_of(guarded)
    assert sorted(inbox.kinds()[3:]) == [("resolved", "approval"), ("resolved", "breaker"), ("resolved", "finding")]


def test_a_run_that_is_undone_in_part_is_told_of(place, inbox):
    with settled.Guard(place, alerts=Webhook(inbox.url, SECRET)) as guard:
        guard.floor.keeper.chores.pop()

        @guard.tool(effect="write", irreversible=True, precheck=lambda **_: None)
        def pay(to: str) -> str:
            return to

        with guard.run("trip"):
            pay(to="a")
        guard.run("trip").compensate("changed my mind") if hasattr(settled.Run, "compensate") else None
        kinds = [alert.kind for alert in guard.journal.alerts()]
        assert kinds == ["undo", "partly_compensated"]
        round_of(guard)
        assert sorted(inbox.kinds()) == [("opened", "partly_compensated"), ("opened", "undo")]


def test_a_breaker_that_opens_is_told_of_once(place):
    kept = Kept()
    with settled.Guard(place, alerts=kept) as guard:
        guard.floor.keeper.chores.pop()

        @guard.tool(effect="read", record=True, attempts=1)
        def look(what: str) -> str:
            raise ConnectionResetError("down")

        for number in range(12):
            look.call(what=str(number))
        for _ in range(3):
            guard.breakers.keep()
            round_of(guard)
    assert [notice.kind for notice in kept.notices] == ["breaker"]
    assert kept.notices[0].subject == "tool:look"


def test_a_tool_without_a_declared_effect_pages_nobody(guarded, inbox):
    @guarded.tool
    def mail(to: str) -> None:
        raise TimeoutError("no answer")

    assert mail.call(to="a").status == "unknown"
    round_of(guarded)
    assert (inbox.events, list(guarded.journal.alerts())) == ([], [])


# --- failures ---


def test_a_receiver_that_fails_is_tried_again_under_the_same_id(guarded, inbox, monkeypatch):
    monkeypatch.setattr(alerting, "pause_after", lambda *_: 0.0)
    inbox.answers = [500, 400, 429, 302]
    guarded.pay.call(to="a")
    for _ in range(5):
        assert guarded.journal.alerts()
        round_of(guarded)
    assert guarded.journal.alerts() == []
    assert len({event["id"] for event in inbox.events}) == 1
    assert len(inbox.events) == 5, "a redirect is a failure, and is not followed"


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit])
def test_what_a_receiver_or_a_sink_raises_ends_no_thread(place, error):
    """A cancellation that leaks out of somebody's client is no Exception."""
    failing = True

    class Leaky(Kept):
        def deliver(self, notice):
            super().deliver(notice)
            if failing:
                raise error

    def sink(event, facts):
        raise asyncio.CancelledError

    receiver = Leaky()
    with settled.Guard(place, alerts=[receiver, sink]) as guard:
        declare(guard)
        guard.tools["pay"].call(to="a")
        until(lambda: receiver.notices, "the first try")
        failing = False
        until(lambda: len(receiver.notices) > 1, "another try")
    assert len({notice.notice_id for notice in receiver.notices}) == 1


@pytest.fixture
def long_pauses(monkeypatch):
    """Between tries, longer than any test takes."""
    monkeypatch.setattr(alerting, "pause_after", lambda *_: 600.0)


@pytest.mark.usefixtures("long_pauses")
def test_between_tries_there_is_a_pause(guarded, inbox):
    inbox.answers = [500]
    guarded.pay.call(to="a")
    for _ in range(3):
        round_of(guarded)
    assert len(inbox.events) == 1
    (tried,) = (notes.read(text) for text in guarded.journal.notes(notes.DELIVERY).values())
    (failed,) = tried["failed"].values()
    assert (failed["attempts"], failed["error"]) == (1, "it answered 500")
    assert failed["next"] > guarded.journal.now().wall


@pytest.mark.usefixtures("long_pauses")
@pytest.mark.parametrize(("back", "tries"), [(0.0, 1), (86400.0, 2)])
def test_a_clock_that_is_set_back_holds_up_no_next_try(guarded, inbox, monkeypatch, back, tries):
    inbox.answers = [500, 500]
    guarded.pay.call(to="a")
    round_of(guarded)
    now = guarded.journal.now
    monkeypatch.setattr(guarded.journal, "now", lambda: Moment(now().wall - back, now().boot, now().mono))
    guarded.postman._rests.clear()
    round_of(guarded)
    assert len(inbox.events) == tries


@pytest.mark.parametrize("draw", [0.0, 0.999])
def test_pauses_double_and_are_bounded(draw):
    pauses = [alerting.pause_after(number, draw) for number in range(1, 40)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= 1.0
    assert max(pauses) <= 3600.0
    assert alerting.pause_after(1, draw, 120.0) == 120.0
    assert alerting.pause_after(1, draw, 1e9) == 3600.0


@pytest.mark.usefixtures("long_pauses")
def test_one_that_is_away_holds_up_no_other(place, inbox):
    dead, kept = Dead(), Kept()
    with settled.Guard(place, alerts=[dead, Webhook(inbox.url, SECRET), kept]) as guard:
        guard.floor.keeper.chores.pop()
        pay, _ = declare(guard)
        calls = [pay.call(to=str(number)) for number in range(5)]
        round_of(guard)
        assert (len(inbox.events), len(kept.notices), dead.tries) == (5, 5, 1), "it is asked once, and then left alone"
        round_of(guard)
        assert (len(inbox.events), len(kept.notices)) == (5, 5)
        assert len(guard.journal.alerts()) == 5
        for call in calls:
            guard.resolve(call.operation_id, "happened", by="ann", reason="seen")
        round_of(guard)
        round_of(guard)
        assert len(inbox.events) == len(kept.notices) == 10, "who was told is told of the end"
        assert guard.journal.alerts() == []


def test_however_many_wait_for_one_that_is_away_others_are_told_of_the_next(place, monkeypatch):
    """A receiver whose address is dead for good: what it lacks filled every look, and nobody was told any more."""
    monkeypatch.setattr(alerting, "BATCH", 4)
    dead, kept = Dead(), Kept()
    with settled.Guard(place, alerts=[dead, kept]) as guard:
        guard.floor.keeper.chores.pop()
        pay, _ = declare(guard)
        for number in range(10):
            pay.call(to=str(number))
            round_of(guard)
        assert len(kept.notices) == 10
        assert len(guard.journal.alerts()) == 10


def test_a_receiver_that_hangs_blocks_neither_calls_nor_leases(place):
    entered, go = threading.Event(), threading.Event()

    class Hangs:
        name = "hangs"

        def deliver(self, notice):
            entered.set()
            go.wait(30)

    with settled.Guard(place, alerts=Hangs(), lease=1.0) as guard:
        pay, _ = declare(guard)

        @guard.tool(effect="write")
        def slow(to: str) -> str:
            time.sleep(2.5)
            return to

        pay.call(to="a")
        assert entered.wait(30)
        result = slow.call(to="b")
        assert (result.status, result.attempts) == ("succeeded", 1)
        rows = guard.journal.log(result.operation_id)
        assert [str(row.event) for row in rows] == ["claim", "succeed"], "its lease was renewed meanwhile"
        go.set()
        until(lambda: not guard.journal.alerts(), "the alert to leave the outbox")


def test_a_receiver_that_hangs_holds_up_no_other_receiver(place, monkeypatch):
    """It is left, rests as one that is away, and is asked nothing more until it has come back."""
    go, told, tell = threading.Event(), [], delivering.Deliveries.tell

    def soon_left(deliveries, receiver, notice):
        monkeypatch.setattr(delivering, "LONGEST", 0.2 if receiver.name == "hangs" and not go.is_set() else 60)
        return tell(deliveries, receiver, notice)

    monkeypatch.setattr(delivering.Deliveries, "tell", soon_left)

    class Hangs:
        name = "hangs"

        def deliver(self, notice):
            told.append(notice.subject)
            go.wait(30)

    kept = Kept()
    with settled.Guard(place, alerts=[Hangs(), kept]) as guard:
        guard.floor.keeper.chores.pop()
        pay, _ = declare(guard)
        calls = [pay.call(to=str(number)).operation_id for number in range(3)]
        for _ in range(3):
            round_of(guard)
        assert [notice.subject for notice in kept.notices] == calls
        assert told == calls[:1]
        assert len(guard.journal.alerts()) == 3
        (failed, *_) = [notes.read(text)["failed"] for text in guard.journal.notes(notes.DELIVERY).values()]
        assert "did not come back" in failed["hangs"]["error"]
        go.set()

        def again():
            guard.postman._rests.clear()
            round_of(guard)
            return not guard.journal.alerts()

        monkeypatch.setattr("settled.api.alerts.alerting.pause_after", lambda *_: 0.0)
        until(again, "it to be told of all once it has come back")
    assert set(told) == set(calls)
    assert len(kept.notices) == 3


def test_a_receiver_that_never_comes_back_is_told_anew_in_the_end(place, monkeypatch):
    """As one whose host sends a byte now and then for ever: each step of it ends in time."""
    monkeypatch.setattr("settled.api.alerts.delivering.LONGEST", 0.1)
    monkeypatch.setattr("settled.api.alerts.delivering.GIVEN_UP", 1.0)
    monkeypatch.setattr("settled.api.alerts.alerting.pause_after", lambda *_: 0.0)
    never, told = threading.Event(), []

    class HangsOnce:
        name = "hangs"

        def deliver(self, notice):
            told.append(notice.notice_id)
            if len(told) == 1:
                never.wait(60)

    with settled.Guard(place, alerts=HangsOnce()) as guard:
        guard.floor.keeper.chores.pop()
        declare(guard)[0].call(to="a")
        round_of(guard)
        round_of(guard)
        assert len(told) == 1

        def again():
            round_of(guard)
            return not guard.journal.alerts()

        until(again, "it to be told anew")
    never.set()
    assert told == [told[0]] * 2, "under the same id"


def test_without_a_thread_receivers_are_told_all_the_same(place):
    kept = Kept()
    with settled.Guard(place, alerts=kept) as guard:
        guard.floor.keeper.chores.pop()
        declare(guard)[0].call(to="a")
        threading.stack_size(2**46)  # the system has no memory for one more
        try:
            round_of(guard)
        finally:
            threading.stack_size(0)
    assert len(kept.notices) == 1


def test_while_people_are_settling_them_alarms_are_looked_at_often(place):
    """With hundreds of them open, the end of the last one was told many seconds later than that of the others."""
    kept = Kept()
    with settled.Guard(place, alerts=kept) as guard:
        guard.floor.keeper.chores.pop()
        pay, _ = declare(guard)
        calls = [pay.call(to=str(number)).operation_id for number in range(30)]
        round_of(guard)
        round_of(guard)
        assert guard.postman._look_next > time.monotonic() + alerting.LOOK
        guard.resolve(calls[0], "happened", by="ann", reason="seen")
        round_of(guard)
        assert guard.postman._look_next <= time.monotonic() + alerting.LOOK
    assert [notice.subject for notice in kept.notices if notice.resolved] == calls[:1]


@pytest.mark.parametrize("record", ["call", "finding"])
def test_what_cannot_be_read_holds_up_no_other_alert_and_is_told_once_it_can(tmp_path, record):
    """One record of a later release, and nobody was told of anything any more."""
    kept = Kept()
    with settled.Guard(f"sqlite:///{tmp_path / 'agent.db'}", alerts=kept) as guard:
        guard.floor.keeper.chores.pop()
        if record == "finding":
            guard.journal.perform(Note("pay", "", [Finding("fd_1", "orphaned", "pay", "", key="k", ref="r")], 0.0))
        pay, _ = declare(guard)
        first, second = (pay.call(to=to).operation_id for to in "ab")
        column, name = ("calls SET body", first) if record == "call" else ("notes SET text", "fd_1")
        with closing(sqlite3.connect(tmp_path / "agent.db")) as connection, connection:
            where = "operation_id" if record == "call" else "name"
            (before,) = connection.execute(
                f"SELECT {column.split()[-1]} FROM {column.split()[0]} WHERE {where} = ?", (name,)
            ).fetchone()
            connection.execute(f"UPDATE {column} = '[]' WHERE {where} = ?", (name,))
        round_of(guard)
        assert second in [notice.subject for notice in kept.notices]
        assert name not in [notice.subject for notice in kept.notices]
        guard.resolve(second, "happened", by="ann", reason="seen")
        round_of(guard)
        assert [notice.subject for notice in kept.notices if notice.resolved] == [second]
        with closing(sqlite3.connect(tmp_path / "agent.db")) as connection, connection:
            connection.execute(f"UPDATE {column} = ? WHERE {where} = ?", (before, name))
        round_of(guard)
        assert name in [notice.subject for notice in kept.notices]


# --- several processes ---


def test_many_guards_tell_of_each_call_once_and_of_its_end(shared_place, inbox):
    address, options = shared_place
    guards = []
    for _ in range(4):
        guard = settled.Guard(address, alerts=Webhook(inbox.url, SECRET), **options)
        guard.floor.keeper.chores.pop()
        guards.append(guard)
    pay, _ = declare(guards[0])
    calls = [pay.call(to=str(number)).operation_id for number in range(12)]

    def together():
        def rounds(guard):
            for _ in range(4):
                round_of(guard)

        threads = [threading.Thread(target=rounds, args=(guard,)) for guard in guards]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    together()
    assert len(inbox.events) == len({event["id"] for event in inbox.events}) == 12
    for operation_id in calls:
        guards[1].resolve(operation_id, "happened", by="ann", reason="seen")
    together()
    for guard in guards:
        guard.close()
    assert len(inbox.events) == len({event["id"] for event in inbox.events}) == 24
    assert inbox.kinds() == [("opened", "unknown")] * 12 + [("resolved", "unknown")] * 12


def test_who_dies_while_delivering_is_followed_by_another_under_the_same_id(place, inbox, monkeypatch):
    monkeypatch.setattr(alerting, "LEASE", 0.2)
    first = settled.Guard(place, alerts=Webhook(inbox.url, SECRET))
    first.floor.keeper.chores.pop()
    pay, _ = declare(first)
    pay.call(to="a")

    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(first.journal, "delivered", dies)
    with pytest.raises(KeyboardInterrupt):
        round_of(first)
    monkeypatch.undo()
    time.sleep(0.25)
    with settled.Guard(place, alerts=Webhook(inbox.url, SECRET)) as second:
        second.floor.keeper.chores.pop()
        round_of(second)
        assert second.journal.alerts() == []
    assert len({event["id"] for event in inbox.events}) == 1
    first.close()


APP = """
import os, settled
from settled.observe import Webhook

guard = settled.Guard(os.environ["PLACE"], alerts=Webhook(os.environ["HOOK"], os.environ["SECRET"]))


@guard.tool(effect="write", breaker=None)
def pay(to: str) -> str:
    raise TimeoutError("no answer")
"""


KILLED = """
import json, os, signal, settled
from settled.observe import Webhook

options = json.loads(os.environ["OPTIONS"])
guard = settled.Guard(os.environ["PLACE"], alerts=Webhook(os.environ["HOOK"], os.environ["SECRET"]), **options)
guard.floor.keeper.chores.pop()


@guard.tool(effect="write", breaker=None)
def pay(to: str) -> str:
    raise TimeoutError("no answer")


pay.call(to="a")
guard.journal.delivered = lambda taken: os.kill(os.getpid(), signal.SIGKILL)
guard.postman.round()
"""


def test_who_is_killed_while_delivering_is_followed_at_once(shared_place, inbox):
    """Its time to deliver lasts a minute; a process on the same machine sees that it is dead."""
    place, options = shared_place
    options = {name: str(value) if name == "spill" else value for name, value in options.items()}
    around = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PLACE": place, "HOOK": inbox.url, "SECRET": SECRET}
    around["OPTIONS"] = json.dumps(options)
    with settled.Guard(place, alerts=Webhook(inbox.url, SECRET), **options) as second:
        second.floor.keeper.chores.pop()
        died = subprocess.run([sys.executable, "-c", KILLED], env=around, timeout=60, check=False)
        assert (died.returncode, len(inbox.events)) == (-signal.SIGKILL, 1)
        assert len(second.journal.alerts()) == 1
        round_of(second)
        assert second.journal.alerts() == []
    assert len({event["id"] for event in inbox.events}) == 1


def test_who_lives_is_not_followed(place, inbox):
    with settled.Guard(place, alerts=Webhook(inbox.url, SECRET)) as first:
        first.floor.keeper.chores.pop()
        pay, _ = declare(first)
        pay.call(to="a")
        assert first.postman._ours()
        with settled.Guard(place, alerts=Webhook(inbox.url, SECRET)) as second:
            second.floor.keeper.chores.pop()
            round_of(second)
            assert (inbox.events, len(second.journal.alerts())) == ([], 1)
        round_of(first)
        assert len(inbox.events) == 1


def app_in(folder, place, inbox):
    """Write an app whose alerts go to the inbox; return the environment in which it is imported."""
    (folder / "app.py").write_text(APP)
    told = {"PLACE": place, "HOOK": inbox.url, "SECRET": SECRET}
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{folder}", **told}


def test_one_round_of_a_worker_delivers_too(tmp_path, place, inbox):
    around = app_in(tmp_path, place, inbox)
    with settled.Guard(place) as guard:
        pay, _ = declare(guard)
        pay.call(to="a")
    words = [sys.executable, "-m", "settled.cli", "worker", "--once", "--app", "app:guard"]
    done = subprocess.run(words, env=around, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    assert done.returncode == 0
    assert inbox.kinds() == [("opened", "unknown")]


def test_the_worker_delivers_what_a_killed_process_has_left(tmp_path, place, inbox):
    around = app_in(tmp_path, place, inbox)
    code = (
        "import app, os, signal; app.guard.postman.poke = lambda: None; app.pay.call(to='a'); os.kill(os.getpid(), 9)"
    )
    died = subprocess.run([sys.executable, "-c", code], env=around, cwd=tmp_path, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL
    assert inbox.events == []
    words = [sys.executable, "-m", "settled.cli", "worker", "--every", "0.1", "--app", "app:guard"]
    with subprocess.Popen(words, env=around, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        until(lambda: inbox.events, "the alert")
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert inbox.kinds() == [("opened", "unknown")]


def test_a_script_that_ends_at_once_has_told(tmp_path, place, inbox):
    around = app_in(tmp_path, place, inbox)
    code = "import app; app.pay.call(to='a'); app.guard.close()"
    subprocess.run([sys.executable, "-c", code], env=around, cwd=tmp_path, timeout=60, check=True)
    assert inbox.kinds() == [("opened", "unknown")]


# --- secrets ---


def test_a_planted_secret_is_in_no_alert(guarded, inbox):
    planted = "4111111111111111"
    result = guarded.pay.call(to="a", card=planted)
    round_of(guarded)
    guarded.resolve(result.operation_id, "happened", by="ann", reason="seen password=hunter2hunter2")
    round_of(guarded)
    assert len(inbox.raw) == 2
    told = b"".join(inbox.raw) + repr(inbox.headers).encode()
    assert planted.encode() not in told
    assert b"hunter2hunter2" not in told
    assert SECRET.encode() not in told
    kept = repr([guarded.journal.notes(kind) for kind in (notes.ALARM, notes.DELIVERY, notes.SENDING)])
    assert planted not in kept


def test_a_receivers_own_error_is_kept_by_its_type_alone(place):
    class Leaks:
        name = "leaks"

        def deliver(self, notice):
            raise ValueError("https://hooks.example/T000/B000/verysecret")

    with settled.Guard(place, alerts=Leaks()) as guard:
        guard.floor.keeper.chores.pop()
        pay, _ = declare(guard)
        pay.call(to="a")
        round_of(guard)
        kept = repr(guard.journal.notes(notes.DELIVERY))
        assert "ValueError" in kept
        assert "verysecret" not in kept


# --- declarations ---


async def later(event, facts):
    """An async sink would never run."""


@pytest.mark.parametrize(
    "alerts",
    [lambda: None, lambda event: None, lambda event, facts, more: None, "https://x", 5, later, [print, 5], object()],
)
def test_what_cannot_be_told_is_refused(alerts):
    with pytest.raises(DeclarationError, match="alerts= takes"):
        settled.Guard("memory://", alerts=alerts)


@pytest.mark.parametrize("alerts", [lambda event, facts: None, lambda *a, **k: None, print, [], (), [Kept(), print]])
def test_what_can_be_told_is_taken(alerts):
    settled.Guard("memory://", alerts=alerts).close()


def test_two_receivers_of_one_name_are_refused():
    with pytest.raises(DeclarationError, match="one name"):
        settled.Guard("memory://", alerts=[Kept(), Kept()])


def test_sinks_and_receivers_are_both_told(place):
    heard, kept = [], Kept()
    with settled.Guard(place, alerts=[lambda event, facts: heard.append(event), kept]) as guard:
        guard.floor.keeper.chores.pop()
        pay, _ = declare(guard)
        pay.call(to="a")
        round_of(guard)
        assert kept.notices == [], "the row may go only once the sinks have taken it"
        guard._deliver_alerts()
        guard._deliver_alerts()
        round_of(guard)
        assert guard.journal.alerts() == []
    assert heard.count("alert") == 1
    assert len(kept.notices) == 1


def test_a_function_takes_nothing_from_the_receivers_of_another_process(shared_place):
    (address, options), heard, kept = shared_place, [], Kept()
    with (
        settled.Guard(address, alerts=[kept], **options) as worker,
        settled.Guard(address, alerts=[hear(heard)], **options) as app,
    ):
        for guard in (worker, app):
            guard.floor.keeper.chores.pop()
        worker.postman.round()  # it is there before there is anything to tell
        pay, _ = declare(app)
        for to in "abc":
            pay.call(to=to)
            app._deliver_alerts()
        assert len(heard) == 3, "each once, though the rows stay"
        worker.postman.round()
        assert len(kept.notices) == 3
        assert app.journal.alerts() == []


def test_where_nobody_else_has_receivers_or_has_been_there_for_long_a_function_is_all_that_is_told(place, monkeypatch):
    heard = []
    with settled.Guard(place, alerts=[hear(heard)]) as app:
        app.floor.keeper.chores.pop()
        pay, _ = declare(app)
        pay.call(to="a")
        app._deliver_alerts()
        assert (len(heard), app.journal.alerts()) == (1, [])
        app.journal.perform(TakeDelivery("another", 0.0))
        pay.call(to="b")
        app._deliver_alerts()
        assert (len(heard), len(app.journal.alerts())) == (2, 1)
        monkeypatch.setattr(alerting, "GONE", -1.0)
        app._deliver_alerts()
        assert (len(heard), app.journal.alerts()) == (2, [])


def hear(heard):
    return lambda event, facts: heard.append(facts) if event == "alert" else None


@pytest.mark.parametrize("lifetime", [0.0, 30.0])
def test_what_its_own_probe_is_about_to_settle_calls_nobody(place, lifetime, monkeypatch):
    kept = Kept()
    with settled.Guard(place, alerts=[kept]) as guard:
        guard.floor.keeper.chores.pop()
        wait = doubtful(guard, max_request_lifetime=lifetime)
        wait.options(wait=0.0).call(to="a")
        guard.postman.round()
        assert (kept.notices, len(guard.journal.alerts())) == ([], 1)
        monkeypatch.setattr(notices, "PROBING", -lifetime - 60.0)
        guard.postman._look_next = 0.0
        guard.postman.round()
        assert ([notice.kind for notice in kept.notices], guard.journal.alerts()) == (["unknown"], [])


@pytest.mark.parametrize("lifetime", [120.0, 3600.0])
def test_doubt_that_no_probe_ends_soon_is_told_at_once(place, lifetime):
    kept = Kept()
    with settled.Guard(place, alerts=[kept]) as guard:
        guard.floor.keeper.chores.pop()
        doubtful(guard, max_request_lifetime=lifetime).options(wait=0.0).call(to="a")
        guard.postman.round()
        assert [notice.kind for notice in kept.notices] == ["unknown"]


def doubtful(guard, **options):
    @guard.tool(effect="write", probe=lambda call: settled.Inconclusive("not yet"), **options)
    def send(to: str) -> None:
        raise TimeoutError("no answer")

    return send

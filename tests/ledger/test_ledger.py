"""The journal against a tool's own list: what is found, what is settled, and what is no finding at all."""

import asyncio
import threading

import pytest

import settled
from settled.api.people import findings
from settled.core.noted.findings import Note, TakeLedger
from settled.core.states import State
from settled.core.values import replace
from settled.errors import DeclarationError
from settled.journals.memory import MemoryJournal
from settled.testing.records import FakeClock
from tests.ledger.conftest import LIFETIME


def settle_in(world):
    """Let so much time pass that what is done must show."""
    world.clock.pass_time(LIFETIME + 1)


# --- no false findings ---


@pytest.mark.parametrize("keys", [True, False])
def test_what_agrees_gives_no_finding(world, keys):
    world.bank.keys = keys
    for number in range(8):
        world.pay(to=f"p{number}")
    world.pay(to="p1")  # two intended identical payments stay two
    settle_in(world)
    compared = world.compare()
    assert (compared.effects, compared.calls, compared.findings) == (9, 9, ())
    assert compared.happened == compared.did_not_happen == 0


@pytest.mark.parametrize("skew", [-290.0, 290.0])
@pytest.mark.parametrize("keys", [True, False])
def test_a_clock_that_differs_by_minutes_gives_no_finding(world, skew, keys):
    world.bank.skew, world.bank.keys = skew, keys
    world.pay(to="early")
    world.clock.pass_time(400.0)
    world.pay(to="late")
    settle_in(world)
    assert world.kinds() == []
    world.clock.pass_time(3600.0)
    for since in (3500.0, 3661.0, 3700.0, 4000.0, 4100.0):
        assert world.kinds(since) == [], f"the edge lies near a payment: {since}"


def test_an_entry_that_is_still_arriving_is_not_missing(world):
    world.pay(to="a")
    world.bank.hidden = 10
    assert world.kinds() == [], "it may show up to max_request_lifetime later"
    settle_in(world)
    assert world.kinds() == ["missing"]


def test_an_entry_that_one_reading_missed_is_not_missing(world):
    world.pay(to="a")
    settle_in(world)
    world.bank.hidden = 1
    assert world.kinds() == []
    assert len(world.bank.asked) == 2, "it was asked once more"


def test_the_effect_of_a_call_at_work_is_explained(world):
    seen = []

    @world.guard.tool(effect="write", ledger=world.bank.effects, max_request_lifetime=LIFETIME, retention=None)
    def send(to: str, amount: int = 1) -> str:
        world.bank.book(settled.current_call().key, to, amount)
        seen.extend(world.guard.reconcile(ledger=True, since=7200.0).ledgers)
        return "done"

    send(to="a")
    assert [(compared.tool, compared.effects, compared.findings) for compared in seen] == [
        ("pay", 1, ()),
        ("send", 1, ()),
    ]


def test_an_effect_from_before_calls_were_recorded_here_is_not_orphaned(world):
    world.bank.book("", "old", 1)
    world.clock.pass_time(1000.0)
    world.pay(to="a")
    settle_in(world)
    (compared,) = world.guard.reconcile(ledger=True).ledgers
    assert compared.findings == ()
    assert [f.kind for f in world.compare().findings] == ["orphaned"], "with since= somebody says that all are recorded"


def test_an_effect_of_another_tenants_call_is_explained(world):
    other = settled.Guard(world.guard.journal, tenant="acme")

    @other.tool(effect="write", name="pay", retention=None)
    def pay(to: str, amount: int = 1) -> str:
        world.bank.book(settled.current_call().key, to, amount)
        return "x"

    pay(to="a")
    settle_in(world)
    assert world.kinds() == []
    world.bank.rows.clear()
    assert world.kinds() == [], "and its call is its own guard's affair"


# --- findings ---


@pytest.mark.parametrize("keys", [True, False])
def test_missing_orphaned_and_doubled_are_found_once(world, keys):
    world.bank.keys = keys
    world.bank.trouble = {"twice": "twice", "nowhere": "silent"}
    lost, _ = world.pay.call(to="nowhere"), world.pay.call(to="twice")
    world.bank.book("somebody's", "stranger", 9)
    settle_in(world)
    first = world.compare()
    assert sorted(f.kind for f in first.findings) == ["doubled", "missing", "orphaned"]
    assert (first.new, first.gone) == (3, 0)
    again = world.compare()
    assert (again.new, {f.finding_id for f in again.findings}) == (0, {f.finding_id for f in first.findings})
    missing = next(f for f in first.findings if f.kind == "missing")
    assert missing.operation_id == lost.operation_id
    assert len(findings.open_findings(world.guard.journal)) == 3
    kinds = [alert.kind for alert in world.guard.journal.alerts()]
    assert kinds.count("finding") == 3


def test_what_was_seen_stays_so_and_what_is_mended_is_gone(world):
    world.bank.trouble = {"a": "silent", "b": "silent"}
    first, second = world.pay.call(to="a"), world.pay.call(to="b")
    settle_in(world)
    by_call = {f.operation_id: f for f in world.compare().findings}
    findings.see(world.guard, by_call[first.operation_id].finding_id, by="ann", reason="known")
    with pytest.raises(DeclarationError, match="seen by ann"):
        findings.see(world.guard, by_call[first.operation_id].finding_id, by="bob", reason="too")
    world.bank.book(world.guard.journal.get(second.operation_id).key, "b", 1)
    assert world.compare().gone == 1
    states = {f.operation_id: f.state for f in findings.all_findings(world.guard.journal)}
    assert states == {first.operation_id: "seen", second.operation_id: "gone"}
    assert world.compare().new == 0


def test_what_is_found_again_after_it_was_gone_is_open_again(world):
    world.bank.trouble = {"a": "silent"}
    call = world.pay.call(to="a")
    settle_in(world)
    assert world.compare().new == 1
    world.bank.book(world.guard.journal.get(call.operation_id).key, "a", 1)
    assert world.compare().gone == 1
    world.bank.rows.clear()
    again = world.compare()
    assert (again.new, again.gone) == (1, 0)
    assert [f.operation_id for f in findings.open_findings(world.guard.journal)] == [call.operation_id]
    assert world.compare().new == 0
    assert [alert.kind for alert in world.guard.journal.alerts()].count("finding") == 2


def test_a_comparison_that_judges_no_stranger_of_that_time_takes_none_off_the_queue(world):
    world.bank.book("", "old", 1)
    world.clock.pass_time(10.0)
    world.pay(to="a")
    settle_in(world)
    assert [f.kind for f in world.compare().findings] == ["orphaned"]
    (compared,) = world.guard.reconcile(ledger=True).ledgers  # from when calls were first recorded here
    assert (compared.findings, compared.gone) == ((), 0)
    assert len(findings.open_findings(world.guard.journal)) == 1


def test_a_missing_one_that_began_before_the_window_is_not_gone(world):
    @world.guard.tool(effect="write", ledger=world.bank.effects, max_request_lifetime=LIFETIME, retention=None)
    def slow(to: str, amount: int = 1) -> str:
        world.clock.pass_time(600.0)
        return "done"

    slow(to="nowhere")
    settle_in(world)
    since = LIFETIME + 300.0  # it began before that, and ended after it
    (_, first) = world.guard.reconcile(ledger=True, since=3600.0).ledgers
    (_, later) = world.guard.reconcile(ledger=True, since=since).ledgers
    assert [f.kind for f in first.findings] == ["missing"]
    assert (later.tool, later.findings, later.gone) == ("slow", (), 0)
    assert len(findings.open_findings(world.guard.journal)) == 1


# --- settling ---


def test_unknown_calls_are_settled_by_it_and_absence_waits_for_the_lifetime(world):
    world.bank.trouble = {"there": "lost", "not": "never"}
    there, absent = world.pay.call(to="there"), world.pay.call(to="not")
    assert (there.status, absent.status) == ("unknown", "unknown")
    early = world.compare()
    assert (early.happened, early.did_not_happen) == (1, 0)
    stands = world.guard.look(there.operation_id)
    assert (stands.status, stands.value, stands.asserted) == ("succeeded", "pay-0", False)
    world.clock.pass_time(LIFETIME - 1)
    assert world.compare().did_not_happen == 0
    world.clock.pass_time(2)
    assert world.compare().did_not_happen == 1
    assert world.guard.look(absent.operation_id).status == "not_done"
    assert world.bank.rows[1:] == [], "it makes no attempt"


def test_a_like_effect_without_a_key_is_no_proof_that_it_was_this_call(world):
    world.bank.keys = False
    world.bank.trouble = {"a": "never"}
    lost = world.pay.call(to="a")
    world.bank.book("", "a", 1)  # somebody paid by hand
    settle_in(world)
    compared = world.compare()
    assert (compared.happened, compared.did_not_happen, compared.findings) == (0, 0, ())
    assert world.guard.look(lost.operation_id).status == "unknown"


def test_an_effect_of_a_call_that_counts_as_not_done_disputes_it(world):
    world.bank.trouble = {"a": "refused"}
    refused = world.pay.call(to="a")
    assert refused.status == "failed"
    assert world.compare().contradicted == 1
    call = world.guard.journal.get(refused.operation_id)
    assert (call.state, call.disputed) == (State.FAILED, True)
    assert world.compare().contradicted == 0, "said once"


def test_what_a_person_holds_is_left_alone(world):
    world.bank.trouble = {"a": "never"}
    lost = world.pay.call(to="a")
    world.guard.resolve(lost.operation_id, "hold", by="ann", reason="I look into it")
    settle_in(world)
    assert world.compare().did_not_happen == 0


# --- ledgers that fail ---


@pytest.mark.parametrize(
    "trouble",
    [OSError("no line: token=hunter2"), TimeoutError(), KeyError("x"), SystemExit(3), asyncio.CancelledError()],
)
def test_a_ledger_that_fails_concludes_nothing(world, trouble):
    world.bank.trouble = {"a": "never", "ledger": trouble}
    lost = world.pay.call(to="a")
    settle_in(world)
    compared = world.compare()
    assert type(trouble).__name__ in compared.trouble
    assert "hunter2" not in compared.trouble
    assert world.guard.look(lost.operation_id).status == "unknown"


def test_a_ledger_that_breaks_off_in_the_middle_concludes_nothing(world):
    world.bank.trouble = {"a": "never"}
    world.pay.call(to="a")
    settle_in(world)
    whole = world.bank.effects

    def broken(since):
        yield from whole(since)
        raise ConnectionError("gone")

    object.__setattr__(world.pay.checked.options, "ledger", broken)
    compared = world.compare()
    assert (compared.trouble, compared.did_not_happen, compared.findings) == (
        "its ledger failed: ConnectionError",
        0,
        (),
    )


@pytest.mark.parametrize("is_async", [False, True])
def test_a_ledger_that_never_answers_is_left(world, monkeypatch, is_async):
    """Else the worker's calls in doubt, and what is past its retention, would wait for it for ever."""
    monkeypatch.setattr("settled.api.people.ledgers.LIMIT", 0.2)
    ended = threading.Event()

    async def later(since):
        await asyncio.sleep(60)

    object.__setattr__(world.pay.checked.options, "ledger", later if is_async else lambda since: ended.wait(60))
    compared = world.compare()
    ended.set()
    assert (compared.trouble, compared.findings) == ("its ledger failed: TimeoutError", ())


@pytest.mark.parametrize(
    ("listed", "words"),
    [("row", "settled.Effect"), (settled.Effect(at=1e9, arguments={"whom": "a"}), "do not fit the tool")],
)
def test_what_is_no_effect_of_the_tool_is_told(world, listed, words):
    object.__setattr__(world.pay.checked.options, "ledger", lambda since: [listed])
    assert words in world.compare().trouble


# --- forms ---


def test_a_ledger_may_be_async(world):
    whole = world.bank.effects

    async def listed(since):
        await asyncio.sleep(0)
        return list(whole(since))

    async def yielded(since):
        for effect in whole(since):
            yield effect

    world.pay(to="a")
    world.bank.book("x", "b", 1)
    for ledger in (listed, yielded):
        object.__setattr__(world.pay.checked.options, "ledger", ledger)
        assert world.kinds() == ["orphaned"]


async def test_async_code_awaits_it(world):
    world.pay(to="a")
    with pytest.raises(DeclarationError, match=r"await guard\.areconcile"):
        world.guard.reconcile(ledger=True)
    (compared,) = (await world.guard.areconcile(ledger=True, since=7200.0)).ledgers
    assert (compared.effects, compared.findings) == (1, ())


def test_two_workers_compare_a_ledger_once_an_hour(world):
    world.pay(to="a")
    workers = [settled.Worker(world.guard, ledger_every=3600.0, prune=False) for _ in range(2)]

    async def rounds():
        return await asyncio.gather(*(worker.around() for worker in workers))

    for expected in (1, 1, 2):
        asyncio.run(rounds())
        assert len(world.bank.asked) == expected
        world.clock.pass_time(1801.0)


def test_a_worker_tells_what_is_new(world):
    world.pay(to="a")
    settle_in(world)
    world.clock.pass_time(400.0)
    world.bank.book("x", "stranger", 1)
    done = asyncio.run(settled.Worker(world.guard).around())
    assert (done.findings, done.idle) == (1, False)


# --- declarations ---


def test_a_ledger_needs_a_lifetime():
    with pytest.raises(DeclarationError, match="max_request_lifetime"):
        settled.tool(effect="write", ledger=lambda since: [])(lambda: None)


@pytest.mark.parametrize("ledger", [lambda: ["none"], "books"])
def test_a_ledger_is_a_function_of_one_thing(ledger):
    with pytest.raises(DeclarationError, match="ledger must be a function"):
        settled.tool(effect="write", ledger=ledger, max_request_lifetime=1)(lambda: None)


def test_a_read_has_no_ledger():
    with pytest.raises(DeclarationError, match="read"):
        settled.tool(effect="read", ledger=lambda since: [], max_request_lifetime=1)(lambda: None)


def test_an_effect_can_be_told_from_others():
    from datetime import UTC, datetime  # noqa: PLC0415 - only here

    with pytest.raises(ValueError, match="key= or arguments="):
        settled.Effect(at=1.0, ref="x")
    with pytest.raises(ValueError, match="time zone"):
        settled.Effect(at=datetime(2030, 1, 1), key="k")  # noqa: DTZ001 - that is what is refused
    for at in ("yesterday", "2030-01-01T00:00:00", None, True, float("nan"), 10**400, 1e300):
        with pytest.raises(ValueError, match=r"no time|time zone|isoformat"):
            settled.Effect(at=at, key="k")
    for at in (datetime(2030, 1, 1, tzinfo=UTC), "2030-01-01T00:00:00Z", "2030-01-01T01:00:00+01:00", 1893456000):
        assert settled.Effect(at=at, key="k").wall == 1893456000.0


@pytest.mark.parametrize("since", [0.0, -5.0, float("nan"), -1e300, "1h"])
def test_a_stretch_of_time_that_holds_nothing_is_refused(since):
    """Else nothing would be compared, and that would read as agreement."""
    guard = settled.Guard("memory://")
    with pytest.raises(DeclarationError, match="is no stretch of time"):
        guard.reconcile(ledger=True, since=since)
    with pytest.raises(DeclarationError, match="is no stretch of time"):
        asyncio.run(guard.areconcile(ledger=True, since=since))


def test_a_clock_that_was_set_back_delays_no_comparison():
    clock = FakeClock()
    journal = MemoryJournal(clock)
    take = TakeLedger("pay", "", every=3600.0, seconds=600.0, nonce="a")

    def taken(nonce):
        return journal.perform(replace(take, nonce=nonce)) is not None

    assert taken("a")
    assert not taken("b"), "another one is at it"
    clock.wall -= 30 * 86_400.0
    assert taken("b")
    journal.perform(Note("pay", "", (), 0.0))
    assert not taken("c"), "it was done just now"
    clock.wall -= 30 * 86_400.0
    assert taken("c")

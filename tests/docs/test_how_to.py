"""The code of each how-to does what its page says."""

import sqlite3
import threading
from types import SimpleNamespace

import pytest

import settled
from settled.api.people.queue import waiting
from settled.core.encoding import codec
from settled.core.states import State
from settled.ports import CallQuery
from tests.pages import run
from tests.waiting import until


class NoCar(Exception):  # noqa: N818 - as the page names it
    pass


# --- undo a run ---


def test_undo_a_run():
    booked = []
    names = run("docs/how-to/undo-a-run.md", 0, find_cancellation=lambda call: settled.NotHappened(), NoCar=NoCar)
    names["book"].function = lambda what: booked.append(what) or f"b-{what}"
    names["cancel_booking"].function = lambda booking: booked.remove(booking.removeprefix("b-")) or "cancelled"
    with names["guard"] as guard:
        with pytest.raises(NoCar):
            run("docs/how-to/undo-a-run.md", 1, names)
        assert (booked, names["run"].status) == ([], "compensated")
        undone = guard.journal.find(CallQuery(tool="cancel_booking"))
        assert [codec.loads(call.arguments) for call in undone][::-1] == [
            {"booking": "b-hotel"},
            {"booking": "b-flight"},
        ]


def test_tell_how_a_run_was_left(guard):
    told = []

    def plan_the_trip():
        raise NoCar

    around = {"guard": guard, "NoCar": NoCar, "plan_the_trip": plan_the_trip}
    run("docs/how-to/undo-a-run.md", 2, tell_customer=lambda **facts: told.append(facts), **around)
    assert told == [{"all_undone": True}]


# --- batches ---


class Bulk:
    """A store that refuses one document in the way of a bulk API."""

    def bulk(self, operations):
        rows = [{"index": {"_id": doc["id"], "status": 201 if doc["id"] < 9 else 400}} for doc in operations]
        return SimpleNamespace(body={"errors": True, "items": rows})


def test_batches(guard):
    @guard.tool(effect="write")
    def delete(docs: list[dict]) -> None: ...

    docs = [{"id": number} for number in range(10)]
    around = {"client": Bulk(), "operations": lambda docs: docs, "delete": delete, "docs": docs}
    names = run("docs/how-to/batches.md", 0, settled=settled, guard=guard, **around)
    result = names["result"]
    assert (result.status, result.items[9].status) == ("partial", "failed")
    assert result.value == {"done": docs[:9], "failed": docs[9:], "unknown": []}


def test_a_reader_of_one_s_own(guard):
    read = run("docs/how-to/batches.md", 1, settled=settled)["read"]

    @guard.tool(effect="write", partial=read)
    def put(items: list[dict]) -> dict:
        return {"rows": [{"id": 1, "ok": True}, {"id": 2, "ok": False, "code": "full"}]}

    assert [item.status for item in put.call([{"id": 1}, {"id": 2}, {"id": 3}]).items] == ["done", "failed", "unknown"]


# --- several agents ---


class Wire:
    """What carries a request to the other agent, and its answer back."""

    def post(self, path, handler=None, *, headers=None, json=None):
        if headers is None:
            return lambda handler: setattr(self, "handler", handler) or handler
        return self._asked(headers, json)

    async def _asked(self, headers, body):
        async def given():
            return body

        return await self.handler(SimpleNamespace(headers=headers, json=given))


def test_several_agents(monkeypatch):
    monkeypatch.setenv("TOKEN_KEY", "0123456789abcdef" * 2)
    wire, booked = Wire(), []
    local = {"postgresql://host/agents": "sqlite:///agents.db"}

    def agent():
        guard = settled.Guard("sqlite:///agents.db", token_key="0123456789abcdef" * 2)

        @guard.tool(effect="write")
        async def cancel(booking: str) -> None:
            booked.remove(booking)

        @guard.tool(effect="write", compensate=cancel, undo=lambda call, result: {"booking": result})
        async def book_hotel(city: str) -> str:
            booked.append(city)
            return city

        @guard.tool(effect="write", compensate=cancel, undo=lambda call, result: {"booking": result})
        async def book_flight(start: str, end: str) -> str:
            booked.append(f"{start}-{end}")
            return f"{start}-{end}"

        return {"guard": guard, "book_hotel": book_hotel, "book_flight": book_flight}

    other = agent()
    run("docs/how-to/several-agents.md", 1, app=wire, tokens=settled.tokens, **other)
    host = agent()
    names = run("docs/how-to/several-agents.md", 0, client=wire, book_flight=host["book_flight"], replace=local)
    assert booked == ["LHR-OSL", "Oslo"]
    for guard in (other["guard"], host["guard"], names["guard"]):
        guard.close()


# --- transactional tools ---


def test_a_transactional_tool():
    with sqlite3.connect("agent.db") as database:
        database.execute("CREATE TABLE bookings (id INTEGER PRIMARY KEY, order_id TEXT, seats INTEGER)")
    names = run("docs/how-to/transactional.md", 0)
    with names["guard"]:
        assert names["book"]("o1", 2) == names["book"]("o1", 2) == 1
    with sqlite3.connect("agent.db") as database:
        assert database.execute("SELECT order_id, seats FROM bookings").fetchall() == [("o1", 2)]


# --- alerts, ledgers, workers ---


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise asks for it
def test_tell_people(monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    monkeypatch.setenv("SENTRY_DSN", "http://key@127.0.0.1:9/1")
    with run("docs/how-to/alert-people.md", 0)["guard"] as guard:
        assert len(guard.postman.receivers) == 3


def test_compare_with_a_ledger(guard):
    rows = []
    bank = SimpleNamespace(list=lambda created_after: rows)
    pay = run("docs/how-to/compare-with-a-ledger.md", 0, settled=settled, guard=guard, bank=bank)["pay"]

    def paid(to, amount):
        rows.append({"id": to, "created": guard.journal.now().wall, "idempotency_key": settled.current_call().key})
        raise TimeoutError("no answer")

    pay.function = paid
    assert pay.call("ann", 5).status == "unknown"
    (compared,) = guard.reconcile(ledger=True).ledgers
    assert (compared.happened, compared.findings, compared.trouble) == (1, (), "")
    assert guard.journal.find(CallQuery(tool="pay"))[0].state is State.SUCCEEDED


def test_a_worker(guard, monkeypatch):
    made = []

    class Noted(settled.Worker):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            made.append(self)

    monkeypatch.setattr(settled, "Worker", Noted)
    working = threading.Thread(target=lambda: run("docs/how-to/worker.md", 0, guard=guard))
    working.start()
    worker = until(lambda: made and made[0], "the worker")
    worker.stop()
    working.join(60)
    assert not working.is_alive()


# --- fallbacks ---


def test_do_something_else_instead(guard):
    names = run("docs/how-to/fall-back.md", 0, settled=settled, guard=guard)

    def declined(**_):
        raise settled.NotExecuted("declined", retryable=False)

    names["charge_card"].function, names["invoice"].function = declined, lambda order, amount: f"invoice {order}"
    result = names["charge_card"].call("o1", 5)
    assert (result.status, result.fallback, result.value) == ("succeeded", "invoice", "invoice o1")
    names["invoice"].function = declined
    result = names["charge_card"].call("o2", 5)
    assert (result.ok, result.fallback, result.value) == (False, "skip", "pays at the desk")


def test_leave_it_to_a_person(guard):
    @guard.tool(effect="write")
    def invoice(order: str, amount: int) -> str:
        raise settled.NotExecuted("no address", retryable=False)

    charge_card = run("docs/how-to/fall-back.md", 1, settled=settled, guard=guard, invoice=invoice)["charge_card"]
    charge_card.function = invoice.function
    result = charge_card.call(order="o1", amount=5)
    assert (result.status, result.reason) == ("awaiting_approval", "by_hand")
    (left,) = waiting(guard.journal)
    guard.resolve(left.operation_id, "happened", by="eva", reason="paid at the desk", result="receipt 7")
    assert charge_card(order="o1", amount=5) == "receipt 7"


def test_a_window_of_tokens(guard):
    names = run("docs/how-to/fall-back.md", 2, settled=settled, guard=guard, tokens_of=lambda tool, arguments: 10)
    assert (names["run"].status, names["run"].tokens.limit) == ("completed", 50_000)


def test_a_smaller_model(guard):
    names = run("docs/how-to/fall-back.md", 3, guard=guard)

    def too_long(**_):
        raise settled.NotExecuted("the context is too long", retryable=False)

    names["large"].function, names["small"].function = too_long, lambda prompt: f"short: {prompt}"
    result = names["large"].call("hello")
    assert (result.value, result.fallback) == ("short: hello", "small")
    assert guard.journal.find(CallQuery()) == []


# --- people ---


def test_draft_and_confirm(guard):
    sent = []

    @guard.tool(effect="write")
    def recall(to: str) -> None: ...

    names = run(
        "docs/how-to/draft-and-confirm.md",
        0,
        guard=guard,
        recall=recall,
        find_draft=lambda call: settled.NotHappened(),
        sent=sent,
    )
    names["write_draft"].function = lambda to, text: f"draft to {to}"
    assert names["mail"].options(wait=0).call("ann", "hello").status == "awaiting_approval"
    (asked,) = waiting(guard.journal)
    guard.approve(asked.operation_id, by="eva")
    exec("def letter(draft, to):\n    sent.append((draft, to))\n    return 'id'", names)
    names["send_draft"].__code__ = names["letter"].__code__
    assert names["mail"]("ann", "hello") == "id"
    assert sent == [("draft to ann", "ann")]


def test_ask_a_person(guard):
    refund = run("docs/how-to/ask-a-person.md", 0, guard=guard)["refund"]
    refund.function = lambda order, amount: f"{amount} for {order}"
    assert refund("o1", 500) == "500 for o1"
    asked = refund.options(wait=0).call("o2", 501)
    assert asked.status == "awaiting_approval"
    run("docs/how-to/ask-a-person.md", 1, guard=guard, operation_id=asked.operation_id)
    assert guard.look(asked.operation_id).status == "refused", "one has agreed, and one has refused"


def test_a_guard_that_is_put_to_work_begins_nothing_anew(tmp_path):
    place = {"sqlite:////var/lib/agent/journal.db": f"sqlite:///{tmp_path}/journal.db"}
    with pytest.raises(settled.JournalError):
        run("docs/how-to/deploy.md", 0, replace=place)
    settled.Guard(f"sqlite:///{tmp_path}/journal.db").close()
    run("docs/how-to/deploy.md", 0, replace=place)["guard"].close()


# --- test your own tools ---


def test_test_your_own_tools(monkeypatch):
    def declare(guard):
        @guard.tool(effect="write", key="order:{order}")
        def pay(order: str, amount: int) -> str: ...

        return SimpleNamespace(guard=guard, pay=pay)

    names = run("docs/how-to/test.md", 0, declare=declare)
    for name in ("test_a_lost_answer_is_left_to_a_person", "test_a_task_that_is_started_again_pays_once"):
        for shop in names["shop"].__wrapped__():
            names[name](shop, monkeypatch)

"""Where nothing before it did anything, a call is left to a person, who does it by hand and says so, or refuses."""

import asyncio
import json
import threading

import pytest

import settled
from settled.api.people import explain
from settled.api.people.queue import waiting
from settled.api.people.story import story
from settled.core.states import State
from settled.journals.prune import prune
from settled.ports import CallQuery
from tests.sagas.conftest import Lost, desk_on

desk = desk_on("memory", "sqlite", "postgres", "redis")
undoing_desk = desk_on("memory", "sqlite", "postgres")
"""On each kind of journal that every run can be undone on."""


@pytest.fixture
def made():
    """Return the calls that a program has made, in order."""
    return []


def payers(guard, made, trouble=None, *last, **options):
    """Return a card that falls back on an invoice, which falls back on a person; both are refused by default."""
    trouble = {"card": settled.NotExecuted("declined"), "invoice": settled.NotExecuted("no address")} | (trouble or {})

    def act(tool, order):
        made.append((tool, order))
        if trouble[tool] is not None:
            raise trouble[tool]
        return f"{tool} {order}"

    @guard.tool(effect="write", waiver="stays")
    def invoice(order: str) -> str:
        return act("invoice", order)

    chain = [invoice, settled.Person("take cash, and give the receipt's number"), *last]

    @guard.tool(**{"effect": "write", "fallback": chain, "attempts": 1, "waiver": "stays"} | options)
    def card(order: str) -> str:
        return act("card", order)

    return card, trouble


def left(guard):
    """Return what is left to a person."""
    return [call for call in waiting(guard.journal) if explain.waiting(call, guard.journal.now()) == "by_hand"]


def test_it_waits_in_the_queue_and_the_record_says_what_is_wanted_and_why(desk, made):
    guard = desk.open()
    card, _ = payers(guard, made)
    result = card.call("o")
    assert (result.status, result.reason, result.fallback, result.next) == (
        "awaiting_approval",
        "by_hand",
        "person",
        "wait",
    )
    [call] = left(guard)
    assert call.operation_id == result.operation_id
    assert call.leave.why == "take cash, and give the receipt's number"
    assert "card: not done" in call.leave.by_hand
    assert "declined" in call.leave.by_hand
    assert "invoice: not done" in call.leave.by_hand
    assert "no address" in call.leave.by_hand
    told = json.loads(result.for_model())
    assert set(told) == {"status", "message", "next", "operation_id"}
    assert "do not do it in any other way" in told["message"]
    with pytest.raises(settled.CallInProgress, match="left to a person"):
        card("p")


@pytest.mark.parametrize("where", ["run", "key"])
def test_who_comes_back_finds_what_the_person_gave(desk, made, where):
    guard = desk.open()
    card, trouble = payers(guard, made, key="order:{order}" if where == "key" else None)

    def ask():
        if where == "key":
            return card.call("o")
        with guard.run("r"):
            return card.call("o")

    first, again = ask(), ask()
    assert (again.status, again.operation_id) == ("awaiting_approval", first.operation_id)
    trouble.update(card=None, invoice=None)  # what was given up is never made, also where it could be now
    done = guard.resolve(first.operation_id, "happened", by="eva", reason="paid at the desk", result="receipt 7")
    assert (done.status, done.value, done.asserted) == ("succeeded", "receipt 7", True)
    result = ask()
    assert (result.status, result.value, result.fallback, result.replayed) == ("succeeded", "receipt 7", "person", True)
    assert made == [("card", "o"), ("invoice", "o")]
    assert left(guard) == []
    assert guard.journal.verify().ok


def test_who_waits_gets_it(desk, made):
    guard = desk.open()
    card, _ = payers(guard, made)
    given = []

    def person():
        while not (found := left(guard)):
            threading.Event().wait(0.01)
        given.append(guard.resolve(found[0].operation_id, "happened", by="eva", reason="cash", result="receipt"))

    thread = threading.Thread(target=person)
    thread.start()
    value = card.options(wait=60)("o")
    thread.join(60)
    assert (value, len(given)) == ("receipt", 1)


def test_who_comes_back_outside_of_a_run_without_a_key_finds_it_too(desk, made):
    guard = desk.open()
    card, _ = payers(guard, made)
    first = card.call("o")
    assert card.call("o").operation_id == first.operation_id
    guard.resolve(first.operation_id, "happened", by="eva", reason="cash", result="receipt")
    assert card("o") == "receipt"
    assert made == [("card", "o"), ("invoice", "o")]
    assert card.call("o").status == "awaiting_approval"  # it was told: this one is another
    assert len(made) == 4


def test_a_refusal_is_told_and_nothing_is_made(desk, made):
    guard = desk.open()
    card, _ = payers(guard, made, key="order:{order}")
    op = card.call("o").operation_id
    assert guard.refuse(op, by="eva", reason="not ours").status == "refused"
    result = card.call("o")
    assert (result.status, result.fallback, "not ours" in result.message) == ("refused", "person", True)
    with pytest.raises(settled.CallRefused, match="not ours"):
        card("o")
    assert len(made) == 2


@pytest.mark.parametrize(
    ("last", "fallback", "message"),
    [
        (settled.Skip("later", "as agreed"), "skip", "it was skipped: as agreed"),
        (settled.Say("Please pay at the desk."), "say", "Please pay at the desk."),
        (settled.Say(lambda result: f"sorry: {result.status}"), "say", "sorry: refused"),
    ],
)
def test_what_a_person_refuses_may_be_skipped_or_told_decently(desk, made, last, fallback, message):
    guard = desk.open()
    card, _ = payers(guard, made, None, last, key="order:{order}")
    op = card.call("o").operation_id
    guard.refuse(op, by="eva", reason="not ours")
    result = card.call("o")
    assert (result.status, result.fallback) == ("refused", fallback)
    assert message in result.message
    assert (card("o") == "later") if fallback == "skip" else message in json.loads(result.for_model())["message"]


def test_only_that_it_is_done_can_be_said_of_it(desk, made):
    guard = desk.open()
    card, _ = payers(guard, made)
    op = card.call("o").operation_id
    for verdict in ("did_not_happen", "hold", "undone"):
        with pytest.raises(settled.DeclarationError, match="say that it happened once it is done, or refuse it"):
            guard.resolve(op, verdict, by="eva", reason="so", force=True)
    with pytest.raises(settled.DeclarationError, match="no program makes it any more"):
        guard.approve(op, by="eva")
    assert [call.operation_id for call in left(guard)] == [op]


def test_doubt_before_it_leaves_nothing_to_a_person(desk, made):
    guard = desk.open()
    card, _ = payers(guard, made, {"invoice": Lost()})
    result = card.options(wait=0).call("o")
    assert (result.status, result.fallback, left(guard)) == ("unknown", "invoice", [])


def test_what_was_refused_and_is_done_all_the_same_is_disputed(desk, made):
    guard = desk.open()
    card, _ = payers(guard, made)
    op = card.call("o").operation_id
    guard.refuse(op, by="eva", reason="not ours")
    result = guard.resolve(op, "happened", by="bob", reason="it was paid before I knew")
    assert (result.status, result.disputed) == ("refused", True)
    [call] = waiting(guard.journal)
    assert "a person did it by hand all the same" in explain.why(call, guard.journal.now())
    guard.resolve(op, "hold", by="eva", reason="paid back")
    assert waiting(guard.journal) == []


def test_a_run_that_is_undone_closes_what_waits(undoing_desk, made):
    guard = undoing_desk.open()
    card, _ = payers(guard, made)
    with pytest.raises(LookupError), guard.run("r", on_error="compensate"):
        op = card.call("o").operation_id
        raise LookupError
    assert left(guard) == []
    call = guard.journal.get(op)
    assert (call.state, call.reason) == (State.REFUSED, "the run was rolled back")
    assert guard.journal.run("", "r").state == "compensated"
    late = guard.resolve(op, "happened", by="eva", reason="I had paid it already")
    assert (late.status, late.disputed, len(waiting(guard.journal))) == ("refused", True, 1)  # nobody does it silently


def test_what_was_done_by_hand_is_undone_by_hand(undoing_desk, made):
    guard = undoing_desk.open()
    card, _ = payers(guard, made, waiver="", compensate="invoice", undo=lambda call, result: {"order": result})
    with pytest.raises(LookupError), guard.run("r", on_error="compensate"):
        op = card.call("o").operation_id
        guard.resolve(op, "happened", by="eva", reason="cash", result="receipt")
        assert card("o") == "receipt"
        raise LookupError
    [call] = waiting(guard.journal)
    assert (call.operation_id, call.state, call.reason) == (op, State.COMPENSATING, "by_hand")
    assert "a person did it by hand, and no program undoes that" in explain.why(call, guard.journal.now())
    assert guard.journal.run("", "r").state == "partly_compensated"
    guard.resolve(op, "undone", by="eva", reason="paid back")
    assert (waiting(guard.journal), guard.journal.run("", "r").state) == ([], "compensated")
    assert made == [("card", "o"), ("invoice", "o")]


def test_what_waits_in_a_run_within_a_run_is_closed_with_it(undoing_desk, made):
    guard = undoing_desk.open()
    card, _ = payers(guard, made)
    with pytest.raises(LookupError), guard.run("outer", on_error="compensate"):
        with guard.run("inner", on_error="compensate"):
            op = card.call("o").operation_id
        raise LookupError
    assert (left(guard), guard.journal.get(op).state) == ([], State.REFUSED)


def test_what_waits_never_expires(desk, made):
    guard = desk.open()
    card, _ = payers(guard, made, retention=0.0)
    op = card.call("o").operation_id
    prune(guard.journal)
    assert [call.operation_id for call in left(guard)] == [op]


async def test_an_async_tool_is_left_to_a_person_too(desk):
    guard = desk.open()

    @guard.tool(effect="write", fallback=settled.Person(), key="order:{order}")
    async def acard(order: str) -> str:
        raise settled.NotExecuted("declined")

    first = await acard.acall("o")
    assert (first.status, first.fallback) == ("awaiting_approval", "person")
    await asyncio.to_thread(guard.resolve, first.operation_id, "happened", by="eva", reason="cash", result="r")
    assert await acard("o") == "r"
    assert (await guard.adispatch("acard", {"order": "o"})).value == "r"


def test_a_paused_tool_and_one_that_is_left_alone_are_left_to_a_person(desk, made):
    guard = desk.open()
    card, _ = payers(guard, made, fallback=settled.Person())
    guard.pause("card", by="eva", reason="odd answers")
    result = card.call("o")
    assert (result.status, result.fallback, made) == ("awaiting_approval", "person", [])
    guard.resume("card", by="eva", reason="mended")
    guard.resolve(result.operation_id, "happened", by="eva", reason="cash", result="r")
    assert (card("o"), made) == ("r", [])


def test_a_read_is_looked_up_by_hand(desk):
    guard = desk.open()

    @guard.tool(effect="read", attempts=1, fallback=settled.Person("look at the shelf"))
    def stock(item: str) -> int:
        raise TimeoutError("slow")

    op = stock.call("o").operation_id
    guard.resolve(op, "happened", by="eva", reason="counted", result=5)
    assert stock("o") == 5


def test_arguments_that_are_hidden_stay_hidden(desk, made):
    guard = desk.open()

    @guard.tool(effect="write", redact=["pin"], fallback=settled.Person("take cash"))
    def pay(order: str, pin: str) -> None:
        raise settled.NotExecuted(f"wrong pin {pin}")

    op = pay.call("o", pin="4711-secret").operation_id
    assert "4711-secret" not in repr(guard.journal.get(op))


def test_a_model_has_no_person_behind_it(desk):
    with pytest.raises(settled.DeclarationError, match="a model falls back on models"):
        desk.open().model(name="m", fallback=[settled.Person()])(lambda prompt: prompt)


def test_it_is_one_record_for_all_who_ask_at_once(desk, made):
    guard = desk.open()
    card, _ = payers(guard, made, key="order:{order}")
    found = []
    threads = [threading.Thread(target=lambda: found.append(card.call("o").operation_id)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(found), len(set(found))) == (4, 1)
    assert len(guard.journal.find(CallQuery(states=[State.AWAITING_APPROVAL]))) == 1


def test_a_run_that_is_rewound_leaves_nothing_to_a_person_twice(undoing_desk, made):
    guard = undoing_desk.open()
    card, _ = payers(guard, made)
    with guard.run("r"):
        first = card.call("o").operation_id
    [given_up] = guard.journal.find(CallQuery(states=[State.FAILED], tool="card"))
    guard.rewind("r", from_call=given_up.operation_id, by="eva", reason="another card")
    assert (left(guard), guard.journal.get(first).state) == ([], State.REFUSED)
    with guard.run("r"):
        again = card.call("o").operation_id
    assert ([call.operation_id for call in left(guard)], len(made)) == ([again], 4)
    assert again != first


def test_the_story_of_a_run_tells_of_it(undoing_desk, made):
    guard = undoing_desk.open()
    card, _ = payers(guard, made)
    with guard.run("r"):
        op = card.call("o").operation_id
    guard.resolve(op, "happened", by="eva", reason="cash", result="receipt")
    words = [line.words for line in story(guard, guard.journal.run("", "r"))]
    assert any("is left to a person (take cash" in line for line in words)
    assert "is done (done by hand by eva: cash)" in words[-1]

"""Something else is done only where it is proved that the first thing was not, and never both."""

import contextlib
import json

import pytest

import settled
from settled.core.states import State
from settled.ports import CallQuery
from tests.sagas.conftest import Lost, desk_on

desk = desk_on("memory", "sqlite", "postgres", "redis")
"""On each kind of journal: a fallback asks for no more than a record."""


@pytest.fixture
def paid():
    return []


def payers(guard, paid, trouble, **options):
    """Two tools: the card, and the invoice that stands in for it."""

    @guard.tool(effect="write")
    def invoice(order: str, amount: int = 0) -> str:
        if "invoice" in trouble:
            raise trouble["invoice"]
        paid.append(("invoice", order))
        return f"invoice {order}"

    @guard.tool(**{"effect": "write", "fallback": invoice, "attempts": 1, "breaker": None, **options})
    def card(order: str, amount: int) -> str:
        if "card" in trouble:
            raise trouble["card"]
        paid.append(("card", order))
        return f"card {order}"

    return card, invoice


def test_a_primary_that_works_is_the_answer(desk, paid):
    card, _ = payers(desk.open(), paid, {})
    result = card.call("o", 5)
    assert (result.value, result.fallback, paid) == ("card o", "", [("card", "o")])


@pytest.mark.parametrize("error", [settled.NotExecuted("declined"), ConnectionRefusedError("away")])
def test_what_is_proved_not_done_gives_way(desk, paid, error):
    guard = desk.open()
    card, _ = payers(guard, paid, {"card": error})
    result = card.call("o", 5)
    assert (result.status, result.value, result.fallback, paid) == (
        "succeeded",
        "invoice o",
        "invoice",
        [("invoice", "o")],
    )
    assert card("p", 5) == "invoice p"
    states = [str(call.state) for call in guard.journal.find(CallQuery(tool="card"))]
    assert states == ["failed", "failed"]
    assert guard.journal.verify().ok


@pytest.mark.case("CASE-067-fallback-after-effect")
def test_what_may_have_happened_never_gives_way(desk, paid):
    guard = desk.open()
    card, _ = payers(guard, paid, {"card": Lost()})
    result = card.options(wait=0).call("o", 5)
    assert (result.status, result.fallback, paid) == ("unknown", "", [])
    guard.resolve(result.operation_id, "did_not_happen", by="ann", reason="says the bank", force=True)
    again = card.options(wait=0).call("o", 5)
    assert (again.status, again.asserted, paid) == ("failed", True, [])  # a person's word is no proof


def test_an_open_breaker_gives_way_and_what_gave_way_is_not_made_by_a_later_entry(desk, paid):
    guard, trouble = desk.open(), {"card": ConnectionRefusedError("away")}
    card, _ = payers(guard, paid, trouble, breaker="default")
    for number in range(20):
        card.call(f"warm {number}", 5)
    paid.clear()
    with guard.run("r"):
        result = card.call("o", 5)
        assert (result.value, result.fallback) == ("invoice o", "invoice")
    assert len(guard.journal.find(CallQuery(tool="card", states=[State.FAILED]))) >= 1
    trouble.clear()
    with guard.run("r"):
        again = card.call("o", 5)
        assert (again.value, again.fallback, again.replayed) == ("invoice o", "invoice", True)
    assert paid == [("invoice", "o")]


def test_a_primary_that_could_work_again_is_not_made_by_a_later_entry(desk, paid):
    guard, trouble = desk.open(), {"card": ConnectionRefusedError("away")}
    card, _ = payers(guard, paid, trouble)
    with guard.run("r"):
        assert card("o", 5) == "invoice o"
    trouble.clear()
    with guard.run("r"):
        assert card("o", 5) == "invoice o"
    assert paid == [("invoice", "o")]


def test_a_chain_is_gone_down_and_skip_is_its_end(desk, paid):
    guard = desk.open()

    @guard.tool(effect="write")
    def cash(order: str) -> str:
        raise settled.NotExecuted("no till")

    away = ConnectionRefusedError("away")
    trouble = {"card": away, "invoice": settled.NotExecuted("no address")}
    card, _ = payers(guard, paid, trouble, fallback=["invoice", cash, settled.Skip("later", "pays at the desk")])
    result = card.call("o", 5)
    assert (result.status, result.value, result.fallback, paid) == ("not_done", "later", "skip", [])
    assert "it was skipped: pays at the desk" in result.message
    assert card("p", 5) == "later"


def test_a_chain_that_does_nothing_leaves_a_decent_error(desk, paid):
    guard = desk.open()
    trouble = {"card": settled.NotExecuted("declined"), "invoice": settled.NotExecuted("no address")}
    card, _ = payers(guard, paid, trouble)
    with pytest.raises(settled.CallFailed, match="declined; invoice did nothing either"):
        card("o", 5)


def test_doubt_on_the_way_ends_the_chain(desk, paid):
    guard = desk.open()
    trouble = {"card": settled.NotExecuted("declined"), "invoice": Lost()}
    card, _ = payers(guard, paid, trouble, fallback=["invoice", settled.Skip("later")])
    result = card.options(wait=0).call("o", 5)
    assert (result.status, result.fallback, result.value_available) == ("unknown", "invoice", False)


async def test_async_tools_give_way_too(desk, paid):
    guard = desk.open()
    payers(guard, paid, {})

    @guard.tool(effect="write", fallback="invoice")
    async def acard(order: str) -> str:
        raise settled.NotExecuted("declined")

    assert await acard("o") == "invoice o"
    assert (await guard.adispatch("acard", {"order": "p"})).fallback == "invoice"


def test_a_read_falls_back_on_another(desk):
    guard = desk.open()

    @guard.tool(effect="read")
    def mirror(page: str) -> str:
        return f"mirror {page}"

    @guard.tool(effect="read", fallback=mirror, attempts=1)
    def site(page: str) -> str:
        raise TimeoutError("slow")

    assert site("p") == "mirror p"


def test_what_was_done_instead_is_undone_with_its_run(desk):
    guard = desk.open()

    @guard.tool(effect="write", waiver="nothing to undo", fallback="book")
    def broken(what: str) -> str:
        raise settled.NotExecuted("closed")

    with pytest.raises(LookupError), guard.run("trip", on_error="compensate", tools=["broken", "book"]):
        assert broken("flight") == "b-flight"
        raise LookupError
    assert desk.books == [("book", "flight"), ("cancel", "b-flight")]


@pytest.mark.parametrize("places", [("", ""), ("a", "b")])
def test_what_is_done_instead_of_one_business_action_is_done_once(desk, paid, places):
    """Asked for again under its key, from wherever, the call is answered by what was done in its place."""
    guard = desk.open()
    card, _ = payers(guard, paid, {"card": settled.NotExecuted("declined")}, key="order:{order}")
    for place in places:
        with guard.run(place) if place else contextlib.nullcontext():
            result = card.call("o", 5)
        assert (result.value, result.fallback) == ("invoice o", "invoice")
    assert (result.replayed, paid) == (True, [("invoice", "o")])


def test_what_was_passed_over_is_not_made_by_a_later_ask(desk, paid):
    guard, trouble = desk.open(), {"card": settled.NotExecuted("declined")}

    @guard.tool(effect="write")
    def cash(order: str) -> str:
        paid.append(("cash", order))
        return f"cash {order}"

    card, _ = payers(guard, paid, trouble, fallback=["invoice", cash], key="order:{order}")
    guard.pause("invoice", by="eva", reason="no paper")
    assert card("o", 5) == "cash o"
    guard.resume("invoice", by="eva", reason="paper")
    assert (card("o", 5), paid) == ("cash o", [("cash", "o")])


@pytest.mark.parametrize("place", ["run", "nowhere"])
@pytest.mark.case("CASE-067-fallback-after-effect")
def test_while_what_is_done_instead_is_in_doubt_the_call_is_not_made(desk, paid, place):
    guard, trouble = desk.open(), {"card": settled.NotExecuted("declined"), "invoice": Lost()}
    card, _ = payers(guard, paid, trouble)
    with guard.run("r") if place == "run" else contextlib.nullcontext():
        first = card.options(wait=0).call("o", 5)
        trouble.clear()
        again = card.options(wait=0).call("o", 5)
    assert (first.status, again.status, first.operation_id) == ("unknown", "unknown", again.operation_id)
    assert paid == []
    guard.resolve(first.operation_id, "happened", by="eva", reason="it has come", result="invoice 7")
    with guard.run("r") if place == "run" else contextlib.nullcontext():
        assert card("o", 5) == "invoice 7"
    assert paid == []


@pytest.mark.parametrize("by_model", [False, True])
def test_in_the_next_turn_too_the_call_is_not_made_while_what_was_done_instead_is_in_doubt(desk, paid, by_model):
    guard, trouble = desk.open(), {"card": settled.NotExecuted("declined"), "invoice": Lost()}
    card, _ = payers(guard, paid, trouble)
    ask = {"order": "o", "amount": 5}
    with guard.run("r", turn="1"):
        first = card.options(wait=0).call(**ask)
    trouble.clear()
    with guard.run("r", turn="2"):
        again = guard.dispatch("card", ask) if by_model else card.options(wait=0).call(**ask)
        guard.resolve(first.operation_id, "happened", by="eva", reason="it has come", result="invoice 7")
        assert guard.dispatch("card", ask).value == "invoice 7" if by_model else card(**ask) == "invoice 7"
    assert (first.status, again.status, first.operation_id) == ("unknown", "unknown", again.operation_id)
    assert paid == []


def test_another_process_finds_what_was_done_instead(desk, paid):
    """The first one dies while something is done instead; outside of a run a like ask goes on with that."""
    if desk.address.startswith("memory"):
        other = guard = desk.open()
    else:
        guard, other = desk.open(), desk.open()
    trouble = {"card": settled.NotExecuted("declined"), "invoice": KeyboardInterrupt()}
    card, _ = payers(guard, paid, trouble)
    with pytest.raises(KeyboardInterrupt):
        card.call("o", 5)
    if other is not guard:
        card, _ = payers(other, paid, {})
    trouble.clear()
    assert card.options(wait=0).call("o", 5).status == "unknown"
    assert paid == []


def test_a_reworded_repeat_is_answered_by_what_was_done_for_the_first_words(desk, paid):
    guard = desk.open()

    @guard.tool(effect="write")
    def letter(to: str, text: str) -> str:
        paid.append(text)
        return text

    @guard.tool(effect="write", identity=["to"], fallback=letter)
    def post(to: str, text: str) -> str:
        raise settled.NotExecuted("no such box")

    for text in ("hello", "hi there"):
        with guard.run("r"):
            assert post("ann", text) == "hello"
    assert paid == ["hello"]


def test_a_model_is_told_of_what_was_done_instead(desk, paid):
    guard = desk.open()
    payers(guard, paid, {"card": settled.NotExecuted("declined")})
    with guard.run("r"):
        assert guard.dispatch("card", {"order": "o", "amount": 5}).fallback == "invoice"
    with guard.run("r"):
        told = guard.dispatch("card", {"order": "o", "amount": 6})
        assert (told.status, told.reason, [e.arguments["order"] for e in told.earlier]) == (
            "rejected",
            "untold_before",
            ["o"],
        )
    assert paid == [("invoice", "o")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("The card does not work; please pay at the desk.", "The card does not work; please pay at the desk."),
        (lambda result: f"no luck: {result.reason}", "no luck: not_executed"),
    ],
)
def test_a_decent_error_is_the_end_of_a_chain(desk, paid, words, message):
    guard = desk.open()
    trouble = {"card": settled.NotExecuted("declined"), "invoice": settled.NotExecuted("no address")}
    card, _ = payers(guard, paid, trouble, fallback=["invoice", settled.Say(words)])
    result = card.call("o", 5)
    assert (result.status, result.fallback, result.message) == ("failed", "say", message)
    assert json.loads(result.for_model())["message"] == message
    with pytest.raises(settled.CallFailed, match=message):
        card("p", 5)


def test_words_that_cannot_be_made_leave_the_errors_own(desk, paid):
    card, _ = payers(
        desk.open(), paid, {"card": settled.NotExecuted("declined")}, fallback=settled.Say(lambda r: 1 / 0)
    )
    with pytest.warns(RuntimeWarning, match="what it is to say could not be made"):
        assert "declined" in card.call("o", 5).message


def test_a_model_is_shown_what_is_given_instead(desk, paid):
    card, _ = payers(desk.open(), paid, {"card": settled.NotExecuted("declined")}, fallback=settled.Skip("later"))
    assert json.loads(card.call("o", 5).for_model())["instead"] == "later"


@pytest.mark.parametrize(
    ("fallback", "words"),
    [
        (5, "fallback takes tools, their names, Person"),
        ("card", "it cannot fall back on itself"),
        ([settled.Skip(), "invoice"], "what comes after Skip is never reached"),
        ([settled.Say("no"), settled.Skip()], "what comes after Say is never reached"),
        ([settled.Person(), "invoice"], "after a person only Skip or Say"),
        (settled.Say(5), "Say takes a text, or a plain function"),
    ],
)
def test_a_mistake_is_named(desk, paid, fallback, words):
    with pytest.raises(settled.DeclarationError, match=words):
        payers(desk.open(), paid, {}, fallback=fallback)


def test_a_fallback_takes_what_the_tool_has(desk):
    guard = desk.open()

    @guard.tool(effect="write")
    def needy(order: str, iban: str) -> None: ...

    with pytest.raises(settled.DeclarationError, match="its fallback needy takes 'iban'"):

        @guard.tool(effect="write", fallback=needy)
        def pay(order: str) -> None: ...

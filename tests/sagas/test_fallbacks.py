"""Something else is done only where it is proved that the first thing was not, and never both."""

import pytest

import settled
from settled.core.states import State
from settled.ports import CallQuery
from tests.sagas.conftest import Lost, opened


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def desk(request, tmp_path):
    """A desk on each kind of journal: a fallback asks for no more than a record."""
    yield from opened(request, request.param, tmp_path)


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

"""What a tool says of undoing it, checked when it is declared: a mistake is named with what to write instead."""

import dataclasses
import warnings

import pytest

import settled
from settled.api.people.queue import waiting
from settled.api.tools.foreign import ForeignTools, Values
from settled.journals.prune import prune


@pytest.fixture
def guard():
    with settled.Guard("memory://") as guard:
        yield guard


@dataclasses.dataclass
class Booking:
    booking: str


def cancel(booking: str, note: str = "") -> None:
    """Undo."""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"effect": "read", "compensate": "cancel"}, "a read changes nothing, so there is nothing to undo"),
        ({"compensate": 5}, "compensate must be a tool, or the name of one"),
        ({"compensate": "cancel", "irreversible": True, "waiver": "x"}, "is not irreversible"),
        ({"undo": lambda call, result: {}}, "undo makes the arguments of a compensation"),
        ({"compensate": "cancel", "undo": lambda call: {}}, "undo takes two things"),
        ({"irreversible": True}, "an irreversible tool needs precheck="),
        ({"precheck": print}, "precheck goes with irreversible=True"),
        ({"waiver": True}, "waiver says in words why"),
    ],
)
def test_a_mistake_is_named(guard, options, words):
    with pytest.raises(settled.DeclarationError, match=words):
        guard.tool(**{"effect": "write", **options})(cancel)


def test_a_compensation_whose_arguments_nobody_has_is_refused_when_both_are_known(guard):
    def book(what: str) -> str:
        return what

    guard.tool(effect="write", compensate="cancel")(book)
    with pytest.raises(settled.DeclarationError, match=r"cancel takes 'booking', .* write undo=lambda call, result"):
        guard.tool(effect="write")(cancel)


@pytest.mark.parametrize("returns", [Booking, dict, "Booking | None"])
def test_a_result_that_has_it_or_may_have_it_is_let_pass(guard, returns):
    def book(what: str) -> str:
        return what

    book.__annotations__["return"] = returns
    guard.tool(effect="write")(cancel)
    guard.tool(effect="write", compensate="cancel")(book)


def test_a_tool_that_undoes_is_taken_in_with_the_one_it_undoes(guard):
    apart = settled.tool(effect="write")(cancel)

    @guard.tool(effect="write", compensate=apart)
    def book(booking: str) -> str:
        return booking

    assert set(guard.tools) == {"book", "cancel"}


def test_a_read_undoes_nothing(guard):
    guard.tool(effect="read")(cancel)
    with pytest.raises(settled.DeclarationError, match="cancel is a read, which undoes nothing"):

        @guard.tool(effect="write", compensate="cancel")
        def book(booking: str) -> str:
            return booking


def test_a_secret_that_undoing_needs_must_be_kept(guard):
    guard.tool(effect="write")(cancel)
    with pytest.raises(settled.DeclarationError, match="which is redacted: it is kept only with"):

        @guard.tool(effect="write", compensate="cancel", redact=["booking"])
        def book(booking: str) -> str:
            return booking


def test_undo_never_sees_the_mark_of_a_secret(guard):
    undone = []

    @guard.tool(effect="write")
    def uncharge(card: str, order: str) -> None:
        undone.append((card, order))

    @guard.tool(
        effect="write",
        compensate=uncharge,
        undo=lambda call, _: {"card": call.arguments["card"], "order": call.arguments["order"]},
        redact=["card"],
    )
    def charge(card: str, order: str) -> str:
        return order

    with guard.run("r") as run:
        charge("4242 4242", "o")
        assert run.compensate("x") == "partly_compensated"
    assert undone == []


def test_what_has_expired_is_known_to_be_undone_or_not(tmp_path):
    with settled.Guard(f"sqlite:///{tmp_path}/agent.db") as guard:

        @guard.tool(effect="write", retention=0.0)
        def cancel(booking: str) -> None:
            if booking == "stays":
                raise settled.NotExecuted("no")

        @guard.tool(effect="write", compensate=cancel, retention=0.0)
        def book(booking: str) -> str:
            if booking == "fails":
                raise settled.NotExecuted("no")
            return booking

        with guard.run("r") as run:
            book.call("fails")
            book("goes")
            book("stays")
            assert run.compensate("x") == "partly_compensated"
        prune(guard.journal)
        [step] = waiting(guard.journal)
        guard.resolve(step.operation_id, "undone", by="ann", reason="by hand")
        assert guard.journal.run("", "r").state == "compensated"
        with guard.run("gone") as run:
            book("long ago")
            prune(guard.journal)
            assert run.compensate("x") == "partly_compensated"


def test_a_run_names_what_it_cannot_do(guard):
    with pytest.raises(settled.DeclarationError, match="neither 'keep' nor 'compensate'"):
        guard.run("r", on_error="undo")
    with pytest.raises(settled.DeclarationError, match="enter a run of its own for this turn"):
        guard.run("r", on_error="compensate", turn="u1")
    with pytest.raises(settled.DeclarationError, match="tools names 'nothing'"), guard.run("r", tools=["nothing"]):
        pass

    @guard.tool(effect="write", compensate="gone")
    def book(booking: str) -> str:
        return booking

    with pytest.raises(settled.DeclarationError, match="is undone by 'gone', which this guard has not"):
        guard.run("r", on_error="compensate").__enter__()


def test_a_business_key_that_failed_in_one_run_is_undone_with_the_run_that_made_it(guard):
    busy, undone = [True], []

    @guard.tool(effect="write")
    def uncharge(order: str) -> None:
        undone.append(order)

    @guard.tool(effect="write", compensate=uncharge, key="{order}", attempts=1)
    def charge(order: str) -> str:
        if busy[0]:
            raise settled.NotExecuted("busy", retryable=True)
        return order

    with guard.run("first"):
        assert charge.call("o").status == "not_done"
    busy[0] = False
    with guard.run("second") as run:
        assert charge("o") == "o"
        assert run.compensate("wrong") == "compensated"
    assert undone == ["o"]


def test_a_tool_that_is_refused_is_not_taken_in(guard):
    guard.tool(effect="write", compensate="cancel", name="book")(lambda what: what)
    wrong = settled.tool(effect="read", name="cancel")(lambda what: what)
    with pytest.raises(settled.DeclarationError, match="is a read, which undoes nothing"):
        guard.add(wrong)
    assert (set(guard.tools), wrong.guard) == ({"book"}, None)
    guard.tool(effect="write", name="cancel")(lambda what: what)


VALUES = Values(pack=lambda value: value, unpack=lambda value: value, failed=lambda _: None)
NAMED = [
    ("compensate", {}),
    ("draft", {"confirm": lambda draft: draft, "discard": "own"}),
    ("discard", {"confirm": lambda draft: draft, "draft": "own"}),
]


@pytest.mark.parametrize("first", ["the framework's", "the guard's"])
@pytest.mark.parametrize(("option", "more"), NAMED, ids=[name for name, _ in NAMED])
def test_a_frameworks_tool_is_none_that_the_guard_calls_by_itself(guard, option, more, first):
    """In whatever order they come, and also where an agent first shows it while it works."""
    tools = ForeignTools(guard, {}, VALUES)
    ways = [
        lambda: tools.of("theirs"),
        lambda: guard.tool(effect="write", name="ours", **{option: "theirs"}, **more)(lambda what: what),
    ]
    one, other = ways if first == "the framework's" else reversed(ways)
    one()
    for _ in range(2):
        with pytest.raises(settled.DeclarationError, match=f"{option} names theirs, which is the framework's"):
            other()


def test_a_name_that_is_nearly_the_one_that_options_were_given_for_is_told_of():
    """What was to need leave would be made without it."""
    with settled.Guard("memory://") as guard:
        tools = ForeignTools(guard, {"refnd": "write", "look_up": "read"}, VALUES)
        with pytest.warns(UserWarning, match="says nothing of the tool 'refund'.*names 'refnd'.*is 'refund' meant"):
            tools.of("refund")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert tools.of("refund") is tools.of("refund")
            assert not tools.of("send_mail").declared

"""A travel desk over each journal in turn: its books say what was done and undone, in which order."""

import itertools

import pytest

import settled

_numbers = itertools.count(1)


class Desk:
    """Opens guards on one journal, each with the same tools over the same books."""

    def __init__(self, address, **options):
        self.address, self.options, self.guards = address, options, []
        self.books = []
        """What happened out there, in order: ``("book", "flight")``."""
        self.trouble = {}
        """Name of a tool (or of a tool and its argument) -> what it raises; taken away by the caller."""
        self.probing = {}
        """What a probe says of a key's effect: ``True`` and ``False`` as the books say, ``None`` cannot tell."""

    def open(self, *, without=(), **options):
        guard = settled.Guard(self.address, **{**self.options, **options})
        self.guards.append(guard)
        declare(self, guard, without)
        return guard

    def act(self, tool, what):
        trouble = self.trouble.get((tool, what), self.trouble.get(tool))
        if trouble is not None and not getattr(trouble, "after", False):
            raise trouble
        self.books.append((tool, what))
        if trouble is not None:
            raise trouble

    def seen(self, call):
        """Look into the books: the probe of ``book``."""
        if self.probing.get("blind"):
            return settled.Inconclusive("blind")
        happened = ("book", call.arguments["what"]) in self.books
        return settled.Happened(f"b-{call.arguments['what']}") if happened else settled.NotHappened()

    @property
    def left(self):
        """What was booked and not cancelled."""
        left = [what for tool, what in self.books if tool == "book"]
        for tool, what in self.books:
            if tool == "cancel":
                left.remove(what.removeprefix("b-"))
        return left

    def close(self):
        for guard in self.guards:
            guard.close()


class Lost(TimeoutError):
    """The answer is lost; ``after``: the effect was there."""

    def __init__(self, *, after=False):
        super().__init__("no answer")
        self.after = after


def declare(desk, guard, without):
    def cancel(booking: str) -> str:
        desk.act("cancel", booking)
        return "cancelled"

    if "cancel" not in without:
        guard.tool(effect="write", attempts=2, retry=settled.Backoff(base=0.001, cap=0.01))(cancel)

    def book(what: str) -> str:
        desk.act("book", what)
        return f"b-{what}"

    if "book" not in without:
        guard.tool(
            effect="write",
            probe=desk.seen,
            max_request_lifetime=0.05,
            compensate="cancel",
            undo=lambda call, result: {"booking": result},
        )(book)

    @guard.tool(effect="write", waiver="a note does no harm")
    def note(text: str) -> str:
        desk.act("note", text)
        return text

    @guard.tool(effect="write", irreversible=True, waiver="a mail is a mail")
    def mail(to: str) -> str:
        desk.act("mail", to)
        return to

    @guard.tool(effect="write", irreversible=True, precheck=lambda to: to != "nobody")
    def wire(to: str) -> str:
        desk.act("wire", to)
        return to

    @guard.tool(effect="read")
    def look(what: str) -> str:
        desk.act("look", what)
        return what


def desk_on(*kinds):
    """Return a fixture: a desk on each of these kinds of journal in turn."""

    @pytest.fixture(params=kinds)
    def desk(request, tmp_path):
        yield from opened(request, request.param, tmp_path)

    return desk


desk = desk_on("memory", "sqlite", "postgres")
shared_desk = desk_on("sqlite", "postgres")
"""Of one that several guards can share."""


def opened(request, kind, tmp_path):
    options = {}
    match kind:
        case "memory":
            address = "memory://"
        case "sqlite":
            address = f"sqlite:///{tmp_path}/agent.db"
        case "redis":
            address = request.getfixturevalue("redis").url()
            options = {"prefix": f"saga_{next(_numbers)}", "spill": tmp_path / "spill"}
        case _:
            address = request.getfixturevalue("postgres").url()
            options = {"schema": f"saga_{next(_numbers)}", "spill": tmp_path / "spill"}
    desk = Desk(address, **options)
    try:
        yield desk
    finally:
        desk.close()

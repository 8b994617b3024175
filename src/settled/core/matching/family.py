"""What is in doubt in a run, and in all that is a part of it: runs inside of it, and calls inside of its calls.

Each of these is a scope of its own: what was done in one answers nothing in another. But what is in doubt in one of
them bars like calls in all, else an agent that hands a task on once more does anew what another one may have done. Such
a call is noted under the outermost run, in the commit that puts it in doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.instead.fallback import BY_OTHERS
from settled.core.matching.found import HARMLESS
from settled.core.runs.entering import run_of, scope_of_run
from settled.core.states import MAY_HAVE_EFFECT, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from settled.core.ask import Ask
    from settled.core.books import Books
    from settled.core.call import Call

INSIDE = "call:"


def scopes_around(books: Books, tenant: str, scope: str) -> list[str]:
    """Return the scopes that one is a part of, itself first, the outermost run's last; none outside of runs."""
    found = [scope]
    while scope.startswith(INSIDE):
        outer = books.by_id(scope.removeprefix(INSIDE))
        scope = "" if outer is None else outer.scope
        found.append(scope)
    run_id = run_of(scope)
    run = None if run_id is None else books.run(tenant, run_id)
    while run is not None and run.parent:
        scope = scope_of_run(tenant, run.parent)
        if scope in found:
            break
        found.append(scope)
        run = books.run(tenant, run.parent)
    return [] if run_id is None else list(dict.fromkeys(found))


def note_doubt(books: Books, call: Call) -> None:
    """Note a call that is in doubt, or may be, where all that is a part of its outermost run looks."""
    scopes = scopes_around(books, call.tenant, call.scope)
    if len(scopes) > 1:
        books.put_note(_kind(scopes[-1]), call.operation_id, call.scope)


def _open_inside(books: Books, call: Call) -> Iterator[Call]:
    for inner in books.in_doubt(f"{INSIDE}{call.operation_id}"):
        yield inner
        yield from _open_inside(books, inner)


def looked_at(books: Books, tenant: str, scope: str, *, anew: bool) -> bool:
    """Return whether what is in doubt elsewhere may bar calls of this scope.

    ``anew``: it was worked on before, perhaps by a process that died; what is open inside of its calls is noted first.
    """
    scopes = scopes_around(books, tenant, scope)
    if anew:
        for call in books.in_doubt(scope):
            for inner in _open_inside(books, call):
                note_doubt(books, inner)
    return len(scopes) > 1 or bool(scopes and books.notes(_kind(scopes[-1])))


def elsewhere(books: Books, tenant: str, scope: str, tools: Sequence[str]) -> Sequence[Call]:
    """Return tools' calls in doubt in other scopes of a run; also those noted as such that were done after all."""
    scopes = scopes_around(books, tenant, scope)
    if not scopes:
        return ()
    around = [call for each in scopes[1:] for tool in tools for call in books.unsettled(tenant, each, tool)]
    calls = {call.operation_id: call for call in around if call.state is State.UNKNOWN}
    kind = _kind(scopes[-1])
    for operation_id, where in books.notes(kind).items():
        call = books.by_id(operation_id)
        if call is not None and call.state in MAY_HAVE_EFFECT:
            if call.tool in tools and where != scope:
                calls.setdefault(operation_id, call)
        else:
            books.put_note(kind, operation_id, None)
    return tuple(calls.values())


def was_in_doubt(call: Call) -> bool:
    """Whether a call may have been in doubt, and be noted as such, by its own record."""
    if call.terms.effect in HARMLESS:
        return False
    return len(call.attempts) > 1 or bool(call.doubtful) or call.decided.startswith(BY_OTHERS)


def may_be_noted(call: Call, ask: Ask) -> bool:
    """Whether a call that answers this ask may still be noted as in doubt, as far as is seen without a look."""
    inside = ask.entry is not None and (call.scope != ask.scope or ask.entry.wide is not False)
    return inside and was_in_doubt(call)


def heard(books: Books, call: Call) -> None:
    """Somebody is told how a call ended that was noted as in doubt: it answers nobody else."""
    scopes = scopes_around(books, call.tenant, call.scope)
    if len(scopes) > 1:
        books.put_note(_kind(scopes[-1]), call.operation_id, None)


def _kind(root: str) -> str:
    return f"doubt in {root}"

"""Making one call: arguments in, machine and driver at work, ``Result`` out."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from asyncio import CancelledError
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from settled.api import recalling, secrets, words
from settled.api.asking import NOWHERE, Place, make_ask, needs_record, place_of
from settled.api.batches import by_item
from settled.api.bound import ORDINARY
from settled.api.current_run import current_run
from settled.api.recent import told_as
from settled.api.result import Earlier, Result
from settled.api.schema import BadArguments, snapshot
from settled.api.undoing import demand_leave, demand_undoing
from settled.core import codec
from settled.core.answer import STATUS_OF, rejected
from settled.core.invalid import signature
from settled.core.keys import format_key
from settled.core.machine import Life
from settled.core.model import KeyKind
from settled.core.parts import split_of
from settled.core.policy import Limits
from settled.core.runs import run_of
from settled.core.states import State
from settled.core.values import replace
from settled.current import CurrentCall, current
from settled.drivers.floor import Binding
from settled.drivers.loops import leaked
from settled.errors import DeclarationError, JournalError
from settled.transaction import lent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from settled.api.bound import BoundCall, PartOf
    from settled.api.guard import Guard
    from settled.api.run import Run
    from settled.api.schema import Arguments
    from settled.api.tool import Tool
    from settled.core.answer import Answer
    from settled.core.ask import Ask
    from settled.core.call import Call
    from settled.core.policy import Policy


class Prepared(Struct, frozen=True):
    """A call that can be driven."""

    bound: BoundCall[Any]
    life: Life
    binding: Binding
    arguments: Mapping[str, Any] = {}
    """As the function takes them, where something else may be called with them."""


def prepare(guard: Guard, bound: BoundCall[Any]) -> Prepared | Result[Any]:
    """Validate and bind; return what can be driven, or the result that says what is wrong."""
    tool, place = bound.tool, place_of(guard)
    if lent.get() is not None and needs_record(bound, place):
        raise DeclarationError(f"{tool.name} is called inside of a transactional tool: {_INSIDE}")
    if place is not NOWHERE:
        place = _allowed(bound, place)
        if place.run is not None and place.inside is None and not place.run.allows(tool.name):
            return _rejected(tool.name, "not_in_token")
    try:
        arguments = tool.schema.bind(bound.args, bound.kwargs)
        ask = make_ask(guard, bound, arguments, place) if needs_record(bound, place) else None
    except BadArguments as error:
        return invalid(guard, bound, error.fields)
    except (ValueError, RecursionError) as error:
        return invalid(guard, bound, {"arguments": str(error)})
    except Exception as error:  # noqa: BLE001 - the tool's own key= function
        return invalid(guard, bound, {"arguments": f"no key can be made of them: {type(error).__name__}"})
    if ask is None:
        why = guard.pauses.reason(tool.name)
        if why is not None:
            return to_result(guard, tool, replace(rejected("paused"), note=why))
    elif ask.leave is not None:
        guard.floor.attend()  # its asker may wait for the person whom the alert is to reach
    binding = make_binding(guard, tool, arguments, ask, bound.options.part)
    if place is NOWHERE and bound.options is ORDINARY:
        life = Life(ask, tool.checked.policy, _UNLIMITED, guard.floor.now(), clean=binding.clean)
    else:
        life = _life_in(place, guard, bound, ask, binding)
        if place.run is not None:
            _of_run(place.run, life, tool.name, binding, arguments)
    return Prepared(bound, life, binding, arguments.given)


def _life_in(place: Place, guard: Guard, bound: BoundCall[Any], ask: Ask | None, binding: Binding) -> Life:
    """Return the machine of a call that is made in a run or another call, or has options of its own."""
    limits, part, policy = _limits(guard, bound, place), bound.options.part, bound.tool.checked.policy
    if part is not None:
        policy = _policy_of(part, policy)
    life = Life(ask, policy, limits, guard.floor.now(), clean=binding.clean)
    if part is not None:
        life.again = part.again
    return life


def _of_run(run: Run, life: Life, tool: str, binding: Binding, arguments: Arguments) -> None:
    """Let a call draw on what its run has."""
    if life.ask is not None:
        recalling.to_be_claimed(run, life.ask)
    run.bind(binding, tool, arguments.plain)
    life.budget, life.state, life.share = run.charge, run.state, binding.share


def _policy_of(part: PartOf, policy: Policy) -> Policy:
    return dataclasses.replace(policy, attempts=max(1, part.attempts))


_INSIDE = "it would be put on record while the transaction around it may yet be rolled back; call it before or after"


def _allowed(bound: BoundCall[Any], place: Place) -> Place:
    """A compensation is made outside of its run, which is over; in a run to be undone, only what can be undone."""
    if bound.options.undoes:
        return NOWHERE
    covered = bound.options.draft is not None or (place.inside is not None and place.inside.covered)
    if place.run is not None and place.run.on_error == "compensate" and not covered:
        demand_undoing(bound.tool)
    return place


_UNLIMITED = Limits(None, ORDINARY.wait)


def _limits(guard: Guard, bound: BoundCall[Any], place: Place) -> Limits:
    deadline, within = place.deadline, bound.options.within
    if within is not None:
        own = guard.floor.now() + within
        deadline = own if deadline is None else min(own, deadline)
    return Limits(deadline, bound.options.wait)


def make_binding(
    guard: Guard,
    tool: Tool[Any, Any],
    arguments: Arguments | None = None,
    ask: Ask | None = None,
    part: PartOf | None = None,
) -> Binding:
    """Return what a driver needs to make a call of ``tool``; without arguments, to settle one."""
    parts = tool.parts or _parts(guard, tool)
    run = _not_to_be_run if arguments is None else _runner(guard, tool, arguments, ask, part)
    redacted = tool.checked.options.redact
    clean = _cleaner(arguments.plain, redacted) if redacted and arguments else secrets.clean
    return Binding(run, clean, *parts)


def _parts(guard: Guard, tool: Tool[Any, Any]) -> tuple[Any, ...]:
    """Return what all bindings of a tool have in common, in the order of ``Binding``."""
    options = tool.checked.options
    tool.parts = (
        tool.name,
        tool.checked.policy,
        tool.is_async,
        encoder(guard, tool),
        _prober(guard, tool, options.probe) if options.probe else None,
        options.refresh,
        guard.breakers.of(tool),
        guard.pools_of(tool),
        functools.partial(format_key, key_format=options.key_format),
        not guard.vault.encrypts,
    )
    return tool.parts


def _cleaner(arguments: Mapping[str, Any], redacted: Sequence[str]) -> Callable[[str], str]:
    texts = _hidden(arguments, redacted)
    return lambda message: secrets.clean(message, secrets.spellings(texts))


def _hidden(arguments: Mapping[str, Any], redacted: Sequence[str]) -> frozenset[str]:
    """Return what a call hides; the run that it is made in remembers it, for the reason it may end with."""
    texts = secrets.texts(arguments, redacted)
    run = current_run.get() if texts else None
    if run is not None:
        run.hidden.update(texts)
    return texts


def _runner(
    guard: Guard, tool: Tool[Any, Any], arguments: Arguments, ask: Ask | None, part: PartOf | None
) -> Callable[[Call | None], Any]:
    function, given, fixed, plain = tool.function, arguments.given, arguments.fixed, tool.checked.plain
    if ask is None and fixed and plain:
        return lambda _: function(**given)

    def run(call: Call | None) -> Any:
        own = given
        if call is not None and ask is not None and call.words != ask.words:
            own = as_recorded(guard, tool, call, given)
        # Each attempt gets the arguments as they were: a tool may change what it is given.
        if not fixed:
            own = snapshot(own)
        return function(**own) if plain else _run(guard, tool, part, call, own)

    return run


def _run(guard: Guard, tool: Tool[Any, Any], part: PartOf | None, call: Call | None, own: dict[str, Any]) -> Any:
    """Run a function that takes more than its arguments, or around which more is done."""
    schema, precheck = tool.schema, tool.checked.options.precheck
    if schema.transaction_parameters:
        own = own | dict.fromkeys(schema.transaction_parameters, lent.get())
    if precheck is not None:
        demand_leave(precheck, snapshot(own))
    if tool.drafted and call is not None:
        from settled.api.drafting import confirming  # noqa: PLC0415 - each needs the other

        return confirming(guard, tool, call, own)

    def function() -> Any:
        return tool.function(**own, **dict.fromkeys(schema.call_parameters, current.get()))

    return function() if tool.checked.batch is None else by_item(guard, tool, part, call, own, function)


def as_recorded(guard: Guard, tool: Tool[Any, Any], call: Call, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an earlier asker, whose words may differ: the same key must bring the same request.

    What the record does not hold, or no longer fits the tool, is taken from this asker.
    """
    try:
        recorded = codec.loads(guard.vault.unlock(call.arguments))
        hidden = () if guard.vault.encrypts else tool.checked.options.redact
        roots = {path.partition(".")[0].removesuffix("[]") for path in hidden}
        kept = {name: value for name, value in recorded.items() if name not in roots}
        rebuilt = tool.schema.bind((), given | kept)
    except (ValueError, BadArguments, JournalError):
        return given
    same = {name: rebuilt.plain[name] for name in kept if name in rebuilt.plain} == kept
    return rebuilt.given if same else given  # a validator that changes values would change them twice


def _not_to_be_run(_: Call | None) -> Any:
    raise AssertionError("settling never starts an attempt")


def encoder(guard: Guard, tool: Tool[Any, Any]) -> Callable[[object], tuple[bytes | None, str]]:
    """Return what turns a result of ``tool`` into what the journal keeps."""

    def encode(value: object) -> tuple[bytes | None, str]:
        data, note = tool.schema.encode(value)
        if data is None:
            return None, note
        if len(data) > guard.largest_result:
            return None, f"the result was not kept: {len(data)} bytes, digest {codec.digest(data)}"
        return guard.vault.lock(data), note

    return encode


def _prober(guard: Guard, tool: Tool[Any, Any], probe: Callable[[CurrentCall], Any]) -> Callable[[Call], Any]:
    def ask(call: Call) -> Any:
        try:
            said = probe(view(guard, tool, call))
        except (CancelledError, SystemExit) as error:  # its own: it is asked in a thread that nobody cancels
            raise RuntimeError(f"the probe raised {type(error).__name__}") from error
        return _awaited(said) if isawaitable(said) else said

    return ask


async def _awaited(said: Awaitable[Any]) -> Any:
    try:
        return await said
    except (CancelledError, SystemExit) as error:
        if isinstance(error, CancelledError) and not leaked(error):
            raise
        raise RuntimeError(f"the probe raised {type(error).__name__}") from error


def view(guard: Guard, tool: Tool[Any, Any], call: Call) -> CurrentCall:
    """Return what a probe may know of a recorded call."""
    key = format_key(call.outward, tool.checked.options.key_format)
    arguments = codec.loads(guard.vault.unlock(call.arguments)) if call.arguments else {}
    return CurrentCall(key, len(call.attempts), call.operation_id, None, arguments, call.first_intent.wall)


def invalid(guard: Guard, bound: BoundCall[Any], fields: dict[str, str]) -> Result[Any]:
    """Return the result for arguments that do not fit; nothing was recorded or executed."""
    tool = bound.tool.name
    hidden = secrets.spellings(_hidden(_as_given(bound), bound.tool.checked.options.redact))
    fields = {name: secrets.clean(why, hidden) for name, why in fields.items()}
    mark = signature(tool, sorted(fields.items()))
    options, step = bound.options, "fix_arguments"
    if options.by_model:
        step = guard.streak_of().failed(tool, mark, message=options.message or None)
    guard.floor.tell("invalid", None, tool=tool, next=step)
    return _invalid(tool, "arguments", "; ".join(f"{name}: {why}" for name, why in fields.items()), fields, step)


def _rejected(tool: str, reason: str) -> Result[Any]:
    answer = rejected(reason)
    message, step = words.message(answer), words.next_step(answer)
    return Result(tool=tool, status="rejected", reason=reason, message=message, next=step, recorded=False)


def _as_given(bound: BoundCall[Any]) -> dict[str, Any]:
    return dict(zip(bound.tool.schema.parameters, bound.args, strict=False)) | dict(bound.kwargs)


def _invalid(tool: str, reason: str, message: str, fields: dict[str, str], step: Any) -> Result[Any]:
    return Result(tool=tool, status="invalid", reason=reason, message=message, fields=fields, next=step, recorded=False)


def finish(guard: Guard, prepared: Prepared, answer: Answer) -> Result[Any]:
    """Turn the machine's answer into the caller's result."""
    note(guard, prepared, answer)
    if answer.status != "succeeded":
        guard.floor.attend()
    return to_result(guard, prepared.bound.tool, answer, prepared.life)


def value_of(guard: Guard, prepared: Prepared, answer: Answer) -> Any:
    """Return what the result would unwrap to, or raise what it raises; a result is made only where it is raised."""
    if answer.status == "succeeded":
        value, available = answer.value, answer.fresh
        if not available:
            value, available, _ = _value(guard, prepared.bound.tool, answer)
        if available:
            if prepared.life.ask is not None or prepared.bound.options is not ORDINARY:
                note(guard, prepared, answer)
            return value
    return finish(guard, prepared, answer).unwrap()


def value_on_record(guard: Guard, tool: Tool[Any, Any], answer: Answer) -> Any:
    """Return the value of a success on record, or raise where it cannot be had."""
    value, available, _ = _value(guard, tool, answer)
    return value if available else to_result(guard, tool, answer).unwrap()


def note(guard: Guard, prepared: Prepared, answer: Answer) -> None:
    """Remember of an answer what counts for later calls."""
    ask, call = prepared.life.ask, answer.call
    if prepared.bound.options.by_model and answer.status == "succeeded":
        guard.streak_of().succeeded(prepared.bound.tool.name)
    if ask is None or call is None or ask.kind is not KeyKind.RANDOM:
        return
    is_open = answer.status in ("unknown", "in_progress", "partial")
    if is_open or guard.told_open:
        guard.told_open.note(told_as(ask.tool, ask.fingerprint), call.operation_id, is_open=is_open)


def to_result(guard: Guard, tool: Tool[Any, Any], answer: Answer, life: Life | None = None) -> Result[Any]:
    """Decode the value and choose the words."""
    call = answer.call
    value, available, why = _value(guard, tool, answer)
    ask = life.ask if life else None
    replayed = call is not None and not answer.fresh and (life is None or life.made == 0)
    reworded = bool(replayed and call and ask and call.words != ask.words)
    text = words.message(answer)
    if reworded:
        text += "; answered by the earlier call, whose words differ"
    if not available and answer.status == "succeeded":
        text += f"; {why}"
    earlier = (*answer.earlier, call) if answer.like and call and call not in answer.earlier else answer.earlier
    return Result(
        tool=tool.name,
        status=answer.status,
        reason=answer.reason,
        value=value,
        value_available=available,
        replayed=replayed,
        reworded=reworded,
        disputed=bool(call and call.disputed),
        asserted=bool(call and call.asserted),
        retryable=words.may_retry(answer),
        retry_after=_wait(guard, answer),
        recorded=answer.recorded and call is not None,
        earlier=tuple(_earlier(guard, each, tool) for each in earlier),
        operation_id=call.operation_id if call else "",
        message=text,
        next=words.next_step(answer),
        attempts=answer.attempts,
        hint=_hint(answer),
    )


def _hint(answer: Answer) -> str:
    """Return what an operator can type where a call of a run is known with other arguments."""
    run_id = run_of(answer.call.scope) if answer.status == "conflict" and answer.call is not None else None
    if answer.call is None or run_id is None:
        return ""
    return f"settled runs rewind {shlex.quote(run_id)} --from {answer.call.operation_id}"


def _value(guard: Guard, tool: Tool[Any, Any], answer: Answer) -> tuple[Any, bool, str]:
    """Return the value, whether there is one, and why not. Nothing that is wrong with the record raises here."""
    if answer.fresh:
        return answer.value, True, ""
    call = answer.call if answer.status in ("succeeded", "partial") else None
    if call is None or call.result is None or call.state not in (State.SUCCEEDED, State.PARTIAL):
        return None, False, answer.note or "its value was not kept"
    if call.state is State.PARTIAL and split_of(call) is not None:
        return None, False, ""  # what became of each item is told with them
    try:
        data = guard.vault.unlock(call.result)
        value = codec.loads(data) if call.state is State.PARTIAL else tool.schema.decode(data, call.note)
    except JournalError as error:
        return None, False, f"its value cannot be read: {error}"
    except ValueError:
        return None, False, "its value does not fit what the tool is declared to return today"
    return value, True, ""


def _wait(guard: Guard, answer: Answer) -> float | None:
    if answer.call is not None and answer.call.not_before is not None:
        left: float = answer.call.not_before - guard.journal.now().wall
        return max(0.0, left)
    return answer.retry_after


def _earlier(guard: Guard, call: Call, tool: Tool[Any, Any]) -> Earlier:
    try:
        arguments = codec.loads(guard.vault.unlock(call.arguments)) if call.arguments else None
    except (ValueError, JournalError):
        arguments = None
    shown = secrets.redact(arguments, tool.checked.options.redact) if isinstance(arguments, dict) else arguments
    return Earlier(call.operation_id, STATUS_OF[call.state], shown)


def unknown_tool(guard: Guard, name: str) -> Result[Any]:
    """Return the result for a tool that does not exist; a near name is never taken for it."""
    known = ", ".join(sorted(guard.tools)) or "none"
    step = guard.streak_of().failed(name, f"{name}: unknown tool")
    message = f"there is no tool {name!r}; the tools are: {known}"
    return _invalid(name, "unknown_tool", message, {}, step)

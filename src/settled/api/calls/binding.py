"""A tool bound to the arguments of one call: what a driver needs to make it, to settle it and to keep its result."""

from __future__ import annotations

import functools
import logging
from asyncio import CancelledError
from contextlib import suppress
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from settled.api import secrets
from settled.api.runs.current_run import current_run
from settled.api.tools.batches import by_item
from settled.api.tools.schema import BadArguments, plain, same, snapshot
from settled.api.tools.undoing import demand_leave
from settled.core.attempts.outcome import TooLate
from settled.core.encoding import codec
from settled.core.encoding.keys import format_key
from settled.current import CurrentCall, current
from settled.drivers.floor import Binding
from settled.drivers.loops import leaked
from settled.errors import JournalError
from settled.transaction import lent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from settled.api.calls.bound import PartOf
    from settled.api.guard import Guard
    from settled.api.tools.schema import Arguments
    from settled.api.tools.tool import Tool
    from settled.core.ask import Ask
    from settled.core.call import Call

LOG = logging.getLogger("settled")


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
    binding = Binding(run, *parts)
    redacted = tool.checked.options.redact
    if redacted and arguments is not None:
        binding.clean = _cleaner(arguments.plain, redacted)
    return binding


def _parts(guard: Guard, tool: Tool[Any, Any]) -> tuple[Any, ...]:
    """Return what all bindings of a tool have in common, in the order of ``Binding``."""
    options = tool.checked.options
    tool.parts = (
        secrets.clean,
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
    if tool.checked.plain and not tool.schema.parameters:
        function = tool.function
        tool.bare = lambda _: function()
    return tool.parts


def _cleaner(arguments: Mapping[str, Any], redacted: Sequence[str]) -> Callable[[str], str]:
    texts = hidden_texts(arguments, redacted)
    return lambda message: secrets.clean(message, secrets.spellings(texts))


def hidden_texts(arguments: Mapping[str, Any], redacted: Sequence[str]) -> frozenset[str]:
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
        if call is not None and ask is not None and (call.leave is not None or call.words != ask.words):
            own = to_be_made_with(guard, tool, call, given, same_words=call.words == ask.words)
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
        from settled.api.calls.drafting import confirming  # noqa: PLC0415 - each needs the other

        return confirming(guard, tool, call, own)

    def function() -> Any:
        return tool.function(**own, **dict.fromkeys(schema.call_parameters, current.get()))

    return function() if tool.checked.batch is None else by_item(guard, tool, part, call, own, function)


def to_be_made_with(
    guard: Guard, tool: Tool[Any, Any], call: Call, given: dict[str, Any], *, same_words: bool
) -> dict[str, Any]:
    """Return the arguments with which a recorded call, or what stands in its place, is made for this asker.

    Raises ``OtherWords`` where a person's leave was for others, and these cannot be made of the record.
    """
    if call.leave is not None:
        return _as_approved(guard, tool, call, given, same_words=same_words)
    return as_recorded(guard, tool, call, given)


def as_recorded(guard: Guard, tool: Tool[Any, Any], call: Call, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an earlier asker, whose words may differ: the same key must bring the same request.

    What the record does not hold, or no longer fits the tool, is taken from this asker.
    """
    rebuilt = _rebuilt(guard, tool, call, given)
    return given if rebuilt is None else rebuilt.given


def _rebuilt(
    guard: Guard, tool: Tool[Any, Any], call: Call, beside: Mapping[str, Any], *, wholly: bool = False
) -> Arguments | None:
    """Return the arguments on record; ``None`` if they cannot be had again.

    What the record does not hold comes from ``beside``. With ``wholly`` all that was given must come from one of the
    two: an argument that the record hides, and ``beside`` has not, makes it ``None``.
    """
    try:
        recorded = codec.loads(guard.vault.unlock(call.arguments))
        hidden = () if guard.vault.encrypts else tool.checked.options.redact
        roots = {path.partition(".")[0].removesuffix("[]") for path in hidden}
        kept = {name: value for name, value in recorded.items() if name not in roots}
        if wholly and not beside.keys() >= roots & recorded.keys():
            return None
        rebuilt = tool.schema.bind((), {**beside, **kept})
    except (ValueError, BadArguments, JournalError):
        return None
    alike = {name: rebuilt.plain[name] for name in kept if name in rebuilt.plain} == kept
    return rebuilt if alike else None  # a validator that changes values would change them twice


class OtherWords(TooLate):
    """Leave was given for other arguments than the asker's, which cannot be made of the record: nothing was sent."""


def _as_approved(
    guard: Guard, tool: Tool[Any, Any], call: Call, given: dict[str, Any], *, same_words: bool
) -> dict[str, Any]:
    """Return what a person has given leave for: what is on record, and nothing of an asker who says something else."""
    rebuilt = _rebuilt(guard, tool, call, given if same_words else {}, wholly=True)
    if rebuilt is None and not same_words:
        raise OtherWords("leave was given for other arguments, which cannot be made of the record any more")
    if rebuilt is None:
        return given
    if not same_words:
        return rebuilt.given
    return {name: _as_given(given.get(name), value, rebuilt.plain[name]) for name, value in rebuilt.given.items()}


def _as_given(own: Any, recorded: Any, as_data: Any) -> Any:
    """Return an asker's own value where it is what is on record: that may not tell its type."""
    return own if own is not None and same(plain(own), as_data) else recorded


def _not_to_be_run(_: Call | None) -> Any:
    raise AssertionError("settling never starts an attempt")


def encoder(guard: Guard, tool: Tool[Any, Any]) -> Callable[[object], tuple[bytes | None, str]]:
    """Return what turns a result of ``tool`` into what the journal keeps."""
    told: set[str] = set()

    def encode(value: object) -> tuple[bytes | None, str]:
        data, note = tool.schema.encode(value)
        if data is not None and len(data) > guard.largest_result:
            note = f"the result was not kept: {len(data)} bytes, digest {codec.digest(data)}"
            data = None
        if data is not None:
            return guard.vault.lock(data), note
        if not told:
            told.add(note)
            _warn(tool.name, note)
        return None, note

    return encode


def _warn(tool: str, note: str) -> None:
    """Say it when it happens: else the first to hear of it is a run that is entered again, and cannot go on."""
    with suppress(Exception):  # the effect is done, and not on record yet
        LOG.warning("%s: %s. Who asks for such a call again is told that it is done, and gets no value", tool, note)


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

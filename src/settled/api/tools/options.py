"""What a tool may declare: its options, their types and defaults. ``checked`` says which of them fit together."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from settled.core.attempts.backoff import Backoff
from settled.core.encoding.loosening import nearest
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import TypeAlias, Unpack

    from settled.api.tools.giving_way import Person, Say, Skip
    from settled.api.tools.tool import Tool
    from settled.core.attempts.threshold import BreakerPolicy
    from settled.core.doubt.ledger import Effect
    from settled.core.policy import Classify
    from settled.core.verdicts import Happened, Inconclusive, NotHappened
    from settled.current import CurrentCall

    Probed: TypeAlias = Happened | NotHappened | Inconclusive
    Listed: TypeAlias = Iterable[Effect] | AsyncIterable[Effect]
    Instead: TypeAlias = Tool[Any, Any] | str | Person | Skip | Say

EffectName = Literal["read", "idempotent", "deduplicated", "transactional", "write"]
Defaulted = Literal["default"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of ``guard.tool`` with their defaults; ``ToolOptions`` says what each means."""

    name: str | None = None
    effect: EffectName | None = None
    key: str | Callable[..., str] | None = None
    key_format: str = "text"
    key_scope: Literal["tenant", "run"] = "tenant"
    identity: Sequence[str] | None = None
    canonical: Mapping[str, Any] | None = None
    probe: Callable[[CurrentCall], Probed | Awaitable[Probed]] | None = None
    ledger: Callable[[datetime], Listed | Awaitable[Iterable[Effect]]] | None = None
    max_request_lifetime: float | None = None
    max_attempt_lifetime: float | None = None
    not_executed: type[BaseException] | tuple[type[BaseException], ...] = ()
    timeout: float | Defaulted | None = "default"
    attempts: int = 3
    retry: Backoff = field(default_factory=Backoff)
    breaker: BreakerPolicy | Defaulted | None = "default"
    classify: Classify | None = None
    verify: Callable[[Any], bool] | None = None
    requests: Literal["one", "several", "hooked"] = "one"
    refresh: Callable[[], Any] | None = None
    redact: Sequence[str] = ()
    retention: float | None = 72 * 3600.0
    remote_retention: float | None = None
    remote_errors: Literal["", "stored"] = ""
    while_unknown: Literal["identity", "any", "allow"] = "identity"
    untold: Literal["tell", "block"] | None = None
    version: str = ""
    record: bool | None = None
    compensate: Tool[Any, Any] | str | None = None
    undo: Callable[[CurrentCall, Any], Mapping[str, Any]] | None = None
    irreversible: bool = False
    precheck: Callable[..., object] | None = None
    waiver: str = ""
    approve: bool | Mapping[str, float] | Callable[..., object] | None = None
    approvers: int = 1
    approve_within: float = 24 * 3600.0
    fallback: Instead | Sequence[Instead] | None = None
    partial: Callable[[Any, Sequence[Any]], Any] | None = None
    items: str | None = None
    item_key: str | Callable[[Any], Any] | None = None
    draft: Tool[Any, Any] | str | None = None
    confirm: Callable[..., Any] | None = None
    discard: Tool[Any, Any] | str | None = None


class ToolOptions(TypedDict, total=False):
    """The options of ``guard.tool`` and ``settled.tool``, all keyword-only and optional; times are seconds.

    Attributes:
        name: how models and the journal call it; the function's name by default.
        effect: what a repeat would do: ``"read"`` (changes nothing), ``"idempotent"`` (twice is as once),
            ``"deduplicated"`` (the other side de-duplicates on our key), ``"transactional"`` (its effect is rows in
            the journal's own database, written through a parameter annotated ``settled.Transaction``: one commit with
            the record, never in doubt), ``"write"`` (none of these: never repeated while in doubt). Undeclared counts
            as ``"write"`` and is shown as undeclared.
        key: names the business action: a template over the arguments (``"order:{order_id}"``) or a function of them.
            The same key is the same call for ever; other arguments under it are a conflict. On record it stands as
            the tool's name and a digest.
        key_format: form in which the tool gets its key: ``"text"``, ``"text36"``, ``"text64"``, ``"hex32"``,
            ``"hex64"``, ``"uuid"``.
        key_scope: ``"tenant"``, or ``"run"``: the business key holds within its run only.
        identity: names of the arguments that say which action it is; the others are wording. By default all are.
        canonical: path -> rule that loosens when arguments count as the same: ``{"email": "lower"}``.
        probe: asks the tool's own system whether a call had its effect: takes a ``settled.Call``, returns
            ``Happened(result)``, ``NotHappened()`` or ``Inconclusive(why)``. Sync or async.
        ledger: lists the effects that the tool's own system has: takes a ``datetime`` (UTC), returns a
            ``settled.Effect`` for each one from then on. A function, a generator, or async ones.
            ``guard.reconcile(ledger=True)`` and ``settled worker`` compare them with the journal.
        max_request_lifetime: from sending to the last moment at which a request can still take effect (queues and
            replication included). Required with ``probe`` and ``ledger``; no default, since a wrong one makes
            duplicates.
        max_attempt_lifetime: after this an attempt of a lost process counts as over.
        not_executed: the tool's exceptions that prove that nothing happened.
        timeout: of one attempt. Async tools: 60; sync tools: none, and with one they run in a thread that the caller
            can leave. An async tool that works in threads (``asyncio.to_thread``) goes on there when it is cut off,
            unseen: declare it as a plain function instead.
        attempts: of one series (one asker), 3 by default.
        retry: a ``Backoff``: full jitter from 0.1 s, from 1 s if throttled, up to 20 s by default.
        breaker: a ``BreakerPolicy``; adaptive by default, ``None`` for none.
        classify: looks at a returned value or an exception first; returns a ``Fault``, or ``None`` for no opinion.
        verify: looks at a returned value; ``False`` means that it cannot be right.
        requests: ``"several"`` if the tool makes more than one request: then a refused connection or a 4xx proves
            nothing, since another request may have had the effect; only what the tool itself says does
            (``NotExecuted``, ``not_executed``). Better still: one tool for each effect. ``"hooked"`` if all of its
            requests go through clients watched by ``settled.transports``: then what was seen of them decides.
        refresh: gets fresh credentials, once, after a 401.
        redact: paths of arguments (``"card.number"``) that are never kept or shown; ``"result.token"`` needs
            encryption.
        retention: how long a settled record is kept; 72 h by default, ``None`` for ever.
        remote_retention: how long the other side surely remembers a key. Required for ``"deduplicated"``.
        remote_errors: ``"stored"`` if the other side answers a repeat with the first answer also when that was an
            error.
        while_unknown: what an unknown call keeps from being made: like calls (``"identity"``), ``"any"`` call of the
            tool, or nothing (``"allow"``).
        untold: a model that asks for something else of the tool is told once of what it has already done
            (``"tell"``), or refused until ``despite=`` names it (``"block"``, the default if it is ``irreversible``).
        version: of the tool, kept with its records.
        record: ``True`` to record reads outside of runs too; everything else always is.
        compensate: the tool (or its name) that undoes a call of this one when its run is undone. Its arguments are
            those of equal names, of the call and of the fields of its result, unless ``undo`` gives them.
        undo: makes the arguments of the compensation: ``lambda call, result: {"ticket_id": result}``; ``call`` is a
            ``settled.Call`` with its ``arguments``, ``result`` what it returned (``None`` if that was not kept).
        irreversible: nothing undoes it. In a run it is refused while an earlier call is unknown or under way.
        precheck: of an irreversible tool: takes its arguments, just before the attempt; what it answers with ``False``,
            or raises, was not done.
        waiver: says in words why its effect may stay when a run is undone (or why an irreversible tool has no
            ``precheck``).
        approve: which calls wait for a person's leave before anything is done: ``True`` (each), a threshold on
            arguments (``{"amount": 500}``: more than 500), or a function of the arguments that says so by a true value
            (a text says why). What cannot be judged waits. Leave is for one exact call and its tool's ``version``, and
            is used once.
        approvers: how many different persons must agree: 2 for four eyes.
        approve_within: seconds that persons have to decide, and the program then has to make the call; after that it
            asks anew. 24 h by default.
        fallback: what is done instead once it is proved that nothing was: a tool (or its name) with arguments of the
            same names, ``settled.Person(wanted)``, ``settled.Skip(value)`` or ``settled.Say(words)``, or several of
            them in their order. The call itself is then given up for good. Never entered from doubt, nor on a person's
            word alone.
        partial: reads the answer of a batch item by item: one of ``settled.partial`` (``elasticsearch_bulk``, …), or a
            function of the answer and the items that returns an outcome for each item. Only items that were surely not
            done are tried again; what the answer leaves out is in doubt, and stands in the queue item by item.
        items: the parameter that holds the items; not needed where only one is a list.
        item_key: names an item among the others: a field of it, or a function. By default its place and content do.
        draft: a tool (or its name) with arguments of equal names that prepares the effect, without any outside. It is
            called first; a person who is asked for leave can look at what it made. The function of the tool itself is
            then never called: it gives name, arguments and documentation.
        confirm: the function (or tool) that makes the effect of a draft: takes ``draft``, what the draft's tool
            returned, and arguments of the tool by their names. ``probe``, ``compensate`` and the rest speak of it.
        discard: the tool (or its name) that throws a draft away that is never confirmed: takes ``draft`` likewise.
    """

    name: str | None
    effect: EffectName | None
    key: str | Callable[..., str] | None
    key_format: str
    key_scope: Literal["tenant", "run"]
    identity: Sequence[str] | None
    canonical: Mapping[str, Any] | None
    probe: Callable[[CurrentCall], Probed | Awaitable[Probed]] | None
    ledger: Callable[[datetime], Listed | Awaitable[Iterable[Effect]]] | None
    max_request_lifetime: float | None
    max_attempt_lifetime: float | None
    not_executed: type[BaseException] | tuple[type[BaseException], ...]
    timeout: float | Defaulted | None
    attempts: int
    retry: Backoff
    breaker: BreakerPolicy | Defaulted | None
    classify: Classify | None
    verify: Callable[[Any], bool] | None
    requests: Literal["one", "several", "hooked"]
    refresh: Callable[[], Any] | None
    redact: Sequence[str]
    retention: float | None
    remote_retention: float | None
    remote_errors: Literal["", "stored"]
    while_unknown: Literal["identity", "any", "allow"]
    untold: Literal["tell", "block"] | None
    version: str
    record: bool | None
    compensate: Tool[Any, Any] | str | None
    undo: Callable[[CurrentCall, Any], Mapping[str, Any]] | None
    irreversible: bool
    precheck: Callable[..., object] | None
    waiver: str
    approve: bool | Mapping[str, float] | Callable[..., object] | None
    approvers: int
    approve_within: float
    fallback: Instead | Sequence[Instead] | None
    partial: Callable[[Any, Sequence[Any]], Any] | None
    items: str | None
    item_key: str | Callable[[Any], Any] | None
    draft: Tool[Any, Any] | str | None
    confirm: Callable[..., Any] | None
    discard: Tool[Any, Any] | str | None


_MEANT = {
    "retries": "write attempts=3, the first one included",
    "max_retries": "write attempts=3, the first one included",
    "on_error": 'it is an option of guard.run(…, on_error="compensate")',
}
"""What is looked for under names that no option is like."""


def read_options(given: Mapping[str, Any]) -> Options:
    """Make options of keyword arguments. Raises ``DeclarationError`` for a name that does not exist."""
    known = sorted(f.name for f in fields(Options))
    for name in given:
        if name not in known:
            meant = _MEANT.get(name)
            raise DeclarationError(f"there is no option {name!r}{f': {meant}' if meant else nearest(name, known)}")
    return Options(**given)


def tool_options(**options: Unpack[ToolOptions]) -> ToolOptions:
    """Return options for a tool that is declared elsewhere, as in an adapter's ``effects=``.

    Raises ``DeclarationError`` for a name that does not exist; the rest is checked with the tool.
    """
    read_options(options)
    return options

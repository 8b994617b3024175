"""What a tool declares, checked when it is declared: a mistake is named with what to write instead."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from settled.api.approving import check_approving
from settled.api.batches import batch_of
from settled.api.giving_way import Person, chain_of
from settled.api.undoing import check_undoing, name_of
from settled.core.backoff import Backoff
from settled.core.keys import KEY_FORMATS, template_roots
from settled.core.loosening import Rules, nearest
from settled.core.model import Effect, Terms
from settled.core.policy import Policy
from settled.core.threshold import BreakerPolicy
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from settled.api.schema import Schema
    from settled.core.policy import Classify

EffectName = Literal["read", "idempotent", "deduplicated", "transactional", "write"]
Defaulted = Literal["default"]
TOO_BROAD = (BaseException, Exception, OSError, TimeoutError, RuntimeError)
ASYNC_TIMEOUT = 60.0
"""Seconds of one attempt of an async tool, where none is declared."""


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
    probe: Callable[..., Any] | None = None
    ledger: Callable[..., Any] | None = None
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
    untold: Literal["tell", "block"] = "tell"
    version: str = ""
    record: bool | None = None
    compensate: Any = None
    undo: Callable[..., Mapping[str, Any]] | None = None
    irreversible: bool = False
    precheck: Callable[..., object] | None = None
    waiver: str = ""
    approve: bool | Mapping[str, float] | Callable[..., object] | None = None
    approvers: int = 1
    approve_within: float = 24 * 3600.0
    fallback: Any = None
    partial: Callable[[Any, Sequence[Any]], Any] | None = None
    items: str | None = None
    item_key: str | Callable[[Any], Any] | None = None
    draft: Any = None
    confirm: Callable[..., Any] | None = None
    discard: Any = None


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
            The same key is the same call for ever; other arguments under it are a conflict.
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
            (``"tell"``), or refused until ``despite=`` names it (``"block"``).
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
    probe: Callable[..., Any] | None
    ledger: Callable[..., Any] | None
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
    untold: Literal["tell", "block"]
    version: str
    record: bool | None
    compensate: Any
    undo: Callable[..., Mapping[str, Any]] | None
    irreversible: bool
    precheck: Callable[..., object] | None
    waiver: str
    approve: bool | Mapping[str, float] | Callable[..., object] | None
    approvers: int
    approve_within: float
    fallback: Any
    partial: Callable[[Any, Sequence[Any]], Any] | None
    items: str | None
    item_key: str | Callable[[Any], Any] | None
    draft: Any
    confirm: Callable[..., Any] | None
    discard: Any


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_exception(kind: object) -> bool:
    return inspect.isclass(kind) and issubclass(kind, BaseException)


def _takes_one(function: Callable[..., Any]) -> bool:
    """Whether it can be called with one argument; what has no signature to look at is believed."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def read_options(given: Mapping[str, Any]) -> Options:
    """Make options of keyword arguments. Raises ``DeclarationError`` for a name that does not exist."""
    known = {f.name for f in fields(Options)}
    for name in given:
        if name not in known:
            raise DeclarationError(f"there is no option {name!r}{nearest(name, known)}")
    return Options(**given)


def tool_options(**options: Unpack[ToolOptions]) -> ToolOptions:
    """Return options for a tool that is declared elsewhere, as in an adapter's ``effects=``.

    Raises ``DeclarationError`` for a name that does not exist; the rest is checked with the tool.
    """
    read_options(options)
    return options


class Checked:
    """Options that fit their function, in the forms that calls need."""

    def __init__(self, options: Options, schema: Schema, *, is_async: bool) -> None:
        self.options, self.name = options, schema.name
        self.effect = self._effect()
        self.timeout = self._timeout(is_async=is_async)
        self.rules = self._rules(schema)
        self._check_transaction(schema, is_async=is_async)
        self._check_probe()
        self._check_ledger()
        self._check_numbers()
        self._check_names(schema)
        self._check_key(schema)
        self._check_looks()
        self._check_kinds()
        check_undoing(options, self.effect, self.name)
        check_approving(options, schema.parameters, self.name)
        self.batch = batch_of(options, schema, self.effect)
        self.policy = self._policy(is_async=is_async)
        person = any(isinstance(step, Person) for step in chain_of(options.fallback))
        recorded = options.record or options.key is not None or options.approve or self.batch or person
        self.may_stay_unrecorded = self.effect is Effect.READ and not recorded
        """Its calls need no record where nothing about the single call asks for one."""
        self.is_model = False
        """Its calls are never put on record: what a model was asked is large, and its answer is no effect."""

    def _refuse(self, what: str) -> DeclarationError:
        return DeclarationError(f"{self.name}: {what}")

    def _effect(self) -> Effect:
        effect = self.options.effect
        allowed = ("read", "idempotent", "deduplicated", "transactional", "write")
        if effect is not None and effect not in allowed:
            raise self._refuse(f"effect={effect!r} is none of {', '.join(allowed)}{nearest(str(effect), allowed)}")
        if effect == "deduplicated" and self.options.remote_retention is None:
            raise self._refuse(
                "a deduplicated tool needs remote_retention=<seconds>, how long the other side surely remembers a key"
            )
        return Effect(effect or "write")

    def _timeout(self, *, is_async: bool) -> float | None:
        if self.options.timeout == "default":
            return ASYNC_TIMEOUT if is_async else None
        return self.options.timeout

    def _rules(self, schema: Schema) -> Rules | None:
        if not self.options.canonical:
            return None
        try:
            rules = Rules.parse(self.options.canonical)
            rules.check_roots(schema.parameters)
        except ValueError as error:
            raise self._refuse(f"canonical: {error}") from error
        return rules

    def _check_transaction(self, schema: Schema, *, is_async: bool) -> None:
        transactional, takes_one = self.effect is Effect.TRANSACTIONAL, bool(schema.transaction_parameters)
        if transactional != takes_one:
            raise self._refuse(
                'a tool of effect="transactional" has a parameter annotated settled.Transaction, through which it '
                "writes its rows; no other tool is given one"
            )
        if not transactional:
            return
        if is_async:
            raise self._refuse("a transactional tool is a plain function: it works on a connection that blocks")
        if self.options.timeout not in ("default", None):
            raise self._refuse("a transaction cannot be left while a tool works in it: set a limit in the database")
        if self.options.probe is not None:
            raise self._refuse("a transactional tool is never in doubt, so there is nothing to probe")

    def _check_probe(self) -> None:
        o = self.options
        if o.probe is None:
            return
        if self.effect is Effect.READ:
            raise self._refuse("a read changes nothing, so there is nothing to probe: leave probe out")
        if not callable(o.probe):
            raise self._refuse("probe must be a function that takes the call and returns what happened")
        if not _takes_one(o.probe):
            raise self._refuse("a probe is given one thing, the call it is asked about: def probe(call): …")
        if o.max_request_lifetime is None:
            raise self._refuse(
                "a probe needs max_request_lifetime=<seconds from sending to the last moment at which a request can "
                "still take effect>; without it a negative answer proves nothing"
            )

    def _check_ledger(self) -> None:
        o = self.options
        if o.ledger is None:
            return
        if self.effect is Effect.READ:
            raise self._refuse("a read has no effects that a ledger could list: leave ledger out")
        if not _takes_one(o.ledger):
            raise self._refuse(
                "ledger must be a function of one thing, since when it lists effects: def ledger(since): …"
            )
        if o.max_request_lifetime is None:
            raise self._refuse(
                "a ledger needs max_request_lifetime=<seconds from sending until an effect shows in it at the latest>; "
                "without it what it does not show proves nothing"
            )

    def _check_numbers(self) -> None:
        o = self.options
        seconds = ("max_request_lifetime", "max_attempt_lifetime", "retention", "remote_retention")
        values: dict[str, Any] = {name: getattr(o, name) for name in seconds} | {"timeout": self.timeout}
        for name, value in values.items():
            if value is None:
                continue
            if not _is_number(value) or not math.isfinite(value) or value < 0:
                raise self._refuse(f"{name} must be a number of seconds, not {value!r}")
        if self.timeout == 0:
            raise self._refuse("timeout=0 leaves no time for an attempt; None means no limit")
        if not _is_number(o.attempts) or o.attempts != int(o.attempts) or o.attempts < 1:
            raise self._refuse(f"attempts must be a whole number of at least 1, not {o.attempts!r}")

    def _check_names(self, schema: Schema) -> None:
        o = self.options
        for option, names in (("identity", o.identity or ()), ("redact", o.redact)):
            if isinstance(names, str):
                raise self._refuse(f"{option} must be a sequence of names: {option}=({names!r},)")
            for name in names:
                root = name.partition(".")[0].removesuffix("[]")
                if root not in schema.parameters and not (option == "redact" and root == "result"):
                    raise self._refuse(f"{option}: there is no parameter {root!r}{nearest(root, schema.parameters)}")
        if o.key_format not in KEY_FORMATS:
            raise self._refuse(f"key_format={o.key_format!r} is none of {', '.join(KEY_FORMATS)}")
        self._check_choice("while_unknown", o.while_unknown, ("identity", "any", "allow"))
        self._check_choice("untold", o.untold, ("tell", "block"))
        self._check_choice("key_scope", o.key_scope, ("tenant", "run"))
        self._check_choice("requests", o.requests, ("one", "several", "hooked"))
        self._check_choice("remote_errors", o.remote_errors, ("", "stored"))

    def _check_choice(self, option: str, value: str, allowed: tuple[str, ...]) -> None:
        if value not in allowed:
            raise self._refuse(f"{option}={value!r} is none of {', '.join(repr(each) for each in allowed)}")

    def _check_looks(self) -> None:
        o = self.options
        for option, function in (("verify", o.verify), ("classify", o.classify), ("key", o.key)):
            if function is not None and not callable(function) and option != "key":
                raise self._refuse(f"{option} must be a function, not {function!r}")
            if inspect.iscoroutinefunction(function):
                raise self._refuse(
                    f"{option} must be a plain function: it looks at what is there, and waits for nothing"
                )

    def _check_kinds(self) -> None:
        o = self.options
        if not isinstance(o.retry, Backoff):
            raise self._refuse(f"retry must be a settled.Backoff, not {o.retry!r}")
        if o.refresh is not None and not callable(o.refresh):
            raise self._refuse(f"refresh must be a function, not {o.refresh!r}")
        if o.breaker is not None and o.breaker != "default" and not isinstance(o.breaker, BreakerPolicy):
            raise self._refuse(f"breaker must be a settled.BreakerPolicy or None, not {o.breaker!r}")
        if o.identity is not None and not o.identity:
            raise self._refuse("identity=() would make all calls of this tool the same one; None means all arguments")

    def _check_key(self, schema: Schema) -> None:
        key = self.options.key
        if key is None or callable(key):
            return
        try:
            roots = template_roots(key)
        except ValueError as error:
            raise self._refuse(f"key: {error}") from error
        for root in roots:
            if root not in schema.parameters:
                raise self._refuse(f"key: there is no parameter {root!r}{nearest(root, schema.parameters)}")
            if self.rules is not None and root in self.rules.roots:
                raise self._refuse(f"canonical does not reach a key template: give key= a function of {root!r}")

    def _policy(self, *, is_async: bool) -> Policy:
        o = self.options
        not_executed = o.not_executed if isinstance(o.not_executed, tuple) else (o.not_executed,)
        for kind in not_executed:
            if kind in TOO_BROAD:
                raise self._refuse(f"not_executed={kind.__name__} is too broad: time-outs and bugs are such errors too")
            if not _is_exception(kind):
                raise self._refuse(f"not_executed takes exception classes, not {kind!r}")
        return Policy(
            terms=Terms(
                effect=self.effect,
                declared=o.effect is not None,
                version=o.version,
                lifetime=o.max_request_lifetime,
                attempt_lifetime=o.max_attempt_lifetime,
                timeout=self.timeout,
                remote_retention=o.remote_retention,
                remote_errors=o.remote_errors,
                retention=o.retention,
                probed=o.probe is not None,
                compensate=name_of(o.compensate),
                irreversible=o.irreversible,
                waived=bool(o.waiver),
                drafted=o.draft is not None,
            ),
            attempts=o.attempts,
            timeout=self.timeout,
            interruptible=is_async or self.timeout is not None,
            backoff=o.retry,
            not_executed=not_executed,
            classify=o.classify,
            verify=o.verify,
            several=o.requests == "several",
            hooked=o.requests == "hooked",
            refresh=o.refresh is not None,
            probe=o.probe is not None,
        )

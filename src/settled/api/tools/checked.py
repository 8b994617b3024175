"""Options are checked when a tool is declared: a mistake is named with what to write instead."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

from settled.api.tools.approving import check_approving
from settled.api.tools.batches import batch_of
from settled.api.tools.giving_way import Person, chain_of
from settled.api.tools.schema import apart
from settled.api.tools.undoing import check_undoing, name_of
from settled.core.attempts.backoff import Backoff
from settled.core.attempts.threshold import BreakerPolicy
from settled.core.encoding.keys import KEY_FORMATS, template_roots
from settled.core.encoding.loosening import Rules, nearest
from settled.core.model import Effect, Terms
from settled.core.policy import Policy
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.api.tools.options import Options
    from settled.api.tools.schema import Schema

TOO_BROAD = (BaseException, Exception, OSError, TimeoutError, RuntimeError)
ASYNC_TIMEOUT = 60.0
"""Seconds of one attempt of an async tool, where none is declared."""


class Checked:
    """Options that fit their function, in the forms that calls need."""

    def __init__(self, options: Options, schema: Schema, *, is_async: bool) -> None:
        self.options, self.name = options, schema.name
        self.untold = options.untold or ("block" if options.irreversible else "tell")
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
        more = schema.call_parameters or schema.transaction_parameters or options.precheck or options.draft
        self.plain = not more and self.batch is None
        """An attempt calls the function with its arguments, and nothing more is done around it."""
        self.is_model = False
        """Its calls are never put on record: what a model was asked is large, and its answer is no effect."""

    def _refuse(self, what: str) -> DeclarationError:
        return DeclarationError(f"{self.name}: {what}")

    def _effect(self) -> Effect:
        effect = self.options.effect
        allowed = ("read", "idempotent", "deduplicated", "transactional", "write")
        if effect is not None and effect not in allowed:
            raise self._refuse(f"there is no effect={effect!r}{nearest(str(effect), allowed)}")
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
        self._check_choice("untold", self.untold, ("tell", "block"))
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
            classify=looking(o.classify),
            verify=looking(o.verify),
            several=o.requests == "several",
            hooked=o.requests == "hooked",
            refresh=o.refresh is not None,
            probe=o.probe is not None,
        )


class Look:
    """What a tool declares to look at the outcome of an attempt with: it changes nothing of what is given and kept."""

    def __init__(self, look: Callable[[Any], Any]) -> None:
        self._look = look

    def __call__(self, outcome: Any) -> Any:
        """Look at a copy; at the outcome itself where it cannot change, or cannot be copied."""
        return self._look(outcome if isinstance(outcome, BaseException) else apart(outcome))


def looking(look: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """Return what looks at an outcome and cannot change it."""
    return look if look is None or isinstance(look, Look) else Look(look)


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

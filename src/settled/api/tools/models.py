"""Calls of models: they read, stay off the record, and have budgets of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from settled.api.tools.giving_way import Person, chain_of
from settled.api.tools.tool import declare
from settled.core.attempts.budget import Pool, Pools, RetryBudget, RunBudget
from settled.core.encoding.loosening import nearest
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.api.tools.options import Defaulted
    from settled.api.tools.tool import Tool
    from settled.core.attempts.backoff import Backoff
    from settled.core.attempts.threshold import BreakerPolicy
    from settled.core.policy import Classify


class ModelOptions(TypedDict, total=False):
    """The options of ``guard.model``, all keyword-only and optional; times are seconds.

    Attributes:
        name: the model's, as the result tells it; the function's name by default.
        retries: of this model under this guard, all in all; its pool fills with use, as that of every tool, besides.
        fallback: another model (a smaller one), a chain of them, or ``settled.Skip(value)`` or ``settled.Say(words)``
            as the last.
        timeout, attempts, retry, breaker, classify, verify, refresh: as for ``guard.tool``.
    """

    name: str | None
    retries: RetryBudget | None
    fallback: Any
    timeout: float | Defaulted | None
    attempts: int
    retry: Backoff
    breaker: BreakerPolicy | Defaulted | None
    classify: Classify | None
    verify: Callable[[Any], bool] | None
    refresh: Callable[[], Any] | None


def declare_model(function: Callable[..., Any], given: dict[str, Any]) -> tuple[Tool[Any, Any], Pools]:
    """Return what calls the model, and the pools that its retries draw on: no tool's, and no run's.

    Raises ``DeclarationError``.
    """
    known = set(ModelOptions.__annotations__)
    for name in given.keys() - known:
        raise DeclarationError(f"a model has no option {name!r}{nearest(name, known)}")
    if any(isinstance(step, Person) for step in chain_of(given.get("fallback"))):
        raise DeclarationError("a model falls back on models: what no record is kept of cannot wait for a person")
    retries = given.pop("retries", None)
    model = declare(function, {**given, "effect": "read"})
    model.checked.is_model = True
    return model, Pools(process=Pool(), session=RunBudget(retries, scope="session") if retries else None)

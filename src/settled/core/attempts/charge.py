"""What a repeat costs in its run, taken in the commit of its intent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.attempts.budget import RetryBudget, RunBudget
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.books import Books


class Charge(Struct, frozen=True):
    """What a retry costs in its run, and what the run allows."""

    run_id: str
    budget: RetryBudget
    cost: int = 1


def debit(books: Books, tenant: str, tool: str, charge: Charge | None) -> str:
    """Take it from the run's budget; return the pool that does not grant it, or nothing."""
    run = books.run(tenant, charge.run_id) if charge else None
    if charge is None or run is None:
        return ""
    budget = RunBudget(charge.budget, dict(run.spent))
    refused = budget.try_spend(tool, charge.cost)
    if refused is None:
        books.put_run(replace(run, spent=budget.spent))
    return refused or ""

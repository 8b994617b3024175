"""All sources in one table."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from settled.core.faults import (
    aiohttp,
    botocore,
    google,
    grpc,
    httpx,
    mcp,
    models,
    postgres,
    process,
    python,
    redis,
    requests,
    stdlib,
    tls,
    urllib3,
)
from settled.core.faults.rules import names

if TYPE_CHECKING:
    from collections.abc import Hashable

    from settled.core.faults.rules import Rule

RULES = {
    name: rule
    for source in (
        *(aiohttp, botocore, google, grpc, httpx, mcp, models, postgres, process, python, redis, requests, stdlib),
        *(tls, urllib3),
    )
    for name, rule in source.RULES.items()
}


def rule_of(error: BaseException) -> Rule | None:
    """Return the rule for the most derived class that has one."""
    return _rule_of(cast("Hashable", type(error)))


@lru_cache(maxsize=1024)
def _rule_of(kind: Any) -> Rule | None:
    return next((RULES[name] for name in names(kind) if name in RULES), None)

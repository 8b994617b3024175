"""All sources in one table."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from settled.core.faults import (
    aiohttp,
    botocore,
    ftp,
    google,
    grpc,
    httpx,
    kafka,
    mcp,
    models,
    mongo,
    mysql,
    postgres,
    process,
    python,
    redis,
    requests,
    smtp,
    ssh,
    stdlib,
    tls,
    urllib3,
    vendors,
    websockets,
)
from settled.core.faults.rules import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.core.faults.rules import Rule

_SOURCES = (
    *(aiohttp, botocore, ftp, google, grpc, httpx, kafka, mcp, models, mongo, mysql),
    *(postgres, process, python, redis, requests, smtp, ssh, stdlib, tls, urllib3, vendors, websockets),
)

RULES = {name: rule for source in _SOURCES for name, rule in source.RULES.items()}


def _rule_of(kind: type) -> Rule | None:
    return next((RULES[name] for name in names(kind) if name in RULES), None)


rule_of = cast("Callable[[type], Rule | None]", lru_cache(1024)(_rule_of))
"""The rule for an error of a class: of the most derived of its bases that has one."""

"""What a server's settings mean for records: which of them can be lost, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from redis.exceptions import ResponseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from settled.journals.redis.line import Line

_ASKED: Final = ("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory", "maxmemory-policy")


@dataclass(frozen=True, slots=True)
class Settings:
    """A server's settings, as far as records depend on them."""

    facts: Mapping[str, str] = field(default_factory=dict)
    losses: tuple[str, ...] = ()
    """How what was told as recorded can be lost; empty: not at all, as long as the disk keeps what it was given."""


def read_settings(line: Line, info: Mapping[str, str]) -> Settings:
    """Ask the server. Raises ``redis.RedisError``."""
    found: dict[str, str] = {}
    for name in _ASKED:
        try:
            answer = line.call("CONFIG", "GET", name)
        except ResponseError:  # a right that managed servers do not give
            return Settings({**_facts(info), "settings": "hidden"}, (HIDDEN, *_by_replication(info)))
        found.update({name: answer[1].decode()} if answer else {})
    return Settings({**_facts(info), **found}, (*_by_settings(found), *_by_replication(info)))


HIDDEN: Final = "it does not let its settings be read (CONFIG GET), so what it keeps is not known"


def _facts(info: Mapping[str, str]) -> dict[str, str]:
    names = ("valkey_version", "redis_version", "role", "connected_slaves", "used_memory", "aof_last_write_status")
    return {name: info[name] for name in names if name in info}


def _by_settings(found: Mapping[str, str]) -> Iterator[str]:
    fsync = found.get("appendfsync")
    if found.get("appendonly") != "yes":
        yield "appendonly is no: all since its last snapshot is lost when the server ends; set it to yes"
    elif fsync == "no":
        yield "appendfsync is no: what the system has not yet written is lost when the machine fails; set it to always"
    elif fsync != "always":
        yield f"appendfsync is {fsync}: the last seconds are lost when the machine fails; set it to always"
    elif found.get("no-appendfsync-on-rewrite") == "yes":
        yield "no-appendfsync-on-rewrite is yes: while its file is rewritten nothing is synced; set it to no"
    policy = found.get("maxmemory-policy", "noeviction")
    if policy.startswith("allkeys") and found.get("maxmemory", "0") != "0":
        yield f"maxmemory-policy is {policy}: it may evict the journal when its memory is full; set it to noeviction"


def _by_replication(info: Mapping[str, str]) -> Iterator[str]:
    if info.get("connected_slaves", "0") != "0":
        yield "it has replicas, which get what is written a little later: a failover to one loses the last of it"

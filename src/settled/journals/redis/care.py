"""Health of a journal: what the server says of itself, and what that means for records."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from settled.journals.redis import lists
from settled.journals.redis.settings import read_settings
from settled.ports import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from settled.journals.redis.connections import Connections
    from settled.journals.redis.line import Line
    from settled.journals.redis.settings import Settings


def check(line: Line, look: lists.Look, connections: Connections) -> Report:
    """Look at settings, size and what was lost; say what is wrong and what to do."""
    settings = connections.settings = read_settings(line, line.info())
    (found,) = look([(b"HGETALL", lists.META)])
    meta = {found[i].decode(): found[i + 1].decode() for i in range(0, len(found), 2)}
    identity = connections.identity
    facts: dict[str, Any] = {
        "journal": connections.address.shown,
        "journal_id": identity.journal_id,
        "format": meta["format"],
        **settings.facts,
        "may_lose_writes": bool(settings.losses),
        "accept_loss": identity.accept_loss,
        "commits": int(meta["commits"]),
        "log_rows": int(meta["rows"]),
        "lives": len(meta["lives"].splitlines()) + 1,
        "spill_bytes": _size(identity.place),
        "calls": {state.value: number for state, number in lists.count(look).items()},
    }
    problems = list(_problems(settings, meta, facts["spill_bytes"], identity.place))
    return Report(ok=not problems, facts=facts, problems=problems)


def _problems(settings: Settings, meta: Mapping[str, str], spilled: int, place: str) -> Iterator[str]:
    yield from settings.losses
    if settings.facts.get("aof_last_write_status", "ok") != "ok":
        yield "the server cannot write its file (aof_last_write_status): look at its log and its disk"
    for name, seen in meta.items():
        if name.startswith("lost "):
            yield (
                f"commits {int(name[5:]) + 1} to {seen} were seen by a client and lost when the server lived anew: "
                "what was on record in them alone may be made once more"
            )
    if spilled:
        yield f"evidence waits in {place}: it is taken over when a guard opens or reconciles"


def _size(path: str) -> int:
    with suppress(OSError):
        return Path(path).stat().st_size
    return 0

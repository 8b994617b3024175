"""Arguments that look as if every try had another value: reported, never dropped. A timestamp may be an appointment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from settled.core import paths
from settled.core.strict_json import MAX_DEPTH

_NOT_LETTERS = re.compile(r"[\W_]")
_LOOKS = frozenset(
    {
        "attempt",
        "callid",
        "correlationid",
        "currenttime",
        "generatedat",
        "guid",
        "idempotencykey",
        "invocationid",
        "nonce",
        "now",
        "random",
        "requestedat",
        "requestid",
        "retry",
        "retrycount",
        "salt",
        "sentat",
        "spanid",
        "timestamp",
        "toolcallid",
        "traceid",
        "traceparent",
        "ts",
        "uuid",
    }
)


def volatile_names(arguments: Mapping[str, object]) -> tuple[str, ...]:
    """The paths of such members, in the order met, as a rule for them would be declared: ``items[].nonce``."""
    return tuple(dict.fromkeys(_found(arguments, "", 0)))


def _found(value: object, path: str, depth: int) -> Iterator[str]:
    if depth >= MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        for name, member in value.items():
            here = f"{path}.{name}".removeprefix(".")
            if _NOT_LETTERS.sub("", str(name)).lower() in _LOOKS:
                yield here
            yield from _found(member, here, depth + 1)
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _found(element, path + paths.EACH, depth + 1)

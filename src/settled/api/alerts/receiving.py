"""Who is told of alerts: sinks (functions that take events) and receivers (which deliver notices)."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.ports import Receiver, Sink


def sorted_out(alerts: Any) -> tuple[list[Sink], list[Receiver]]:
    """Return the sinks and the receivers of ``Guard(alerts=…)``. Raises ``DeclarationError`` for what is neither."""
    given: Sequence[Any] = list(alerts) if isinstance(alerts, list | tuple | set | frozenset) else [alerts]
    receivers = [cast("Receiver", each) for each in given if _is_receiver(each)]
    sinks = [each for each in given if not _is_receiver(each)]
    for sink in sinks:
        _check_sink(sink)
    names = [receiver.name for receiver in receivers]
    if len(set(names)) < len(names):
        raise DeclarationError(f"two receivers of alerts have one name ({', '.join(sorted(names))}): give them name=…")
    return sinks, receivers


def _is_receiver(each: Any) -> bool:
    return callable(getattr(each, "deliver", None)) and isinstance(getattr(each, "name", None), str)


def _check_sink(sink: Any) -> None:
    wanted = "alerts= takes receivers (settled.observe) and functions of an event and its facts: def tell(event, facts)"
    if not callable(sink):
        raise DeclarationError(f"{wanted}; {sink!r} is neither")
    call = sink if inspect.isroutine(sink) else getattr(sink, "__call__", sink)  # noqa: B004 - what will be called
    if inspect.iscoroutinefunction(call):
        raise DeclarationError(f"{wanted}; an async one would never run")
    try:
        inspect.signature(sink).bind("alert", {})
    except TypeError as error:
        raise DeclarationError(f"{wanted}; this one does not fit: {error}") from error
    except ValueError:
        return  # a function of C, that does not say what it takes

"""What a tool declares to be done in its place."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from settled.core.values import replace
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.api.tools.tool import Tool

PERSON = "person"


@dataclass(frozen=True, slots=True)
class Skip:
    """The last resort: nothing is done, and ``value`` is given in the result's place. The status tells the truth."""

    value: object = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Person:
    """A person does it by hand: the call waits in the queue until somebody says that it is done, or refuses it.

    ``wanted``: what is to be done, for whoever looks at the queue; the arguments and what failed before are shown too.
    """

    wanted: str = ""


@dataclass(frozen=True, slots=True)
class Say:
    """The last resort: nothing is done, and this is said in the place of the error's own words, to models too.

    ``words``: a text, or a plain function that makes one of the call's ``Result``. The status tells the truth.
    """

    words: str | Callable[[Result[Any]], str]


def chain_of(fallback: Any) -> tuple[Any, ...]:
    """Return a tool's fallbacks in their order."""
    if fallback is None:
        return ()
    several = isinstance(fallback, Sequence) and not isinstance(fallback, str)
    return tuple(fallback) if several else (fallback,)


def parts_of(chain: tuple[Any, ...]) -> tuple[tuple[Any, ...], Skip | Say | None]:
    """Return what is done in a tool's place, and what is said if none of that is."""
    last = chain[-1] if chain and isinstance(chain[-1], Skip | Say) else None
    return (chain if last is None else chain[:-1]), last


def fallback_name(step: Any) -> str:
    """Return what a result tells of it: a tool's name, or ``person``."""
    return step if isinstance(step, str) else PERSON if isinstance(step, Person) else str(step.name)


def fall_to(guard: Guard, tool: Tool[Any, Any]) -> tuple[str, ...]:
    """Return the names of all that may be called in a tool's place, and its own if a person may be asked."""
    names: dict[str, None] = {}
    left = [(tool, step) for step in parts_of(tool.fallbacks)[0]]
    for of, step in left:
        name = of.name if isinstance(step, Person) else fallback_name(step)
        other = None if name in names or isinstance(step, Person) else guard.tools.get(name)
        names[name] = None
        left += [(other, further) for further in parts_of(other.fallbacks)[0]] if other is not None else []
    return tuple(names)


def check_fallback(tool: Tool[Any, Any], chain: tuple[Any, ...]) -> None:
    """Refuse what cannot work. Raises ``DeclarationError``."""
    for place, step in enumerate(chain):
        _check_place(tool, step, chain[place + 1 :])
        if isinstance(step, Say):
            _check_words(tool, step.words)
        if not (isinstance(step, Skip | Say | Person | str) or hasattr(step, "checked")):
            what = "tools, their names, Person(wanted), Skip(value) and Say(words)"
            raise DeclarationError(f"{tool.name}: fallback takes {what}, not {step!r}")
        if step is tool or step == tool.name:
            raise DeclarationError(f"{tool.name}: it cannot fall back on itself: attempts= says how often it is tried")
        if hasattr(step, "checked"):
            check_arguments(tool, step)


def _check_place(tool: Tool[Any, Any], step: Any, after: tuple[Any, ...]) -> None:
    if isinstance(step, Skip | Say) and after:
        raise DeclarationError(f"{tool.name}: what comes after {type(step).__name__} is never reached")
    if isinstance(step, Person) and not all(isinstance(each, Skip | Say) for each in after):
        raise DeclarationError(
            f"{tool.name}: after a person only Skip or Say: that nobody did it by hand is a person's word, and no proof"
        )


def _check_words(tool: Tool[Any, Any], words: Any) -> None:
    if not (isinstance(words, str) or callable(words)) or inspect.iscoroutinefunction(words):
        raise DeclarationError(f"{tool.name}: Say takes a text, or a plain function of the result, not {words!r}")


def last_words(tool: Tool[Any, Any], last: Skip | Say, result: Result[Any]) -> Result[Any]:
    """Return the result of a call that nothing was done for, as its declaration has it told."""
    if isinstance(last, Skip):
        message = f"{result.message}; it was skipped" + (f": {last.why}" if last.why else "")
        return replace(result, value=last.value, value_available=True, fallback="skip", message=message)
    return replace(result, fallback="say", message=_words(tool, last.words, result))


def _words(tool: Tool[Any, Any], words: str | Callable[[Result[Any]], str], result: Result[Any]) -> str:
    """Return them; the result's own where the tool's function makes none."""
    if isinstance(words, str):
        return words
    try:
        said = words(result)
    except Exception as error:  # noqa: BLE001 - the tool's own code; the call itself has ended
        warnings.warn(f"{tool.name}: what it is to say could not be made: {error!r}", RuntimeWarning, stacklevel=2)
        return result.message
    return said or result.message


def check_arguments(tool: Tool[Any, Any], other: Tool[Any, Any]) -> None:
    """Refuse a fallback whose arguments the tool has not. Raises ``DeclarationError``."""
    missing = [name for name in other.required if name not in tool.schema.parameters]
    if missing:
        raise DeclarationError(f"{tool.name}: its fallback {other.name} takes {missing[0]!r}, which it has not")

"""What a tool declares to be the same although it is written differently: one rule, or several, per path.

Nothing is loosened by guess. Dropping every timestamp, sorting every list or rounding every float merges different
actions, and a lost action is as bad as a doubled one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from difflib import get_close_matches
from enum import Enum
from functools import partial
from typing import Any

from settled.core.encoding import numeric, paths, strict_json

Transform = Callable[[Any], object]
"""Takes a value to the one that is compared in its stead."""
Rule = str | Transform
_Change = Callable[["Node"], "Node"]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_CALL = re.compile(r"\s*(\w+)\s*(?:\(\s*(\d{1,2})\s*\))?\s*", re.ASCII)
_FINER_THAN_MICROSECONDS = re.compile(r"[.,]\d{7}")
_ROUNDING = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, rounding=ROUND_HALF_EVEN)


class NotCanonical(paths.RefusedValueError):
    """A value without a canonical form, or one that a declared rule refuses."""


class Absent(Enum):
    """When a member counts as not there."""

    NEVER = "never"
    NULL = "null"
    ALWAYS = "always"


class Order(Enum):
    """What of a list's order counts."""

    KEPT = "list"
    BAG = "multiset"
    SET = "set"


@dataclass(frozen=True, slots=True)
class Node:
    """The rules for one place, and for the places inside it."""

    absent: Absent = Absent.NEVER
    order: Order = Order.KEPT
    transforms: tuple[Transform, ...] = ()
    members: Mapping[str, Node] = field(default_factory=dict)
    each: Node | None = None

    def drops(self, value: object) -> bool:
        """Whether a member with this value counts as not there."""
        return self.absent is Absent.ALWAYS or (self.absent is Absent.NULL and value is None)

    def apply(self, value: object) -> object:
        """The value to compare.

        Raises:
            NotCanonical: a rule refuses the value, or a custom rule failed.
        """
        for transform in self.transforms:
            value = _applied(transform, value)
        return value


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of one tool."""

    root: Node

    @classmethod
    def parse(cls, declared: Mapping[str, Rule | Sequence[Rule]]) -> Rules:
        """Read ``{"items[].sku": "lower", "amount": "decimals(2)", "name": ("strip", my_rule)}``.

        Several rules for one path are applied in their order; a function takes a value and returns a value.

        Raises:
            ValueError: a path cannot be read, or there is no such rule.
        """
        root = Node()
        for path, rules in declared.items():
            steps = paths.parse(path)
            for rule in [rules] if isinstance(rules, str) or callable(rules) else rules:
                root = _with(root, steps, _change(rule, path))
        return cls(root)

    @property
    def roots(self) -> tuple[str, ...]:
        """The arguments that the rules speak of."""
        return tuple(self.root.members)

    def check_roots(self, arguments: Collection[str]) -> None:
        """See that each rule speaks of an argument that exists.

        Raises:
            ValueError: one does not.
        """
        for name in self.roots:
            if name not in arguments:
                raise ValueError(f"canonical: there is no argument {name!r}{nearest(name, arguments)}")


def _with(node: Node, steps: Sequence[str], change: _Change) -> Node:
    if not steps:
        return change(node)
    first, rest = steps[0], steps[1:]
    if first == paths.EACH:
        return replace(node, each=_with(node.each or Node(), rest, change))
    return replace(node, members={**node.members, first: _with(node.members.get(first, Node()), rest, change)})


def _change(rule: Rule, path: str) -> _Change:
    if not isinstance(rule, str):
        return partial(_transformed, by=rule)
    found = _CALL.fullmatch(rule)
    name, digits = (found[1], found[2]) if found else (rule, None)
    if name in _ABSENCES and path.endswith(paths.EACH):
        raise ValueError(f"canonical {path!r}: {name} is for a member, not for each element of a list")
    if digits is not None and name in _WITH_DIGITS:
        return partial(_transformed, by=partial(_WITH_DIGITS[name], int(digits)))
    if digits is None and name in _FOR_TEXT:
        return partial(_transformed, by=partial(_text, _FOR_TEXT[name]))
    if digits is None and name in _WITHOUT_DIGITS:
        return _WITHOUT_DIGITS[name]
    raise ValueError(f"canonical {path!r}: there is no rule {rule!r}{nearest(name, _NAMES)}")


def nearest(name: str, known: Collection[str]) -> str:
    """The end of a message about a name that is not known: the nearest one, and all that there are."""
    bare = {full.partition("(")[0]: full for full in known}
    near = get_close_matches(name.partition("(")[0], bare, n=1)
    hint = f"; did you mean {bare[near[0]]!r}?" if near else "."
    return f"{hint} There are: {', '.join(known) or 'none'}."


def _transformed(node: Node, by: Transform) -> Node:
    return replace(node, transforms=(*node.transforms, by))


def _applied(transform: Transform, value: object) -> object:
    try:
        return transform(value)
    except NotCanonical:
        raise
    except Exception as error:  # noqa: BLE001 - a user's function may raise anything; all of it means "refused"
        failure = type(error).__name__
    # Outside of the handler: the function's error may quote the value.
    raise NotCanonical(f"rule {getattr(transform, '__name__', 'given as a function')} failed with {failure}")


def _text(rule: Callable[[str], object], value: object) -> object:
    """Apply a rule for text. Null stays null, so that an optional argument may be left empty."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise NotCanonical(f"its rule is for text, not for {type(value).__name__}")
    return rule(value)


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _json(text: str) -> object:
    try:
        return strict_json.parse(text)
    except strict_json.InvalidJson as error:
        reason = str(error)
    raise NotCanonical(f"its text is {reason}")


def _instant(value: object) -> object:
    if value is None:
        return None
    moment = _moment(value)
    if moment is None or moment.utcoffset() is None:
        raise NotCanonical("an instant is wanted: a date and time with its UTC offset, to the microsecond at most")
    return moment


def _moment(value: object) -> datetime | None:
    try:
        if isinstance(value, str) and not _FINER_THAN_MICROSECONDS.search(value):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return value if value.utcoffset() is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    return None


def _decimals(places: int, value: object) -> object:
    number = _number(value)
    if number is not None and numeric.normal(str(number))[1] < -places:
        raise NotCanonical(f"a number with at most {places} decimals is wanted")
    return number


def _rounded(places: int, value: object) -> object:
    """Round half to even, as the other side is told to expect."""
    number = _number(value)
    if number is None or numeric.normal(str(number))[1] >= -places:
        return number
    return number.quantize(Decimal((0, (1,), -places)), context=_ROUNDING)


def _number(value: object) -> Decimal | None:
    """The number that a number or a numeric text stands for."""
    if value is None:
        return None
    number = _read_number(value)
    if number is None or not number.is_finite():
        raise NotCanonical("a number, or text that holds nothing but a number, is wanted")
    return number


def _read_number(value: object) -> Decimal | None:
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, str):
            return Decimal(value) if _NUMBER.fullmatch(value) else None
        if isinstance(value, int | float | Decimal):
            return Decimal(numeric.text_of(value))
    except InvalidOperation:
        pass
    return None


_ABSENCES = ("ignore", "null_is_absent")
_WITHOUT_DIGITS: Mapping[str, _Change] = {
    "ignore": partial(replace, absent=Absent.ALWAYS),
    "null_is_absent": partial(replace, absent=Absent.NULL),
    "unordered": partial(replace, order=Order.BAG),
    "unique": partial(replace, order=Order.SET),
    "instant": partial(_transformed, by=_instant),
}
_FOR_TEXT: Mapping[str, Callable[[str], object]] = {"nfc": _nfc, "strip": str.strip, "lower": str.lower, "json": _json}
_WITH_DIGITS: Mapping[str, Callable[[int, Any], object]] = {"decimals": _decimals, "rounded": _rounded}
_NAMES = (*_WITHOUT_DIGITS, *_FOR_TEXT, *(f"{name}(n)" for name in _WITH_DIGITS))

"""JSON as a model or a caller sends it, read strictly: what two readers could understand in two ways is refused.

Refused: a name twice in one object, NaN and Infinity, lone surrogates, cut-off text, trailing text. Numbers keep
every digit. No message repeats the input, which may hold a secret.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

MAX_DEPTH = 100
"""Levels of nesting."""
MAX_DIGITS = 10_000
"""Characters of one number. Turning digits into an int takes quadratic time: 4 ms for these."""
MAX_EXPONENT = 10_000
"""Powers of ten. Whoever makes an int of ``1e999999999`` fills the memory; no such number gets in."""

_INT_DIGITS = 640
"""``int(text)`` takes that many digits under every setting of ``sys.set_int_max_str_digits``."""

_TOKEN = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"(?P<colon>\s*+:)?|[{}\[\]]|-?Infinity|NaN|-?\d[\d.eE+\-]*+',
    re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"  # a pair, joined by the decoder
    r"|(?P<lone>\\u[dD][89a-fA-F][\da-fA-F]{2})"
    r"|\\.",
    re.DOTALL,
)
_REASONS = {
    "Extra data": "text after the end of the value",
    "Unterminated string": "a text is cut off",
    "Invalid control character": "a control character inside a text (write it as an escape)",
    "Invalid \\": "a broken escape inside a text",
    "Expecting value": "a value is missing",
    "Expecting property name": "a name in double quotes is missing",
    "Expecting ':'": "a colon is missing",
    "Expecting ','": "a comma or a closing bracket is missing",
    "Illegal trailing comma": "a comma before a closing bracket",
}


class InvalidJson(ValueError):  # noqa: N818 - the name says what is wrong with the text
    """Text that is not strict JSON. ``position`` counts characters (bytes, if it is no UTF-8) from 0."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return f"not valid JSON at position {self.position}: {self.reason}"


class _RefusedTokenError(Exception):
    """Raised from inside the decoder, which does not tell its hooks where it is."""

    def __init__(self, reason: str, token: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.token = token


class _RepeatedNameError(Exception):
    pass


def parse(text: str | bytes) -> object:
    """Read one JSON value. Non-integers come as ``Decimal``, integers as ``int``, both exact.

    Raises:
        InvalidJson: the text is not strict JSON, or nested or long beyond the limits above.
    """
    document = _decoded(text)
    _refuse_deep(document)
    _refuse_lone_surrogates(document)
    outcome = _parsed(document)
    # Raised here and not where it was noticed: the decoder's own error carries the whole text.
    if isinstance(outcome, InvalidJson):
        raise outcome
    return outcome


def parse_object(text: str | bytes) -> dict[str, object]:
    """Read one JSON object, as the arguments of a call are.

    Raises:
        InvalidJson: as ``parse``, or the value is not an object.
    """
    value = parse(text)
    if not isinstance(value, dict):
        raise InvalidJson("an object is wanted, {...}", 0)
    return value


def too_deep_at(levels: int, document: str) -> int | None:
    """Where the brackets of the document nest deeper than that many levels; None if they do nowhere."""
    # Counting first: nearly every document has fewer brackets than may be nested.
    if document.count("[") + document.count("{") <= levels:
        return None
    level = 0
    for token in _TOKEN.finditer(document):
        level += (token[0] in ("{", "[")) - (token[0] in ("}", "]"))
        if level > levels:
            return token.start()
    return None


def _decoded(text: str | bytes) -> str:
    document, position = _utf8(text)
    if position is not None:
        raise InvalidJson("not UTF-8, or a lone surrogate", position)
    return document


def _utf8(text: str | bytes) -> tuple[str, int | None]:
    """The text, or where it stops being UTF-8."""
    try:
        if isinstance(text, bytes):
            return text.decode(), None
        if not text.isascii():
            text.encode()
    except UnicodeError as error:
        return "", getattr(error, "start", 0)
    return text, None


def _refuse_deep(document: str) -> None:
    position = too_deep_at(MAX_DEPTH, document)
    if position is not None:
        raise InvalidJson(f"nested deeper than {MAX_DEPTH} levels", position)


def _refuse_lone_surrogates(document: str) -> None:
    if "\\" not in document:
        return
    for escape in _ESCAPE.finditer(document):
        if escape["lone"]:
            raise InvalidJson("a lone surrogate", escape.start())


def _parsed(document: str) -> object:
    try:
        return _DECODER.decode(document)
    except json.JSONDecodeError as error:
        return InvalidJson(_reason(error.msg), error.pos)
    except _RefusedTokenError as refused:
        return InvalidJson(refused.reason, _place_of_token(document, refused.token))
    except _RepeatedNameError:
        return InvalidJson("the same name twice in one object", _place_of_repetition(document))


def _reason(message: str) -> str:
    return next((ours for theirs, ours in _REASONS.items() if message.startswith(theirs)), "not JSON")


def _place_of_token(document: str, token: str) -> int:
    return next((found.start() for found in _TOKEN.finditer(document) if found[0].startswith(token)), 0)


def _place_of_repetition(document: str) -> int:
    names: list[set[str]] = []
    for token in _TOKEN.finditer(document):
        if token[0] == "{":
            names.append(set())
        elif token[0] == "}":
            names.pop()
        elif token["colon"]:
            name = json.loads(token[0].removesuffix(token["colon"]))
            if name in names[-1]:
                return token.start()
            names[-1].add(name)
    return 0


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _RepeatedNameError
    return members


def _int(token: str) -> int:
    if len(token) <= _INT_DIGITS:
        return int(token)
    _refuse_long(token)
    return int(Decimal(token))


def _decimal(token: str) -> Decimal:
    _refuse_long(token)
    try:
        number = Decimal(token)
    except InvalidOperation:
        number = None
    if number is None or abs(number.adjusted()) > MAX_EXPONENT:
        raise _RefusedTokenError(f"a number beyond ten to the power of {MAX_EXPONENT}", token)
    return number


def _refuse_long(token: str) -> None:
    if len(token) > MAX_DIGITS:
        raise _RefusedTokenError(f"a number of more than {MAX_DIGITS} digits", token)


def _constant(token: str) -> NoReturn:
    raise _RefusedTokenError("NaN and Infinity are not numbers", token)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_int, parse_float=_decimal, parse_constant=_constant)

"""Numbers as exact decimals, without ever writing out a huge exponent."""

from __future__ import annotations

from decimal import Decimal

_INT_TEXT_LIMIT = 2_000
"""Bits. Below it ``str(int)`` works under every setting of ``sys.set_int_max_str_digits``."""
_LONGEST_ZEROS = 20
_SMALL = 10**18
"""No whole number below it has so many zeros."""


def text_of(number: float | Decimal) -> str:
    """Decimal text of a finite number: a float's shortest round trip, anything else exactly."""
    if isinstance(number, float):
        return float.__repr__(number)
    if isinstance(number, int) and number.bit_length() < _INT_TEXT_LIMIT:
        return int.__repr__(number)
    return str(Decimal(number))


def normal(text: str) -> tuple[str, int]:
    """Split decimal text into digits without outer zeros (signed) and a power of ten.

    Equal numbers give equal pairs: ``"1.0"``, ``"1"`` and ``"1e0"`` are ``("1", 0)``; ``"-0"`` is ``("0", 0)``.
    """
    mantissa, _, power = text.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("+-0")
    kept = digits.rstrip("0")
    if not kept:
        return "0", 0
    exponent = int(power or 0) - len(fraction) + len(digits) - len(kept)
    return ("-" + kept if text[0] == "-" else kept), exponent


def plain(number: float | Decimal) -> str:
    """One text for equal numbers, as people write them: ``"1"``, ``"12.5"``, ``"1e400"``."""
    if type(number) is int and -_SMALL < number < _SMALL:
        return repr(number)  # the short way to what comes of it below
    digits, exponent = normal(text_of(number))
    if not -_LONGEST_ZEROS <= exponent <= _LONGEST_ZEROS:
        return f"{digits}e{exponent}"
    if exponent >= 0:
        return digits + "0" * exponent
    sign, digits = ("-", digits[1:]) if digits[0] == "-" else ("", digits)
    digits = digits.rjust(1 - exponent, "0")
    return f"{sign}{digits[:exponent]}.{digits[exponent:]}"

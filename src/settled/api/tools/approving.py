"""Which calls wait for a person's leave, by what their tool declares."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from settled.api import secrets
from settled.api.tools.schema import snapshot
from settled.core.encoding.loosening import nearest
from settled.core.model import Leave
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.api.tools.options import Options
    from settled.api.tools.schema import Arguments
    from settled.api.tools.tool import Tool

LONGEST_WHY = 200
"""Characters."""


def check_approving(options: Options, parameters: Sequence[str], name: str) -> None:
    """Refuse what cannot work. Raises ``DeclarationError``."""
    rule = options.approve
    if isinstance(rule, Mapping):
        for argument, most in rule.items():
            if argument not in parameters:
                hint = nearest(str(argument), parameters)
                raise DeclarationError(f"{name}: approve: there is no parameter {argument!r}{hint}")
            if not _is_number(most):
                raise DeclarationError(f"{name}: approve: {argument} needs a number to be compared with, not {most!r}")
    elif not (rule is None or isinstance(rule, bool) or callable(rule)):
        raise DeclarationError(f"{name}: approve is True, {{argument: threshold}} or a function, not {rule!r}")
    if inspect.iscoroutinefunction(rule):
        raise DeclarationError(
            f"{name}: approve must be a plain function: it looks at the arguments, and waits for nothing"
        )
    if type(options.approvers) is not int or options.approvers < 1:
        raise DeclarationError(f"{name}: approvers is a whole number of persons from 1 on, not {options.approvers!r}")
    if not _is_number(options.approve_within) or not options.approve_within > 0:
        raise DeclarationError(f"{name}: approve_within must be seconds above 0, not {options.approve_within!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and value == value  # noqa: PLR0124 - not NaN


def leave_for(tool: Tool[Any, Any], arguments: Arguments) -> Leave | None:
    """Return the leave that a call needs; ``None``: none. What cannot be judged needs it."""
    options = tool.checked.options
    try:
        why = _why(options.approve, arguments)
    except Exception as error:  # noqa: BLE001 - the tool's own rule: what it cannot judge, a person does
        why = f"its rule failed: {type(error).__name__}"
    if not why:
        return None
    within, hidden = float(options.approve_within), secrets.hidden(arguments.plain, options.redact)
    return Leave(secrets.clean(why, hidden)[:LONGEST_WHY], 0.0, options.version, options.approvers, within)


def _why(rule: Any, arguments: Arguments) -> str:
    if isinstance(rule, bool):
        return "its tool always asks" if rule else ""
    if isinstance(rule, Mapping):
        passed = [f"{name} is over {most}" for name, most in rule.items() if not arguments.given[name] <= most]
        return "; ".join(passed)
    said = rule(**snapshot(arguments.given))
    return said if isinstance(said, str) else "its rule asks" if said else ""

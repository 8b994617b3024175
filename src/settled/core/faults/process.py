"""Processes that a tool starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.rules import Situation, ambiguous, hopeless, rules

if TYPE_CHECKING:
    from settled.core.model import Fault

_NOT_STARTED = (126, 127)


def of_exit(error: BaseException, _: Situation) -> Fault:
    """Read an exit status. 126 and 127 are no proof: a script ends with them too, after its first half ran."""
    code = look.attr(error, "returncode")
    if not isinstance(code, int):
        return ambiguous("exit")
    if code < 0:
        return ambiguous(f"signal_{-code}")
    return hopeless("command_not_run") if code in _NOT_STARTED else ambiguous(f"exit_{code}")


RULES = rules(
    "subprocess",
    final={"CalledProcessError": of_exit, "TimeoutExpired": ambiguous("process_timeout")},
    wraps={"SubprocessError": ambiguous("process_error")},
)

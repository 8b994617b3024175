"""ftplib: what a server replies to a command. After a file's bytes were sent, some of them may stay."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.rules import Situation, ambiguous, refused, retryable, rules, weakened
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.model import Fault

_CODE = re.compile(r"[45]\d\d(?=[ -])", re.ASCII)
_TRANSFERS, _COMMANDS = frozenset({"storbinary", "storlines"}), frozenset({"voidcmd", "sendcmd"})
_NO_ENTRY = frozenset({"530", "532"})


def of_reply(error: BaseException, situation: Situation) -> Fault | None:
    """Read a refusal by its code; ``None`` if it has none, or came once a file had been sent."""
    found = _CODE.match(look.text(error))
    steps = {frame.f_code.co_name for frame in look.frames(error) if look.package(frame) == "ftplib"}
    if found is None or (steps & _TRANSFERS and not steps & _COMMANDS):
        return None
    code = f"ftp_{found[0]}"
    if found[0] in _NO_ENTRY:
        return replace(refused(code), refresh=True)
    fault = retryable(code) if found[0].startswith("4") else refused(code)
    return weakened(fault) if situation.doubtful else fault


RULES = rules("ftplib", final=dict.fromkeys(("error_temp", "error_perm"), of_reply), default=ambiguous("ftp_error"))

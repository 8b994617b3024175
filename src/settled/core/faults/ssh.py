"""paramiko: who was turned away, or could not be reached. Of a command that was run, only its exit tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.rules import Situation, refused, retryable, rules, unready
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.model import Fault

_CONNECTS = ("connect", "start_client")


def of_ssh(error: BaseException, _: Situation) -> Fault | None:
    """Read that no session came about, in which a command could have been run; ``None`` later on."""
    ways = [frame.f_code.co_name for frame in look.frames(error) if look.package(frame) == "paramiko"]
    return retryable("connect_failed") if any(name in ways for name in _CONNECTS) else None


RULES = rules(
    "paramiko",
    final={
        "NoValidConnectionsError": retryable("connect_failed"),
        "AuthenticationException": replace(refused("authentication"), refresh=True),
        "BadHostKeyException": unready("host_key"),
        "SSHException": of_ssh,
    },
)

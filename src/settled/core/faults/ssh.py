"""paramiko: who was turned away, or could not be reached. Of a command that was run, only its exit tells."""

from __future__ import annotations

from settled.core.faults.rules import refused, retryable, rules, unready
from settled.core.values import replace

RULES = rules(
    "paramiko",
    final={
        "NoValidConnectionsError": retryable("connect_failed"),
        "AuthenticationException": replace(refused("authentication"), refresh=True),
        "BadHostKeyException": unready("host_key"),
    },
)

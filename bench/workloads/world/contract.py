"""What world and agents agree on: the paths, the headers, how long a request can take effect."""

from __future__ import annotations

KEY = "X-Reference"
"""The caller's name for the call. The world writes it into its ledger and never looks for it before acting."""
MARK = "X-Mark"
"""The place of the intention in its task. Fault plan and ledger use it; no agent decides by it."""
EXPIRES = "X-Expires"
"""Instant of the machine's monotonic clock from which on the request is refused instead of executed."""
DIE = "X-Die"
"""On an answer: the agent is killed here, after the effect, before anything has read the answer."""

LIFETIME = 0.1
"""Seconds from sending to the last moment at which a request can take effect: the world sees to it."""

EXECUTED, FAILED, EXPIRED, REFUSED, BROKEN = 200, 422, 425, 429, 500
"""Statuses: done; the tool says no, and nothing changed; too late, nothing was tried; not now, nothing was tried; the
tool failed, and something changed."""

"""Which loop waits for the calling code, and may run something for it; and which ones stand still for it."""

from __future__ import annotations

import asyncio
import contextvars

asked_from: contextvars.ContextVar[asyncio.AbstractEventLoop | None] = contextvars.ContextVar("settled_asked_from")
"""In a thread that a loop has lent, and in what runs on the loop kept for plain code: that loop."""
held_up: contextvars.ContextVar[frozenset[asyncio.AbstractEventLoop]] = contextvars.ContextVar(
    "settled_held_up", default=frozenset()
)
"""Loops whose threads are blocked until the calling code has ended: nothing of it could run there."""


def running() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that the calling code runs on."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def in_loop() -> bool:
    """Whether the calling code runs on an event loop."""
    return running() is not None


def while_blocked() -> contextvars.Context:
    """Return the caller's context for another thread, which the caller waits for without leaving its own."""
    inside, loop = contextvars.copy_context(), running()
    if loop is not None:
        inside.run(held_up.set, held_up.get() | {loop})
    return inside

"""Web sockets (websockets, websocket-client, aiohttp's): who was not let in has sent no message yet."""

from __future__ import annotations

from settled.core.faults import look
from settled.core.faults.carried import by_answer
from settled.core.faults.rules import Situation, rules, weakened
from settled.core.model import Evidence, Fault, FaultClass

_AGAIN = "__aiter__"
"""The function of websockets that connects anew while somebody loops over it: there may have been messages before."""


def of_handshake(error: BaseException, situation: Situation) -> Fault:
    """Read a refused handshake by the status that it was answered with, if it was."""
    answered = by_answer(error, situation)
    kind = FaultClass.PERMANENT if answered is not None and answered.kind is FaultClass.PERMANENT else None
    refresh = answered is not None and answered.refresh
    fault = Fault(kind or FaultClass.RETRYABLE, Evidence.NONE, "handshake", refresh=refresh, gate=True)
    again = any(frame.f_code.co_name == _AGAIN and look.package(frame) == "websockets" for frame in look.frames(error))
    return weakened(fault) if again else fault


RULES = {
    **rules("websockets", final={"InvalidHandshake": of_handshake}),
    **rules("websocket", final={"WebSocketBadStatusException": of_handshake}),
    **rules("aiohttp", final={"WSServerHandshakeError": of_handshake}),
}

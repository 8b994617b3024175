"""Error codes of JSON-RPC 2.0 and of MCP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from settled.core.faults import look
from settled.core.faults.rules import ambiguous, invalid, refused, retryable
from settled.core.model import Evidence, Fault, FaultClass
from settled.core.values import replace

_CODES = {
    -32602: invalid("mcp_invalid_params"),
    -32601: invalid("mcp_method_not_found"),
    -32700: refused("mcp_parse_error"),
    -32600: refused("mcp_invalid_request"),
    -32603: ambiguous("mcp_internal_error", uncertain=True),
    -32001: ambiguous("mcp_request_timeout"),
    -32000: ambiguous("mcp_connection_closed"),
    -32042: refused("mcp_url_elicitation"),
    -32800: Fault(FaultClass.CANCELLED, Evidence.MAYBE, "mcp_cancelled"),
}
_PROTOCOL = range(-32029, -32019)
"""-3202x: headers, capability, version."""


_SESSION_GONE = re.compile(r"\bSession (?:terminated|not found)\b")
_OF_A_SESSION = frozenset({32600, -32600, -32001})
"""The Python SDK's (the first is its slip, up to 1.x), and the TypeScript SDK's: of an answer 404 to the request."""

_OF_THE_OUTPUT = re.compile(r"output validation|output schema|structured content", re.IGNORECASE)


def of_code(code: int, message: str = "") -> Fault:
    """Read a JSON-RPC error code as MCP uses it; codes of the server's own are ambiguous.

    The TypeScript SDK uses -32602 and -32600 also for what a tool gave once it had run.
    """
    if code in _OF_A_SESSION and _SESSION_GONE.search(message):
        return replace(retryable("mcp_session_gone"), message=look.text(message))
    known = _CODES.get(code) or (refused(f"mcp_{code}") if code in _PROTOCOL else ambiguous(f"mcp_{code}"))
    if known.evidence is Evidence.NONE and _OF_THE_OUTPUT.search(message):
        known = ambiguous("mcp_invalid_output", uncertain=True)
    return replace(known, message=look.text(message))


def of_envelope(value: Mapping[str, Any]) -> Fault | None:
    """Read a JSON-RPC answer; ``None`` if it is none, or no error."""
    error = value.get("error")
    if value.get("jsonrpc") != "2.0" or not isinstance(error, Mapping):
        return None
    code = error.get("code")
    if not isinstance(code, int) or isinstance(code, bool):
        return None
    return of_code(code, look.text(error.get("message", "")))

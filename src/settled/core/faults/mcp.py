"""MCP: results of tools, and the SDK's exception.

``isError`` does not tell run from not run: the SDK sends it for wrong arguments, for an unknown tool and for a tool
that crashed after its effect. What proves that nothing ran is -32602, as an error or as the text that the SDKs put
it in, and sentences of the SDKs' own, word for word, about the very tool that was called. ``isError: false``
is a success, whatever the text says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from settled.core.faults import jsonrpc, look
from settled.core.faults.rules import Situation, ambiguous, invalid, rules
from settled.core.model import Fault
from settled.core.values import replace

_CODE_IN_TEXT = re.compile(r"(?:Error executing tool \S{1,200}: )?MCP error (-\d{1,6})(?::|$)", re.ASCII)
_NOT_RUN = (-32602, -32601)
_WRONG_ARGUMENTS = re.compile(
    r"Error executing tool (?P<tool>\S{1,200}): \d+ validation errors? for (?P=tool)Arguments\b"
    r"|\d+ validation errors? for call\[(?P<called>\S{1,200})\]\n"
)
"""As the SDK says it, and as FastMCP does, which puts other words before what the tool itself raises."""


def classify_mcp(result: Mapping[str, Any], *, tool: str | None = None) -> Fault | None:
    """Return the fault in an MCP ``tools/call`` result or JSON-RPC answer, ``None`` if it is a success.

    Args:
        result: as parsed from JSON; never makes this raise.
        tool: the name that was called. Without it, "Unknown tool: …" proves nothing: a tool may say so itself.
    """
    if not isinstance(result, Mapping):
        return ambiguous("mcp_malformed", uncertain=True)
    error = jsonrpc.of_envelope(result)
    if error is not None:
        return error
    inner = result.get("result")
    if result.get("jsonrpc") == "2.0" and isinstance(inner, Mapping):
        result = inner
    failed = result.get("isError", result.get("is_error"))
    return _of_text(_text(result.get("content")), tool) if failed else None


def of_exception(error: BaseException, _: Situation) -> Fault | None:
    """Read the SDK's exception by its code."""
    code = look.number(look.attr(error, "error", "code")) or look.number(look.attr(error, "code"))
    return None if code is None else replace(jsonrpc.of_code(code, look.text(error)), message="")


def of_tool_error(error: BaseException, _: Situation) -> Fault | None:
    """Read a client's exception for an ``isError`` result."""
    return _of_text(look.text(error), None)


def _of_text(text: str, tool: str | None) -> Fault:
    found = _CODE_IN_TEXT.match(text)
    if found and int(found[1]) in _NOT_RUN:
        return jsonrpc.of_code(int(found[1]), text)
    wrong = _WRONG_ARGUMENTS.match(text)
    if wrong and tool in {None, wrong["tool"] or wrong["called"]}:
        return _saying(invalid("mcp_invalid_params"), text)
    if tool is not None and text.startswith(f"Input validation error: Invalid arguments for tool {tool}: "):
        return _saying(invalid("mcp_invalid_params"), text)
    if tool is not None and text.strip() in {f"Unknown tool: {tool}", f"Unknown tool: '{tool}'"}:
        return _saying(invalid("mcp_unknown_tool"), text)
    return _saying(ambiguous("mcp_is_error"), text)


def _saying(fault: Fault, text: str) -> Fault:
    return Fault(fault.kind, fault.evidence, fault.code, text)


def _text(content: Any) -> str:
    """Return the text of the first block, whatever shape the content has."""
    first = content[0] if isinstance(content, list | tuple) and content else content
    if isinstance(first, Mapping):
        first = first.get("text")
    return look.text(first) if isinstance(first, str) else ""


_MCP = ambiguous("mcp_error")

RULES = {
    **rules(
        "mcp", final={"McpError": of_exception, "MCPError": of_exception, "ToolError": of_tool_error}, default=_MCP
    ),
    **rules("fastmcp", final={"ToolError": of_tool_error, "McpError": of_exception}, default=_MCP),
}

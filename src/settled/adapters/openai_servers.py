"""MCP servers of the OpenAI Agents SDK: their errors are seen as such."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from settled.errors import DeclarationError

server_errors: ContextVar[list[Any] | None] = ContextVar("settled_server_errors", default=None)
"""Of the call that is being made."""


class Server:
    """An MCP server whose errors are seen as such: the SDK hands them on as text like any other."""

    def __init__(self, server: Any) -> None:
        if getattr(server, "max_retry_attempts", 0):
            raise DeclarationError(f"the MCP server {server.name!r} repeats calls: write max_retry_attempts=0")
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def call_tool(self, *args: Any, **more: Any) -> Any:
        """Make the call, and note its error."""
        result = await self._server.call_tool(*args, **more)
        failed = getattr(result, "is_error", None) or getattr(result, "isError", None)  # of mcp 2 and 1
        if failed and (errors := server_errors.get()) is not None:
            errors.append(result.model_dump(mode="json", by_alias=True))
        return result


class ServerError(Exception):
    """An MCP server has answered with an error."""

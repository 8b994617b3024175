"""The arguments of a call of Pydantic AI: as the model is asked for them, and as its tool takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import to_json, to_jsonable_python

from settled.api.tools.schema import apart
from settled.api.tools.taken import as_data
from settled.errors import NotExecuted

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart

_PLAIN = frozenset({str, int, float, bool, type(None)})


def source_of(ctx: RunContext[Any], name: str) -> Any:
    """Return what the framework knows of the tool: of a function, whether it is async."""
    found: Any = ctx.tool_manager.tools.get(name) if ctx.tool_manager and ctx.tool_manager.tools else None
    while hasattr(found, "source_tool"):
        found = found.source_tool
    return found


def _plain(value: Any) -> Any:
    try:
        return as_data(value)
    except ValueError:
        return to_jsonable_python(value)


class Given:
    """The arguments of one call, as the framework has validated them.

    Attributes:
        shown: plain data, as the tool's schema names them to the model.
    """

    def __init__(self, ctx: RunContext[Any], call: ToolCallPart, tool: Any, args: dict[str, Any]) -> None:
        self._ctx, self._tool, self._args = ctx, tool, args
        self._plain = _PLAIN.issuperset(map(type, args.values()))
        self.shown = args if self._plain else self._as_shown(call)

    def _as_shown(self, call: ToolCallPart) -> dict[str, Any]:
        try:
            plain: dict[Any, Any] = {name: _plain(value) for name, value in self._args.items()}
        except ValueError:  # of a type without a plain form: as the model gave them
            return call.args_as_dict()  # type: ignore[no-any-return]  # a dict
        schema = getattr(getattr(self._tool, "call_func", None), "__self__", None)
        alone = plain.get(getattr(schema, "single_arg_name", None))  # one model is shown by its fields
        return alone if isinstance(alone, dict) else plain

    def for_tool(self, recorded: dict[str, Any]) -> dict[str, Any]:
        """Return what an attempt is made with: a copy, since tools change what they are given.

        Raises ``NotExecuted`` where what is on record is nothing that the tool takes any more.
        """
        if recorded == self.shown:
            return self._args if self._plain else apart(self._args)
        try:
            read: Any = self._tool.args_validator.validate_json
            return read(to_json(recorded), context=self._ctx.validation_context)  # type: ignore[no-any-return]  # a dict
        except ValidationError as error:
            raise NotExecuted("the arguments on record do not fit the tool any more") from error

"""What tools of the OpenAI Agents SDK answer: kept in the journal, and looked at for failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents import (
    ApplyPatchResult,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellResult,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
)
from agents.exceptions import ModelBehaviorError

from settled.adapters import neutral
from settled.adapters.openai_servers import ServerError
from settled.adapters.values import Packer
from settled.api.tools.foreign import Values
from settled.core.encoding import codec
from settled.core.faults.mcp import classify_mcp

if TYPE_CHECKING:
    from settled.core.model import Fault

_TEXTS = (ToolOutputFileContent, ToolOutputImage, ToolOutputText)
_SHELLS = (ApplyPatchResult, ShellCallOutcome, ShellCommandOutput, ShellResult)
_packer = Packer([*_TEXTS, *_SHELLS])


def _pack(value: Any) -> Any:
    """Return the plain form; of what has none the text that the model is shown."""
    if type(value) is str:
        return value
    packed = _packer.pack(value)
    try:
        codec.dumps(packed)
    except ValueError:
        return str(value)
    return packed


def _failed(outcome: Any) -> Fault | None:
    if isinstance(outcome, ServerError):
        return classify_mcp(outcome.args[0], tool=outcome.args[1])
    return neutral.wrong_arguments(str(outcome)) if isinstance(outcome, ModelBehaviorError) else None


VALUES = Values(_pack, _packer.unpack, _failed)

"""The reference of what is public in Python, made of its own docstrings.

To write it anew: ``python -m tests.docs.reference > docs/reference/python.md``.
"""

import inspect
import re
from textwrap import fill
from types import ModuleType

import settled
from settled import errors

_INTRODUCTION = """\
# What is public in Python

Made of the docstrings, which `help(settled.Guard)` and an editor show too. Times are seconds. What a `Result` says, and
what a loop does about it, is told in [results](results.md)."""
_METHODS = ("tool", "model", "add", "run", "join", "dispatch", "adispatch", "close")
_OPERATING = ("waiting", "evidence", "look", "approve", "refuse", "resolve", "pause", "resume", "reconcile", "rewind")
_RUN = ("status", "saved_state", "save", "gather", "compensate", "untold", "token", "lanes")
_POLICIES = ("Backoff", "RetryBudget", "BreakerPolicy", "TokenWindow")
_SAYING = ("Happened", "NotHappened", "Inconclusive", "NotExecuted", "Executed", "PartlyDone", "Effect")
_PARTS = ("transports", "observe", "partial", "tokens")
_NOT_TO_BE_MADE = (settled.ToolOptions, settled.ModelOptions, settled.Tool, settled.Run, settled.Result)
"""Given, or written as keywords: how they are made is of no use to a reader."""


def reference() -> str:
    """Return the whole page."""
    parts = {
        "The guard": [*_of(settled, "settled", ("Guard",)), *_of(settled.Guard, "guard", _METHODS)],
        "Options of a tool": _of(settled, "settled", ("ToolOptions", "tool", "tool_options")),
        "Options of what asks a model": _of(settled, "settled", ("ModelOptions",)),
        "One call": [
            *_of(settled, "settled", ("Tool",)),
            *_of(settled.Tool, "tool", ("options", "json_schema")),
            *_of(settled, "settled", ("current_call",)),
        ],
        "What a call gives": [
            *_of(settled, "settled", ("Result",)),
            *_of(settled.Result, "result", ("unwrap", "for_model")),
        ],
        "What a run can do": [*_of(settled, "settled", ("Run",)), *_of(settled.Run, "run", _RUN)],
        "What operators do": _of(settled.Guard, "guard", _OPERATING),
        "Retries, breakers, windows": _of(settled, "settled", _POLICIES),
        "What probes, ledgers and tools say": _of(settled, "settled", _SAYING),
        "What is done instead": _of(settled, "settled", ("Person", "Skip", "Say")),
        "The worker": _of(settled, "settled", ("Worker",)),
        "What sees and tells": _of(settled, "settled", _PARTS),
    }
    sections = [f"## {title}\n\n" + "\n\n".join(entries) for title, entries in parts.items()]
    return "\n\n".join([_INTRODUCTION, *sections, _errors()])


def _of(owner, shown, names):
    return [_entry(f"{shown}.{name}", getattr(owner, name)) for name in names]


def _entry(name, member):
    text = re.sub(r"[ ]+$", "", inspect.getdoc(member) or "", flags=re.MULTILINE)
    return f"### `{name}`\n\n```text\n{_call(name, member)}{text}\n```"


def _call(name, member):
    """Return how it is called, in lines of a page's width."""
    if isinstance(member, property | ModuleType) or member in _NOT_TO_BE_MADE:
        return ""
    parameters = inspect.signature(member).parameters.values()
    plain = [each.replace(annotation=each.empty) for each in parameters if each.name not in ("self", "function")]
    shown = re.sub(r"<[^>]*>", "…", str(inspect.Signature(plain)))
    return fill(f"{name}{shown}", width=110, subsequent_indent="    ", break_on_hyphens=False) + "\n\n"


def _errors():
    tree = inspect.cleandoc(errors.__doc__).split("\n\n", 1)[1]
    return f"## The errors\n\nAll have a stable `code`.\n\n```text\n{tree}\n```"


if __name__ == "__main__":
    print(reference())

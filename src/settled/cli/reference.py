"""The reference of the command line, made of its own help.

To write it anew: ``python -m settled.cli.reference > docs/reference/cli.md``.
"""

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from settled.cli.app import app
from settled.cli.exits import MEANING, Exit
from settled.cli.output import say

_WIDTH = 100
_INTRODUCTION = """\
# The command line

`settled` looks at a journal and settles what is in doubt. Every command takes `--json` and then prints one JSON
document on stdout, and nothing else; talk and errors go to stderr (with `--json` an error is
`{"error": {"code": ..., "message": ..., "exit": ...}}`). Times in JSON are ISO 8601 in UTC; elsewhere they are local,
with their age. No command creates a journal. Output has colours on a terminal only, and none where `NO_COLOR` is set.

`SETTLED_JOURNAL` and `SETTLED_APP` stand for `--journal` and `--app`. With `--app` the app's guard is used, with its
journal, its tools and its encryption key; where both are given they must mean the same journal.

| to | type |
|---|---|
| see how things stand | `settled status` |
| see what waits for a person, and decide | `settled queue list`, `show`, `claim`, `probe`, `resolve` |
| give leave, or refuse it | `settled queue approve`, `refuse` |
| explain a call: each attempt, its evidence, its log | `settled calls show OP` |
| explain a task: line by line, with what undid it | `settled runs show RUN` |
| undo a task; go on with undoing | `settled runs compensate RUN`, `settled runs resume` |
| keep a tool from being called | `settled tools pause NAME` |
| settle what lost processes have left | `settled reconcile` once, `settled worker` on a schedule |
| see whether somebody has changed the log | `settled journal verify` |
| export, page by page | `settled calls list --json --limit 10000 --after OP`, `settled calls show OP --json` |
"""


def reference() -> str:
    """Return the whole reference as Markdown."""
    codes = "\n".join(f"| {code:d} | `{code.name.lower()}` | {MEANING[code]} |" for code in Exit)
    table = f"## Exit codes\n\n| code | word | meaning |\n|---|---|---|\n{codes}\n"
    commands = "\n".join(_section(name, text) for name, text in _helps(get_command(app), "settled", None))
    return f"{_INTRODUCTION}\n{table}\n{commands}"


def _section(name: str, text: str) -> str:
    return f"## `{name}`\n\n```text\n{text}\n```\n"


def _helps(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    settings = {"info_name": name.rpartition(" ")[2], "parent": parent, "terminal_width": _WIDTH}
    context = command.context_class(command, **settings, **command.context_settings)
    text = re.sub(r"[ ]+$", "", command.get_help(context), flags=re.MULTILINE)
    yield name, text.split("\nExit codes:")[0].rstrip().removesuffix("\n")
    for below in getattr(command, "commands", {}).values():
        yield from _helps(below, f"{name} {below.name}", context)


if __name__ == "__main__":
    say(reference().rstrip())

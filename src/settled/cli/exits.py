"""How the command line ends: one table of exit codes, and the error that carries one."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from settled.errors import DeclarationError


class Exit(IntEnum):
    """Exit codes; they stay the same across releases."""

    OK = 0
    ATTENTION = 1
    USAGE = 2
    JOURNAL = 3
    NOT_FOUND = 4
    REFUSED = 5
    LOADING = 6
    FAILED = 7
    INTERRUPTED = 130
    PIPE = 141


MEANING = {
    Exit.OK: "done; nothing wants attention",
    Exit.ATTENTION: "done, and something wants attention: a check found problems, a call is still unknown, "
    "a verdict of many could not be taken, a ledger has found something, a receiver took no alert, what was erased "
    "could not be wiped, or with --fail the queue is not empty",
    Exit.USAGE: "the command line is wrong: an unknown option, a missing or unfit value, a filter by a tool or a "
    "tenant that nothing on record has",
    Exit.JOURNAL: "the journal cannot be used: missing, damaged, locked, of another release",
    Exit.NOT_FOUND: "no call, key, run, finding, tool or breaker has the name that was given",
    Exit.REFUSED: "refused: a verdict that cannot be taken, a tool without a probe, no confirmation",
    Exit.LOADING: "the app (--app) or an optional part of settled cannot be loaded",
    Exit.FAILED: "settled itself failed, or its output could not be written: what the command did before that stands",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
    Exit.PIPE: "whoever read the output went away",
}


@contextmanager
def refusals() -> Iterator[None]:
    """Within this, what the library refuses ends the command as refused."""
    try:
        yield
    except DeclarationError as error:
        raise Problem(Exit.REFUSED, str(error)) from error


class Problem(Exception):  # noqa: N818 - it ends the command; whose fault it is, the text tells
    """An expected end other than success: shown as one message, never as a traceback."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def name(self) -> str:
        """The stable word for scripts: ``usage``, ``not_found``, ``refused``."""
        return self.code.name.lower()

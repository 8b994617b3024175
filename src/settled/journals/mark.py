"""The mark beside a journal: which one stood here, and how far it had come.

It is what tells an emptied, replaced or restored file from the journal that was in use, so that its calls are not
all made once more.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from settled.errors import JournalError


@dataclass(frozen=True, slots=True)
class Mark:
    """The identity of a journal and the highest commit number that was seen of it."""

    journal_id: str
    commits: int


def place_of(file_name: str, shown: str, spill: str | os.PathLike[str] | None) -> str:
    """Return the path of this machine's spill file for a journal elsewhere, beside which its mark lies too.

    Raises:
        JournalError: Its folder cannot be made.
    """
    if spill is not None:
        return os.path.realpath(spill)
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    try:
        folder = Path(state).expanduser() / "settled"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as fault:  # the latter where it is nobody's home: a user of a container, say
        raise JournalError(
            f"the journal {shown} needs a folder of this machine for evidence that the server cannot take, and "
            f"{state}/settled cannot be made ({fault}): give spill='/path/of/a/file'"
        ) from fault
    return str(folder / f"{file_name}-spill")


def mark_path(path: str) -> str:
    """Return where the mark of the journal at ``path`` lies."""
    return f"{path}-mark"


def read_mark(path: str) -> Mark | None:
    """Return the mark of the journal at ``path``; ``None`` if it has none.

    Raises:
        JournalError: There is one, and it cannot be read.
    """
    try:
        content = json.loads(Path(mark_path(path)).read_bytes())
        return Mark(str(content["journal_id"]), int(content["commits"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise JournalError(f"the mark {mark_path(path)} cannot be read ({fault}); {_accept(path)}") from fault


def write_mark(path: str, mark: Mark) -> None:
    """Replace the mark, whole or not at all. Raises ``OSError``."""
    content = json.dumps({"journal_id": mark.journal_id, "commits": mark.commits})
    replace_whole(mark_path(path), content.encode(), like=path)


def replace_whole(target: str, content: bytes, *, like: str) -> None:
    """Replace a file, whole or not at all, with one for whoever may use the file ``like``. Raises ``OSError``."""
    draft = f"{target}.{os.getpid()}-{token_hex(4)}"  # threads, and other containers' processes, have that number too
    with contextlib.ExitStack() as undo:
        undo.callback(_remove, draft)
        with Path(draft).open("xb") as file:
            share(file.fileno(), like)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(target)
    sync_folder(target)


def share(descriptor: int, like: str) -> None:
    """Let those use an open file who may use the file ``like``, if there is one, whatever the umask says."""
    with contextlib.suppress(OSError, AttributeError):  # one that is somebody else's; a system without such rights
        status = os.stat(like)  # noqa: PTH116 - beside fchmod
        with contextlib.suppress(OSError):
            os.fchown(descriptor, -1, status.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & 0o666)


def remove_mark(path: str) -> None:
    """Remove the mark, so that a journal may begin anew at ``path``."""
    _remove(mark_path(path))


def sync_folder(path: str) -> None:
    """Make a new name in a folder durable, where the system can."""
    with contextlib.suppress(OSError):
        folder = os.open(Path(path).parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check_identity(path: str, found: Mark, mark: Mark | None, journal_id: str | None) -> None:
    """Compare what the file says of itself with the mark beside it and with what the caller expects.

    Raises:
        JournalError: It is another journal, or an older copy of this one.
    """
    if journal_id is not None and found.journal_id != journal_id:
        raise JournalError(
            f"the journal {path} is {found.journal_id}, and journal_id= asks for {journal_id}: it is not the one that "
            "was in use; nothing was executed. Put the right file back, or correct journal_id="
        )
    if mark is not None and found.journal_id != mark.journal_id:
        raise JournalError(
            f"the journal {path} is {found.journal_id}, and the mark beside it says that {mark.journal_id} stood here: "
            f"the file was replaced; nothing was executed. {_accept(path)}"
        )
    if mark is not None and found.commits < mark.commits:
        raise JournalError(
            f"the journal {path} stands at commit {found.commits}, and commit {mark.commits} was seen of it: it is an "
            f"older copy, and what was done since is not in it; nothing was executed. {_accept(path)}"
        )


def lost(path: str, what: str) -> JournalError:
    """Return the error for a journal that is gone although its mark is there."""
    return JournalError(
        f"the journal {path} {what}, but it was in use here: opened anew, it would let every call be made once more; "
        f"nothing was executed. {_accept(path)}"
    )


def not_there(shown: str, what: str = "does not exist") -> JournalError:
    """Return the error for a journal that must exist (``must_exist=``, ``journal_id=``), and does not."""
    return JournalError(
        f"the journal {shown} {what}, and it must exist: correct its address, or let the program that makes the calls "
        "create it, by a Guard without must_exist= and journal_id=; nothing was executed"
    )


def lost_commits(path: str, floor: int) -> JournalError:
    """Return the error for a journal that fell behind a commit of this very process."""
    return JournalError(
        f"the journal {path} no longer has commit {floor}, which this process has seen: an older copy was put in its "
        f"place while it was in use; nothing was executed. {_accept(path)}"
    )


def _accept(path: str) -> str:
    return f"Put the right file back; if what is there now is to count, run `settled journal accept` for {path}"


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()

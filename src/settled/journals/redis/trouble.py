"""What a server's errors mean for a journal, in words that say what to do."""

from __future__ import annotations

from typing import Final

from redis import exceptions as faults

from settled.errors import JournalError

Fault = faults.RedisError


class Conflict(Exception):  # noqa: N818 - it never leaves the journal: the transaction is made once more
    """What was looked at has changed meanwhile."""


_RIGHTS: Final = (
    "the user lacks a right: let it use EVALSHA, EVAL, SCRIPT, INFO, CONFIG|GET, TIME and EXISTS, and all commands on "
    "hashes, sorted sets and streams, on the journal's keys"
)
_WORDS: Final = {
    "WRONGTYPE": "one of its keys holds something that is not the journal's: give prefix= a name that is free",
    "WRONGPASS": "it refuses the password: correct user and password in the address",
    "NOAUTH": "it asks for a password: write redis://:password@host",
    "NOPERM": _RIGHTS,
    "ACL failure in script": _RIGHTS,
    "executing the script can't run this command": _RIGHTS,  # so Redis 6.2
    "READONLY": "it is a replica that only reads: let the address lead to the primary",
    "OOM": "its memory is full: raise maxmemory, or prune",
    "MISCONF": "it cannot save to its disk (see its log), and takes no changes until it can",
    "NOREPLICAS": "it has fewer replicas than it needs to take changes (min-replicas-to-write)",
    "LOADING": "it is still loading its data: try again",
    "BUSY": "it is busy with somebody's script: try again",
    "MASTERDOWN": "it is a replica without its primary: let the address lead to a primary",
    "MOVED": "it is part of a cluster, and the journal's keys lie on another node: let the address lead to that one",
    "CLUSTERDOWN": "its cluster is down",
}
_AGAIN: Final = ("LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "max number of clients")
_UNREACHABLE: Final = "it cannot be reached: check that it runs, and host and port (or the path of its socket)"


def away(fault: Exception) -> bool:
    """Whether the server, or the connection to it, is not there, or not yet ready."""
    if isinstance(fault, faults.AuthenticationError):
        return False
    if isinstance(fault, faults.ConnectionError | faults.TimeoutError | OSError):
        return True
    return isinstance(fault, faults.RedisError) and said(fault).startswith(_AGAIN)


def said(fault: Exception) -> str:
    """Return the server's words; the client has cut off the code of some."""
    codes = {
        faults.ReadOnlyError: "READONLY",
        faults.BusyLoadingError: "LOADING",
        faults.OutOfMemoryError: "OOM",
        faults.NoPermissionError: "NOPERM",
        faults.MasterDownError: "MASTERDOWN",
        faults.ClusterDownError: "CLUSTERDOWN",
        faults.MovedError: "MOVED",
        faults.AuthenticationWrongNumberOfArgsError: "WRONGPASS",
        faults.AuthenticationError: "NOAUTH" if "required" in str(fault) else "WRONGPASS",
    }
    code = next((code for kind, code in codes.items() if isinstance(fault, kind)), "")
    return str(fault) if str(fault).startswith(code) else f"{code} {fault}"


def explained(fault: Exception, shown: str, *, doing: str = "nothing was recorded") -> JournalError:
    """Return the error to raise in place of ``fault``, which is its cause."""
    if isinstance(fault, JournalError):
        error = JournalError(*fault.args)
        error.__cause__ = fault.__cause__
        return error
    if isinstance(fault, Conflict):
        words = "others kept changing the same calls: perform again"
    else:
        words = next((own for code, own in _WORDS.items() if code in said(fault)), "")
        words = words or (_UNREACHABLE if away(fault) else "it refused")
        words += f" (the server: {_plain(fault)})"
    error = JournalError(f"the journal {shown}: {doing}; {words}")
    error.__cause__ = fault
    return error


def _plain(fault: Exception) -> str:
    lines = said(fault).strip().splitlines()
    return lines[0][:200] if lines else type(fault).__name__

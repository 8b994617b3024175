"""What PostgreSQL's errors mean for a journal, in words that say what to do."""

from __future__ import annotations

from typing import Final

import psycopg

from settled.errors import JournalError


class Conflict(Exception):  # noqa: N818 - it never leaves the journal: the transaction is made once more
    """Another transaction was faster; ``lock`` is one that must be held from the start, if any."""

    def __init__(self, lock: int | None = None) -> None:
        super().__init__()
        self.lock = lock


# 22012 and 23502 are how our own fences end a transaction (see statements.py); 23505: the same key, or log row;
# 57014: it took too long beside others (statement_timeout), or somebody has cancelled it.
_AGAIN: Final = frozenset({"40001", "40P01", "55P03", "57014", "22012", "23502", "23505"})
_AWAY: Final = ("08", "57P", "25P", "53300")
"""Starts of the codes with which a server says that it cannot serve now, or has ended the connection."""
_WORDS: Final = {
    "28P01": "it refuses the password: correct it in the address (or in PGPASSWORD, or in the password file)",
    "28000": "it refuses this user: correct the address, or the server's pg_hba.conf",
    "3D000": "it has no such database: create it, or correct the address",
    "3F000": "it has no such schema: correct schema=, or let the user create it",
    "42501": "the user lacks a right: let its owner grant it (the schema's tables; to begin a journal, CREATE on "
    "the database, or on a schema that is there; to migrate one, CREATE on the schema)",
    "42P01": "a table of the journal is missing: restore it, or correct schema=",
    "53100": "the server's disk is full: make room",
    "53200": "the server is out of memory",
    "53300": "the server has no connection left: raise max_connections, or lower pool=",
    "54000": "a text is too long for PostgreSQL to index (about 2,700 bytes): shorten the key, scope or identity",
    "25006": "the server is read-only, perhaps a standby: let the address lead to the primary "
    "(libpq: target_session_attrs=read-write)",
    "57014": "the server ends its statements: raise the user's statement_timeout, or look for who cancels them",
    "57P03": "the server is starting or stopping: try again",
    "55P03": "another process holds a lock for longer than patience=: look for one that hangs, then try again",
}
_UNSUPPORTED: Final = "0A000"
_UNREACHABLE: Final = "the server cannot be reached: check that it runs, and host and port"
_NOT_THIS_USER: Final = ("not permitted to log in", "no pg_hba.conf entry", "FATAL:  role ")
_HOPELESS: Final = ("authentication failed", "no password", "does not exist", *_NOT_THIS_USER)


def again(fault: psycopg.Error) -> bool:
    """Whether the whole transaction was rolled back and may succeed when it is made once more."""
    return fault.sqlstate in _AGAIN


def away(fault: psycopg.Error) -> bool:
    """Whether the server, or the connection to it, is not there."""
    if fault.sqlstate is None:
        return isinstance(fault, psycopg.OperationalError | psycopg.InterfaceError)
    return fault.sqlstate.startswith(_AWAY)


def worth_waiting(fault: psycopg.Error) -> bool:
    """Whether a connection that was refused may be had a little later; a wrong password stays wrong."""
    said = str(fault)
    return away(fault) and not any(words in said for words in _HOPELESS)


def explained(fault: BaseException, shown: str, *, doing: str = "nothing was recorded") -> JournalError:
    """Return the error to raise in place of ``fault``, which is its cause."""
    if isinstance(fault, psycopg.Error):
        words = _words(fault)
        said = str(fault).strip().splitlines()
        error = JournalError(f"the journal {shown}: {doing}; {words} (PostgreSQL: {said[0] if said else 'no answer'})")
    else:
        error = JournalError(f"the journal {shown}: {doing}; others kept changing the same calls: perform again")
    error.__cause__ = fault
    return error


def _words(fault: psycopg.Error) -> str:
    said = str(fault)
    if "row-level security" in said:
        return "row-level security hides records from this user: take it off the journal's tables, or let it BYPASSRLS"
    if fault.sqlstate is None and "password" in said:  # refused while connecting: libpq gives no code
        return _WORDS["28P01"]
    if fault.sqlstate is None and "does not exist" in said and "database" in said:
        return _WORDS["3D000"]
    if fault.sqlstate is None and ("too many clients" in said or "remaining connection slots" in said):
        return _WORDS["53300"]
    if fault.sqlstate is None and any(words in said for words in _NOT_THIS_USER):
        return _WORDS["28000"]
    if fault.sqlstate == _UNSUPPORTED and "during recovery" in said:  # what a standby says to BEGIN READ WRITE
        return _WORDS["25006"]
    if fault.sqlstate in _WORDS:
        return _WORDS[str(fault.sqlstate)]
    return (
        "the server cannot be reached: check that it runs, and host and port" if away(fault) else "PostgreSQL refused"
    )

"""psycopg 3, sync and async: how far a transaction's COMMIT came, or a statement that commits by itself.

What a transaction has done is nothing until its COMMIT: so the request that is taken down is the COMMIT, from the first
BEGIN on. One that never left has changed nothing, whichever statement's answer was lost before. Inside a transaction
that was begun outside of the attempt nothing is taken down: whoever began it decides. What changes something past any
transaction (a sequence, ``dblink``) is not seen.
"""

from __future__ import annotations

import re
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from settled.core.faults.postgres import commits_within
from settled.core.model import Phase
from settled.errors import AttemptLeft
from settled.transports.watching import Patches, Watch, target, wire

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from settled.recorder import Request

_READING: Final = re.compile(r"(select|show|values|table)\b", re.IGNORECASE)
_COMMENT: Final = re.compile(r"--[^\n]*\n?|/\*.*?\*/|^[\s(]+", re.DOTALL)
_CALLED: Final = re.compile(r"([a-z_][\w.]*)\s*\(", re.IGNORECASE)
_HARMLESS: Final = frozenset(
    {
        *("all", "and", "any", "as", "avg", "by", "cast", "coalesce", "count", "exists", "extract", "from"),
        *("in", "join", "length", "lower", "max", "min", "not", "now", "on", "or", "over", "select", "sum"),
        *("union", "upper", "using", "values", "when", "where", "with"),
    }
)
"""What may stand before a bracket in a query that changes nothing."""
_COMMITS: Final = re.compile(r"(commit|end|prepare\s+transaction)\b", re.IGNORECASE)
_BEGINS: Final = re.compile(r"(begin|start\s+transaction)\b", re.IGNORECASE)
_ENDS: Final = re.compile(r"(rollback|abort)\b(?!\s+(work\s+|transaction\s+)?to\b)", re.IGNORECASE)


def install(connection: object | None = None) -> None:
    """Watch one connection, or all of this process. Raises ``ImportError`` without psycopg."""
    _watch.install(connection)


def uninstall(connection: object | None = None) -> None:
    """Watch one connection no more, or none at all."""
    _watch.uninstall(connection)


def _patch(patches: Patches) -> None:
    connection = import_module("psycopg._connection_base").BaseConnection
    cursor = import_module("psycopg._cursor_base").BaseCursor
    patches.wrap(import_module("psycopg.connection").Connection, "wait", _wait)
    patches.wrap(import_module("psycopg.connection_async").AsyncConnection, "wait", _await)
    patches.wrap(connection, "_exec_command", _command)
    names = ("_execute_gen", "_executemany_gen_pipeline", "_executemany_gen_no_pipeline")
    for name in (*names, "_stream_send_gen", "_start_copy_gen"):
        patches.wrap(cursor, name, _statement)


_watch: Final = Watch(_patch)


def _on(connection: Any) -> bool:
    return not getattr(connection, "of_journal", False) and _watch.on(connection)


def _open(connection: Any) -> Request | None:
    """Return the transaction that was begun here, in this attempt or in one that has left it open."""
    found: Request | None = vars(connection).get("settled")
    return found


# --- waiting: all that goes wrong comes by here -------------------------------------------


def _wait(original: Callable[..., Any]) -> Callable[..., Any]:
    def wait(connection: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(connection, *args, **kwargs)
        except BaseException as error:
            _trouble(connection, error)
            raise

    return wait


def _await(original: Callable[..., Any]) -> Callable[..., Any]:
    async def wait(connection: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await original(connection, *args, **kwargs)
        except BaseException as error:
            _trouble(connection, error)
            raise

    return wait


def _trouble(connection: Any, error: BaseException) -> None:
    """Note what a transaction met on its way: it does not end it."""
    seen = _open(connection)
    if seen is not None:
        seen.troubled(error)


# --- the connection's own commands --------------------------------------------------------


def _command(original: Callable[..., Any]) -> Callable[..., Any]:
    def exec_command(connection: Any, command: Any, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _through(connection, command, original(connection, command, *args, **kwargs)))

    return exec_command


def _through(connection: Any, command: Any, sending: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Send what begins or ends a transaction; anything else as it is."""
    text, seen = _text(command, connection), _open(connection)
    if seen is None:
        if _BEGINS.match(text) and _on(connection) and _idle(connection):
            _begin(connection)
        return (yield from sending)
    if _COMMITS.match(text) and not _failed(connection):
        return (yield from _committed(connection, seen, sending))
    result = yield from sending
    if _ENDS.match(text) or _COMMITS.match(text):  # of what has failed a COMMIT is a rollback
        _over(connection, seen)
    return result


def _begin(connection: Any) -> None:
    recorder = wire()
    if recorder is not None:  # reading, until something is changed
        vars(connection)["settled"] = recorder.begin("GET", _target(connection, "COMMIT"))


def _over(connection: Any, seen: Request) -> None:
    vars(connection).pop("settled", None)
    seen.close()


def _committed(connection: Any, seen: Request, sending: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    try:
        seen.sending(Phase.NOT_SENT)
        return (yield from _watched(connection, seen, sending))
    except AttemptLeft:  # it would stay open, with its locks
        sending.close()
        with suppress(Exception):
            yield from connection._exec_command(b"ROLLBACK")  # noqa: SLF001 - as psycopg itself does
        raise
    finally:
        _over(connection, seen)


def _watched(connection: Any, seen: Request, sending: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Send, and take down how far it came. An error with a SQLSTATE is the server's answer."""
    if connection._pipeline is not None:  # noqa: SLF001 - it is sent, and answered, later than anybody here sees
        seen.phase = Phase.UNSEEN
    try:
        result = yield from _stepped(sending, seen)
    except BaseException as error:
        if getattr(error, "sqlstate", None) is not None:
            seen.replied()
        seen.failed(error)
        raise
    if connection._pipeline is None:  # noqa: SLF001 - same
        seen.replied()
    return result


def _stepped(sending: Generator[Any, Any, Any], seen: Request) -> Generator[Any, Any, Any]:
    """Go on with a generator of psycopg's; once it waits for the first time, bytes may have left."""
    try:
        wish = next(sending)
        while True:
            if seen.phase is Phase.NOT_SENT:
                seen.sent()
            try:
                ready = yield wish
            except BaseException as error:  # noqa: BLE001 - it is the generator's to handle
                wish = sending.throw(error)
            else:
                wish = sending.send(ready)
    except StopIteration as stop:
        return stop.value


# --- statements ---------------------------------------------------------------------------


def _statement(original: Callable[..., Any]) -> Callable[..., Any]:
    def execute(cursor: Any, query: Any, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        connection, sending = cursor.connection, original(cursor, query, *args, **kwargs)
        if _open(connection) is None and not _on(connection):
            return (yield from sending)
        text = _text(query, connection)
        if _BEGINS.match(text) or _COMMITS.match(text) or _ENDS.match(text):
            return (yield from _through(connection, query, sending))
        if connection.autocommit and _idle(connection):
            return (yield from _alone(connection, text, sending))
        return (yield from _within(connection, text, sending))

    return execute


def _alone(connection: Any, text: str, sending: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Execute a statement that commits by itself."""
    recorder = wire()
    if recorder is None:
        return (yield from sending)
    verb = (re.match(r"\w*", text) or [""])[0].upper()
    seen = recorder.begin("GET" if _reads(text) else verb or "QUERY", _target(connection, verb))
    seen.sending(Phase.NOT_SENT)
    result = yield from _watched(connection, seen, sending)
    seen.close()
    return result


def _within(connection: Any, text: str, sending: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Execute a statement of a transaction; its first one begins it on the way."""
    try:
        return (yield from sending)
    finally:
        seen = _open(connection)
        if seen is not None and not _reads(text):
            seen.method = "COMMIT"
            if commits_within(text):
                seen.sent()


# --- what is looked at --------------------------------------------------------------------


def _text(query: Any, connection: Any) -> str:
    """Return a query's text, from its first word on; empty where it cannot be told."""
    try:
        made = query.as_bytes(connection) if hasattr(query, "as_bytes") else query
        words = made.decode("utf-8", "replace") if isinstance(made, bytes) else str(made)
    except Exception:  # noqa: BLE001 - psycopg will say what is wrong with it
        return ""
    while (shorter := _COMMENT.sub("", words, count=1)) != words and _COMMENT.match(words):
        words = shorter
    return words


def _reads(text: str) -> bool:
    """Whether a statement changes nothing: it calls no function that could."""
    if not _READING.match(text) or ";" in text.rstrip("; \n") or re.search(r"\binto\b", text, re.IGNORECASE):
        return False
    return all(name.lower() in _HARMLESS for name in _CALLED.findall(text))


def _idle(connection: Any) -> bool:
    return int(connection.pgconn.transaction_status) == 0


def _failed(connection: Any) -> bool:
    return int(connection.pgconn.transaction_status) == 3  # noqa: PLR2004 - libpq's PQTRANS_INERROR


def _target(connection: Any, verb: str) -> str:
    info = connection.info
    host = "local" if info.host.startswith(("/", "@")) else info.host
    return target("postgresql", host, info.port, f"/{info.dbname}/{verb}")


__all__ = ["install", "uninstall"]

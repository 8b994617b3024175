"""redis-py, sync and async: how far each command came, and none of the client's own repeats.

A pipeline is one request. Commands of publish/subscribe, and those of a cluster's client, are not taken down.
"""

from __future__ import annotations

import copy
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from settled.transports.watching import Patches, Watch, target, wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from settled.recorder import Request

_READS: Final = frozenset(
    {
        *("BITCOUNT", "BITPOS", "DBSIZE", "DUMP", "ECHO", "EXISTS", "GET", "GETBIT", "GETRANGE", "HEXISTS"),
        *("HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HVALS", "INFO", "KEYS", "LINDEX", "LLEN", "LRANGE"),
        *("MGET", "PING", "PTTL", "SCAN", "SCARD", "SISMEMBER", "SMEMBERS", "STRLEN", "TIME", "TTL"),
        *("TYPE", "WATCH", "UNWATCH", "XLEN", "XRANGE", "ZCARD", "ZCOUNT", "ZRANGE", "ZRANK", "ZSCORE"),
    }
)
_under_way: ContextVar[Request | None] = ContextVar("settled_redis_under_way", default=None)
"""The command that is being made; ``None``: what is sent is the client's own (its greeting, its look at health)."""


def install(client: object | None = None) -> None:
    """Watch one client, or all of this process. Raises ``ImportError`` without redis."""
    _watch.install(client)


def uninstall(client: object | None = None) -> None:
    """Watch one client no more, or none at all."""
    _watch.uninstall(client)


def _patch(patches: Patches) -> None:
    for place, command, pipeline, retry, send in (
        ("redis", _command, _pipeline, _once, _send),
        ("redis.asyncio", _acommand, _apipeline, _aonce, _asend),
    ):
        client, connection = import_module(f"{place}.client"), import_module(f"{place}.connection")
        patches.wrap(client.Redis, "execute_command", command)
        patches.wrap(client.Pipeline, "immediate_execute_command", command)
        patches.wrap(client.Pipeline, "execute", pipeline)
        patches.wrap(import_module(f"{place}.retry").Retry, "call_with_retry", retry)
        base = getattr(connection, "AbstractConnection", connection.Connection)
        patches.wrap(base, "send_packed_command", send)


_watch: Final = Watch(_patch)


# --- clients ------------------------------------------------------------------------------


def _begun(client: Any, names: list[str]) -> Request | None:
    """Take down a command, or a pipeline of some, that is about to be made."""
    made_by = client.connection_pool
    recorder = wire() if _watch.on(client) or _watch.on(made_by) else None
    if recorder is None or not names:
        return None
    options = made_by.connection_kwargs
    reads = all(name in _READS for name in names)
    place = target(
        "redis", options.get("host") or "local", options.get("port"), f"/{options.get('db') or 0}/{names[0]}"
    )
    return recorder.begin("GET" if reads else names[0], place)


@contextmanager
def _taken_down(seen: Request) -> Iterator[None]:
    token = _under_way.set(seen)
    try:
        yield
    except BaseException as error:
        if _answer(error):
            seen.replied()
        seen.failed(error)
        raise
    finally:
        _under_way.reset(token)
    seen.replied()
    seen.close()


def _answer(error: BaseException) -> bool:
    """Whether the server has answered. Of how many commands of a pipeline that speaks is read from the error."""
    errors = import_module("redis.exceptions")
    return isinstance(error, (errors.ResponseError, errors.BusyLoadingError, errors.ExecAbortError, errors.WatchError))


def _names(args: tuple[Any, ...]) -> list[str]:
    name = args[0] if args else ""
    return [(name.decode() if isinstance(name, bytes) else str(name)).split(" ", maxsplit=1)[0].upper()]


def _queued(pipeline: Any) -> list[str]:
    return [name for args, _ in pipeline.command_stack for name in _names(args)]


def _command(original: Callable[..., Any]) -> Callable[..., Any]:
    def execute_command(client: Any, *args: Any, **options: Any) -> Any:
        seen = _begun(client, _names(args))
        if seen is None:
            return original(client, *args, **options)
        with _taken_down(seen):
            return original(client, *args, **options)

    return execute_command


def _pipeline(original: Callable[..., Any]) -> Callable[..., Any]:
    def execute(pipeline: Any, *args: Any, **kwargs: Any) -> Any:
        seen = _begun(pipeline, _queued(pipeline))
        if seen is None:
            return original(pipeline, *args, **kwargs)
        with _taken_down(seen):
            return original(pipeline, *args, **kwargs)

    return execute


def _acommand(original: Callable[..., Any]) -> Callable[..., Any]:
    async def execute_command(client: Any, *args: Any, **options: Any) -> Any:
        seen = _begun(client, _names(args))
        if seen is None:
            return await original(client, *args, **options)
        with _taken_down(seen):
            return await original(client, *args, **options)

    return execute_command


def _apipeline(original: Callable[..., Any]) -> Callable[..., Any]:
    async def execute(pipeline: Any, *args: Any, **kwargs: Any) -> Any:
        seen = _begun(pipeline, _queued(pipeline))
        if seen is None:
            return await original(pipeline, *args, **kwargs)
        with _taken_down(seen):
            return await original(pipeline, *args, **kwargs)

    return execute


# --- connections --------------------------------------------------------------------------


def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    def send_packed_command(connection: Any, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 - theirs
        seen = _under_way.get()
        if seen is None:
            original(connection, command, check_health)
            return
        token = _under_way.set(None)  # what it sends to greet the server is not the command
        try:
            if connection._sock is None:  # noqa: SLF001 - as its own code asks
                connection.connect()
            if check_health:
                connection.check_health()
            seen.sending()
            original(connection, command, check_health=False)
            seen.sent(written=True)
        finally:
            _under_way.reset(token)

    return send_packed_command


def _asend(original: Callable[..., Any]) -> Callable[..., Any]:
    async def send_packed_command(connection: Any, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 - theirs
        seen = _under_way.get()
        if seen is None:
            await original(connection, command, check_health)
            return
        token = _under_way.set(None)
        try:
            if not connection.is_connected:
                await connection.connect()
            if check_health:
                await connection.check_health()
            seen.sending()
            await original(connection, command, check_health=False)
            seen.sent(written=True)
        finally:
            _under_way.reset(token)

    return send_packed_command


def _once(original: Callable[..., Any]) -> Callable[..., Any]:
    def call_with_retry(retry: Any, *args: Any, **kwargs: Any) -> Any:
        return original(retry if _under_way.get() is None else _without_repeats(retry), *args, **kwargs)

    return call_with_retry


def _aonce(original: Callable[..., Any]) -> Callable[..., Any]:
    async def call_with_retry(retry: Any, *args: Any, **kwargs: Any) -> Any:
        return await original(retry if _under_way.get() is None else _without_repeats(retry), *args, **kwargs)

    return call_with_retry


def _without_repeats(retry: Any) -> Any:
    once = copy.copy(retry)
    once._retries = 0  # noqa: SLF001 - older releases have no way to set it
    return once


__all__ = ["install", "uninstall"]

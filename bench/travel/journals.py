"""The journals that the trips can be made on: a file, or a server of its own that is stopped in the end."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = ("sqlite", "postgresql", "redis")


@contextmanager
def journal(kind: str, folder: Path) -> Iterator[str]:
    """Yield the address of a fresh journal."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'agent.db'}"
    elif kind == "postgresql":
        from tests.servers.postgres import PostgresServer

        with PostgresServer(max_connections="300", shared_buffers="128MB") as server:
            yield server.url()
    else:
        from tests.servers.redis import RedisServer

        with RedisServer() as server:
            yield server.url(db=0)

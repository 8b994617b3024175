"""A journal on PostgreSQL with many finished records in it, made in minutes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bench import kit
from bench.makers import pay
from bench.postgres_cases import guard_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def database(server: Any, name: str) -> str:
    """Create a database; return its address."""
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return str(server.url()).replace("/postgres?", f"/{name}?")


def filled(server: Any, records: int) -> tuple[str, int]:
    """Create a database with a journal of finished records; return its address and its size in bytes."""
    import psycopg

    url = database(server, "bench_full")
    with guard_of(url) as guard:
        guard.tool(effect="write", name="pay")(pay)(number=-1)
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("search_path = settled", "synchronous_commit = off", "maintenance_work_mem = '1GB'"):
            connection.execute(f"SET {setting}")
        for table in ("calls", "log"):
            with _without_indexes(connection, table):
                _multiply(connection, table, records)
        kit.progress("vacuum")
        connection.execute("VACUUM (FREEZE, ANALYZE)")
        connection.execute("CHECKPOINT")
        row: Any = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return url, int(row[0])


@contextmanager
def _without_indexes(connection: Any, table: str) -> Iterator[None]:
    """Within this a table has none, so that it fills in minutes; after it they are as before."""
    keys = connection.execute(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass AND contype IN "
        "('p', 'u')",
        (table,),
    ).fetchall()
    for name, _ in keys:
        connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    indexes = connection.execute("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %s", (table,)).fetchall()
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    yield
    for name, made in keys:
        kit.progress(f"index {name}")
        connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {made}")
    for name, made in indexes:
        kit.progress(f"index {name}")
        connection.execute(made)


def _multiply(connection: Any, table: str, records: int) -> None:
    """Put copies of the rows of the one finished record into a table, by the server itself."""
    names = [
        name
        for (name,) in connection.execute(
            "SELECT column_name::text FROM information_schema.columns WHERE table_schema = 'settled' "
            "AND table_name = %s AND is_identity = 'NO' ORDER BY ordinal_position",
            (table,),
        )
    ]
    own = {"operation_id": "'op_' || md5(i::text) || operation_id", "key": "'pay:' || md5(i::text)"}
    values = ", ".join(own.get(name, name) for name in names)
    connection.execute(f"CREATE TEMP TABLE one AS SELECT * FROM {table}")  # noqa: S608 - a table of the journal
    for first in range(0, records, 500_000):
        kit.progress(f"{first:,} of {records:,} records in {table}")
        last = min(records, first + 500_000) - 1
        connection.execute(
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} "  # noqa: S608 - the journal's own columns
            f"FROM generate_series({first}, {last}) AS i, one"
        )
    connection.execute("DROP TABLE one")

"""Statements that commit on their way, against a real PostgreSQL: their error speaks of what came after."""

import asyncio

import psycopg
import pytest
from psycopg import sql

from settled import transports

PROCEDURE = """
CREATE PROCEDURE book() LANGUAGE plpgsql AS $$
BEGIN INSERT INTO booked VALUES (1); COMMIT; INSERT INTO booked VALUES (1); END $$
"""
BLOCK = "DO $$ BEGIN INSERT INTO booked VALUES (1); COMMIT; RAISE EXCEPTION 'no'; END $$"
HALVES = "INSERT INTO booked VALUES (1); COMMIT; INSERT INTO booked VALUES (1)"


@pytest.fixture
def url(postgres):
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS booked")
        connection.execute("DROP PROCEDURE IF EXISTS book")
        connection.execute("CREATE TABLE booked (n int UNIQUE)")
        connection.execute(PROCEDURE)
        yield postgres.url()


def rows(url):
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT count(*) FROM booked").fetchone()[0]


def by_itself(url, words):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(words)


def by_cursor(url, words):
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(words)


def in_transaction(url, words):
    with psycopg.connect(url) as connection:
        connection.execute(words)


async def _async(url, words):
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(words)


def in_async(url, words):
    asyncio.run(_async(url, words))


@pytest.fixture(params=[False, True], ids=["", "watched"])
def watched(request):
    if request.param:
        transports.install()


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize(
    ("way", "words", "done"),
    [
        (by_itself, "CALL book()", 1),
        (by_cursor, "-- books\n/* twice */ call book()", 1),
        (by_cursor, sql.SQL("CALL book()"), 1),
        (by_itself, b"CALL book()", 1),
        (in_async, "CALL book()", 1),
        (by_itself, BLOCK, 1),
        (by_itself, HALVES, 1),
        (in_transaction, HALVES, 1),
        (by_itself, "INSERT INTO booked VALUES (1), (1)", 0),
        (in_transaction, "CALL no_such_procedure()", 0),
        (in_transaction, "DO $$ BEGIN RAISE EXCEPTION 'no'; END $$", 0),
    ],
)
def test_an_error_after_a_commit_says_nothing_of_what_was_committed(url, guard, way, words, done):
    @guard.tool(effect="write", breaker=None)
    def book() -> None:
        way(url, words)

    assert (book.call().status, rows(url)) == ("unknown" if done else "failed", done)

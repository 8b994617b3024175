"""The shop's own books: one row for each effect, on disk before the answer leaves. They are the truth of the demo."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from settled.demo.shop import KEY_RETENTION

if TYPE_CHECKING:
    from pathlib import Path

TIERS = ("bronze", "silver", "gold")
CUSTOMERS = 40
_MARK = re.compile(r"\[(M\d{4,})\]")
_SCHEMA = """
create table effects (id integer primary key, route text not null, mark text not null, body text not null,
                      idempotency_key text, reference text, at real not null);
create index effects_reference on effects (route, reference);
create table answers (route text not null, idempotency_key text not null, request text not null,
                      effect integer not null, at real not null, primary key (route, idempotency_key));
create table customers (customer text primary key, tier text not null);
"""


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that the shop did. ``mark`` names the intention behind it, which no agent ever compares."""

    id: int
    mark: str


def mark_in(text: str) -> str:
    """Return the mark of the intention in a text; empty if there is none."""
    found = _MARK.search(text)
    return found[1] if found else ""


def tier_of(customer: int) -> str:
    """Return what the books say of a customer from the start."""
    return TIERS[customer * 7 % len(TIERS)]


class Books:
    """The books, in one SQLite file. Thread-safe."""

    def __init__(self, path: Path) -> None:
        fresh = not path.exists()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._lock = threading.Lock()
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = full")
        if fresh:
            self._db.executescript(_SCHEMA)
            rows = [(f"C{n:03}", tier_of(n)) for n in range(CUSTOMERS)]
            self._db.executemany("insert into customers values (?, ?)", rows)

    def enter(self, route: str, body: dict[str, Any], key: str | None = None) -> int:
        """Enter an effect, with the answer kept for its key; return its number once it is on disk."""
        text = json.dumps(body, sort_keys=True)
        reference, now = body.get("reference"), time.time()
        with self._lock:
            self._db.execute("begin immediate")
            cursor = self._db.execute(
                "insert into effects (route, mark, body, idempotency_key, reference, at) values (?, ?, ?, ?, ?, ?)",
                (route, mark_in(text), text, key, reference, now),
            )
            if key is not None:
                self._db.execute(
                    "insert or replace into answers values (?, ?, ?, ?, ?)", (route, key, text, cursor.lastrowid, now)
                )
            self._db.execute("commit")
        return int(cursor.lastrowid or 0)

    def answered(self, route: str, key: str) -> tuple[int, str] | None:
        """Return the effect and the request that a key stands for, while it is remembered."""
        with self._lock:
            row = self._db.execute(
                "select effect, request from answers where route = ? and idempotency_key = ? and at > ?",
                (route, key, time.time() - KEY_RETENTION),
            ).fetchone()
        return None if row is None else (row[0], row[1])

    def referring(self, route: str, reference: str) -> list[int]:
        """Return the effects that bear a reference."""
        with self._lock:
            rows = self._db.execute(
                "select id from effects where route = ? and reference = ?", (route, reference)
            ).fetchall()
        return [row[0] for row in rows]

    def tier(self, customer: str) -> str | None:
        """Return a customer's tier."""
        with self._lock:
            row = self._db.execute("select tier from customers where customer = ?", (customer,)).fetchone()
        return None if row is None else str(row[0])

    def effects(self) -> list[Effect]:
        """Return all effects, oldest first."""
        with self._lock:
            rows = self._db.execute("select id, mark from effects order by id").fetchall()
        return [Effect(*row) for row in rows]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

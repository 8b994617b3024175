"""From a journal's address to a journal, with its spill file."""

from __future__ import annotations

import inspect
import os
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from settled import host
from settled.api import secrets
from settled.core.encoding.loosening import nearest
from settled.errors import DeclarationError, JournalError, MissingExtra
from settled.journals.memory import MemoryJournal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from settled.core.doubt.late import Evidence
    from settled.ports import Journal, SpillFile

VARIABLE = "SETTLED_JOURNAL"
_POSTGRES = ("postgresql", "postgres")
_REDIS = ("redis", "rediss", "valkey", "valkeys", "unix")
_ADDRESSES = "sqlite:///agent.db (relative), sqlite:////abs.db, postgresql://user@host/database, redis://host:6379/0 or memory://"
_existing_only: ContextVar[bool] = ContextVar("settled_existing_only", default=False)


@contextmanager
def existing_only() -> Iterator[None]:
    """Within this, no journal is created, whatever a guard says: who comes to look must find what others made."""
    token = _existing_only.set(True)
    try:
        yield
    finally:
        _existing_only.reset(token)


class MemorySpill:
    """Spilled evidence of a journal that lives in memory."""

    def __init__(self) -> None:
        self._kept: list[Evidence] = []

    def keep(self, evidence: Evidence) -> None:
        """Keep it."""
        self._kept.append(evidence)

    def drain(self, take: Callable[[Evidence], None]) -> int:
        """Hand over what is kept."""
        kept, self._kept = self._kept, []
        for done, evidence in enumerate(kept):
            try:
                take(evidence)
            except Exception:
                self._kept = kept[done:] + self._kept
                raise
        return len(kept)


def _check(options: Iterable[str], journal: Callable[..., object]) -> None:
    """Refuse an option that this kind of journal has not, or that is a misspelt one of the guard."""
    known = _keywords(journal)
    for name in options:
        if name not in known:
            from settled.api.guard import Guard  # noqa: PLC0415 - it imports this

            kind, named = getattr(journal, "__name__", "journal"), dict.fromkeys((*_keywords(Guard), *known))
            raise DeclarationError(f"neither Guard nor its {kind} has an option {name!r}{nearest(name, named)}")


def _keywords(function: Callable[..., object]) -> list[str]:
    return [each.name for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]


def _open_sqlite(url: str, **options: Any) -> tuple[Journal, SpillFile]:
    from settled.journals.sqlite import SqliteJournal, open_sqlite  # noqa: PLC0415 - sqlite3 is loaded when it is used

    _check(options, SqliteJournal)
    options |= {"must_exist": True} if _existing_only.get() else {}
    try:
        return open_sqlite(url, **options)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"{url!r} cannot be opened as declared: {error}") from error


def _open_postgres(url: str, **options: Any) -> tuple[Journal, SpillFile]:
    try:
        from settled.journals.postgres import PostgresJournal, open_postgres  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra(
            f"a journal in PostgreSQL needs psycopg, which cannot be loaded ({error}): "
            "install it with `pip install 'settled[postgres]'`"
        ) from error

    _check(options, PostgresJournal)
    options |= {"must_exist": True} if _existing_only.get() else {}
    try:
        return open_postgres(url, **options)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"the journal cannot be opened as declared: {error}") from error


def _open_redis(url: str, **options: Any) -> tuple[Journal, SpillFile]:
    try:
        from settled.journals.redis import RedisJournal, open_redis  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra(
            f"a journal in Redis or Valkey needs redis-py, which cannot be loaded ({error}): "
            "install it with `pip install 'settled[redis]'`"
        ) from error

    _check(options, RedisJournal)
    options |= {"must_exist": True} if _existing_only.get() else {}
    try:
        return open_redis(url, **options)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"the journal cannot be opened as declared: {error}") from error


def open_journal(address: str | None, **options: Any) -> tuple[Journal, SpillFile]:
    """Open the journal at ``address``, or at the one that the environment names."""
    url = address or os.environ.get(VARIABLE)
    if not url:
        raise DeclarationError(f"no journal: give Guard('sqlite:///agent.db') an address, or set {VARIABLE}")
    scheme = url.partition(":")[0]
    for name in ("journal_id", "must_exist"):  # where the guard says nothing of these, the address is heeded
        if not options.get(name):
            options.pop(name, None)
    if scheme == "memory":
        _check(options.keys() - {"journal_id", "must_exist"}, MemoryJournal)
        return MemoryJournal(host.now), MemorySpill()
    if scheme == "sqlite":
        return _open_sqlite(url, **options)
    if scheme in _POSTGRES:
        return _open_postgres(url, **options)
    if scheme in _REDIS:
        return _open_redis(url, **options)
    raise DeclarationError(f"{secrets.clean(url.partition('?')[0])!r} is no journal's address: write {_ADDRESSES}")


def shown(url: str, like: str = "") -> str:
    """Return an address as its journal shows it, so that two can be compared: without password, with its defaults.

    Where it names no schema or prefix, it has that of the address ``like``.
    """
    scheme = url.partition(":")[0]
    try:
        if scheme in _POSTGRES:
            from settled.journals.postgres.address import read_address  # noqa: PLC0415 - an extra

            return read_address(url, _option("schema", url, like))[0].shown
        if scheme in _REDIS:
            from settled.journals.redis.address import read_address as read_redis  # noqa: PLC0415 - an extra

            return read_redis(url, _option("prefix", url, like))[0].shown
    except (ImportError, JournalError):
        pass
    return url


def _option(name: str, url: str, like: str) -> str | None:
    """Return an option that stands in an address, or else in the other one."""
    asked, other = (dict(parse_qsl(each.partition("?")[2])).get(name) for each in (url, like))
    return asked or other


def refusal(journal: Journal, effect: str) -> str:
    """Return why a journal takes no tools of this effect; empty if it does. Most say nothing and take all."""
    refuses: Callable[[str], str] | None = getattr(journal, "refuses", None)
    return "" if refuses is None else refuses(effect)


def opened(journal: str | Journal | None, **options: Any) -> tuple[Journal, SpillFile]:
    """Return the journal that a guard was given, or the one at its address; and where its evidence is spilled."""
    if journal is None or isinstance(journal, str):
        return open_journal(journal, **options)
    given = sorted(name for name, value in options.items() if value)
    if given:
        raise DeclarationError(f"{', '.join(given)}: give this to the journal itself, since it is open already")
    return journal, getattr(journal, "spill", None) or MemorySpill()

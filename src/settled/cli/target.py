"""What a command works on: the journal it was given, or the guard of an app with its journal, tools and key."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from settled.api.guard import Guard
from settled.api.opening import VARIABLE, shown
from settled.api.people.queue import find
from settled.cli.exits import Exit, Problem
from settled.cli.loading import load_guard
from settled.cli.words import without_passwords
from settled.core.call import Call
from settled.errors import DeclarationError, MissingExtra
from settled.ports import Journal

APP_VARIABLE = "SETTLED_APP"


@dataclass(frozen=True, slots=True)
class Given:
    """Which journal and app the command line (or the environment) names."""

    journal: str | None
    app: str | None

    def options(self) -> str:
        """Return the options to repeat in a further command: those that the environment does not give."""
        pairs = (("--journal", self.journal, VARIABLE), ("--app", self.app, APP_VARIABLE))
        words = [
            f" {name} {shlex.quote(without_passwords(value))}"
            for name, value, variable in pairs
            if value and os.environ.get(variable) != value
        ]
        return "".join(words)

    def app_wanted(self) -> str:
        """Return the option to fill in for a further command that needs an app, where none was named."""
        return "" if self.app else " --app MODULE:GUARD"


@dataclass(frozen=True, slots=True)
class Target:
    """An open journal, and the guard around it; without an app the guard knows no tools."""

    guard: Guard
    given: Given

    @property
    def journal(self) -> Journal:
        """The journal."""
        found: Journal = self.guard.journal
        return found

    def call(self, name: str) -> Call:
        """Return the call with this operation id or key."""
        found = find(self.journal, name)
        if found is None:
            raise Problem(Exit.NOT_FOUND, f"no call in {self.journal.url} has the operation id or key {name!r}")
        return found


@contextmanager
def opened(given: Given, *, tools: str = "") -> Iterator[Target]:
    """Open what the command line names. ``tools``: for what the command needs an app's tools, if it does."""
    if given.app is None and tools:
        raise Problem(Exit.USAGE, f"{tools}: name the app with --app module:guard, or set {APP_VARIABLE}")
    with _guard_of(given) as guard:
        yield Target(guard, given)


def _guard_of(given: Given) -> Guard:
    if given.app is None:
        return _bare_guard(given.journal)
    with _environment(given.journal):
        guard = load_guard(given.app)
    if given.journal is not None and _place(given.journal, guard.journal.url) != _place(guard.journal.url):
        guard.close()
        raise Problem(
            Exit.USAGE,
            f"the guard of {given.app} uses the journal {guard.journal.url}, and --journal (or {VARIABLE}) says "
            f"{without_passwords(given.journal)}: leave one out",
        )
    return guard


@contextmanager
def _environment(url: str | None) -> Iterator[None]:
    """Name the journal in the environment, for an app whose guard is told by it: only while the app is loaded."""
    before = os.environ.get(VARIABLE)
    try:
        if url is not None:
            os.environ[VARIABLE] = url
        yield
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before


def _bare_guard(url: str | None) -> Guard:
    if not url:
        raise Problem(Exit.USAGE, f"which journal? Give --journal sqlite:///agent.db, or set {VARIABLE}")
    if url.startswith("memory:"):
        raise Problem(
            Exit.JOURNAL, "a journal in memory lives and dies with its process: there is nothing to open here"
        )
    path = sqlite_path(url)
    if path is not None and not _was_there(path):
        raise Problem(
            Exit.JOURNAL,
            f"there is no journal at {path.resolve()}: check the address. A journal is created by the program whose "
            "calls it records, never from here",
        )
    try:
        return Guard(url, must_exist=True)
    except MissingExtra as error:
        raise Problem(Exit.LOADING, str(error)) from error
    except DeclarationError as error:
        raise Problem(Exit.USAGE, str(error)) from error


def _was_there(path: Path) -> bool:
    """Whether there is a journal, or the mark that one has left: what then is missing, the journal itself tells."""
    try:
        return path.exists() or Path(f"{path.resolve()}-mark").exists()
    except (OSError, ValueError):  # a name that no file can have, a folder that cannot be looked into
        return True


def sqlite_path(url: str) -> Path | None:
    """Return the file of an SQLite address; ``None`` for another journal's."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    is_file = parts.scheme == "sqlite" and len(parts.path) > 1 and not (parts.netloc or parts.fragment)
    return Path(unquote(parts.path[1:])) if is_file else None


def _place(url: str, like: str = "") -> str:
    path = sqlite_path(url)
    return shown(url, like) if path is None else str(path.resolve())


def file_of(given: Given) -> Path:
    """Return the file of the journal that is named, for what is done to a file and not to an open journal."""
    if given.journal is None:
        raise Problem(Exit.USAGE, f"which journal? Give --journal sqlite:///agent.db, or set {VARIABLE}")
    path = sqlite_path(given.journal)
    if path is None:
        raise Problem(Exit.USAGE, f"{given.journal!r} is no SQLite file: write sqlite:///agent.db")
    return path

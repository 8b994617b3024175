"""What all hooks share: which clients are watched, what was patched for it, and what goes on record of a request."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from settled.core.faults.exchanges import READING
from settled.current import current
from settled.recorder import hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, MutableMapping

    from settled.recorder import Recorder, Request

KEY_HEADER: Final = "Idempotency-Key"

_TOKEN = re.compile(r"(?=[^/]*[a-z])(?=[^/]*[A-Z])(?=[^/]*\d)[\w:.~=+-]{20,}|[\w-]{0,12}\d{6,}:[\w-]{10,}", re.ASCII)
"""A part of a path that looks like a credential (as those of chat bots and web hooks), and not like an id."""


class Watch:
    """Which clients of a library are watched. ``patch`` prepares the library when the first one is."""

    def __init__(self, patch: Callable[[Patches], None], *, beneath: Watch | None = None) -> None:
        self._patch, self._beneath = patch, beneath
        self._patches: Patches | None = None
        self._all = False
        self._clients: WeakSet[Any] = WeakSet()
        self._above: set[Watch] = set()
        """Watches that need this one's patches."""

    def install(self, client: object | None = None) -> None:
        """Watch one client, or all of them. Harmless when repeated."""
        if client is None:
            self._all = True
        else:
            self._clients.add(client)
        self._begin()

    def uninstall(self, client: object | None = None) -> None:
        """Watch one client no more, or none at all. Harmless when repeated."""
        if client is None:
            self._all = False
            self._clients.clear()
        else:
            self._clients.discard(client)
        self._end()

    def _begin(self) -> None:
        if self._patches is not None:
            return
        self._patches = patches = Patches()
        hooks.live += 1
        try:
            self._patch(patches)
            if self._beneath is not None:
                self._beneath._above.add(self)  # noqa: SLF001 - the same class
                self._beneath._begin()  # noqa: SLF001 - same
        except BaseException:
            self.uninstall()
            raise

    def _end(self) -> None:
        if self._patches is None or self._all or self._clients or self._above:
            return
        self._patches.undo()
        self._patches = None
        hooks.live -= 1
        if self._beneath is not None:
            self._beneath._above.discard(self)  # noqa: SLF001 - the same class
            self._beneath._end()  # noqa: SLF001 - same

    def on(self, client: object) -> bool:
        """Whether this client is watched here and now, inside of a guarded call."""
        return current.get() is not None and (self._all or client in self._clients)


class Patches:
    """Functions of a library that were wrapped, to be put back in reverse order."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any, Any]] = []

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put ``make(original)`` in the place of a function."""
        inherited = name not in vars(owner)
        original = getattr(owner, name)
        wrapped = functools.wraps(original)(make(original))
        setattr(owner, name, wrapped)
        self._undo.append((owner, name, None if inherited else original, wrapped))

    def put(self, owner: Any, name: str, value: object) -> None:
        """Put a value where the class has none."""
        setattr(owner, name, value)
        self._undo.append((owner, name, None, value))

    def undo(self) -> None:
        """Put back what is still ours; what somebody has wrapped again since stays, and does nothing any more."""
        while self._undo:
            owner, name, original, ours = self._undo.pop()
            if vars(owner).get(name) is not ours:
                continue
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


def wire() -> Recorder | None:
    """Return what takes down the requests of the attempt that is being made here, if anything does."""
    call = current.get()
    return None if call is None else call.wire


def target(scheme: str, host: str, port: int | None, path: str) -> str:
    """Return what is kept of an address: no query, no user, and nothing in the path that looks like a credential."""
    default = {"http": 80, "https": 443}.get(scheme)
    place = f"[{host}]" if ":" in host else host
    place = place if port in (None, default) else f"{place}:{port}"
    return f"{scheme}://{place}{_path(path)}"


def _path(address: str) -> str:
    """Return an address, or a path, without its query: what is signed there lets in whoever has it."""
    bare = address.partition("?")[0].partition("#")[0]
    return "/".join(_masked(part) for part in bare.split("/"))


def _masked(part: str) -> str:
    return "[redacted]" if _TOKEN.fullmatch(part) else part


def keyed(method: str, headers: MutableMapping[str, str], recorder: Recorder) -> str:
    """Add the key of a deduplicated tool to a request that changes something and brings none; say whose key it has."""
    if method.upper() in READING:
        return ""
    own = next((value for name, value in headers.items() if name.lower() == KEY_HEADER.lower()), None)
    if own is None and recorder.key:
        headers[KEY_HEADER] = recorder.key
    if own is None or own == recorder.key:
        return "ours" if recorder.key else ""
    return "own"


def lowered(headers: Iterable[tuple[object, object]]) -> dict[str, str]:
    """Return headers with names in lower case; of several alike, the last. Of a location no more than of an address."""
    found = {str(name).lower(): str(value) for name, value in headers}
    if "location" in found:
        found["location"] = _path(found["location"])
    return found


def ended(seen: Request, error: BaseException) -> None:
    """Take down how a request ended: a reader that stops reading is no failure."""
    if isinstance(error, GeneratorExit):
        seen.close()
    else:
        seen.failed(error)

"""A run's state: a small mapping whose changes are saved with the next checkpoint, and nothing but the changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from settled.core.books import Change
from settled.core.encoding import codec
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from settled.api.vault import Vault

LOG = logging.getLogger("settled")
_FIXED = frozenset({str, int, float, bool, bytes, type(None)})
"""Types of values that cannot change once they were handed out."""


class State(MutableMapping[str, Any]):
    """Names and plain values. A value that was handed out and can change in place is looked at at each checkpoint."""

    def __init__(self, vault: Vault, saved: Mapping[str, bytes] | None = None) -> None:
        self._vault = vault
        self._values = {name: codec.loads(vault.unlock(data)) for name, data in (saved or {}).items()}
        self._written: dict[str, bytes | None] = {name: codec.dumps(value) for name, value in self._values.items()}
        self._set: set[str] = set()
        """Names that were set or removed since the last checkpoint."""
        self._out: set[str] = set()
        """Names whose values were handed out and may be changed in place at any time."""
        self._serial = 0
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        if type(value) not in _FIXED:
            self._out.add(name)
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"names of a run's state are text, not {type(name).__name__}")
        try:
            codec.dumps(value)
        except (ValueError, RecursionError) as error:
            raise DeclarationError(f"run.state[{name!r}] cannot be saved: {error}") from error
        self._values[name] = value
        self._set.add(name)
        if type(value) not in _FIXED:
            self._out.add(name)

    def __delitem__(self, name: str) -> None:
        del self._values[name]
        self._out.discard(name)
        self._set.add(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"State({self._values!r})"

    def changes(self) -> tuple[Change, ...]:
        """Return what has changed since the last checkpoint that was kept.

        A value that was changed in place to what cannot be saved stays as it was saved last.
        """
        if not self._set and not self._out:
            return ()
        with self._lock:
            found = [(name, self._encoded(name)) for name in sorted(self._set | self._out)]
            changed = [(name, data) for name, data in found if data != self._written.get(name)]
            self._serial += bool(changed)
            return tuple(Change(name, self._locked(data), self._serial) for name, data in changed)

    def kept(self, changes: Sequence[Change]) -> None:
        """These changes are on record."""
        with self._lock:
            for change in changes:
                data = None if change.value is None else self._vault.unlock(change.value)
                self._written[change.name] = data
                if self._encoded(change.name) == data:
                    self._set.discard(change.name)

    def _locked(self, data: bytes | None) -> bytes | None:
        return None if data is None else self._vault.lock(data)

    def _encoded(self, name: str) -> bytes | None:
        if name not in self._values:
            return None
        try:
            return codec.dumps(self._values[name])
        except (ValueError, RecursionError):
            LOG.warning("run.state[%r] was changed in place to what cannot be saved", name)
            return self._written.get(name)


def decoded(vault: Vault, saved: Mapping[str, bytes]) -> dict[str, Any]:
    """Return a saved state as plain values."""
    return {name: codec.loads(vault.unlock(data)) for name, data in saved.items()}

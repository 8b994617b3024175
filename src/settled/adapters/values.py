"""A framework's objects as plain data and back: only types that the adapter names, never an import path in the data."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TAG = "="
"""The member of a dict that names what it stands for."""


class Packer:
    """Turns values into what the journal's codec writes, and back.

    Args:
        kinds: classes (dataclasses, pydantic models, or with ``__slots__``) that are kept field by field.
        otherwise: gives the plain form of anything else; by default it is left for the codec to take or refuse.
    """

    def __init__(self, kinds: Iterable[type], otherwise: Callable[[Any], Any] | None = None) -> None:
        self._kinds = {kind.__name__: kind for kind in kinds}
        self._otherwise = otherwise

    def pack(self, value: Any) -> Any:
        """Return the plain form."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind in (list, tuple, set, frozenset):
            return kind(self.pack(item) for item in value)
        if kind is dict:
            packed = {self.pack(name): self.pack(item) for name, item in value.items()}
            return {TAG: "dict", "of": list(packed.items())} if TAG in packed else packed
        if self._kinds.get(kind.__name__) is kind:
            return {TAG: kind.__name__, "of": {name: self.pack(item) for name, item in _fields(value).items()}}
        return value if self._otherwise is None else self._otherwise(value)

    def unpack(self, value: Any) -> Any:
        """Return what was packed. Raises ``LookupError`` for a type that the adapter does not name any more."""
        kind = type(value)
        if kind in (list, tuple, set, frozenset):
            return kind(self.unpack(item) for item in value)
        if kind is not dict:
            return value
        name = value.get(TAG)
        if name is None:
            return {key: self.unpack(item) for key, item in value.items()}
        if name == "dict":
            return {self.unpack(key): self.unpack(item) for key, item in value["of"]}
        return self._kinds[name](**{field: self.unpack(item) for field, item in value["of"].items()})


_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in value.model_fields_set if name in type(value).model_fields}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return {name: getattr(value, name) for name in type(value).__slots__}

"""A model's arguments as a framework's tool takes them: what the tool cannot tell apart is one action.

Frameworks read ``"7"`` as the number that a parameter declares, and hand on what a model wrote. Were a call known by
that, a model that writes ``7`` the next time would do it twice.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic_core import to_jsonable_python

from settled.api.tools.schema import BadArguments, apart, numbers, problems, same
from settled.core.encoding import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Read = Callable[[dict[str, Any]], dict[str, Any]]

_JSON = frozenset({str, int, float, bool, type(None)})
_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,300}(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?")
_TRUTH = {"true": True, "false": False}
MOST_NESTED = 20
"""Levels of a JSON schema that are looked at."""


def as_data(value: Any) -> Any:
    """Return a validated argument in the form of JSON, but for decimals; equal sets in one form, however written.

    Raises ``ValueError`` for what has no such form, and for bytes, which have several.
    """
    kind = type(value)
    if kind in _JSON or kind is Decimal:  # in JSON a decimal is a text, and equal ones are different texts
        return value
    if kind is list or kind is tuple:
        return [as_data(item) for item in value]
    if kind is set or kind is frozenset:
        return sorted((as_data(item) for item in value), key=canonical.encode)
    if kind is dict:
        return {_name(key): as_data(item) for key, item in value.items()}
    if (serializer := getattr(kind, "__pydantic_serializer__", None)) is not None:
        return as_data(serializer.to_python(value, by_alias=True))
    if hasattr(kind, "__dataclass_fields__"):
        return {name: as_data(getattr(value, name)) for name in kind.__dataclass_fields__}
    if isinstance(value, bytes | bytearray):
        raise ValueError("whether they are text, and in which encoding, is not known here")  # noqa: TRY004 - as said above
    return to_jsonable_python(value, by_alias=True)


def _name(key: Any) -> str:
    return key if type(key) is str else next(iter(to_jsonable_python({key: None})))


class ByModel:
    """Reads arguments by a pydantic model, as the framework does.

    ``checks``: refuse here what does not fit; else the framework does so, and it stays as it came.
    """

    def __init__(self, model: type[BaseModel], *, checks: bool = True) -> None:
        self._validate, self._checks = model.__pydantic_validator__.validate_python, checks
        fields = {_shown(name, field): field for name, field in model.model_fields.items()}
        self.defaults = {name: _default(field) for name, field in fields.items() if _has_default(field)}
        self._by_own_names = fields.keys() == model.model_fields.keys()

    def __call__(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return them as the tool takes them, or as they are where that cannot be told. Raises ``BadArguments``."""
        try:
            found = self._validate(given)
        except ValidationError as error:
            if self._checks:
                raise BadArguments(problems(error)) from None
            return given
        if self._is_as_given(vars(found), given):
            return given
        try:
            taken = _named(found, given)
            # A validator that changes values would change them twice: then they stay as they came.
            return given if same(taken, given) or self._validate(apart(taken)) != found else taken
        except Exception:  # noqa: BLE001 - the model's own code
            return given

    def _is_as_given(self, found: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
        """Whether all of it is plain, and came through unchanged. Most is: a quick look, on the path of every call."""
        if not self._by_own_names:
            return False
        for name, value in given.items():
            kind, own = type(value), found.get(name, value)
            if kind not in _JSON or type(own) is not kind or own != value:
                return False
        return True


def reader(model: Any, *, checks: bool = True) -> ByModel | None:
    """Return what reads arguments by a pydantic model; ``None`` where it is something else."""
    return ByModel(model, checks=checks) if isinstance(model, type) and issubclass(model, BaseModel) else None


def _shown(name: str, field: Any) -> str:
    alias = field.validation_alias
    return alias if isinstance(alias, str) else name


def _has_default(field: Any) -> bool:
    return not field.is_required() and field.default_factory is None


def _default(field: Any) -> Any:
    try:
        return as_data(field.default)
    except Exception:  # noqa: BLE001 - a type without a plain form: nothing is equal to it
        return field.default


def _named(found: Any, given: Any) -> Any:
    """Return what was found, under the names that were given and no others: a tool may look at what was left out."""
    if isinstance(found, BaseModel) and isinstance(given, dict):
        fields = type(found).model_fields
        names: dict[Any, str] = {name: name for name in fields}
        names |= {_shown(name, field): name for name, field in fields.items()}
        read = {name: field for name in given if (field := names.get(name)) in found.model_fields_set}
        return {**given, **{name: _named(getattr(found, field), given[name]) for name, field in read.items() if field}}
    if isinstance(found, list | tuple) and isinstance(given, list | tuple) and len(found) == len(given):
        return [_named(one, each) for one, each in zip(found, given, strict=True)]
    if isinstance(found, BaseModel | SecretStr | SecretBytes):
        return given
    try:
        return as_data(found)
    except ValueError:
        return given


class BySchema:
    """Reads arguments by a JSON schema, where nothing better tells how the tool does: a number that came as text."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema, self._parts = schema, schema.get("$defs") or {}

    def __call__(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return them as the schema's types have them; the same dict where nothing is to be changed."""
        taken = self._read(given, self._schema, 0)
        return given if taken == given and same(taken, given) else taken

    def _read(self, value: Any, part: Any, depth: int) -> Any:
        part = self._one_kind(part)
        kind = part.get("type")
        if isinstance(value, str):
            return _from_text(value, kind)
        if depth > MOST_NESTED:
            return value
        if type(value) is list and kind == "array":
            return [self._read(item, part.get("items"), depth + 1) for item in value]
        if type(value) is dict and kind == "object":
            inner = part.get("properties") or {}
            return {name: self._read(item, inner.get(name), depth + 1) for name, item in value.items()}
        return value

    def _one_kind(self, part: Any) -> Mapping[str, Any]:
        """Return the one schema that a value other than null may have here; an empty one where there are several."""
        for _ in range(MOST_NESTED):
            if not isinstance(part, dict):
                return {}
            if isinstance(name := part.get("$ref"), str):
                part = self._parts.get(name.removeprefix("#/$defs/"))
            elif isinstance(several := part.get("anyOf") or part.get("oneOf"), list):
                kinds = [each for each in several if each != {"type": "null"}]
                part = kinds[0] if len(kinds) == 1 else None
            elif isinstance(types := part.get("type"), list):
                kinds = [each for each in types if each != "null"]
                part = {**part, "type": kinds[0] if len(kinds) == 1 else None}
            else:
                return part
        return {}


def _from_text(value: str, kind: Any) -> Any:
    text = value.strip()
    if kind == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "number" and _NUMBER.fullmatch(text):
        return numbers(Decimal(text))
    return _TRUTH.get(text.lower(), value) if kind == "boolean" else value

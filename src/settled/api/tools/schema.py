"""A tool's signature as a schema: arguments bound and validated before anything else, results typed."""

from __future__ import annotations

import copy
import inspect
import types
import typing
from collections import Counter
from decimal import Decimal
from enum import Enum
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pydantic import (
    BaseModel,
    ConfigDict,
    PydanticUserError,
    SecretBytes,
    SecretStr,
    TypeAdapter,
    ValidationError,
    create_model,
)

from settled.core.encoding import codec
from settled.core.encoding.strict_json import InvalidJson, parse, parse_object
from settled.current import CurrentCall
from settled.errors import DeclarationError
from settled.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RAW = "the result does not fit the declared type; it was kept as it came"
GIVEN = "given by a person, in the form of JSON"
_EQUAL = frozenset({str, int, bool, bytes, type(None)})
"""Types whose values are the same when they are equal."""
_PLAIN = frozenset({str, int, float, bool, bytes, type(None), Decimal})
LONGEST_WHY = 200
"""Characters of why a result was not kept."""
_CONTAINERS = frozenset({list, tuple, dict, set, frozenset})


class BadArguments(ValueError):  # noqa: N818 - the name says what is wrong
    """The arguments do not fit; ``fields`` says where and why, without repeating values."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {why}" for name, why in fields.items()))
        self.fields = dict(fields)


class Arguments(Struct, frozen=True):
    """The arguments of one call, three times."""

    given: dict[str, Any]
    """As the function takes them, defaults filled in."""
    plain: dict[str, Any]
    """As plain data, for digests and the record."""
    defaults: Mapping[str, Any]
    """Plain defaults: what equals its default counts in no digest."""
    fixed: bool = False
    """All are of types that cannot change: nothing has to be copied to stay as it was."""


NO_ARGUMENTS = Arguments({}, {}, {}, fixed=True)


class Schema:
    """What a function takes and gives."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.name = name
        self.signature = inspect.signature(function)
        hints = _hints(function)
        self.call_parameters = tuple(n for n, hint in hints.items() if hint is CurrentCall and n != "return")
        self.transaction_parameters = tuple(n for n, hint in hints.items() if hint is Transaction and n != "return")
        self.returns = hints.get("return", Any)
        self._hints = hints
        self._model = self._build()
        self._validate = self._model.__pydantic_validator__.validate_python
        self.parameters = tuple(self._model.model_fields)
        self._result = _adapter(self.returns)
        self._only_looked_at = only_looked_at(self.returns)

    def _build(self) -> type[BaseModel]:
        fields: dict[str, Any] = {}
        if next(iter(self.signature.parameters), "") in ("self", "cls"):  # else every call would lack an argument
            raise DeclarationError(
                f"{self.name}: a method is declared once it is bound: guard.tool(…)(that_object.{self.name})"
            )
        for name, parameter in self.signature.parameters.items():
            if name in self.call_parameters or name in self.transaction_parameters:
                continue
            if parameter.kind is parameter.VAR_POSITIONAL or parameter.kind is parameter.POSITIONAL_ONLY:
                raise DeclarationError(f"{self.name}: parameter {name!r} must be one that can be given by name")
            if parameter.kind is parameter.VAR_KEYWORD:
                raise DeclarationError(f"{self.name}: write **{name} out as named parameters, which can be checked")
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (self._hints.get(name, Any), default)
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, validate_default=False)
        try:
            return create_model(f"{self.name}_arguments", __config__=config, **fields)
        except (PydanticUserError, NameError, TypeError) as error:
            raise DeclarationError(f"{self.name}: the signature cannot be made a schema: {error}") from error

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Plain values of the defaults."""
        fields = self._model.model_fields
        return {n: plain(f.default) for n, f in fields.items() if not f.is_required()}

    def hint(self, name: str) -> Any:
        """Return a parameter's annotation."""
        return self._hints.get(name, Any)

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments, as a model should see it."""
        return self._model.model_json_schema()

    def read(self, text: str | bytes) -> dict[str, Any]:
        """Return the arguments that a model gives as JSON. Raises ``InvalidJson``.

        Of a tool that takes none several models send an empty text: there is nothing that could have been cut off.
        """
        if not self.parameters and not text.strip():
            return {}
        return numbers(parse_object(text))  # type: ignore[no-any-return]  # of an object

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """Bind and validate. Raises ``BadArguments``."""
        if not self.parameters and not args and not kwargs:
            return NO_ARGUMENTS
        if args:
            kwargs = self._by_name(args, kwargs)
        try:
            given: dict[str, Any] = vars(self._validate(kwargs))
        except ValidationError as error:
            raise BadArguments(problems(error)) from None
        except (ValueError, OverflowError, RecursionError) as error:
            raise BadArguments({"arguments": f"not to be read: {type(error).__name__}"}) from None
        if is_fixed(given):
            return Arguments(given, given, self.defaults, True)  # noqa: FBT003 - by place: on the path of every call
        given = copy.deepcopy(given)
        return Arguments(given, {name: plain(value) for name, value in given.items()}, self.defaults)

    def _by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.parameters):
            raise BadArguments({"arguments": f"takes {len(self.parameters)}, was given {len(args)}"})
        named = dict(zip(self.parameters, args, strict=False))
        twice = named.keys() & kwargs.keys()
        if twice:
            raise BadArguments(dict.fromkeys(sorted(twice), "given twice"))
        return named | dict(kwargs)

    def encode(self, value: object) -> tuple[bytes | None, str]:
        """Return the encoding of a result and a note; ``None`` if it cannot be kept.

        What would not come back equal in value and type is not kept: never a substitute.
        """
        if type(value) in _PLAIN and self._result is None:
            return codec.dumps(value), ""
        try:
            if self._only_looked_at:  # what ``dumps`` takes comes back as it is: no copy is needed to be looked at
                data, typed = codec.dumps(value), self._validated(value)
            else:
                data = self._dump(value)
                typed = self._typed(data)
            if same(value, typed):
                return data, ""
        except codec.NotEncodable as error:
            return self._raw(value, str(error)[:LONGEST_WHY])  # names types and places alone
        except Exception as error:  # noqa: BLE001 - bookkeeping must never undo an effect
            return self._raw(value, type(error).__name__)
        return self._raw(value, "it does not come back the same")

    @staticmethod
    def _raw(value: object, why: str) -> tuple[bytes | None, str]:
        """Keep what does not fit the annotation as it is, if it is plain."""
        try:
            return codec.dumps(value), RAW
        except (ValueError, RecursionError):
            return None, f"the result was not kept: {why}"

    def _dump(self, value: object) -> bytes:
        try:
            return codec.dumps(value)
        except codec.NotEncodable:
            if self._result is None:
                raise
            return self._dump_typed(value, self._result)

    @staticmethod
    def _dump_typed(value: object, adapter: TypeAdapter[Any]) -> bytes:
        """Dump by the annotation: as plain Python values, else (an enum, a path) in the form of JSON."""
        try:
            return codec.dumps(adapter.dump_python(value, mode="python", warnings="error"))
        except codec.NotEncodable:
            return codec.dumps(adapter.dump_python(value, mode="json", warnings="error"))

    def read_result(self, text: str) -> Any:
        """Return the result that a person gives as JSON, as the tool would have. Raises ``BadArguments``."""
        try:
            return numbers(parse(text)) if self._result is None else self._result.validate_json(text)
        except ValidationError as error:
            raise BadArguments({f"result {name}": why for name, why in problems(error).items()}) from None
        except InvalidJson as error:
            raise BadArguments({"result": str(error)}) from None

    def decode(self, data: bytes, note: str = "") -> Any:
        """Return the value that ``encode`` kept. Raises ``ValueError`` if only something else can be had."""
        if self._result is None or note == RAW:
            return codec.loads(data)
        kept = codec.loads(data)
        typed = self._validated(kept)
        if note != GIVEN and not (same(kept, typed) if self._only_looked_at else self._dump(typed) == data):
            raise ValueError("the record does not fit the declared type")
        return typed

    def _typed(self, data: bytes) -> Any:
        return self._validated(codec.loads(data))

    def _validated(self, value: object) -> Any:
        return value if self._result is None else self._result.validator.validate_python(value)


def snapshot(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as they are now: what the caller, or a declared function, changes later is not ours."""
    return arguments if is_fixed(arguments) else copy.deepcopy(arguments)


def apart(value: Any) -> Any:
    """Return a copy that may be changed; the value itself where it is fixed, or cannot be copied."""
    if type(value) in _PLAIN:
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - a lock, a connection, a type that will not
        return value


def is_fixed(arguments: dict[str, Any]) -> bool:
    """Whether all of them are of types that cannot change."""
    return _PLAIN.issuperset(map(type, arguments.values()))


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in value and type, all the way down."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind in _EQUAL:
        return bool(one == other)
    if kind is dict:  # the order of names counts too: it comes back
        return _all_same([*one, *one.values()], [*other, *other.values()])
    if isinstance(one, BaseModel):
        return same(vars(one), vars(other)) and same(one.__pydantic_private__, other.__pydantic_private__)
    if hasattr(kind, "__dataclass_fields__"):
        return all(same(getattr(one, name), getattr(other, name)) for name in kind.__dataclass_fields__)
    if isinstance(one, list | tuple):
        return _all_same([*one], [*other])
    if isinstance(one, dict):  # a subclass may list its members in its own way
        return same(list(one.items()), list(other.items()))
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, set | frozenset):
        return bool(one == other) and Counter(map(type, one)) == Counter(map(type, other))
    return bool(one == other)


def _all_same(ones: list[Any], others: list[Any]) -> bool:
    kinds = [*map(type, ones)]
    if kinds != [*map(type, others)]:
        return False
    return ones == others if _EQUAL.issuperset(kinds) else all(map(same, ones, others))


def plain(value: Any) -> Any:
    """Return a validated argument as plain data; what has no plain form is left for the digest to refuse."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, BaseModel):
        return {name: plain(item) for name, item in value.model_dump(mode="python").items()}
    if type(value) is list or type(value) is tuple:
        return type(value)(plain(item) for item in value)
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    if hasattr(type(value), "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in type(value).__dataclass_fields__}
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    """Types that validation rebuilds from their plain form."""
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, SecretStr | SecretBytes):
        return value.get_secret_value()
    return str(value) if isinstance(value, PurePath | IPv4Address | IPv6Address) else value


def numbers(value: Any) -> Any:
    """Give a model's numbers the form that Python code expects: ``float`` wherever it is exact."""
    if type(value) is Decimal:
        near = float(value)
        return near if Decimal(repr(near)) == value else value
    if type(value) is list:
        return [numbers(item) for item in value]
    if type(value) is dict:
        return {key: numbers(item) for key, item in value.items()}
    return value


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise DeclarationError(f"{function!r}: an annotation cannot be resolved: {error}") from error


def _adapter(annotation: Any) -> TypeAdapter[Any] | None:
    if annotation is Any or annotation is None:
        return None
    try:
        return TypeAdapter(annotation, config=None)
    except PydanticUserError:
        return _lenient(annotation)


def only_looked_at(annotation: Any) -> bool:
    """Whether validation by it calls nobody's code, which might change the value: it is made of plain types alone."""
    if annotation is Any or annotation is None:
        return True
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None:
        return isinstance(annotation, type) and annotation in _PLAIN | _CONTAINERS
    made_of = origin in _CONTAINERS or origin in (typing.Union, types.UnionType)
    return made_of and all(each is ... or only_looked_at(each) for each in inner)


def _lenient(annotation: Any) -> TypeAdapter[Any] | None:
    try:
        return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:
        return None  # a type that pydantic cannot know: results are kept only if they are plain


def problems(error: ValidationError) -> dict[str, str]:
    """Name what is wrong without repeating the input: it may hold secrets."""
    rows = error.errors(include_url=False, include_input=False, include_context=False)
    return {".".join(str(part) for part in row["loc"]) or "arguments": row["msg"] for row in rows}

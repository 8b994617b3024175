"""Values as bytes and back: equal in value and type, whatever they hold; damage is noticed and never executed."""

import contextlib
import io
import json
import math
import pickle
import struct
import sys
import tracemalloc
import zlib
from collections import Counter, OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from settled.core.encoding import codec
from settled.core.encoding.codec import MAX_DEPTH, PACK_OVER, CorruptData, NotEncodable, digest, dumps, loads
from tests.core.raised import raised

BERLIN = ZoneInfo("Europe/Berlin")
naive = datetime.fromisoformat


def bits(number):
    """A float's own bytes, except that one NaN is as good as another."""
    return "nan" if math.isnan(number) else struct.pack("d", number)


def shape(value):
    """All that may be told of a value: types, order, sign of zero, fold, zone."""
    kind = type(value)
    if kind is float:
        return kind, bits(value)
    if kind is complex:
        return kind, bits(value.real), bits(value.imag)
    if kind is Decimal:
        return kind, str(value)
    if kind in {list, tuple}:
        return kind, tuple(map(shape, value))
    if kind in {set, frozenset}:
        return kind, frozenset(Counter(map(shape, value)).items())
    if kind is dict:
        return kind, tuple((shape(name), shape(member)) for name, member in value.items())
    if kind in {datetime, time}:
        return kind, value.replace(tzinfo=None), value.fold, zone(value.tzinfo)
    return kind, bytes(value) if kind is bytearray else value


def zone(tz):
    return tz and (type(tz), str(tz), tz.utcoffset(None))


def returns(value):
    assert shape(loads(dumps(value))) == shape(value)
    return True


# --- round trips ---

offsets = st.builds(
    timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)), st.text(max_size=4)
) | st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
zones = st.none() | st.just(UTC) | offsets | st.sampled_from([BERLIN, ZoneInfo("UTC"), ZoneInfo("America/New_York")])
texts = st.text(st.characters()) | st.text(st.sampled_from("$a\x00\\u0000\ud83c\udf78🍸\n\"'é"))
hashable = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**600, 10**700)
    | st.floats()
    | st.complex_numbers()
    | st.decimals()
    | texts
    | st.binary()
    | st.uuids()
    | st.dates()
    | st.timedeltas()
    | st.builds(lambda t, z, f: t.replace(tzinfo=z, fold=f), st.times(), zones, st.integers(0, 1))
    | st.builds(lambda t, z, f: t.replace(tzinfo=z, fold=f), st.datetimes(), zones, st.integers(0, 1))
)
# Not every Decimal and not every tuple that holds one can be hashed.
keys = st.recursive(
    hashable.filter(lambda value: not (isinstance(value, Decimal) and value.is_snan())),
    lambda inner: st.tuples(inner) | st.frozensets(inner, max_size=2),
    max_leaves=3,
)
values = st.recursive(
    hashable | st.builds(bytearray, st.binary()),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=3)
        | st.sets(keys, max_size=3)
        | st.frozensets(keys, max_size=3)
    ),
    max_leaves=10,
)


@given(values)
@example({"$tuple": [1]})
@example({"$dict": [["$tuple", [1]]]})
@example({"$": {"$$": {"$int": "ff"}}, "b": 1})
@example({"a": 1, "$b": 2})
@example({1: "a", "1": "b", None: "c", 2.0: "d", (1, "x"): "e"})
@example([{"": {"a": ()}}, (), [], {}, set(), frozenset()])
@example(Decimal("sNaN123"))
def test_what_comes_back_is_equal_in_value_and_type(value):
    assert returns(value)


@pytest.mark.parametrize(
    "values",
    [
        [None, 0, "", False, [], {}, (), set(), frozenset(), b"", bytearray(), 0.0, -0.0, 0j, Decimal(0)],
        [1, 1.0, True, Decimal(1), Decimal("1.0"), Decimal("1.00"), "1", b"1", (1,), [1], {1}, {"1": 1}, {1: 1}],
        [10**16, 1e16, Decimal("1E+16"), Decimal(10**16)],
        [math.inf, -math.inf, math.nan, "nan", Decimal("Infinity"), Decimal("NaN"), Decimal("sNaN")],
        [5e-324, sys.float_info.max, 0.1 + 0.2, 0.3],
        [10**5000, -(10**5000), 10**5000 + 1, str(10**4000)],
        ["a\x00b", "a\\u0000b", "a\\x00b", b"a\x00b"],
        ["\ud83c\udf78", "🍸", "\ud83c", "\udf78", "\udf78\ud83c"],
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        [{"\ud83c\udf78": 1}, {"🍸": 1}],
        [date(2026, 1, 1), naive("2026-01-01"), "2026-01-01"],
        [
            naive("2026-10-25T02:30"),
            naive("2026-10-25T02:30").replace(fold=1),
            datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
            datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
            datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=1))),
            datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=1), "CET")),
            datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("UTC")),
            datetime(2026, 10, 25, 2, 30, tzinfo=UTC),
        ],
        [time(9), time(9, tzinfo=UTC), time(9, tzinfo=BERLIN), time(9, fold=1)],
        [UUID(int=1), str(UUID(int=1))],
    ],
)
def test_what_differs_stays_apart(values):
    written = [dumps(value) for value in values]
    assert len(set(written)) == len(values)
    assert all(returns(value) for value in values)


def test_what_comes_back_is_fresh():
    inner = [1]
    value = {"a": inner, "b": inner, "c": bytearray(b"x")}
    data = dumps(value)
    first, second = loads(data), loads(data)
    first["a"].append(2)
    first["c"].extend(b"y")
    assert first["b"] == [1]
    assert second == value == {"a": [1], "b": [1], "c": bytearray(b"x")}


@given(values)
def test_the_same_value_gives_the_same_bytes(value):
    assert dumps(value) == dumps(loads(dumps(value)))


def test_sets_do_not_depend_on_their_order():
    assert dumps({"b", "a", 3, None}) == dumps({None, 3, "a", "b"})


def test_a_date_with_an_offset_of_another_library_comes_back_with_a_plain_one():
    read = pydantic.TypeAdapter(datetime).validate_python("2026-01-01T09:00:00+01:00")
    again = loads(dumps(read))
    assert again == read
    assert (again.utcoffset(), type(again.tzinfo)) == (timedelta(hours=1), timezone)


@pytest.mark.case("030")
@pytest.mark.parametrize("value", ["W\x00s\x00l\x00", "\\u0000", "\\", {"a\x00": [{"\x00": "\\u0000\x00"}]}])
def test_case_030_nul_and_its_escape_survive_in_text_without_nul(value):
    assert loads(dumps(value)) == value
    assert b"\x00" not in dumps(value)


@pytest.mark.case("032")
@pytest.mark.parametrize("value", ["ok \ud83d", {"\udf78": ["\ud83c"]}, "\ud83c\udf78", ["\ud83d" * 5000]])
def test_case_032_lone_surrogates_are_stored_and_hashed(value):
    data = dumps(value)
    assert loads(data) == value
    assert len(digest(data)) == 64


@pytest.mark.case("029")
def test_case_029_a_large_result_is_packed_and_comes_back_whole():
    rows = [{"id": number, "text": "line of a report " * 20} for number in range(10_000)]
    data = dumps(rows)
    assert len(data) < 200_000
    assert loads(data) == rows
    assert digest(data) == digest(dumps(rows))


# --- the stored form, so that a change of it is seen ---


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"id": 7, "name": "Zoë", "open": True, "note": None}, '{"id":7,"name":"Zo\\u00eb","open":true,"note":null}'),
        ([1, 1.0, -0.0, 1e16], "[1,1.0,-0.0,1e+16]"),
        (math.nan, '{"$float":"nan"}'),
        (2**1999, str(2**1999)),
        (2**2000, '{"$int":"1' + "0" * 500 + '"}'),
        ({"é": 1}, '{"\\u00e9":1}'),
        (1 - 2j, '{"$complex":[1.0,-2.0]}'),
        (Decimal("12.50"), '{"$decimal":"12.50"}'),
        (b"\x00\xff", '{"$bytes":"AP8="}'),
        (bytearray(b"a"), '{"$bytearray":"YQ=="}'),
        ((1, "a"), '{"$tuple":[1,"a"]}'),
        ({2, 1}, '{"$set":[1,2]}'),
        (frozenset("ba"), '{"$frozenset":["a","b"]}'),
        ({1: "a", "$b": {}}, '{"$dict":[[1,"a"],["$b",{}]]}'),
        (date(2026, 1, 2), '{"$date":"2026-01-02"}'),
        (time(9, 30, tzinfo=UTC), '{"$time":"09:30:00+00:00"}'),
        (naive("2026-01-02T09:00"), '{"$datetime":"2026-01-02T09:00:00"}'),
        (datetime(2026, 1, 2, 9, tzinfo=BERLIN), '{"$datetime":["2026-01-02T09:00:00",0,"Europe/Berlin"]}'),
        (
            datetime(2026, 1, 2, 9, tzinfo=timezone(timedelta(hours=1), "CET")),
            '{"$datetime":["2026-01-02T09:00:00",0,[3600000000,"CET"]]}',
        ),
        (timedelta(days=-1, microseconds=5), '{"$timedelta":[-1,0,5]}'),
        (UUID(int=1), '{"$uuid":"00000000-0000-0000-0000-000000000001"}'),
        ("\ud83c\udf78", '{"$text":"eda0bcedbdb8"}'),
    ],
)
def test_stored_text_of_version_1(value, text):
    assert dumps(value) == b"1j" + text.encode()
    assert shape(loads(b"1j" + text.encode())) == shape(value)


@given(values)
def test_the_stored_text_is_what_pythons_own_json_writes_for_it(value):
    data = dumps(value)
    text = zlib.decompress(data[data.index(b":") + 1 :]) if data[1:2] == b"z" else data[2:]
    assert text == json.dumps(json.loads(text), separators=(",", ":")).encode()


def test_long_text_is_packed_if_that_makes_it_shorter():
    fits = "x" * (PACK_OVER - 2)
    assert dumps(fits) == f'1j"{fits}"'.encode()
    packed = dumps(fits + "x")
    assert packed.startswith(b"1z4097:")
    assert json.loads(zlib.decompress(packed[7:])) == fits + "x"
    assert loads(packed) == fits + "x"


def test_text_that_cannot_be_packed_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(codec.zlib, "compress", lambda text: text)
    long = "x" * PACK_OVER
    assert dumps(long) == f'1j"{long}"'.encode()


def test_digest_is_sha256():
    assert digest(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


# --- what is not written ---


@dataclass
class Ticket:
    id: int


class Model(pydantic.BaseModel):
    id: int


class Colour(Enum):
    RED = 1


class Mood(StrEnum):
    CALM = "calm"


class Level(IntEnum):
    HIGH = 3


class Text(str):
    __slots__ = ()


class Odd(tzinfo):
    def utcoffset(self, moment):
        return timedelta(hours=moment.hour)


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind is in use too


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Ticket(1),
        Model(id=1),
        Colour.RED,
        Mood.CALM,
        Level.HIGH,
        Text("x"),
        Point(1, 2),
        OrderedDict(a=1),
        PurePosixPath("x"),
        Ticket,
        len,
        iter([]),
        range(3),
        ...,
        ValueError("x"),
        memoryview(b"x"),
    ],
)
def test_objects_are_not_written_and_their_place_and_type_are_named(value):
    for whole, path in ((value, ""), ({"a": [0, (1, value)]}, "a[1][1]"), ({"a b": {3: value}}, "['a b'][0][1]")):
        with pytest.raises(NotEncodable) as caught:
            dumps(whole)
        assert caught.value.path == path
        assert type(value).__qualname__ in caught.value.reason
        assert type(pickle.loads(pickle.dumps(caught.value))) is NotEncodable


@pytest.mark.parametrize("tz", [Odd(), tzinfo()])
def test_zones_without_a_name_or_fixed_offset_are_not_written(tz):
    for value in (naive("2026-01-01").replace(tzinfo=tz), time(9, tzinfo=tz)):
        with pytest.raises(NotEncodable, match=r"a\[0\]: a time zone of type"):
            dumps({"a": [value]})


def zone_without_a_key(*offsets):
    """What ZoneInfo makes of a file of rules: from each second on, another offset."""
    counts = struct.pack(">6L", 0, 0, 0, len(offsets), len(offsets), 4)
    moments = b"".join(struct.pack(">l", second) for second in range(len(offsets)))
    kinds = b"".join(struct.pack(">lBB", offset, 0, 0) for offset in offsets)
    return ZoneInfo.from_file(
        io.BytesIO(b"TZif" + bytes(16) + counts + moments + bytes(range(len(offsets))) + kinds + b"CET\0")
    )


def test_a_zone_without_a_key_is_written_only_if_its_offset_is_fixed():
    with pytest.raises(NotEncodable, match="time zone of type ZoneInfo"):
        dumps(datetime(2026, 1, 1, tzinfo=zone_without_a_key(3600, 7200)))
    again = loads(dumps(datetime(2026, 1, 1, tzinfo=zone_without_a_key(3600))))
    assert again == datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: frozenset([v])])
def test_nesting_is_bounded(wrap):
    value = 1
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    assert returns(value)
    with pytest.raises(NotEncodable, match="nested deeper than 100 levels"):
        dumps(wrap(value))


def test_a_dict_with_other_names_counts_as_two_levels():
    value = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET"))
    for _ in range(MAX_DEPTH // 2):
        value = {1: value}
    assert returns(value)
    with pytest.raises(NotEncodable, match="nested deeper"):
        dumps({1: value})


def test_a_stack_that_is_nearly_full_gives_no_other_error():
    value = 1
    for _ in range(MAX_DEPTH):
        value = [value]

    def descend():
        try:
            descend()
        except RecursionError:
            dumps(value)

    with pytest.raises(NotEncodable, match="left of the stack"):
        descend()


def test_cycles_are_not_written():
    ring = []
    ring.append(ring)
    with pytest.raises(NotEncodable, match="inside itself"):
        dumps({"a": ring})


# --- damage ---


@given(st.binary() | st.binary().map(lambda data: b"1j" + data) | st.binary().map(lambda data: b"1z9:" + data))
def test_garbage_is_corrupt_and_nothing_else(data):
    try:
        value = loads(data)
    except CorruptData:
        return
    assert returns(value)


TAGS = (
    *("$text", "$int", "$float", "$complex", "$decimal", "$bytes", "$bytearray", "$tuple", "$set", "$frozenset"),
    *("$dict", "$datetime", "$date", "$time", "$timedelta", "$uuid", "$object", "$$", "$"),
)
tags = st.sampled_from(TAGS)
scraps = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(
        ["nan", "", "2026-01-01", "09:00", "Europe/Berlin", "../../etc/passwd", "ff", "YQ==", "1e9", "UTC", "/"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(tags, inner, min_size=1, max_size=2),
    max_leaves=6,
)


@given(st.dictionaries(tags, scraps, min_size=1, max_size=1))
def test_tags_with_any_payload_are_read_or_corrupt(scrap):
    with contextlib.suppress(CorruptData):
        assert returns(loads(b"1j" + json.dumps(scrap).encode()))


@given(values, st.data())
def test_cut_off_data_is_corrupt(value, data):
    written = dumps([value])
    with pytest.raises(CorruptData):
        loads(written[: data.draw(st.integers(0, len(written) - 1))])


PACKED = dumps(["some text that packs well"] * 1000)


@given(st.integers(0, len(PACKED) - 1), st.integers(1, 255))
def test_a_damaged_byte_in_packed_data_never_gives_another_value(place, flip):
    damaged = bytearray(PACKED)
    damaged[place] ^= flip
    # A few bits are free: there is more than one way to pack the same text.
    with contextlib.suppress(CorruptData):
        assert loads(bytes(damaged)) == ["some text that packs well"] * 1000


def test_damage_in_packed_data_is_noticed():
    for place in (0, 1, 2, 5, 40, len(PACKED) - 1):
        with pytest.raises(CorruptData):
            loads(PACKED[:place] + b"\x00" + PACKED[place + 1 :])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1",
        b"1j",
        b"2j1",
        b"j1",
        b"1k1",
        b"1j1 2",
        b'1j"\xc3\xa9"',
        b"1jNaN",
        b"1j[Infinity]",
        b'1j{"a":1,"a":2}',
        b'1j{"$tuple":[1],"b":2}',
        b'1j{"b":2,"$tuple":[1]}',
        b'1j{"$nosuch":1}',
        b'1j{"$":1}',
        b'1j{"$tuple":"ab"}',
        b'1j{"$set":[1,1]}',
        b'1j{"$set":[[1]]}',
        b'1j{"$frozenset":[1,true]}',
        b'1j{"$dict":[[1,2],[1,3]]}',
        b'1j{"$dict":[[1]]}',
        b'1j{"$dict":["ab"]}',
        b'1j{"$dict":[[[],1]]}',
        b'1j{"$float":"1"}',
        b'1j{"$float":["nan"]}',
        b'1j{"$int":12}',
        b'1j{"$decimal":12}',
        b'1j{"$decimal":"x"}',
        b'1j{"$bytes":"YQ"}',
        b'1j{"$bytes":"Y Q=="}',
        b'1j{"$text":"ff"}',
        b'1j{"$uuid":"1"}',
        b'1j{"$complex":[1]}',
        b'1j{"$timedelta":[99999999999,0,0]}',
        b'1j{"$date":"2026-13-01"}',
        b'1j{"$datetime":["2026-01-01",0]}',
        b'1j{"$datetime":["2026-01-01",7,null]}',
        b'1j{"$datetime":["2026-01-01",0,"Nowhere/City"]}',
        b'1j{"$datetime":["2026-01-01",0,"../../../etc/passwd"]}',
        b'1j{"$datetime":["2026-01-01",0,"Europe"]}',
        b'1j{"$datetime":["2026-01-01",0,[1e30,null]]}',
        b'1j{"$time":["09:00",0,[0,7]]}',
        b"1j" + b"9" * 5000,
        b"1j" + b"[" * 100_000,
        b"1j" + b"[" * 300 + b"]" * 300,
        b"1z",
        b"1z:",
        b"1z0:" + zlib.compress(b""),
        b"1z1:" + zlib.compress(b"12"),
        b"1z3:" + zlib.compress(b"12"),
        b"1z2:" + zlib.compress(b"12") + b"x",
        b"1z2:" + zlib.compress(b"12")[:-1],
        b"1z9999999999999999999:" + zlib.compress(b"12"),
        b"1z10:" + zlib.compress(b"0" * 50_000_000),
    ],
)
def test_corrupt(data):
    with pytest.raises(CorruptData):
        loads(data)


def test_data_that_says_less_than_it_holds_does_not_fill_the_memory():
    bomb = b"1z10:" + zlib.compress(b"0" * 50_000_000)
    tracemalloc.start()
    try:
        assert raised(loads, bomb) == "CorruptData"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "stored data of a version that is not known here"),
        (b"1k1", "stored data of a form that is not known here"),
        (b"1z3:" + zlib.compress(b"12"), "stored data is cut off or has another length than it says"),
        (b"1jNaN", "stored data has a bare NaN or Infinity"),
        (b'1j{"$tuple":[1],"b":2}', "stored data has a tag where none belongs"),
        (b'1j{"a":1,"a":1}', "stored data has a member twice"),
        (b'1j{"$tuple":1}', "stored data has a tag with a wrong payload"),
        (b'1j{"$uuid":1}', "stored data has a tag with a wrong payload"),
        (b"1j" + b"[" * 300, "stored data nests too deep"),
        (b'1j{"$decimal":"x"}', "stored data cannot be read (InvalidOperation)"),
    ],
)
def test_what_an_error_says(data, message):
    with pytest.raises(CorruptData) as caught:
        loads(data)
    assert str(caught.value) == message


def test_an_error_does_not_carry_the_data():
    with pytest.raises(CorruptData) as caught:
        loads(b'1j{"password": "hunter2" oops')
    assert "hunter2" not in repr(caught.value)
    assert caught.value.__context__ is None


# --- what is taken ---

EVERY = [
    *(None, True, 0, 2**2000, -(2**2001), 0.5, math.nan, -math.inf, 1 - 2j, complex(math.inf, 0), Decimal("NaN")),
    *("text", "\ud83c\udf78", "\ud800", b"\xff", bytearray(b"a"), UUID(int=1), date(2026, 1, 2), timedelta(1, 2, 3)),
    *([1, [2]], (1, (2,)), {1, "a"}, frozenset({1, (2,)}), {"a": {"b": 1}}, {1: "a", "$b": {}}, {"\ud83c\udf78": 1}),
    *(time(9), time(9, fold=1), time(9, tzinfo=UTC), time(9, tzinfo=timezone(timedelta(hours=1), "CET"))),
    *(naive("2026-10-25T02:30"), datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)),
    datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=1))),
    datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=1)), fold=1),
]


def test_each_type_that_is_named_is_written_and_what_is_written_is_read():
    assert [value for value in EVERY if raised(dumps, value)] == []
    assert [value for value in EVERY if raised(loads, dumps(value))] == []
    assert raised(loads, dumps("x" * PACK_OVER)) is None


def test_everything_is_written_down_to_the_deepest_level():
    for wrap in (lambda value: [value], lambda value: {"a": value}, lambda value: (value,)):
        value = 1
        for _ in range(MAX_DEPTH):
            value = wrap(value)
        assert (raised(dumps, value), raised(dumps, wrap(value))) == (None, "NotEncodable")


def test_a_tag_takes_as_many_values_as_it_needs():
    right = [
        *('{"$dict":[[1,2]]}', '{"$datetime":["2026-01-01",0,null]}', '{"$complex":[1,2]}', '{"$timedelta":[1,2,3]}'),
        *('{"$time":["09:00",0,[0,null]]}', '{"$time":["09:00",0,[0,"CET"]]}', '{"$set":[1]}', '{"$frozenset":[]}'),
    ]
    assert [text for text in right if raised(loads, b"1j" + text.encode())] == []
    wrong = [
        *('{"$dict":[[1,2,3]]}', '{"$dict":[[1]]}', '{"$complex":[1]}', '{"$timedelta":[1,2]}'),
        *('{"$datetime":["2026-01-01",0,null,1]}', '{"$datetime":["2026-01-01",0]}', '{"$time":["09:00",0,[0]]}'),
        *('{"$time":["09:00",0,[0,"CET",1]]}', '{"$timedelta":[1,2,3,4]}', '{"$complex":[1,2,3]}'),
    ]
    for text in wrong:
        with pytest.raises(CorruptData, match="a tag with a wrong payload"):
            loads(b"1j" + text.encode())

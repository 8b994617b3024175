"""What the answers of real batch interfaces say of each item."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settled.partial import dynamodb_batch_write, elasticsearch_bulk, graphql, graphql_by, http_207, sqs_batch
from settled.partial.outcome import place, unknown


def read(reader, answer, items):
    return [str(outcome.part) for outcome in reader(answer, items)]


def entry(name, status, kind=None):
    error = {"error": {"type": kind, "reason": "Throttled"}} if kind else {}
    return {"index": {"_id": name, "status": status} | error}


BULK = [
    ([entry("a", 201), entry("b", 200)], ["done", "done"]),
    ([entry("a", 429, "es_rejected_execution_exception"), entry("b", 503)], ["not_done", "not_done"]),
    ([entry("a", 400, "mapper_parsing_exception"), entry("b", 409)], ["failed", "failed"]),
    ([entry("a", 500), entry("b", 504)], ["unknown", "unknown"]),
    ([entry("b", 400), entry("a", 201)], ["done", "failed"]),  # in another order
    ([entry("b", 201)], ["unknown", "done"]),
    ([entry("a", 201), entry("x", 201)], ["done", "unknown"]),
    ([entry("a", 201), entry("a", 400)], ["unknown", "unknown"]),  # a name twice, with two outcomes
    ([entry("a", 201), entry("b", 201), entry("c", 201)], ["done", "done"]),
    ([{"index": {"_id": "a"}}, {}], ["unknown", "unknown"]),
    ([3, entry("b", 201)], ["unknown", "done"]),
]


@pytest.mark.parametrize(("items", "parts"), BULK)
@pytest.mark.parametrize("form", [lambda n: {"_id": n}, lambda n: {"index": {"_id": n}}, lambda n: {"id": n, "x": 1}])
def test_elasticsearch(form, items, parts):
    assert read(elasticsearch_bulk, {"errors": True, "items": items}, [form("a"), form("b")]) == parts


def test_without_names_only_a_full_answer_tells():
    bare = [{"index": {"status": status}} for status in (201, 400)]
    assert read(elasticsearch_bulk, {"items": bare}, [{"x": 1}, {"x": 2}]) == ["done", "failed"]
    assert read(elasticsearch_bulk, {"items": bare[:1]}, [{"x": 1}, {"x": 2}]) == ["unknown", "unknown"]


@pytest.mark.parametrize("reader", [elasticsearch_bulk, http_207, dynamodb_batch_write, sqs_batch, graphql])
@pytest.mark.parametrize("answer", [None, "", "nonsense", 3, {}, [], {"items": 3}, {"errors": True}, {"data": None}])
def test_what_tells_nothing_leaves_all_in_doubt(reader, answer):
    assert set(read(reader, answer, [{"Id": "a"}, {"Id": "b"}])) == {"unknown"}


def test_http_207():
    items = [{"id": name} for name in "abcdefg"]
    statuses = [201, 429, 422, 500, 409, 423, 424]
    answer = [{"id": item["id"], "status": status} for item, status in zip(items, statuses, strict=True)]
    expected = ["done", "not_done", "failed", "unknown", "unknown", "not_done", "not_done"]
    assert read(http_207, answer, items) == expected
    assert read(http_207, {"results": answer[::-1], "took": 1}, items) == expected
    assert read(http_207, [{"statusCode": 200}, {"status": True}], [1, 2]) == ["done", "unknown"]
    assert http_207.merge({"took": 1, "results": []}, ["x"], items) == {"took": 1, "results": ["x"]}


PUT = [{"PutRequest": {"Item": {"id": {"S": name}}}} for name in "abb"]


def test_dynamodb():
    assert read(dynamodb_batch_write, {"UnprocessedItems": {}}, PUT) == ["done"] * 3
    assert read(dynamodb_batch_write, {"UnprocessedItems": {"t": [PUT[1]]}}, PUT) == ["done", "not_done", "done"]
    assert read(dynamodb_batch_write, {"UnprocessedItems": {"t": [PUT[1], PUT[2]]}}, PUT) == ["done"] + ["not_done"] * 2
    bare = [put["PutRequest"]["Item"] for put in PUT]
    assert read(dynamodb_batch_write, {"UnprocessedItems": {"t": [PUT[0]]}}, bare) == ["not_done", "done", "done"]
    other = {"DeleteRequest": {"Key": {"id": {"S": "z"}}}}
    assert read(dynamodb_batch_write, {"UnprocessedItems": {"t": [other]}}, PUT) == ["unknown"] * 3


def test_sqs():
    items = [{"Id": name, "MessageBody": "x"} for name in "abcd"]
    answer = {
        "Successful": [{"Id": "c", "MessageId": "m"}],
        "Failed": [
            {"Id": "a", "SenderFault": True, "Code": "InvalidMessageContents"},
            {"Id": "b", "SenderFault": False, "Code": "InternalError"},
            {"Id": "d", "SenderFault": True, "Code": "RequestThrottled"},
        ],
    }
    assert read(sqs_batch, answer, items) == ["failed", "unknown", "done", "not_done"]
    assert read(sqs_batch, {"Successful": answer["Successful"]}, items) == ["unknown", "unknown", "done", "unknown"]
    assert read(sqs_batch, {"Successful": [{"Id": "0"}, {"Id": "1"}]}, ["one", "two"]) == ["done", "done"]
    assert sqs_batch.merge(answer, ["x"], items) == {"Successful": ["x"], "Failed": []}


def error(code=None, *path, message="Throttled"):
    extensions = {"extensions": {"code": code}} if code else {}
    return {"message": message, "path": list(path)} | extensions


GRAPHQL = [
    ({"data": {"a": {"id": 1}, "b": {"id": 2}}}, ["done", "done"]),
    ({"data": {"a": {"id": 1}, "b": None}, "errors": [error("THROTTLED", "b")]}, ["done", "not_done"]),
    ({"data": {"a": {"id": 1}, "b": None}, "errors": [error("FORBIDDEN", "b")]}, ["done", "failed"]),
    ({"data": {"a": {"id": 1}, "b": None}, "errors": [error(None, "b")]}, ["done", "unknown"]),  # its text says nothing
    ({"data": {"a": {"id": 1}, "b": None}}, ["done", "done"]),
    ({"data": {"a": {"id": 1}, "b": {"id": 2}}, "errors": [error("X", "b", "name")]}, ["done", "done"]),
    ({"data": None, "errors": [error("THROTTLED")]}, ["not_done", "not_done"]),
    ({"data": None, "errors": [error("INTERNAL_SERVER_ERROR")]}, ["unknown", "unknown"]),
    ({"errors": [error("BAD_USER_INPUT")]}, ["failed", "failed"]),
]


@pytest.mark.case("CASE-040-graphql-200-throttled")
@pytest.mark.parametrize(("answer", "parts"), GRAPHQL)
@pytest.mark.parametrize("reader", [graphql, graphql_by(lambda item, _: item)])
def test_case_040_graphql(reader, answer, parts):
    assert read(reader, answer, ["a", "b"]) == parts


def test_graphql_by_name():
    reader = graphql_by(lambda _, n: f"item{n}")
    data = {"item1": {"id": 2}, "item0": None}
    assert read(reader, {"data": data, "errors": [error("NOT_FOUND", "item0")]}, ["x", "y"]) == ["failed", "done"]
    assert read(graphql, {"data": {"a": 1}}, ["x", "y"]) == ["unknown", "unknown"]
    assert read(graphql_by(lambda *_: "one"), {"data": {"one": 1}}, ["x", "y"]) == ["unknown", "unknown"]
    assert reader.merge({"data": data, "errors": []}, [1, 2], ["x", "y"]) == {"data": {"item0": 1, "item1": 2}}


STATUSES = st.sampled_from([201, 429, 400, 500])


@given(st.lists(STATUSES, min_size=1, max_size=6, unique_by=lambda _: object()), st.randoms(), st.integers(0, 6))
def test_by_their_names_items_are_found_in_any_order_and_the_missing_are_in_doubt(statuses, dice, left_out):
    names = [f"n{n}" for n in range(len(statuses))]
    entries = [entry(name, status) for name, status in zip(names, statuses, strict=True)]
    whole = read(elasticsearch_bulk, {"items": entries}, [{"_id": name} for name in names])
    dice.shuffle(entries)
    kept = entries[left_out:] if left_out < len(entries) else []
    found = read(elasticsearch_bulk, {"items": kept}, [{"_id": name} for name in names])
    arrived = {each["index"]["_id"] for each in kept}
    assert found == [part if name in arrived else "unknown" for name, part in zip(names, whole, strict=True)]


def test_no_item_is_ever_said_done_on_another_ones_answer():
    """All small answers about two items, with names that collide or are not there."""
    for asked in itertools.product(["a", "b", None], repeat=2):
        for names in itertools.product(["a", "b", None], repeat=2):
            entries = [(name, unknown(f"entry{n}")) for n, name in enumerate(names)]
            for n, outcome in enumerate(place(asked, entries)):
                if outcome.code.startswith("entry"):
                    told = names[int(outcome.code.removeprefix("entry"))]
                    assert told is None or asked[n] is None or told == asked[n]


@pytest.mark.parametrize("reader", [http_207, elasticsearch_bulk], ids=["http_207", "bulk"])
@pytest.mark.parametrize("ids", [["a", "b", "c"], [1, 2, 3], ["1", 2, 3]], ids=str)
def test_an_item_that_is_a_name_itself_is_found_by_it(reader, ids):
    """Entries may come in any order: by its place an item that was done would be sent again."""
    rows = [{"id": str(name), "status": 429 if n == 0 else 201} for n, name in enumerate(ids)]
    rows = [{"index": row | {"_id": row["id"]}} for row in rows] if reader is elasticsearch_bulk else rows
    for order in itertools.permutations(rows):
        answer = {"errors": True, "items": list(order)}
        told = reader(answer, ids)
        assert [outcome.part for outcome in told] == ["not_done", "done", "done"]
    short = reader({"errors": True, "items": rows[1:]}, ids)
    assert short[0].part == "unknown"

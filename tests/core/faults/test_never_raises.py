"""What is promised to raise nothing is given each form that the other tests know, and each of its parts left out."""

import json

from settled.core.faults import classify, classify_mcp, classify_response, retry_after
from settled.core.faults.classify import UNREADABLE
from tests.core.faults.fakes import answered, made, raised_during, rpc_error
from tests.core.faults.test_answers import FAULTS, GRAPHQL, JSON, MULTI_STATUS, SUCCESSES
from tests.core.faults.test_table import SOURCES
from tests.core.raised import raised

STATUSES = (100, 200, 207, 302, 400, 409, 429, 500)
ODD = (None, True, 7, -1.5, "words", "{", "[]", b"\xff{}", [], [None], [[]], {}, {"a": None})
FIELDS = (
    *("error", "errors", "details", "detail", "message", "extensions", "code", "type", "items", "violations"),
    *("Failed", "Successful", "UnprocessedItems", "FailedRecordCount", "data", "results", "status", "jsonrpc", "ok"),
)
WRONG = "Error executing tool pay: 1 validation error for payArguments"
DATES = (
    *("Wed, 21 Oct 2026 07:28:30 GMT", "Wednesday, 21-Oct-26 07:28:30 GMT", "Wed Oct 21 07:28:30 2026"),
    *("Wed, 31 Feb 2026 07:28:30 GMT", "Wed, 21 Oct 0000 07:28:30 GMT", "Wed, 21 Oct 2026 99:99:99 GMT"),
)


def cut(value):
    """Give a value with each of its parts, at any depth, left out or replaced by something odd."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {other: kept for other, kept in value.items() if other != name}
            yield from ({**value, name: other} for other in (*ODD, *cut(inner)))
    if isinstance(value, list):
        for place, inner in enumerate(value):
            yield [*value[:place], *value[place + 1 :]]
            yield from ([*value[:place], other, *value[place + 1 :]] for other in (*ODD[:4], *cut(inner)))


def answers():
    known = [*SUCCESSES, *(row[0] for rows in (FAULTS.values(), GRAPHQL, MULTI_STATUS) for row in rows)]
    yield from (body for body in (*known, *ODD))
    yield from ({field: odd} for field in FIELDS for odd in ODD)
    yield from ({"error": {"message": "words", field: odd}} for field in FIELDS for odd in ODD)
    yield from (other for body in known for other in cut(body))


def text(body):
    return body if isinstance(body, bytes | str | None) else json.dumps(body, default=str)


def unread(error, **situation):
    """Whether an error made the reading of it raise: what that ends with is caught, and has a code of its own."""
    return classify(error, **situation).code == UNREADABLE.code


def test_no_answer_makes_it_raise():
    bodies = {text(body) for body in answers()}
    assert len(bodies) > 500
    assert [body for body in bodies if raised(classify_response, 200, JSON, body)] == []
    assert [body for body in bodies if raised(classify_response, 400, {}, body)] == []
    few = [text(body) for body in (*SUCCESSES, *ODD)]
    assert [(status, body) for status in STATUSES for body in few if raised(classify_response, status, {}, body)] == []
    stream = {"content-type": "text/event-stream"}
    events = [f"{field}{body}\n\n" for body in map(str, few) for field in ("", "data: ", "event: error\ndata:")]
    assert [event for event in events if raised(classify_response, 200, stream, event)] == []


def test_no_error_makes_it_raise():
    every = [param.values for params in SOURCES.values() for param in params]
    assert [error for error, _, situation in every if unread(error, **situation)] == []
    pairs = [ExceptionGroup("", [error, ValueError()]) for error, _, _ in every if isinstance(error, Exception)]
    assert [error for error in pairs if unread(error, attempt=2, doubtful=True)] == []


def test_no_graph_of_errors_makes_it_raise():
    def linked(cause, context):
        first, second = KeyError("first"), made("shop.PaymentError")
        first.__cause__, first.__context__ = (second if cause else None), (second if context else None)
        second.__cause__, second.__context__ = (first if cause else None), (first if context else None)
        return second

    graphs = [linked(cause, context) for cause in (False, True) for context in (False, True)]
    done = answered("requests.exceptions.JSONDecodeError", 200)
    single, mixed = ExceptionGroup("", [ValueError()]), ExceptionGroup("", [ConnectionRefusedError(), done])
    twice = raised_during(ValueError(), mixed)
    twice.__cause__ = ExceptionGroup("", [done, done])
    graphs += [single, mixed, twice, raised_during(made("shop.PaymentError"), ConnectionRefusedError())]
    assert [graph for graph in graphs if unread(graph)] == []
    metadata = (
        None,
        5,
        (3,),
        (("grpc-status-details-bin", "text"),),
        (("grpc-status-details-bin",),),
        (("a", b"\xff"),),
    )
    assert [one for one in metadata if unread(rpc_error("UNAVAILABLE", metadata=one))] == []


def test_no_result_of_mcp_makes_it_raise():
    blocks = [{"type": "text", "text": odd} for odd in (*ODD, "MCP error -32602", WRONG, WRONG[:-1])]
    results = [{"isError": True, "content": content} for content in (*ODD, *([block] for block in blocks))]
    envelopes = [{"jsonrpc": "2.0", field: odd} for field in ("result", "error") for odd in (*ODD, {"code": -32602})]
    every = [*ODD, *results, *envelopes]
    assert [result for result in every if raised(classify_mcp, result)] == []
    assert [result for result in every if raised(classify_mcp, result, tool="pay")] == []


def test_no_header_makes_it_raise():
    names = ("date", "retry-after", "retry-after-ms", "x-ratelimit-reset", "grpc-retry-pushback-ms")
    headers = [{name: odd, "date": date} for name in names for odd in (*ODD, *DATES) for date in DATES]
    assert [one for one in headers if raised(retry_after, one, now=1_792_567_680.0)] == []
    assert [one for one in headers if raised(retry_after, one, now=None)] == []

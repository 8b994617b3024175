"""What holds for any input: nothing raises, and nothing is called proved without a proof."""

import asyncio
import errno
import json
import math
import socket
from unittest import mock

import httpx
from hypothesis import given
from hypothesis import strategies as st

from settled.core.faults import chain, classify, classify_mcp, classify_response, retry_after
from settled.core.faults.retry_after import LONGEST
from settled.core.model import Evidence, Fault, FaultClass
from tests.core.faults.fakes import answered, client_error, made, rpc_error

PROVES = (
    lambda: ConnectionRefusedError(errno.ECONNREFUSED, ""),
    lambda: httpx.ConnectError(""),
    lambda: httpx.PoolTimeout(""),
    lambda: socket.gaierror(-3, ""),
    lambda: made("urllib3.exceptions.NewConnectionError"),
    lambda: answered("requests.exceptions.HTTPError", 429),
    lambda: rpc_error("UNAVAILABLE", "failed to connect to all addresses"),
)
LEAVES_OPEN = (
    lambda: httpx.ReadTimeout(""),
    lambda: httpx.RemoteProtocolError(""),
    lambda: ConnectionResetError(errno.ECONNRESET, ""),
    lambda: made("aiohttp.client_exceptions.ServerDisconnectedError"),
    lambda: answered("requests.exceptions.HTTPError", 502),
    lambda: rpc_error("DEADLINE_EXCEEDED"),
    lambda: client_error("InternalError", 500),
)
SAYS_LITTLE = (
    lambda: RuntimeError(""),
    lambda: made("shop.PaymentError"),
    lambda: KeyError("x"),
    TimeoutError,
    lambda: made("requests.exceptions.ConnectionError"),
    lambda: made("urllib3.exceptions.MaxRetryError", reason=made("urllib3.exceptions.NewConnectionError")),
    asyncio.CancelledError,
    SystemExit,
)

errors = st.sampled_from([*PROVES, *LEAVES_OPEN, *SAYS_LITTLE]).map(lambda make: make())


@st.composite
def graphs(draw):
    """Give errors linked at random, cycles included; some of them in groups."""
    nodes = draw(st.lists(errors, min_size=1, max_size=8))
    grouped = draw(st.lists(st.sampled_from(nodes), max_size=3))
    if grouped:
        nodes.append(BaseExceptionGroup("side by side", grouped))
    places = st.sampled_from(nodes)
    for node in nodes:
        node.__cause__ = draw(st.none() | places)
        node.__context__ = draw(st.none() | places)
        node.__suppress_context__ = draw(st.booleans())
        if draw(st.booleans()) and hasattr(node, "__dict__"):
            node.reason = draw(places)
    return draw(places)


@given(graphs(), st.integers(1, 5), st.booleans(), st.none() | st.floats())
def test_any_graph_of_errors_gives_a_fault(error, attempt, doubtful, now):
    fault = classify(error, attempt=attempt, doubtful=doubtful, now=now)
    assert isinstance(fault, Fault)
    assert fault.kind is not FaultClass.INVALID or fault.evidence is Evidence.NONE
    assert fault.code
    assert len(fault.message) <= 1000


@given(errors | graphs(), st.integers(1, 3), st.booleans(), st.lists(errors | st.text(max_size=3), max_size=2))
def test_an_error_that_stands_alone_is_read_as_the_walk_reads_it(error, attempt, doubtful, args):
    if args and not isinstance(error, BaseExceptionGroup):
        error.args = tuple(args)
    said = classify(error, attempt=attempt, doubtful=doubtful)
    with mock.patch.object(chain, "stands_alone", return_value=False):
        assert said == classify(error, attempt=attempt, doubtful=doubtful)


def test_most_errors_stand_alone():
    assert chain.stands_alone(ConnectionResetError(errno.ECONNRESET, "reset"))
    assert chain.stands_alone(made("shop.PaymentError"))
    for hides in (KeyError(ValueError()), made("urllib3.exceptions.MaxRetryError", reason=ValueError())):
        assert not chain.stands_alone(hides)
    assert not chain.stands_alone(ExceptionGroup("", [ValueError()]))


@given(st.sampled_from(LEAVES_OPEN), graphs())
def test_a_class_that_leaves_it_open_is_never_proved_by_what_hangs_on_it(make, other):
    error = make()
    error.__cause__ = error.__context__ = other
    assert classify(error).evidence is not Evidence.NONE


@given(st.sampled_from(PROVES), st.sampled_from(LEAVES_OPEN), st.integers(0, 4))
def test_an_ambiguous_past_takes_the_proof(prove, leave_open, depth):
    error = innermost = prove()
    for _ in range(depth):
        innermost.__context__ = RuntimeError()
        innermost = innermost.__context__
    innermost.__context__ = leave_open()
    assert classify(error).evidence is not Evidence.NONE


@given(graphs())
def test_an_unknown_error_is_never_proved_by_what_it_was_raised_during(earlier):
    error = made("shop.PaymentError")
    error.__context__ = earlier
    assert classify(error).evidence is Evidence.MAYBE


@given(st.lists(errors, min_size=1, max_size=5), st.sampled_from(LEAVES_OPEN))
def test_a_group_with_an_ambiguous_member_proves_nothing(members, make):
    assert classify(BaseExceptionGroup("", [*members, make()])).evidence is not Evidence.NONE


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "error",
                        "errors",
                        "code",
                        "type",
                        "message",
                        "ok",
                        "data",
                        "extensions",
                        "items",
                        "status",
                        "details",
                    ),
                    *(
                        "Failed",
                        "Successful",
                        "UnprocessedItems",
                        "jsonrpc",
                        "__type",
                        "reason",
                        "content",
                        "isError",
                        "text",
                    ),
                    *("result", "retryDelay", "violations", "quotaId", "field", "detail", "FailedRecordCount"),
                ]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
header_names = st.sampled_from(
    [
        *("Retry-After", "retry-after-ms", "Date", "x-ratelimit-reset", "x-ratelimit-remaining", "x-should-retry"),
        *("content-type", "grpc-retry-pushback-ms", "x-amzn-errortype"),
    ]
)
header_values = (
    st.text(max_size=30)
    | st.sampled_from(["application/json", "text/event-stream", "application/xml", "0", "-1", "false", "9" * 400])
    | st.none()
    | st.binary(max_size=5)
    | st.lists(st.text(max_size=3), max_size=2)
    | st.integers()
)
headers = st.dictionaries(header_names | st.text(max_size=10) | st.integers(), header_values, max_size=5)


situations = st.fixed_dictionaries(
    {
        "method": st.none() | st.sampled_from(["GET", "POST", "DELETE"]) | st.text(max_size=5),
        "doubtful": st.booleans(),
        "now": st.none() | st.floats(),
    }
)
contents = st.none() | st.binary(max_size=200) | st.text(max_size=200) | json_values | json_values.map(json.dumps)


@given(st.integers(100, 599) | st.integers(), headers, contents, situations)
def test_any_answer_is_read(status, some_headers, body, situation):
    fault = classify_response(status, some_headers, body, **situation)
    if status >= 400 or status < 100:
        assert fault is not None
    if fault is not None and fault.retry_after is not None:
        assert math.isfinite(fault.retry_after)


@given(
    st.integers(500, 599).filter(lambda s: s not in {501, 503, 505, 511, 521, 523, 525, 526, 529}), headers, json_values
)
def test_a_failed_server_proves_nothing(status, some_headers, body):
    assert classify_response(status, some_headers, body).evidence is not Evidence.NONE


@given(headers, st.none() | st.floats())
def test_a_wait_is_a_finite_number_of_seconds_or_nothing(some_headers, now):
    wait = retry_after(some_headers, now=now)
    assert wait is None or 0 <= wait <= LONGEST


@given(json_values)
def test_any_mcp_result_is_read(value):
    fault = classify_mcp(value)
    assert fault is None or isinstance(fault, Fault)

"""How the errors around an exception are read: what a cause may say, and what a context may not."""

import asyncio
import errno
import json
import ssl

import httpx
import pytest

from settled.core.faults import chain, classify
from settled.core.model import Evidence, FaultClass
from tests.core.faults.fakes import answered, fake, made, raised_during


class ToolError(Exception):
    """An error of the tool's own, known to nobody."""


def refused():
    return ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def connect_error():
    return made("httpx.ConnectError", cause=made("httpcore.ConnectError", cause=refused()))


def read_timeout():
    return httpx.ReadTimeout("no answer")


def because(error, cause):
    error.__cause__ = cause
    return error


def evidence(error, **situation):
    return classify(error, **situation).evidence


# --- causes ---


def test_an_unknown_error_is_read_by_its_cause():
    fault = classify(because(ToolError("no ticket"), because(ToolError("no service"), connect_error())))
    assert (fault.kind, fault.evidence, fault.code) == (FaultClass.RETRYABLE, Evidence.NONE, "connect_refused")
    assert fault.message == "ToolError: no ticket"


def test_a_known_class_is_not_overruled_by_its_cause():
    assert evidence(because(read_timeout(), refused())) is Evidence.MAYBE
    reset = ConnectionResetError(errno.ECONNRESET, "reset in the handshake")
    assert evidence(because(httpx.ConnectError(""), reset)) is Evidence.NONE


@pytest.mark.parametrize(
    "wrapper",
    [
        "requests.exceptions.ConnectionError",
        "urllib3.exceptions.MaxRetryError",
        "openai.APIConnectionError",
        "anthropic.APITimeoutError",
        "aiohttp.client_exceptions.ClientError",
        "botocore.exceptions.HTTPClientError",
        "sqlalchemy.exc.DBAPIError",
    ],
)
def test_a_wrapper_says_what_its_cause_says(wrapper):
    assert evidence(made(wrapper)) is Evidence.MAYBE
    assert evidence(made(wrapper, cause=refused())) is Evidence.NONE
    assert evidence(made(wrapper, cause=read_timeout())) is Evidence.MAYBE


@pytest.mark.parametrize("place", ["reason", "original_error", "os_error", "orig"])
def test_a_wrapper_may_hold_its_cause_elsewhere(place):
    assert evidence(made("urllib3.exceptions.MaxRetryError", **{place: refused()})) is Evidence.NONE
    assert evidence(made("urllib3.exceptions.MaxRetryError", refused())) is Evidence.NONE


def test_an_unknown_error_is_not_read_by_what_it_carries():
    assert evidence(ToolError("tried", refused())) is Evidence.MAYBE


def test_of_two_causes_the_one_that_proves_less_counts():
    assert evidence(made("requests.exceptions.ConnectionError", refused(), cause=read_timeout())) is Evidence.MAYBE
    assert evidence(made("requests.exceptions.ConnectionError", read_timeout(), cause=refused())) is Evidence.MAYBE


def test_a_bug_that_caused_an_error_says_nothing():
    fault = classify(because(ToolError(), KeyError("id")))
    assert (fault.kind, fault.evidence, fault.code) == (FaultClass.UNKNOWN, Evidence.MAYBE, "unrecognised")


def test_a_subclass_of_the_users_counts_as_its_base():
    class Ours(httpx.ConnectTimeout):
        pass

    assert evidence(Ours("")) is Evidence.NONE

    class MissingError(KeyError):
        pass

    assert classify(MissingError()).kind is FaultClass.PERMANENT
    assert evidence(because(MissingError(), connect_error())) is Evidence.NONE


def test_a_class_that_merely_has_the_name_does_not_count():
    assert classify(fake("shop.errors.ConnectTimeout")()).code == "unrecognised"
    assert classify(fake("httpx.SomethingNew")()).code == "unrecognised"


def test_one_rejected_certificate_among_several_causes_is_found():
    refusal = ssl.SSLCertVerificationError(1, "certificate verify failed")
    assert classify(because(httpx.ConnectError(""), ExceptionGroup("", [refused(), refusal]))).code == "tls_certificate"
    assert classify(because(httpx.ConnectError(""), ExceptionGroup("", [refusal, refused()]))).code == "tls_certificate"


# --- contexts ---


@pytest.mark.parametrize(
    "later", [read_timeout(), httpx.ReadError(""), TimeoutError(), made("redis.exceptions.TimeoutError")]
)
def test_what_came_after_a_refused_connection_is_not_proved(later):
    assert evidence(raised_during(later, refused())) is Evidence.MAYBE
    assert evidence(raised_during(later, connect_error())) is Evidence.MAYBE


@pytest.mark.parametrize("wrapper", ["requests.exceptions.ConnectionError", "redis.exceptions.ConnectionError"])
def test_a_context_does_not_refine_a_wrapper(wrapper):
    assert evidence(raised_during(made(wrapper, "Connection closed by server."), refused())) is Evidence.MAYBE


def test_a_context_lends_its_code_but_not_its_proof():
    fault = classify(raised_during(ToolError("could not pay"), connect_error()))
    assert (fault.kind, fault.evidence, fault.code) == (FaultClass.UNKNOWN, Evidence.MAYBE, "connect_refused")


def test_a_context_does_not_lend_a_success():
    broken = answered("requests.exceptions.JSONDecodeError", 200)
    assert evidence(broken) is Evidence.DONE
    assert evidence(raised_during(ToolError(), broken)) is Evidence.MAYBE
    assert evidence(raised_during(ToolError(), OSError(errno.ENOSPC, "disk full"))) is Evidence.MAYBE


def test_a_context_lends_that_repeating_is_pointless():
    forbidden = answered("requests.exceptions.HTTPError", 403)
    fault = classify(raised_during(ToolError(), forbidden))
    assert (fault.kind, fault.evidence) == (FaultClass.PERMANENT, Evidence.MAYBE)


def test_a_wrapped_cancellation_is_one():
    assert classify(raised_during(ToolError(), asyncio.CancelledError())).kind is FaultClass.CANCELLED
    assert classify(because(ToolError(), asyncio.CancelledError())).kind is FaultClass.CANCELLED


def test_from_none_hides_the_context():
    error = raised_during(ToolError(), connect_error())
    error.__suppress_context__ = True
    assert classify(error).code == "unrecognised"


def test_an_exit_is_not_explained_by_what_came_before():
    assert classify(raised_during(KeyboardInterrupt(), answered("requests.exceptions.HTTPError", 403))).kind is (
        FaultClass.UNKNOWN
    )


# --- a proof needs a clean past ---


def test_a_refused_repeat_inside_the_tool_does_not_prove_the_first_try():
    assert evidence(raised_during(connect_error(), read_timeout())) is Evidence.MAYBE


def test_the_past_is_seen_at_the_root_of_the_chain():
    root = raised_during(refused(), read_timeout())
    repeat = made("httpx.ConnectError", cause=made("httpcore.ConnectError", cause=root))
    assert evidence(because(ToolError(), repeat)) is Evidence.MAYBE


def test_really_raised():
    def tool():
        try:
            raise read_timeout()
        except httpx.ReadTimeout:
            try:
                raise refused()
            except OSError as error:
                raise httpx.ConnectError("second try") from error

    with pytest.raises(httpx.ConnectError) as caught:
        tool()
    assert evidence(caught.value) is Evidence.MAYBE


def test_a_past_without_an_effect_leaves_the_proof():
    unauthorized = answered("requests.exceptions.HTTPError", 401)
    assert evidence(raised_during(connect_error(), unauthorized)) is Evidence.NONE
    assert evidence(raised_during(connect_error(), KeyError("not in the cache"))) is Evidence.NONE
    assert evidence(raised_during(connect_error(), ToolError("unknown"))) is Evidence.NONE
    assert evidence(raised_during(connect_error(), answered("requests.exceptions.HTTPError", 500))) is Evidence.MAYBE


def test_the_cancellation_beneath_a_timeout_is_no_event():
    timeout = because(TimeoutError(), raised_during(asyncio.CancelledError(), None))
    assert classify(timeout).code == "timeout"
    connect = made("httpx.ConnectTimeout", cause=raised_during(TimeoutError(), asyncio.CancelledError()))
    assert evidence(connect) is Evidence.NONE
    assert evidence(raised_during(connect_error(), asyncio.CancelledError())) is Evidence.MAYBE


async def test_a_real_connect_that_timed_out():
    async def connect():
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError) as caught:
        await connect()
    assert classify(caught.value).code == "timeout"
    assert evidence(because(httpx.ConnectTimeout(""), caught.value)) is Evidence.NONE


def test_each_error_has_a_past_of_its_own():
    root = raised_during(refused(), KeyError("not in the cache"))
    assert evidence(because(raised_during(httpx.ConnectError(""), read_timeout()), root)) is Evidence.MAYBE
    root = raised_during(refused(), read_timeout())
    assert evidence(because(raised_during(httpx.ConnectError(""), KeyError("x")), root)) is Evidence.MAYBE


# --- groups ---


def test_a_group_proves_what_all_of_its_members_prove():
    def group(*errors):
        return ExceptionGroup("side by side", errors)

    assert evidence(group(connect_error(), httpx.PoolTimeout(""))) is Evidence.NONE
    assert evidence(group(connect_error(), read_timeout())) is Evidence.MAYBE
    assert evidence(group(connect_error(), ToolError())) is Evidence.MAYBE
    assert evidence(group(group(connect_error()))) is Evidence.NONE
    assert classify(group(TypeError())).kind is FaultClass.PERMANENT
    assert classify(BaseExceptionGroup("", [asyncio.CancelledError()])).kind is FaultClass.CANCELLED
    done = answered("requests.exceptions.JSONDecodeError", 200)
    assert evidence(group(done, done)) is Evidence.DONE
    assert evidence(group(done, connect_error())) is Evidence.MAYBE
    assert evidence(group(raised_during(connect_error(), read_timeout()))) is Evidence.MAYBE
    assert classify(group(connect_error(), answered("requests.exceptions.HTTPError", 403))).kind is FaultClass.PERMANENT


def test_the_code_of_a_group():
    unreadable = answered("requests.exceptions.JSONDecodeError", 200)
    for errors, code in (
        ((connect_error(), read_timeout()), "read_timeout"),
        ((connect_error(), unreadable), "group"),
        ((connect_error(), unreadable, read_timeout()), "read_timeout"),
        ((connect_error(), answered("requests.exceptions.HTTPError", 403)), "http_403"),
        ((connect_error(), httpx.PoolTimeout("")), "connect_refused"),
    ):
        assert classify(ExceptionGroup("side by side", errors)).code == code


def test_a_group_as_a_cause():
    both = ExceptionGroup("every address", [refused(), refused()])
    assert evidence(because(ToolError(), both)) is Evidence.NONE
    assert evidence(because(ToolError(), ExceptionGroup("", [refused(), read_timeout()]))) is Evidence.MAYBE


def test_wide_groups_are_not_read_to_the_end():
    assert evidence(ExceptionGroup("", [refused() for _ in range(3)])) is Evidence.NONE
    assert evidence(ExceptionGroup("", [refused() for _ in range(chain.MOST + 1)])) is Evidence.MAYBE
    assert classify(ExceptionGroup("", [refused() for _ in range(chain.MOST - 1)])).code == "connect_refused"
    assert classify(ExceptionGroup("", [refused() for _ in range(chain.MOST)])).code == "unrecognised"


def test_a_proof_needs_a_past_that_is_seen_to_its_end():
    for others, proved in ((chain.MOST - 2, Evidence.NONE), (chain.MOST - 1, Evidence.MAYBE)):
        every = ExceptionGroup("every address", [refused() for _ in range(others)])
        assert evidence(because(httpx.ConnectError(""), every)) is proved


# --- bounds ---


def test_cycles_end():
    one, two = ToolError(), ToolError()
    one.__cause__, two.__cause__ = two, one
    one.__context__, two.__context__ = two, one
    assert classify(one).code == "unrecognised"
    proved = refused()
    proved.__context__ = because(ToolError(), proved)
    assert evidence(proved) is Evidence.NONE
    caused = refused()
    caused.__cause__ = because(ToolError(), caused)
    assert evidence(caused) is Evidence.NONE
    in_turn = raised_during(connect_error(), ToolError())
    in_turn.__context__.__context__ = in_turn
    assert evidence(in_turn) is Evidence.NONE


def nested(depth, innermost):
    for _ in range(depth):
        innermost = because(ToolError(), innermost)
    return innermost


def test_causes_are_followed_ten_deep():
    assert evidence(nested(chain.DEEPEST - 1, refused())) is Evidence.NONE
    assert evidence(nested(chain.DEEPEST, refused())) is Evidence.MAYBE
    assert classify(nested(chain.DEEPEST - 1, refused())).code == "connect_refused"
    assert classify(nested(chain.DEEPEST, refused())).code == "unrecognised"


def test_groups_are_followed_ten_deep():
    def grouped(depth):
        error = refused()
        for _ in range(depth):
            error = ExceptionGroup("", [error])
        return error

    assert classify(grouped(chain.DEEPEST - 1)).code == "connect_refused"
    assert classify(grouped(chain.DEEPEST)).code == "unrecognised"


def test_a_past_that_is_too_long_proves_nothing():
    error = connect_error()
    at = error
    for _ in range(chain.DEEPEST + 5):
        at.__context__ = ToolError()
        at = at.__context__
    assert evidence(error) is Evidence.MAYBE


def test_hostile_attributes_count_as_missing():
    class Hostile(httpx.HTTPStatusError):
        def __init__(self):
            Exception.__init__(self)

        def __str__(self):
            raise RuntimeError("no text")

        @property
        def response(self):
            raise RuntimeError("no answer")

        @property
        def request(self):
            raise RuntimeError("no request")

    fault = classify(Hostile())
    assert (fault.kind, fault.evidence) == (FaultClass.UNKNOWN, Evidence.MAYBE)


def raising(self, *_):
    raise RuntimeError("not to be looked at")


PARTS = ("args", "__cause__", "__context__", "__traceback__", "__suppress_context__", "__getattribute__")


@pytest.mark.parametrize("base", [ValueError, OSError, httpx.ConnectError, ToolError])
@pytest.mark.parametrize("part", PARTS)
def test_an_error_that_cannot_be_looked_at_proves_nothing(base, part):
    kind = type("HostileError", (base,), {part: raising if part == "__getattribute__" else property(raising)})
    error = kind("words")
    fault = classify(error)
    assert (fault.code, fault.evidence) == ("unreadable_error", Evidence.MAYBE)
    assert fault.message.startswith("HostileError")


def test_a_class_that_cannot_be_looked_at_proves_nothing():
    odd = type("Odd", (type,), {"__eq__": lambda self, other: self is other, "__hash__": None})
    assert classify(odd("OddError", (httpx.ConnectError,), {})("words")).code == "unreadable_error"


def test_a_stream_is_not_read():
    class Unread(httpx.SyncByteStream):
        def __iter__(self):
            raise AssertionError("the stream was read")

    request = httpx.Request("POST", "https://service")
    response = httpx.Response(429, stream=Unread(), request=request)
    fault = classify(httpx.HTTPStatusError("", request=request, response=response))
    assert (fault.code, fault.evidence) == ("http_429", Evidence.NONE)


def test_a_body_that_is_loaded_is_read():
    quota = json.dumps({"error": {"code": "insufficient_quota", "message": "spent"}}).encode()
    request = httpx.Request("POST", "https://service")
    fault = classify(httpx.HTTPStatusError("", request=request, response=httpx.Response(429, content=quota)))
    assert (fault.code, fault.message) == ("insufficient_quota", "spent")


def test_the_method_decides_what_a_404_means_after_doubt():
    def gone(method):
        return classify(answered("requests.exceptions.HTTPError", 404, method=method), doubtful=True)

    assert gone("DELETE").own_success
    assert not gone("POST").own_success
    assert gone("POST").evidence is Evidence.MAYBE

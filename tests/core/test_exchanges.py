"""What the requests that were seen prove: the rules of ``core.exchanges``, one by one and over drawn sights."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from settled.core.faults.exchanges import (
    CUT,
    LONGEST_BODY,
    LONGEST_TARGET,
    MOST_KEPT,
    READING,
    Reach,
    Seen,
    Sight,
    kept,
    weigh,
)
from settled.core.model import Evidence, Exchange, Fault, FaultClass, Phase
from settled.core.values import replace
from tests.core.faults.fakes import made, through

UNKNOWN, RETRYABLE, PERMANENT = FaultClass.UNKNOWN, FaultClass.RETRYABLE, FaultClass.PERMANENT
NONE, MAYBE = Evidence.NONE, Evidence.MAYBE
DOUBT = Fault(UNKNOWN, MAYBE, "connection_error", "what the client said")
TIMED_OUT = Fault(UNKNOWN, MAYBE, CUT, "no answer within 10 s")
REFUSED = Fault(RETRYABLE, NONE, "connect_refused")
OURS = ConnectionError("ours")
HEAD = "httpcore._sync.http11._send_request_headers"
"""What the client raised for the request, and the tool let through."""


def unsent(**more: Any) -> Seen:
    return Seen("POST", errors=(OURS,), **more)


def sent(**more: Any) -> Seen:
    return replace(unsent(**more), phase=Phase.SENT)


def answered(status: int, body: bytes = b"{}", method: str = "POST", **more: Any) -> Seen:
    return Seen(method, phase=Phase.ANSWERED, status=status, body=body, whole=True, **more)


def looked(status: int = 200) -> Seen:
    return answered(status, method="GET")


def weighed(
    *exchanges: Seen, fault: Fault = DOUBT, error: BaseException = OURS, barred: bool = False, **reach: Any
) -> tuple[FaultClass, Evidence, str]:
    said = weigh(fault, error, Sight(exchanges, barred), Reach(**reach))
    return said.kind, said.evidence, said.code


# --- 1. what was seen to leave is not unsaid ----------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        sent(),
        answered(200),
        answered(307),
        answered(500),
        answered(409),
        answered(502),
        unsent(ended=False),
        unsent(phase=Phase.SENDING),
    ],
    ids=["sent", "200", "307", "500", "409", "502", "still connecting", "half written"],
)
def test_a_refused_second_request_does_not_unsay_the_first(first: Seen) -> None:
    assert weighed(first, unsent(), fault=REFUSED) == (UNKNOWN, MAYBE, "connect_refused")
    assert weighed(first, fault=REFUSED, error=ConnectionRefusedError()) == (UNKNOWN, MAYBE, "connect_refused")
    assert weighed(first, unsent()) == (UNKNOWN, MAYBE, "connection_error")


@pytest.mark.parametrize(
    "first",
    [unsent(), answered(422), answered(401), answered(429), answered(503, headers={"retry-after": "1"}), looked()],
    ids=["not sent", "422", "401", "429", "503 with a pause", "a look"],
)
def test_what_did_nothing_leaves_the_proof_alone(first: Seen) -> None:
    assert weighed(first, unsent(), fault=REFUSED) == (RETRYABLE, NONE, "connect_refused")
    assert weighed(first, fault=REFUSED) == (RETRYABLE, NONE, "connect_refused")


def test_without_anything_seen_all_stays_as_it_was() -> None:
    for fault in (DOUBT, REFUSED, TIMED_OUT):
        assert weigh(fault, OURS, Sight(), Reach()) == fault
        assert weigh(fault, OURS, Sight(), Reach(hooked=True)) == fault
        assert weigh(fault, OURS, Sight(barred=True), Reach(hooked=True)) == fault


# --- 2. what was seen not to leave --------------------------------------------------------


def test_a_request_that_never_left_proves_it_for_its_own_error() -> None:
    assert weighed(unsent()) == (RETRYABLE, NONE, "connection_error")
    wrapped = made("openai.APIConnectionError", cause=OURS)
    assert weighed(unsent(), error=wrapped) == (RETRYABLE, NONE, "connection_error")
    assert weighed(looked(), unsent()) == (RETRYABLE, NONE, "connection_error")


def test_another_error_is_not_explained_by_it() -> None:
    other = KeyError("total")
    assert weighed(unsent(), error=other)[1] is MAYBE
    other.__context__ = OURS  # it merely came before
    assert weighed(unsent(), error=other)[1] is MAYBE
    assert weighed(unsent(), error=ExceptionGroup("two", [OURS]))[1] is MAYBE


def test_a_refusal_that_was_seen_is_told_by_its_status() -> None:
    stripe = made("stripe.CardError", "declined", http_status=402)
    refusal = answered(402, b'{"error": {"message": "declined"}}')
    assert weighed(refusal, error=stripe) == (PERMANENT, NONE, "http_402")
    assert weigh(DOUBT, stripe, Sight((refusal,)), Reach()).message == "declined"
    assert weighed(answered(422), error=stripe)[1] is MAYBE
    assert weighed(refusal, unsent(), error=stripe)[1] is MAYBE  # not the last one's status
    assert weighed(refusal, answered(422), error=stripe)[1] is MAYBE
    assert weighed(answered(422), refusal, error=stripe)[1] is NONE
    assert weighed(answered(500), error=made("x.ApiError", status=500))[1] is MAYBE
    request = httpx.Request("POST", "http://side.test/")
    error = httpx.HTTPStatusError("no", request=request, response=httpx.Response(402, request=request))
    assert weighed(refusal, error=error) == (PERMANENT, NONE, "http_402")


def test_of_several_requests_the_last_ones_refusal_is_told() -> None:
    three = (answered(401, b"who?"), answered(429, b"later"), answered(422, b"no such customer"))
    said = weigh(DOUBT, OURS, Sight(three), Reach(hooked=True))
    assert (said.kind, said.code, said.message) == (PERMANENT, "http_422", "no such customer")


def test_an_error_with_a_status_speaks_of_the_last_request_whatever_came_before() -> None:
    stripe = made("stripe.CardError", "declined", http_status=402)
    assert weighed(answered(422), unsent(), answered(402), error=stripe)[1] is NONE
    assert weighed(answered(402), answered(402), unsent(), error=stripe)[1] is MAYBE


@pytest.mark.parametrize("name", ["http_status", "response_status_code", "response_code", "http_code", "errcode"])
def test_how_sdks_call_the_status_of_an_answer(name: str) -> None:
    assert weighed(answered(402), error=made("sdk.ApiError", **{name: 402})) == (PERMANENT, NONE, "http_402")
    assert weighed(answered(402), error=made("sdk.ApiError", **{name: 422}))[1] is MAYBE
    assert weighed(answered(402), error=made("sdk.ApiError", **{name: "card_declined"}))[1] is MAYBE


def test_of_the_layers_of_a_client_the_first_that_raised_tells() -> None:
    never, lost = made("httpx.ConnectError", "refused"), made("httpx.ReadTimeout", "slow")
    for errors, evidence in (((never, lost), NONE), ((lost, never), MAYBE)):
        one = Seen("POST", phase=Phase.UNSEEN, errors=errors)
        assert weighed(one, error=errors[0])[1] is evidence
        assert kept(Sight((one,)), clean)[0].error == type(errors[0]).__name__


def test_our_own_time_out_speaks_of_the_request_that_it_cut() -> None:
    cut = Seen("POST", cut=True)
    error = TimeoutError()
    assert weighed(cut, fault=TIMED_OUT, error=error) == (RETRYABLE, NONE, CUT)
    assert weighed(unsent(), fault=TIMED_OUT, error=error)[1] is MAYBE
    assert weighed(replace(cut, phase=Phase.SENT), fault=TIMED_OUT, error=error)[1] is MAYBE
    assert weighed(answered(422, cut=True), fault=TIMED_OUT, error=error) == (PERMANENT, NONE, "http_422")
    assert weighed(answered(201, cut=True), fault=TIMED_OUT, error=error) == (UNKNOWN, MAYBE, CUT)


def test_of_a_tool_with_several_requests_nothing_is_proved_but_what_it_says_is_seen() -> None:
    assert weighed(unsent(), several=True)[1] is MAYBE
    other = KeyError("total")
    assert weighed(unsent(), error=other, hooked=True) == (RETRYABLE, NONE, "connection_error")
    assert weighed(answered(422), error=other, hooked=True) == (PERMANENT, NONE, "http_422")
    assert weighed(unsent(), fault=TIMED_OUT, error=TimeoutError(), hooked=True) == (RETRYABLE, NONE, CUT)
    assert weighed(sent(), unsent(), error=other, hooked=True)[1] is MAYBE


# --- 3. what can still be sent ------------------------------------------------------------


def test_an_attempt_that_goes_on_may_still_send() -> None:
    assert weighed(unsent(), over=False)[1] is MAYBE
    assert weighed(unsent(), over=False, barred=True)[1] is NONE
    assert weighed(unsent(), over=False, hooked=True)[1] is MAYBE
    assert weighed(answered(422), over=False, hooked=True)[1] is MAYBE
    open_one = unsent(ended=False)
    assert weighed(open_one)[1] is MAYBE
    assert weighed(open_one, barred=True)[1] is NONE


# --- 4. reading ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", sorted(READING))
def test_reading_harms_no_proof_and_is_none(method: str) -> None:
    look = Seen(method, phase=Phase.SENT, errors=(OURS,))
    assert weighed(look, fault=REFUSED)[1] is NONE
    assert weighed(look, unsent())[1] is NONE
    assert weighed(look)[1] is MAYBE
    assert weighed(replace(look, phase=Phase.NOT_SENT))[1] is MAYBE


def test_where_nothing_goes_unseen_a_look_that_failed_is_all_there_was() -> None:
    assert weighed(replace(unsent(), method="GET"), hooked=True)[1] is NONE
    assert weighed(looked(404), error=KeyError(), hooked=True)[1] is NONE
    assert weighed(replace(sent(), method="GET"), hooked=True)[1] is MAYBE  # it may be the effect of an odd service
    assert weighed(looked(200), error=KeyError(), hooked=True)[1] is MAYBE


def test_a_document_that_was_read_may_be_about_errors_and_is_no_refusal() -> None:
    body = b'{"error": {"code": 404, "message": "no such order"}}'
    assert weighed(answered(200, body), error=KeyError(), hooked=True)[1] is NONE
    assert weighed(answered(200, body, "GET"), error=KeyError(), hooked=True)[1] is MAYBE


# --- phases that leave it open ------------------------------------------------------------


def test_what_a_client_refuses_to_write_was_not_sent() -> None:
    for phase in (Phase.SENDING, Phase.UNSEEN):
        error = through(HEAD, made("httpx.LocalProtocolError", "Illegal header value"))
        assert weighed(unsent(phase=phase), Seen("POST", phase=phase, errors=(error,)), error=error)[1] is MAYBE
        assert weighed(Seen("POST", phase=phase, errors=(error,)), error=error)[1] is NONE


def test_a_broken_connection_may_have_carried_something() -> None:
    error = OSError(113, "No route to host")
    assert weighed(Seen("POST", phase=Phase.SENDING, errors=(error,)), error=error)[1] is MAYBE
    assert weighed(Seen("POST", phase=Phase.SENDING), fault=REFUSED)[1] is MAYBE
    assert weighed(Seen("POST", phase=Phase.UNSEEN), fault=REFUSED)[1] is MAYBE


def test_under_a_transport_that_does_not_tell_its_error_decides() -> None:
    never = made("httpx.ConnectError", "refused")
    assert weighed(Seen("POST", phase=Phase.UNSEEN, errors=(never,)), error=never, fault=REFUSED)[1] is NONE
    lost = made("httpx.ReadTimeout", "slow")
    assert weighed(Seen("POST", phase=Phase.UNSEEN, errors=(lost,)), error=lost)[1] is MAYBE


def test_a_body_that_was_cut_is_not_read_as_one() -> None:
    whole = answered(409, b'{"__type": "ConditionalCheckFailedException"}')
    error = made("x.ApiError", status=409)
    assert weighed(whole, error=error)[1] is NONE
    assert weighed(replace(whole, whole=False), error=error)[1] is MAYBE


def test_doubt_about_an_earlier_attempt_weakens_a_refusal() -> None:
    error = made("x.ApiError", status=404)
    assert weighed(answered(404), error=error)[1] is NONE
    assert weighed(answered(404), error=error, doubtful=True)[1] is MAYBE


def test_what_the_tool_did_in_part_stays_so() -> None:
    for evidence in (Evidence.SOME, Evidence.DONE):
        fault = Fault(FaultClass.PARTIAL, evidence, "x")
        assert weigh(fault, OURS, Sight((unsent(),)), Reach(hooked=True)) == fault


# --- what a proof says besides ------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "unsent_is", "refused_is"),
    [
        (UNKNOWN, RETRYABLE, PERMANENT),
        (PERMANENT, PERMANENT, PERMANENT),
        (FaultClass.CANCELLED, FaultClass.CANCELLED, FaultClass.CANCELLED),  # nobody waits for it any more
    ],
)
def test_what_is_proved_may_well_go_better_unless_the_attempt_ended_for_a_reason_of_its_own(
    kind: FaultClass, unsent_is: FaultClass, refused_is: FaultClass
) -> None:
    doubt = replace(DOUBT, kind=kind, uncertain=True)
    sure = replace(doubt, kind=unsent_is, evidence=NONE, uncertain=False)
    assert weigh(doubt, OURS, Sight((unsent(),)), Reach()) == sure
    assert weighed(answered(422), fault=doubt, hooked=True)[:2] == (refused_is, NONE)


@pytest.mark.parametrize(("body", "message"), [(b"no such customer", "no such customer"), (b"", DOUBT.message)])
def test_a_refusal_that_says_nothing_leaves_the_attempts_own_words(body: bytes, message: str) -> None:
    assert weigh(DOUBT, OURS, Sight((answered(422, body),)), Reach(hooked=True)).message == message


def test_how_long_a_refusal_asks_to_wait_is_reckoned_from_the_attempts_own_clock() -> None:
    throttled = answered(429, headers={"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"})
    at = 784_111_777.0  # that instant
    for now, wait in ((at - 30.0, 30.0), (at - 7.0, 7.0)):
        said = weigh(DOUBT, OURS, Sight((throttled,)), Reach(hooked=True, now=now))
        assert (said.evidence, said.retry_after) == (NONE, wait)


@pytest.mark.parametrize(("state", "evidence"), [("23505", NONE), ("08006", MAYBE)], ids=["refused", "lost"])
def test_an_answer_without_a_status_is_a_databases_and_its_error_says_what_it_proves(
    state: str, evidence: Evidence
) -> None:
    error = made("psycopg.Error", sqlstate=state)
    assert weighed(Seen("EXECUTE", phase=Phase.ANSWERED, errors=(error,)), error=error, hooked=True)[1] is evidence
    assert weighed(Seen("EXECUTE", phase=Phase.ANSWERED), hooked=True)[1] is MAYBE


# --- over drawn sights --------------------------------------------------------------------

PHASES = st.sampled_from(Phase)
STATUSES = st.sampled_from([200, 201, 302, 307, 400, 404, 408, 409, 422, 429, 500, 502, 503])
UNWRITTEN = through(HEAD, made("httpx.LocalProtocolError", "no"))
ERRORS = st.sampled_from([(), (OURS,), (made("httpx.ConnectError", "no"),), (UNWRITTEN,), (TimeoutError(),)])
EXCHANGES = st.builds(
    Seen,
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE"]),
    phase=PHASES,
    status=STATUSES,
    errors=ERRORS,
    ended=st.booleans(),
    cut=st.booleans(),
)
SIGHTS = st.builds(Sight, st.lists(EXCHANGES, max_size=4).map(tuple), barred=st.booleans())
REACHES = st.builds(Reach, several=st.booleans(), hooked=st.booleans(), over=st.booleans(), doubtful=st.booleans())
FAULTS = st.sampled_from([DOUBT, TIMED_OUT, REFUSED, Fault(PERMANENT, NONE, "http_422"), Fault(PERMANENT, MAYBE, "x")])
RAISED = st.sampled_from([OURS, KeyError("x"), ExceptionGroup("g", [OURS]), made("x.ApiError", status=422)])


def may_have_acted(each: Seen, *, barred: bool) -> bool:
    """By other words than the rules': this request changes something, and left or may leave, and no refusal came."""
    if each.method in ("GET", "HEAD"):
        return False
    if each.phase is Phase.NOT_SENT:
        return not each.ended and not barred
    if each.phase is Phase.ANSWERED:
        return each.status in (200, 201, 302, 307, 408, 409, 500, 502, 503)
    return each.phase is Phase.SENT


@given(FAULTS, RAISED, SIGHTS, REACHES)
@example(REFUSED, OURS, Sight((sent(),)), Reach())
def test_none_is_never_said_over_a_request_that_may_have_acted(
    fault: Fault, error: BaseException, sight: Sight, reach: Reach
) -> None:
    said = weigh(fault, error, sight, reach)
    if any(may_have_acted(each, barred=sight.barred) for each in sight.exchanges):
        assert said.evidence is MAYBE
        assert said.kind is not RETRYABLE


@given(FAULTS, RAISED, SIGHTS, REACHES)
def test_one_more_request_that_may_have_acted_never_proves_more(
    fault: Fault, error: BaseException, sight: Sight, reach: Reach
) -> None:
    more = replace(sight, exchanges=(sent(), *sight.exchanges))
    assert weigh(fault, error, more, reach).evidence is MAYBE
    assert weigh(fault, error, replace(sight, exchanges=(*sight.exchanges, sent())), reach).evidence is MAYBE


@given(FAULTS, RAISED, SIGHTS, REACHES)
def test_doubt_is_lifted_only_where_something_was_seen_and_can_send_no_more(
    fault: Fault, error: BaseException, sight: Sight, reach: Reach
) -> None:
    said = weigh(fault, error, sight, reach)
    if fault.evidence is MAYBE and said.evidence is NONE:
        assert sight.exchanges
        assert reach.over or sight.barred
        assert reach.hooked or not reach.several


# --- what is kept -------------------------------------------------------------------------


def clean(text: str) -> str:
    return text.replace("tok_1", "[secret]")


def test_what_is_kept_is_bounded_and_holds_no_secrets() -> None:
    headers = {"set-cookie": "a=b", "content-type": "text/tok_1", "authorization": "x", "retry-after": "7"}
    seen = answered(400, b"tok_1 " + b"x" * 5000, target="http://h/tok_1/" + "y" * 999, headers=headers)
    (one,) = kept(Sight((seen,)), clean)
    assert one.headers == (("content-type", "text/[secret]"), ("retry-after", "7"))
    assert one.body.startswith("[secret] xxx")
    assert len(one.body) == LONGEST_BODY
    assert one.target.startswith("http://h/[secret]/yyy")
    assert len(one.target) == LONGEST_TARGET
    (bare,) = kept(Sight((seen,), bodies=False), clean)
    assert bare == replace(one, body="")


def test_all_that_tells_something_of_a_request_is_kept() -> None:
    seen = answered(201, b"made", "PUT", target="http://h/1", key="k1", begun=1.23456789, took=0.12345678)
    (one,) = kept(Sight((seen,)), clean)
    assert one == Exchange("PUT", "http://h/1", Phase.ANSWERED, 201, (), "made", "", 1.234568, 0.123457, "k1")


def test_a_body_that_is_no_text_is_kept_as_far_as_it_is_one() -> None:
    (one,) = kept(Sight((answered(200, b"caf\xe9 \xc3\xa9"),)), clean)
    assert one.body == "caf\ufffd \u00e9"


def test_of_many_requests_the_first_and_the_last_are_kept() -> None:
    many = Sight(tuple(answered(200 + n) for n in range(MOST_KEPT + 3)))
    statuses = [each.status for each in kept(many, clean)]
    assert statuses == [200, 201, 202, 203, 207, 208, 209, 210]


def test_a_body_that_was_cut_says_so() -> None:
    (one,) = kept(Sight((replace(answered(200, b"half"), whole=False),)), clean)
    assert one.body == "half…"
    (none,) = kept(Sight((replace(answered(200, b""), whole=False, errors=(OURS,)),)), clean)
    assert (none.body, none.error) == ("", "ConnectionError")

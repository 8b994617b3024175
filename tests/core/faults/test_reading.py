"""Reading what others made: attributes, headers, the wire format of gRPC's details."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settled.core.faults import classify, look, protobuf
from settled.core.model import Evidence, FaultClass
from tests.core.faults.fakes import client_error, fake, made, rpc_error


class Hostile:
    def __getattr__(self, name):
        raise RuntimeError(name)

    def __str__(self):
        raise RuntimeError("no text")

    def __iter__(self):
        raise RuntimeError("no items")


def test_what_raises_counts_as_missing():
    assert look.attr(Hostile(), "anything") is None
    assert look.called(SimpleNamespace(code=Hostile().__str__), "code") is None
    assert look.called(SimpleNamespace(code=5), "code") is None
    assert look.text(Hostile()) == ""
    assert look.text(b"a\xff") == look.text(bytearray(b"a\xff")) == "a\ufffd"
    assert look.lowered(Hostile()) == {}


def test_numbers():
    numbers = {5: 5, "429": 429, "9" * 9: 999_999_999, "9" * 10: None, 4.5: None, "-1": None, "٣": None, None: None}
    assert {value: look.number(value) for value in numbers} == numbers
    assert look.number(True) is None


def test_headers_of_any_kind():
    assert look.lowered({"Retry-After": " 5 "}) == {"retry-after": "5"}
    assert look.lowered({b"Retry-After": b"5", "Set-Cookie": ["a", "b"]}) == {"retry-after": "5", "set-cookie": "a"}
    assert look.lowered((("Retry-After", "5"),)) == {"retry-after": "5"}
    assert look.lowered([3, ("a",), ("b", 1, 2)]) == {"": ""}
    assert look.lowered(None) == look.lowered("text") == look.lowered(5) == {}


def test_what_is_kept_is_short():
    assert look.describe(ValueError()) == "ValueError"
    assert look.describe(ValueError("x: ")) == "ValueError: x"
    assert len(look.describe(ValueError("x" * 5000))) == look.LONGEST_TEXT


# --- protobuf ---

AT = 1_792_567_680.0
"""Half a minute before 07:28:30 on 21 October 2026."""

TYPE = b"type.googleapis.com/google.rpc.RetryInfo"


def field(number, value):
    return bytes([number << 3 | 2, len(value)]) + value


def status(duration, kind=TYPE):
    return b"\x08\x08" + field(2, b"words") + field(3, field(1, kind) + field(2, field(1, duration)))


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        (status(b"\x08\x03"), 3.0),
        (status(b"\x08\x03\x10\x80\xca\xb5\xee\x01"), 3.5),
        (status(b"\x10\x80\xca\xb5\xee\x01"), 0.5),
        (status(b""), 0.0),
        (status(b"\x08\x03", b"type.googleapis.com/google.rpc.ErrorInfo") + status(b"\x08\x07"), 7.0),
        (b"\x0d1234" + b"\x0912345678" + status(b"\x08\x03"), 3.0),
        (status(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), None),
        (status(b"\x08\x03", b"type.googleapis.com/google.rpc.ErrorInfo"), None),
        (status(b"\x08\x03")[:-1], None),
        (b"\x1b", None),
        (b"\x08", None),
        (b"\x08" + b"\xff" * 11, None),
        (b"\x08" + b"\xff" * 9 + b"\x01" + status(b"\x08\x03"), 3.0),
        (b"\x08" + b"\xff" * 10 + b"\x01" + status(b"\x08\x03"), None),
        (status(b"\x08\x03").replace(b"\x1a\x30", b"\x1a\x33"), None),
        (b"\x18\x05", None),
        (b"", None),
    ],
)
def test_the_delay_in_grpc_details(message, seconds):
    assert protobuf.retry_delay(message) == seconds


@given(st.binary(max_size=60))
def test_any_bytes_are_read(message):
    delay = protobuf.retry_delay(message)
    assert delay is None or delay >= 0
    protobuf.retry_delay(field(3, field(1, TYPE) + field(2, message)) if len(message) < 50 else b"")


@pytest.mark.parametrize(
    "metadata",
    [
        *(None, 5, (3,), (("grpc-status-details-bin", "text"),), (("grpc-status-details-bin",),)),
        (("grpc-status-details-bin", b"\xff"),),
    ],
)
def test_metadata_of_any_shape(metadata):
    assert classify(rpc_error("RESOURCE_EXHAUSTED", metadata=metadata)).retry_after is None


def test_pushback():
    stop = classify(rpc_error("UNAVAILABLE", metadata=(("grpc-retry-pushback-ms", "-1"),)))
    assert (stop.kind, stop.evidence) == (FaultClass.PERMANENT, Evidence.MAYBE)
    wait = classify(rpc_error("UNAVAILABLE", metadata=(("grpc-retry-pushback-ms", "1500"),)))
    assert (wait.kind, wait.retry_after) == (FaultClass.UNKNOWN, 1.5)
    date = classify(rpc_error("UNAVAILABLE", metadata=(("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT"),)), now=AT)
    assert date.retry_after == 30.0


def test_an_rpc_error_without_a_code():
    assert classify(fake("grpc.RpcError")()).code == "grpc_error"


def test_google_names_the_delay_in_its_details():
    delay = SimpleNamespace(retry_delay=SimpleNamespace(seconds=3, nanos=500_000_000))
    error = made(
        "google.api_core.exceptions.ResourceExhausted",
        bases=(fake("google.api_core.exceptions.GoogleAPICallError"),),
        grpc_status_code=SimpleNamespace(name="RESOURCE_EXHAUSTED"),
        details=[SimpleNamespace(), delay],
    )
    fault = classify(error)
    assert (fault.throttled, fault.retry_after, fault.evidence) == (True, 3.5, Evidence.NONE)
    error.details = (SimpleNamespace(retry_delay=SimpleNamespace(seconds=3)),)
    assert classify(error).retry_after == 3.0


# --- what botocore leaves out ---


def test_botocores_answer_may_lack_parts():
    assert classify(client_error("SlowDown", None)).throttled
    assert classify(made("botocore.exceptions.ClientError", response={})).evidence is Evidence.MAYBE
    odd = made("botocore.exceptions.ClientError", response={"Error": 5, "ResponseMetadata": None})
    assert classify(odd).evidence is Evidence.MAYBE
    assert classify(made("subprocess.CalledProcessError", returncode=None)).code == "exit"


def test_a_429_with_a_doubtful_code_is_still_a_429():
    assert classify(client_error("InternalError", 429)).evidence is Evidence.NONE

"""Redis behind something: a proxy that answers in its place, sentinels that know no master."""

import contextlib
import errno
import ssl

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

from settled.core.faults import classify
from settled.core.model import Evidence, FaultClass
from tests.core.faults.fakes import through
from tests.transports.once import Once
from tests.transports.side import closed_port


class Proxy(Once):
    """Takes commands, as it would hand them on, and answers the last one in its own words."""

    def __init__(self, words):
        super().__init__()
        self.words = words

    def talk(self, sock):
        sock.settimeout(5)
        with contextlib.suppress(OSError):
            while data := sock.recv(65536):
                greeting = b"CLIENT" in data or b"HELLO" in data
                sock.sendall(
                    b"+OK\r\n" * data.count(b"\r\n*") + b"+OK\r\n" if greeting else f"-{self.words}\r\n".encode()
                )


HANDED_ON = [  # twemproxy's, Envoy's, Codis'
    *("ERR Connection timed out", "ERR Connection reset by peer", "ERR Broken pipe", "ERR No route to host"),
    *("upstream failure", "upstream protocol error", "ERR handle response, backend conn reset"),
]
OF_THE_COMMAND = [
    *("ERR unknown command 'host', with args beginning with: ", "ERR syntax error", "ERR timeout is negative"),
    *("ERR wrong number of arguments for 'connection' command", "WRONGTYPE Operation against a key"),
    "ERR value is not an integer or out of range",
]


@pytest.mark.parametrize("words", [*HANDED_ON, *OF_THE_COMMAND])
def test_what_a_proxy_says_of_a_connection_is_no_refusal_of_the_command(words):
    with Proxy(words) as proxy, redis.Redis(port=proxy.port, socket_timeout=5, protocol=2) as client:
        with pytest.raises(redis.RedisError) as caught:
            client.incr("x")
        fault = classify(caught.value)
    handed_on = words in HANDED_ON
    assert fault.evidence is (Evidence.MAYBE if handed_on else Evidence.NONE), fault
    assert (fault.kind is FaultClass.UNKNOWN) is handed_on


def test_so_it_is_amid_a_pipeline():
    fault = classify(redis.ResponseError("Command # 1 (SET a 1) of pipeline caused error: Connection timed out"))
    assert fault.kind is FaultClass.UNKNOWN


def test_without_a_master_nothing_was_sent():
    sentinel = Sentinel([("127.0.0.1", closed_port())], socket_timeout=1)
    with pytest.raises(MasterNotFoundError) as caught:
        sentinel.master_for("mine", retry=Retry(NoBackoff(), 0)).incr("x")
    assert classify(caught.value).evidence is Evidence.NONE


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("No master found for 'mine'", MasterNotFoundError("No master found for 'mine'")),
        ("Error 111 connecting to here:6379. Connection refused.", ConnectionRefusedError(errno.ECONNREFUSED, "")),
        ("max number of clients reached", None),
        ("words", ssl.SSLCertVerificationError()),
    ],
)
def test_whatever_fails_as_it_connects_anew_says_nothing_of_what_was_sent_before(words, cause):
    def error():
        new = redis.ConnectionError(words)
        new.__cause__ = cause
        return new

    assert classify(through("redis.connection.send_packed_command", error())).evidence is Evidence.MAYBE
    assert classify(through("redis.connection.connect", error())).evidence is Evidence.NONE

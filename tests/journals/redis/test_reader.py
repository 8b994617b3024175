"""What a server says comes in any pieces, and is the same."""

import pytest
import redis

from settled.journals.redis.reader import Reader

SAID = {
    b"$3\r\nabc\r\n": b"abc",
    b"$0\r\n\r\n": b"",
    b"$5\r\na\r\n$1\r\n": b"a\r\n$1",
    b"$-1\r\n": None,
    b"*-1\r\n": None,
    b":42\r\n": 42,
    b"+OK\r\n": b"OK",
    b"*3\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n*0\r\n": [b"a", [1, None], []],
}


def reader(said, at):
    """A reader to which it comes so many bytes at a time, and then nothing more."""
    pieces = [said[i : i + at] for i in range(0, len(said), at)] or [b""]
    return Reader(lambda _: pieces.pop(0) if pieces else b"")


@pytest.mark.parametrize("said", SAID)
def test_in_pieces_of_every_size(said):
    for at in range(1, len(said) + 1):
        assert reader(said, at).answer() == SAID[said]


@pytest.mark.parametrize("said", SAID)
def test_cut_off_it_is_no_answer(said):
    for end in range(len(said)):
        with pytest.raises(redis.ConnectionError, match="has closed the connection"):
            reader(said[:end], 7).answer()


def test_one_answer_after_the_other():
    said = list(SAID)
    one = Reader(lambda _: said.pop(0))
    assert [one.answer() for _ in SAID] == list(SAID.values())


def test_refusals():
    for said, text in {b"-ERR no\r\n": "no", b"-NOSCRIPT No matching\r\n": "NOSCRIPT No matching"}.items():
        with pytest.raises(redis.ResponseError) as caught:
            reader(said, 3).answer()
        assert str(caught.value) == text
    with pytest.raises(redis.InvalidResponse, match="Protocol error"):
        reader(b"HTTP/1.1 400 Bad Request\r\n\r\n", 100).answer()

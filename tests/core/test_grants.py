"""Tokens: what is signed is read again, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settled.core.runs.grants import LONGEST, Grant, Unreadable, keys_of, read, sign

KEY, OTHER = b"k" * 16, b"o" * 16
NAMES = st.text(max_size=20)
GRANTS = st.builds(
    Grant,
    run_id=NAMES,
    tenant=NAMES,
    journal_id=NAMES,
    lane=NAMES,
    entry=st.integers(1, 2**31),
    until=st.floats(0, 1e12),
    within=st.floats(0, 1e6),
    tools=st.none() | st.lists(NAMES, max_size=5).map(tuple),
    on_error=st.sampled_from(["keep", "compensate"]),
    retries=st.none() | st.tuples(st.integers(0, 9), st.none() | st.dictionaries(NAMES, st.integers(0, 9)), st.none()),
)
GRANT = Grant("trip", "acme", "jn_1", "a", 1, 1000.0, 60.0)


@given(GRANTS)
def test_what_was_signed_is_read_again(grant):
    token = sign(grant, KEY)
    assert token.isascii()
    assert read(token, [OTHER, KEY]) == grant


@given(GRANTS, st.data())
def test_one_changed_character_is_noticed(grant, data):
    token = sign(grant, KEY)
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from("AZaz09-_."))
    changed = token[:place] + other + token[place + 1 :]
    if changed != token:
        with pytest.raises(Unreadable):
            read(changed, [KEY])


@given(st.text())
def test_any_other_text_is_refused(text):
    with pytest.raises(Unreadable) as refused:
        read(text, [KEY])
    assert refused.value.why == str(refused.value) == "malformed"


def test_a_key_that_did_not_sign_reads_nothing():
    with pytest.raises(Unreadable) as refused:
        read(sign(GRANT, KEY), [OTHER])
    assert refused.value.why == "signature"
    with pytest.raises(Unreadable):
        read(sign(GRANT, KEY), [])


def test_what_a_later_release_says_besides_is_refused():
    class Later(Grant, frozen=True):
        more: int = 1

    with pytest.raises(Unreadable) as refused:
        read(sign(Later("trip", "", "jn", "a", 1, 1.0, 1.0), KEY), [KEY])
    assert refused.value.why == "malformed"


def test_a_token_fits_a_header():
    many = Grant("trip", "", "jn", "a", 1, 1.0, 1.0, tools=tuple(f"tool number {n}" for n in range(1000)))
    with pytest.raises(ValueError, match="name fewer tools"):
        sign(many, KEY)
    assert len(sign(GRANT, KEY)) < LONGEST / 10


def of_length(characters):
    """Return a grant whose token is at least so long, and no shorter one is."""
    names = ("x" * length for length in range(LONGEST))
    grants = (Grant(name, "acme", "jn_1", "a", 1, 1000.0, 60.0) for name in names)
    return next(grant for grant in grants if signed_length(grant) >= characters)


def signed_length(grant):
    try:
        return len(sign(grant, KEY))
    except ValueError:
        return LONGEST + 1


def test_the_longest_token_is_read_and_none_that_is_longer():
    longest = of_length(LONGEST)
    assert len(sign(longest, KEY)) == LONGEST
    assert read(sign(longest, KEY), [KEY]) == longest
    with pytest.raises(Unreadable) as refused:
        read(sign(longest, KEY).replace("settled1.", "settled1.A"), [KEY])
    assert refused.value.why == "malformed"


@pytest.mark.parametrize("spelling", ["settled1.abc", "settled1..{mac}", "settled2.abc.{mac}", "{token}=", " {token}"])
def test_another_spelling_is_malformed(spelling):
    token = sign(GRANT, KEY)
    with pytest.raises(Unreadable) as refused:
        read(spelling.format(token=token, mac=token.rpartition(".")[2]), [KEY])
    assert refused.value.why == "malformed"


def test_a_second_spelling_of_the_same_signature_is_malformed():
    token = sign(GRANT, KEY)  # the last of 43 characters has two bits that say nothing
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    alike = letters[letters.index(token[-1]) + 1]
    with pytest.raises(Unreadable) as refused:
        read(token[:-1] + alike, [KEY])
    assert refused.value.why == "malformed"


@pytest.mark.parametrize(
    ("given", "says"),
    [([7], "text or bytes, or several of them"), ("short", "16 bytes at the least"), ([KEY, b"x"], "16 bytes")],
)
def test_what_is_no_key_says_what_one_is(given, says):
    with pytest.raises(ValueError, match=says):
        keys_of(given)


@pytest.mark.parametrize(
    ("given", "keys"),
    [(None, ()), (KEY, (KEY,)), (KEY.decode(), (KEY,)), ([KEY, OTHER.decode()], (KEY, OTHER))],
)
def test_keys_are_bytes_in_the_end(given, keys):
    assert keys_of(given) == keys

"""What looks like a secret in a message: it is found as surely where its words are looked for first."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from settled.api import secrets

FRAGMENTS = [
    *(
        "bearer ",
        "Basic ",
        "DIGEST\t",
        "token ",
        "abcdefgh",
        "hunter2",
        "https",
        "://",
        "ann",
        ":",
        "@",
        "/",
        " ",
        "\n",
    ),
    *("settled1.", "eyJhbGciOi", ".", "api_key", "API-Key", "accesskey", "private_key", "secret", "Token", "password"),
    *("passwd", "PASSWOD", "pwd", "authorization", "credential", "Set-Cookie", "session_id", "=", '"', "'", "my_", ","),
    *("k\u0131ey", "\u017fecret", "\u212aey", "toKen"),  # letters that re takes for others
]


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=12).map("".join))
@example("ap\u0131_key=abcdef")
@example("\u017fecret=abcdef")
def test_looking_for_the_words_first_finds_as_much(text: str) -> None:
    expected = text
    for each in secrets._PATTERNS:
        expected = each.pattern.sub(each.replacement, expected)
    cleaned = secrets.clean(text)
    assert [c for c in cleaned if c != "?"] == [c for c in expected if c.isprintable() or c in "\n\t" if c != "?"]


@pytest.mark.parametrize("case", [str, str.upper, str.title])
@pytest.mark.parametrize(
    "name", ["api_key", "access-key", "privatekey", "secret", "token", "password", "passwd", "pwd"]
)
def test_a_named_value_is_hidden_however_its_name_is_written(name: str, case: type[str]) -> None:
    assert "hunter2" not in secrets.clean(f"refused: {case(name)}=hunter2")

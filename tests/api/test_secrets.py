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
    *("?", "&sig", "key=", "x-amz-signature", "/bot123456:", "/services/T1/B2/", "sk-", "AIza", "SG.", "xoxb-"),
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


@pytest.mark.parametrize(
    ("message", "secret"),
    [
        ("Max retries exceeded with url: /bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5/sendMessage", "AAHdqT"),
        ("for url 'https://hooks.slack.com/services/T00000000/B00000000/XXXXxxxx1234XXXX'", "XXXXxxxx"),
        ("https://discord.com/api/webhooks/1234567890/aBcDeFgHiJkLmNoP-q_r", "aBcDeF"),
        ("https://b.s3.amazonaws.com/k?X-Amz-Signature=deadbeef00112233&X-Amz-Date=1", "deadbeef"),
        ("https://x.blob.core.windows.net/c/b?sv=2022&sig=S3CR3TSIG", "S3CR3T"),
        ("https://maps.test/v1?key=AIzaSyA1234567890abcdefghijklmnop", "SyA123"),
        ("Incorrect API key provided: sk-proj-abcdefghijklmnopqrstuvwxyz", "abcdefgh"),
        ("no such charge with rk_live_51abcdefghijklmnop", "51abcdef"),
        ("bad token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27u", "eyJzdWIi"),
        ('{"password": "a\\"b hunter2", "user": "ann"}', "hunter2"),
        ("DefaultEndpointsProtocol=https;AccountKey=abcd1234==;EndpointSuffix=core", "abcd1234"),
        ("cannot connect to mongodb+srv://u:p@ssw0rd@h/x", "ssw0rd"),
    ],
)
def test_what_is_known_for_a_secret_is_hidden_wherever_it_stands(message: str, secret: str) -> None:
    cleaned = secrets.clean(message)
    assert secret not in cleaned
    assert secrets.REDACTED in cleaned


@pytest.mark.parametrize(
    "message",
    [
        "task-12345678901234 of risk-assessment-report-2026 was refused",
        "https://api.test/orders/8c1f0c62-77aa-4d8c-9d7c-2f3f7c0f1a11?page=2 answered 422",
        "the desk-lamp-and-mask-collection is sold out; signature missing",
        "POST /services/billing/orders/1234567890123456 timed out after 3 s: try again at 10:30@work",
    ],
)
def test_what_is_none_stays(message: str) -> None:
    assert secrets.clean(message) == message

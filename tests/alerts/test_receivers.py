"""The receivers: what they send, whom they trust, and what they refuse."""

import base64
import json

import pytest

from settled.errors import DeclarationError, MissingExtra
from settled.observe import Apprise, Sentry, Webhook, verify
from settled.observe.webhook import signature
from settled.ports import Notice, NotTaken
from tests.alerts.conftest import SECRET

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's, on Python 3.11 and 3.12
NOTICE = Notice(
    "msg_1",
    "unknown",
    "op_1",
    "the outcome of pay is unknown",
    "no answer",
    "error",
    1.5,
    "jn_1",
    facts={"tool": "pay"},
)


# --- signatures ---


def test_a_signature_is_that_of_the_schemes_own_example():
    """The example of https://github.com/standard-webhooks/standard-webhooks, spec 1.0.0."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    given = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body)
    assert given == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def delivered(inbox, **options):
    Webhook(inbox.url, SECRET, **options).deliver(NOTICE)
    return inbox.headers[-1], inbox.raw[-1]


def test_an_event_is_as_cloudevents_has_it(inbox):
    headers, body = delivered(inbox, headers={"x-team": "payments"})
    event = json.loads(body)
    assert {name: event[name] for name in ("specversion", "id", "type", "subject", "time", "datacontenttype")} == {
        "specversion": "1.0",
        "id": "msg_1",
        "type": "settled.alert.opened",
        "subject": "op_1",
        "time": "1970-01-01T00:00:01.500Z",
        "datacontenttype": "application/json",
    }
    assert event["data"] == {
        "kind": "unknown",
        "severity": "error",
        "title": "the outcome of pay is unknown",
        "text": "no answer",
        "tool": "pay",
    }
    assert headers["x-team"] == "payments"


@pytest.mark.parametrize("part", ["body", "webhook-id", "webhook-timestamp", "webhook-signature"])
def test_what_was_changed_on_the_way_is_not_trusted(inbox, part):
    headers, body = delivered(inbox)
    assert verify(SECRET, headers, body)["id"] == "msg_1"
    if part == "body":
        body = body.replace(b"pay", b"pax")
    else:
        headers[part] = {"webhook-timestamp": "1614265330"}.get(part, headers[part] + "x")
    with pytest.raises(ValueError, match=r"signature is wrong|too long ago"):
        verify(SECRET, headers, body)
    del headers["webhook-signature"]
    with pytest.raises(ValueError, match="webhook-id"):
        verify(SECRET, headers, body)


def test_an_old_delivery_is_not_trusted(inbox):
    headers, body = delivered(inbox)
    now = float(headers["webhook-timestamp"])
    assert verify(SECRET, headers, body, now=now + 299)
    for late in (now + 301, now - 301):
        with pytest.raises(ValueError, match="too long ago"):
            verify(SECRET, headers, body, now=late)


def test_while_secrets_change_both_sign(inbox):
    new = "whsec_" + base64.b64encode(b"n" * 32).decode()
    Webhook(inbox.url, [new, SECRET]).deliver(NOTICE)
    for secret in (new, SECRET):
        assert verify(secret, inbox.headers[-1], inbox.raw[-1])
    with pytest.raises(ValueError, match="signature is wrong"):
        verify("whsec_" + base64.b64encode(b"o" * 32).decode(), inbox.headers[-1], inbox.raw[-1])


# --- what cannot work ---


@pytest.mark.parametrize(
    "secret",
    ["", "hunter2", "whsec_", "whsec_!!!!", "whsec_" + base64.b64encode(b"k" * 23).decode(), [], "whsec_" + "A" * 400],
)
def test_a_secret_that_is_none_is_refused_and_not_repeated(secret):
    with pytest.raises(DeclarationError) as refused:
        Webhook("https://example.org/hook", secret)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.org", "ftp://example.org/", "https://", "http://example.org/hook"),
        *("https://example.org:99999/", "https://example.org:port/", "https://example.org:0/", "https://[::1/"),
        *("https://example.org/a b", "https://example.org/\u00fc"),
        *("https://example.org\n/x", "https://example.org/\x00"),
    ],
)
def test_an_address_that_cannot_work_is_refused(url):
    with pytest.raises(DeclarationError, match="https://"):
        Webhook(url, SECRET)


def test_a_name_holds_nothing_secret():
    assert (
        Webhook("https://user:pass@example.org/T000/verysecret?token=x", SECRET).name == "webhook https://example.org"
    )


def test_a_user_in_the_address_is_told_to_its_host(inbox):
    Webhook(inbox.url.replace("//", "//ann%40home:s%3Acret@"), SECRET).deliver(NOTICE)
    kind, _, told = inbox.headers[0]["authorization"].partition(" ")
    assert (kind, base64.b64decode(told)) == ("Basic", b"ann@home:s:cret")


@pytest.mark.parametrize(
    ("status", "away"), [(500, True), (503, True), (429, True), (408, True), (400, False), (404, False), (301, False)]
)
def test_an_answer_that_is_no_success_is_a_failure(inbox, status, away):
    inbox.answers, inbox.after = [status], {"retry-after": "7", "location": inbox.url}
    with pytest.raises(NotTaken) as failed:
        Webhook(inbox.url, SECRET).deliver(NOTICE)
    assert (failed.value.away, failed.value.retry_after, len(inbox.events)) == (away, 7.0, 1)


def test_nobody_there_is_a_failure(inbox):
    url = inbox.url
    inbox.close()
    with pytest.raises(NotTaken, match="ConnectionRefusedError"):
        Webhook(url, SECRET).deliver(NOTICE)


# --- others ---


def test_apprise_tells_a_service_by_its_address(inbox):
    address = inbox.url.replace("http://", "json://")
    Apprise(address).deliver(NOTICE)
    told = json.loads(inbox.raw[-1])
    assert (told["title"], told["message"], told["type"]) == ("the outcome of pay is unknown", "no answer", "failure")
    Apprise(address).deliver(Notice("msg_2", "unknown", "op_1", "t", "x", "error", 1.5, "jn_1", resolved=True))
    assert json.loads(inbox.raw[-1])["type"] == "success"
    inbox.answers = [500]
    with pytest.raises(NotTaken, match="Apprise"):
        Apprise(address).deliver(NOTICE)


def test_pagerduty_is_told_which_incident_opens_and_ends():
    receiver = Apprise("pagerduty://integration@routing")
    assert receiver._addressed(NOTICE).endswith("?dedup=op_1&action=trigger")
    over = Notice("msg_2", "unknown", "op_1", "t", "x", "error", 1.5, "jn_1", resolved=True)
    assert receiver._addressed(over).endswith("?dedup=op_1&action=resolve")
    assert "routing" not in receiver.name


def test_an_address_that_apprise_does_not_know_is_refused():
    with pytest.raises(DeclarationError, match="Apprise knows no address"):
        Apprise("nothing://token-of-ours")


def test_sentry_gets_an_event(inbox):
    dsn = inbox.url.replace("http://", "http://public@").replace("/hook", "/1")
    Sentry(dsn).deliver(NOTICE)
    assert inbox.paths[-1].startswith("/api/1/")
    from gzip import decompress  # noqa: PLC0415 - only here

    told = decompress(inbox.raw[-1]) if inbox.raw[-1][:2] == b"\x1f\x8b" else inbox.raw[-1]
    assert b"the outcome of pay is unknown" in told
    assert b'"fingerprint":["settled","unknown","pay"]' in told.replace(b" ", b"")


def test_sentry_tells_of_its_failures(inbox):
    receiver = Sentry(inbox.url.replace("http://", "http://public@").replace("/hook", "/1"))
    inbox.answers = [429]
    with pytest.raises(NotTaken, match="429"):
        receiver.deliver(NOTICE)
    receiver.deliver(NOTICE)
    assert len(inbox.raw) == 2


def test_a_dsn_that_is_none_is_refused_and_not_repeated():
    with pytest.raises(DeclarationError) as refused:
        Sentry("hunter2")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("module", "make"), [("apprise", lambda: Apprise("json://x")), ("sentry_sdk", lambda: Sentry("x"))]
)
def test_a_missing_extra_is_named(monkeypatch, module, make):
    import sys  # noqa: PLC0415 - only here

    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"settled\[alerts\]"):
        make()


def test_importing_settled_loads_none_of_it():
    import subprocess  # noqa: PLC0415 - only here
    import sys  # noqa: PLC0415 - only here

    names = ("apprise", "sentry_sdk", "http.client", "settled.observe")
    code = f"import sys, settled; print([m for m in {names} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"

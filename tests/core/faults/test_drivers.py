"""Drivers and SDKs of single vendors: code, class, evidence and what else each of their errors says."""

import errno
from datetime import timedelta
from types import SimpleNamespace

import pytest

from settled.core.faults import classify
from tests.core.faults.fakes import fake, made, through

R, P, U, LOST = "retryable none", "permanent none", "unknown maybe", "permanent maybe"
FLAGS = ("throttled", "local", "own_success", "refresh", "gate")


def said(fault):
    return " ".join(
        [fault.code, str(fault.kind), str(fault.evidence), *(f for f in FLAGS if getattr(fault, f) is True)]
    )


def row(label, error, expected, **situation):
    return pytest.param(error, expected, situation, id=label)


# --- MySQL ---


def mysql(number, root="pymysql", *, way="query"):
    error = made(f"{root}.err.OperationalError", number, "words", bases=(fake(f"{root}.err.Error"),))
    return through(f"{root}.connections.{way}", error)


MYSQL = [
    *(
        row(f"{root}-{way}", mysql(2003, root, way=way), f"connect_failed {R}")
        for root, way in (
            *(("pymysql", "connect"), ("aiomysql", "_connect"), ("MySQLdb", "Connect"), ("mysql", "_open_connection")),
        )
    ),
    row("too-many-connections", mysql(1040, way="connect"), f"connect_failed {R}"),
    row("wrong-password", mysql(1045, way="connect"), f"authentication {P} refresh"),
    row("deadlock", mysql(1213), f"deadlock {R}"),
    # its statement is undone, what stood before it in the transaction is not
    *(row(str(number), mysql(number), f"database_error {U}") for number in (1062, 1205, 1064, 2006, 2013)),
    row("lost-in-words", made("pymysql.err.InterfaceError", bases=(fake("pymysql.err.Error"),)), f"database_error {U}"),
]

# --- MongoDB ---


def mongo(name, *bases, way="insert_one", **attributes):
    classes = tuple(fake(f"pymongo.errors.{base}") for base in bases)
    return through(f"pymongo.synchronous.collection.{way}", made(f"pymongo.errors.{name}", bases=classes, **attributes))


def failure(code, **more):
    return mongo("OperationFailure", code=code, **more)


MONGO = [
    row("no-server", mongo("ServerSelectionTimeoutError", "AutoReconnect"), f"connect_failed {R}"),
    row(
        "no-server-for-a-commit-that-was-sent",
        mongo("ServerSelectionTimeoutError", has_error_label=lambda label: label == "UnknownTransactionCommitResult"),
        f"commit_lost {U}",
    ),
    row("AutoReconnect", mongo("AutoReconnect"), f"unrecognised {U}"),
    row("WaitQueueTimeoutError", mongo("WaitQueueTimeoutError"), f"pool_timeout {R} local"),
    row("duplicate", mongo("DuplicateKeyError", "OperationFailure"), f"mongo_11000 {P}"),
    row("duplicate-after-doubt", mongo("DuplicateKeyError"), f"mongo_11000 {LOST} own_success", doubtful=True),
    row("duplicate-of-many", mongo("DuplicateKeyError", way="update_many"), f"mongo_11000 {LOST}"),
    row("invalid-document", failure(121), f"mongo_121 {P}"),
    row("invalid-document-of-many", failure(121, way="update_many"), f"mongo_121 {LOST}"),
    row("invalid-document-of-a-merge", failure(121, way="aggregate"), f"mongo_121 {LOST}"),
    row("unauthorized", failure(13), f"no_permission {P} gate"),
    row("wrong-password", failure(18), f"authentication {P} refresh"),
    row("time-limit", failure(50), f"database_error {U}"),
    row("not-numbered", failure(None), f"database_error {U}"),
    row("write-concern", mongo("WTimeoutError", "WriteConcernError"), f"mongo_write_concern {U}"),
    row("bulk", mongo("BulkWriteError", details={"nInserted": 3}), "mongo_bulk partial some"),
    row("bulk-of-which-none", mongo("BulkWriteError", details={"nInserted": 0}), "mongo_bulk partial maybe"),
    row("bulk-without-details", mongo("BulkWriteError"), "mongo_bulk partial maybe"),
    row("unencodable", made("bson.errors.InvalidDocument"), f"invalid_request {P} gate"),
]

# --- SSH and SFTP ---

SSH = [
    row("not-reached", made("paramiko.ssh_exception.NoValidConnectionsError", bases=(OSError,)), f"connect_failed {R}"),
    row("wrong-password", made("paramiko.ssh_exception.AuthenticationException"), f"authentication {P} refresh"),
    row("host-key", made("paramiko.ssh_exception.BadHostKeyException"), f"host_key {P} local"),
    row("SSHException", made("paramiko.ssh_exception.SSHException", "Server connection dropped"), f"unrecognised {U}"),
    row("sftp-no-folder", through("paramiko.sftp_client.putfo", FileNotFoundError(errno.ENOENT, "")), f"enoent {P}"),
    # whoever takes a file away as soon as it is there leaves none to be looked at
    row(
        "sftp-taken-away",
        through("paramiko.sftp_client.putfo", FileNotFoundError(errno.ENOENT, ""), size=5),
        f"enoent {LOST} own_success",
    ),
]

# --- Google's and AWS's credentials ---

GOOGLE_AUTH = "google.auth.exceptions"
CREDENTIALS = [
    row("refresh", made(f"{GOOGLE_AUTH}.RefreshError", "invalid_grant"), f"token_not_refreshed {P} refresh"),
    row("refresh-busy", made(f"{GOOGLE_AUTH}.RefreshError", retryable=True), f"token_not_refreshed {R}"),
    row(
        "token-not-fetched",
        through("google.oauth2.credentials.refresh", made(f"{GOOGLE_AUTH}.TransportError")),
        f"token_not_fetched {R}",
    ),
    row("request-not-made", made(f"{GOOGLE_AUTH}.TransportError"), f"unrecognised {U}"),
    *(
        row(name, made(f"botocore.exceptions.{name}"), f"{code} {P} {flag}")
        for name, code, flag in (
            *(
                ("CredentialRetrievalError", "no_credentials", "local"),
                ("TokenRetrievalError", "no_credentials", "local"),
            ),
            *(("SSOError", "no_credentials", "local"), ("ProfileNotFound", "no_credentials", "local")),
            *(("InvalidRegionError", "no_region", "local"), ("UnknownEndpointError", "no_region", "local")),
            *(("UnknownServiceError", "no_service", "local"), ("EndpointProviderError", "invalid_request", "gate")),
        )
    ),
]

# --- SDKs ---


def stripe(name, status, **error):
    return made(f"stripe._error.{name}", http_status=status, json_body={"error": error}, headers={})


def slack(code):
    return made("slack_sdk.errors.SlackApiError", response=SimpleNamespace(data={"ok": False, "error": code}))


def twilio(status):
    return made("twilio.base.exceptions.TwilioRestException", status=status, code=20000 + status)


def telegram(name, *bases, **attributes):
    return made(f"telegram.error.{name}", bases=tuple(fake(f"telegram.error.{base}") for base in bases), **attributes)


def aiogram(name, **attributes):
    return made(f"aiogram.exceptions.{name}", **attributes)


def discord(status):
    return made(
        "discord.errors.HTTPException", response=SimpleNamespace(status=status, headers={}), status=status, code=0
    )


def mail(name, *bases, root="aiosmtplib", **attributes):
    return made(f"{root}.errors.{name}", bases=tuple(fake(f"{root}.errors.{base}") for base in bases), **attributes)


def step(name, package="smtplib"):
    return through(f"{package}.{name}", made("smtplib.SMTPServerDisconnected", bases=(OSError,)))


REFUSED_ONE, LATER_ONE = mail("SMTPRecipientRefused", code=550), mail("SMTPRecipientRefused", code=451)
MAIL = [
    row("aio-not-reached", mail("SMTPConnectError", "SMTPException"), f"connect_failed {R}"),
    row("aio-connect-timeout", mail("SMTPConnectTimeoutError", "SMTPConnectError"), f"connect_timeout {R}"),
    row("aio-refused", mail("SMTPDataError", code=554), f"smtp_554 {P}"),
    row("aio-later", mail("SMTPSenderRefused", code=451), f"smtp_451 {R}"),
    row("aio-login", mail("SMTPAuthenticationError", code=535), f"smtp_535 {P} refresh"),
    row("aio-busy", mail("SMTPConnectResponseError", "SMTPConnectError", code=421), f"smtp_421 {R}"),
    row("aio-recipients", mail("SMTPRecipientsRefused", recipients=[REFUSED_ONE, REFUSED_ONE]), f"smtp_550 {P}"),
    row("aio-recipients-later", mail("SMTPRecipientsRefused", recipients=[REFUSED_ONE, LATER_ONE]), f"smtp_451 {R}"),
    row("aio-recipients-odd", mail("SMTPRecipientsRefused", recipients=5), f"smtp_error {U}"),
    row("aio-lost", mail("SMTPServerDisconnected", "SMTPException"), f"smtp_error {U}"),
    row("aio-timeout", mail("SMTPReadTimeoutError", "SMTPException"), f"smtp_error {U}"),
    *(row(f"hung-up-at-{name}", step(name), f"disconnected {R}") for name in ("connect", "ehlo", "starttls", "login")),
    *(row(f"hung-up-at-{name}", step(name), f"disconnected {U}") for name in ("rcpt", "data", "quit")),
    row("hung-up-elsewhere", step("connect", "shop"), f"disconnected {U}"),
]

# --- pools ---

POOLS = [
    row("redis", made("redis.exceptions.ConnectionError", "No connection available."), f"pool_timeout {R} local"),
    row("asyncpg", through("asyncpg.pool._acquire", TimeoutError()), f"pool_timeout {R} local"),
    *(
        row(
            f"asyncpg-connect-{kind.__name__}",
            through("asyncpg.connection.connect", kind("words")),
            f"connect_failed {R}",
        )
        for kind in (TimeoutError, ConnectionError, ConnectionResetError)
    ),
    row("asyncpg-query", through("asyncpg.connection.fetch", TimeoutError()), f"timeout {U}"),
    row("shop", through("shop.pool._acquire", TimeoutError()), f"timeout {U}"),
]

VENDORS = [
    row("stripe-declined", stripe("CardError", 402, type="card_error", code="card_declined"), f"http_402 {P}"),
    row("stripe-invalid", stripe("InvalidRequestError", 400, code="parameter_missing"), f"http_400 {P}"),
    row("stripe-gone", stripe("InvalidRequestError", 404, code="resource_missing"), f"http_404 {LOST}"),
    row("stripe-key", stripe("IdempotencyError", 400, type="idempotency_error"), f"idempotency_error {P}"),
    row("stripe-without-status", made("stripe._error.CardError"), f"unrecognised {U}"),
    # a first try may have got no answer, and its repeat this one
    *(row(f"stripe-{n}", stripe(n, 429), f"unrecognised {U}") for n in ("RateLimitError", "AuthenticationError")),
    row("slack-refused", slack("channel_not_found"), f"channel_not_found {P}"),
    row("slack-auth", slack("invalid_auth"), f"invalid_auth {P} refresh gate"),
    row("slack-rate", slack("ratelimited"), f"ratelimited {U} throttled"),
    row("slack-already", slack("already_reacted"), f"already_reacted {LOST} own_success"),
    row("slack-unknown", slack("something_new"), f"slack_error {U}"),
    row("slack-plain", made("slack_sdk.errors.SlackApiError", response={"error": "no_text"}), f"no_text {P}"),
    row("slack-odd", made("slack_sdk.errors.SlackApiError", response=5), f"slack_error {U}"),
    row("twilio-400", twilio(400), f"http_400 {P}"),
    row("twilio-429", twilio(429), f"http_429 {R} throttled"),
    row("twilio-500", twilio(500), f"http_500 {U}"),
    row("sendgrid-401", made("python_http_client.exceptions.HTTPError", status_code=401), f"http_401 {P} refresh gate"),
    *(
        row(f"notion-{n}", made("notion_client.errors.APIResponseError", status=n), words)
        for n, words in (
            *(
                (400, f"http_400 {P}"),
                (409, f"http_409 {LOST}"),
                (429, f"http_429 {R} throttled"),
                (502, f"http_502 {U}"),
            ),
        )
    ),
    row(
        "gspread", made("gspread.exceptions.APIError", response=SimpleNamespace(status_code=403)), f"http_403 {P} gate"
    ),
    row("gitlab", made("gitlab.exceptions.GitlabError", response_code=404, response_body=b"{}"), f"http_404 {P}"),
    row("gitlab-without-answer", made("gitlab.exceptions.GitlabError"), f"unrecognised {U}"),
    row("telegram-flood", telegram("RetryAfter", retry_after=30), f"telegram_retry_after {R} throttled"),
    row("telegram-invalid", telegram("BadRequest", "NetworkError"), f"telegram_bad_request {P}"),
    row("telegram-forbidden", telegram("Forbidden"), f"telegram_forbidden {P} gate"),
    row("telegram-token", telegram("InvalidToken"), f"telegram_invalid_token {P} refresh"),
    row("telegram-lost", telegram("NetworkError"), f"unrecognised {U}"),
    row("aiogram-flood", aiogram("TelegramRetryAfter", retry_after=30), f"telegram_retry_after {R} throttled"),
    row("aiogram-invalid", aiogram("TelegramBadRequest"), f"telegram_bad_request {P}"),
    row("aiogram-token", aiogram("TelegramUnauthorizedError"), f"telegram_invalid_token {P} refresh"),
    row("aiogram-server", aiogram("TelegramServerError"), f"unrecognised {U}"),
    row("discord-refused", discord(404), f"http_404 {P}"),
    row("discord-refused-on-a-repeat", through("discord.http.request", discord(404), tries=1), f"http_404 {LOST}"),
    row("discord-failed", discord(500), f"http_500 {U}"),
    row(
        "pika-not-reached",
        through("pika.adapters.blocking_connection._create_connection", made("pika.exceptions.AMQPConnectionError")),
        f"connect_failed {R}",
    ),
    row("pika-lost", made("pika.exceptions.AMQPConnectionError"), f"connection_error {U}"),
    row("pika-unroutable", made("pika.exceptions.UnroutableError"), f"unroutable {P}"),
    row("anyio", OSError("All connection attempts failed"), f"connect_failed {R}"),
]


@pytest.mark.parametrize(
    ("error", "expected", "situation"), [*MYSQL, *MONGO, *SSH, *CREDENTIALS, *MAIL, *POOLS, *VENDORS]
)
def test_every_row(error, expected, situation):
    assert said(classify(error, **situation)) == expected


@pytest.mark.parametrize(("pause", "seconds"), [(30, 30.0), (timedelta(seconds=2), 2.0), (None, None), ("soon", None)])
def test_telegram_names_its_pause(pause, seconds):
    assert classify(telegram("RetryAfter", retry_after=pause)).retry_after == seconds


def of_statement(words, package="psycopg", **connection):
    error = made(f"{package}.errors.X", bases=(fake(f"{package}.Error"),), sqlstate="23505")
    cursor = SimpleNamespace(connection=SimpleNamespace(**connection))
    return through(f"{package}.cursor.execute", error, self=cursor, query=words)


@pytest.mark.parametrize(
    ("words", "connection", "proved"),
    [
        ("CALL book()", {"autocommit": True}, False),
        ("CALL book()", {"autocommit": False}, True),
        ("CALL book()", {"is_in_transaction": lambda: True}, True),
        ("CALL book()", {"is_in_transaction": lambda: False}, False),
        (b"/* a */ do $$ $$", {"autocommit": True}, False),
        ("CALLED", {"autocommit": True}, True),
        ("INSERT; COMMIT ; INSERT", {"autocommit": False}, False),
        ("INSERT; PREPARE TRANSACTION 'x'; INSERT", {"autocommit": False}, False),
        ("CREATE FUNCTION f() AS $f$ BEGIN x; END $f$", {"autocommit": False}, True),
        (SimpleNamespace(as_string=lambda: "call book()"), {"autocommit": True}, False),
        (5, {"autocommit": True}, True),
        ("/**/" * 200 + "INSERT", {"autocommit": True}, True),
    ],
)
def test_a_statement_that_may_have_committed_before_it_failed(words, connection, proved):
    assert (said(classify(of_statement(words, **connection))) == f"sqlstate_23505 {P}") is proved
    of_psycopg2 = made(
        "psycopg2.Error", pgcode="23505", cursor=SimpleNamespace(query=words, connection=SimpleNamespace(**connection))
    )
    assert (said(classify(of_psycopg2)) == f"sqlstate_23505 {P}") is proved


@pytest.mark.parametrize(("by_itself", "proved"), [(True, False), (False, True)])
def test_of_psycopg2s_many_rows_those_before_may_be_there(by_itself, proved):
    """It is written in C, and leaves no frame of its own."""
    cursor = SimpleNamespace(query=b"insert", connection=SimpleNamespace(autocommit=by_itself))
    error = made("psycopg2.Error", pgcode="23505", cursor=cursor)
    cursor.executemany = cursor.execute = iter([error, error]).__next__

    def many():
        raise cursor.executemany()

    def one():
        raise cursor.execute()

    for tool, known in ((one, True), (many, proved)):
        error.__traceback__ = None
        with pytest.raises(type(error)) as caught:
            tool()
        assert (classify(caught.value).evidence == "none") is known

"""The fault suite: each way in which a request can go wrong, for each client, with what our evidence says and what the
other side has done.

``python -m tests.transports.rows`` prints the table of docs/explanation/transports.md.
"""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import itertools
import ssl
import sys
import tempfile
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import settled
from settled import transports
from tests.transports.clients import ASYNC, CLIENTS, SYNC, WAIT
from tests.transports.side import Hanging, Mute, Side, closed_port
from tests.waiting import auntil, until

NOTHING, DONE, EITHER = "nothing", "done", "either"


@dataclass(frozen=True)
class Row:
    """One way to go wrong. ``truth``: what the other side can have done; ``EITHER``: nobody on this side can tell."""

    name: str
    truth: str
    at: str = "side"
    asks: str = ""
    cut: bool = False
    """By the attempt's own time, not by the client's."""

    @property
    def wait(self):
        """Seconds that its client waits: no longer than needed for what never comes, and long for what does."""
        if self.cut:
            return LONG
        never = self.at in ("plain", "mute") or self.asks.startswith("stall")
        return WAIT if never else PATIENT


ROWS = (
    Row("connection refused", NOTHING, "closed"),
    Row("no such host", NOTHING, "dns"),
    Row("TLS: certificate not trusted", NOTHING, "tls"),
    Row("TLS: spoken to a plain port", NOTHING, "plain"),
    Row("TLS: handshake broken off", NOTHING, "hanging"),
    Row("TLS: handshake stalls", NOTHING, "mute"),
    Row("TLS: handshake stalls, attempt cut off", NOTHING, "mute", cut=True),
    Row("reset before the request was read", EITHER, asks="reset_unread"),
    Row("reset before the effect", EITHER, asks="reset_before_effect"),
    Row("reset after the effect", DONE, asks="reset_after_effect"),
    Row("closed before the effect", EITHER, asks="close_before_effect"),
    Row("closed after the effect", DONE, asks="close_after_effect"),
    Row("stalls before the effect", EITHER, asks="stall_before_effect"),
    Row("stalls after the effect", DONE, asks="stall_after_effect"),
    Row("stalls after the effect, attempt cut off", DONE, asks="stall_after_effect", cut=True),
    Row("stalls in the body", DONE, asks="stall_in_body"),
    Row("half of the headers", DONE, asks="half_headers"),
    Row("body shorter than said", DONE, asks="wrong_length"),
    Row("answers with two lengths", DONE, asks="two_lengths"),
    Row("answers no HTTP", DONE, asks="garbage"),
    Row("body not gzip as said", DONE, asks="broken_gzip"),
    Row("body no JSON as said", DONE, asks="not_json"),
    Row("307 to a closed port", DONE, asks="redirect_to_nowhere"),
    Row("307 to where it is refused", DONE, asks="redirect_to_refusal"),
    Row("303 to what is not there", DONE, asks="see_what_is_gone"),
    Row("307 for ever", DONE, asks="redirect_loop"),
    Row("400", NOTHING, asks="refused_400"),
    Row("401", NOTHING, asks="refused_401"),
    Row("402 card declined", NOTHING, asks="refused_402"),
    Row("404", NOTHING, asks="refused_404"),
    Row("422", NOTHING, asks="refused_422"),
    Row("422, answered after the attempt was cut off", NOTHING, asks="slow_refusal", cut=True),
    Row("429 with Retry-After", NOTHING, asks="throttled"),
    Row("429 without", NOTHING, asks="throttled_bare"),
    Row("429 quota used up", NOTHING, asks="quota"),
    Row("503 with Retry-After", NOTHING, asks="busy_503"),
    Row("408 after the effect", DONE, asks="done_408"),
    Row("409 after the effect", DONE, asks="done_409"),
    Row("500 after the effect", DONE, asks="done_500"),
    Row("500 before the effect", EITHER, asks="failed_500"),
    Row("502 after the effect", DONE, asks="done_502"),
    Row("503 after the effect", DONE, asks="done_503"),
    Row("503 of a cache, with Retry-After, after the effect", DONE, asks="done_503_of_a_cache"),
    Row("504 after the effect", DONE, asks="done_504"),
    Row("200", DONE, asks="ok"),
)
REPEATING = {"307 for ever"}


@dataclass(frozen=True)
class Verdict:
    """What came of one row."""

    evidence: str
    """``none``, ``maybe``, ``some``, ``done``; after late news, if there was any."""
    state: str
    effects: int
    requests: int
    error: str


class Places:
    """The other side in all its forms."""

    def __init__(self):
        self.stack = ExitStack()
        self.side = self.stack.enter_context(closing(Side()))
        with tempfile.TemporaryDirectory() as folder:
            self.tls = self.stack.enter_context(closing(Side(tls=serving(Path(folder) / "side.pem"))))
        self.mute = self.stack.enter_context(closing(Mute()))
        self.hanging = self.stack.enter_context(closing(Hanging()))

    def close(self):
        self.stack.close()

    def url(self, row, tag):
        base = {
            "side": self.side.url,
            "closed": f"http://127.0.0.1:{closed_port()}",
            "dns": "http://nowhere.invalid",
            "tls": self.tls.url,
            "plain": f"https://127.0.0.1:{self.side.port}",
            "hanging": f"https://127.0.0.1:{self.hanging.port}",
            "mute": f"https://127.0.0.1:{self.mute.port}",
        }[row.at]
        return f"{base}/{row.asks or 'ok'}/{tag}"


def serving(path):
    """Return a server context with a new certificate, which is written to that path: nobody else trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + dt.timedelta(days=1))
    certificate = made.add_extension(names, critical=False).sign(key, hashes.SHA256())
    form = serialization.PrivateFormat.PKCS8
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


CUT = 0.3
LONG = 3.0
PATIENT = 15.0
NEWS = 60.0
"""Seconds to wait for late news."""


def play(places, client, row, news=NEWS):
    """Let one guarded tool make the row's request by this client; return what is known afterwards.

    On a busy machine its time may be over before the request has come as far as the row says: then it has more of it.
    """
    for more in (1, 4, 16, 64):
        verdict = _played(places, client, row, more, news)
        if row.truth is NOTHING or (verdict.effects if row.truth is DONE else verdict.requests):
            break
    return verdict


def _played(places, client, row, more, news):
    tag = f"t{next(_tags)}"  # a client that nobody watches may go on repeating while the next row is played
    with settled.Guard("memory://") as guard:
        run = _play_async if client in ASYNC else _play_sync
        result = run(guard, CLIENTS[client], places.url(row, tag), row, more=more, news=news)
        if row.truth is DONE and places.side.came[tag]:
            until(lambda: places.side.done[tag] == places.side.came[tag], "what came is done")
        call = guard.journal.get(result.operation_id)
    last = call.attempts[-1]
    code = last.fault.code if last.fault else ""
    return Verdict(str(last.standing), str(call.state), places.side.done[tag], places.side.came[tag], code)


_tags = itertools.count()


def _play_sync(guard, opened, url, row, *, more, news):
    with opened(url, more * row.wait) as (_, send):

        @guard.tool(effect="write", attempts=1, breaker=None, timeout=more * CUT if row.cut else None)
        def act() -> str:
            send()
            return "done"

        result = act.call()
        if row.cut and row.truth is NOTHING:
            asyncio.run(_news(guard, result, news))
    return result


def _play_async(guard, opened, url, row, *, more, news):
    async def play():
        async with opened(url, more * row.wait) as (_, send):

            @guard.tool(effect="write", attempts=1, breaker=None, timeout=more * CUT if row.cut else 30)
            async def act() -> str:
                await send()
                return "done"

            result = await act.acall()
            if row.cut and row.truth is NOTHING:
                await _news(guard, result, news)
        return result

    return asyncio.run(play())


async def _news(guard, result, seconds):
    """Wait for what comes of an attempt after it was cut off; give up where nothing does."""
    with contextlib.suppress(AssertionError):
        await auntil(lambda: guard.journal.get(result.operation_id).state != "unknown", "late news", seconds)


def table(out=sys.stdout):
    """Print a line for each row: evidence by client, without and with hooks."""
    names = list(CLIENTS)
    out.write("| what happens | done | " + " | ".join(names) + " |\n|---" * 1 + "|---" * (len(names) + 1) + "|\n")
    places, known = Places(), {}
    try:
        for hooked in (False, True):
            if hooked:
                transports.install()
            for row in ROWS:
                known[row.name, hooked] = [play(places, client, row, news=1.2) for client in names]
    finally:
        transports.uninstall()
        places.close()
    for row in ROWS:
        pairs = zip(known[row.name, False], known[row.name, True], strict=True)
        cells = [_cell(bare, seen) for bare, seen in pairs]
        truth = {NOTHING: "no", DONE: "yes", EITHER: "no (yes looks the same)"}[row.truth]
        out.write(f"| {row.name} | {truth} | " + " | ".join(cells) + " |\n")


def _cell(bare, seen):
    mark = "" if bare.requests <= 1 else f" ({bare.requests}x)"
    before, after = f"{bare.evidence}{mark}", seen.evidence + ("" if seen.requests <= 1 else f" ({seen.requests}x)")
    return after if before == after else f"{before} → {after}"


assert set(SYNC) | set(ASYNC) == set(CLIENTS)

if __name__ == "__main__":
    table()

"""A receiver on loopback that keeps what it was sent, and guards whose alerts go there."""

import base64
import itertools
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import settled
from settled.observe import Webhook, verify

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
PATIENCE = 30.0
_numbers = itertools.count(1)


class Inbox:
    """What was received, in order: each as its event, verified; and how to answer the next ones."""

    def __init__(self):
        self.events, self.raw, self.headers, self.paths = [], [], [], []
        self.answers = []
        """Statuses of the next answers; 204 when there are none left."""
        self.after = {}
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                inbox.take(self.path, headers, body)
                status = inbox.answers.pop(0) if inbox.answers else 204
                self.send_response(status)
                for name, value in inbox.after.items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def take(self, path, headers, body):
        self.paths.append(path)
        self.headers.append(headers)
        self.raw.append(body)
        if "webhook-signature" in headers:
            self.events.append(verify(SECRET, headers, body))

    def kinds(self):
        return [(event["type"].rpartition(".")[2], event["data"]["kind"]) for event in self.events]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def inbox():
    inbox = Inbox()
    yield inbox
    inbox.close()


@pytest.fixture
def place(tmp_path):
    return f"sqlite:///{tmp_path}/agent.db"


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def shared_place(request, tmp_path):
    """The address of a journal that several processes can share, and the options that it takes to open it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shared.db", {}
    options = {"spill": tmp_path / "spill"}
    if request.param == "postgres":
        return request.getfixturevalue("postgres").url(), {**options, "schema": f"alerts_{next(_numbers)}"}
    more = {"prefix": f"alerts{next(_numbers)}", "accept_loss": True}
    return request.getfixturevalue("redis").url(), {**options, **more}


def declare(guard):
    """Declare a tool that leaves its call in doubt, and one that waits for leave."""

    @guard.tool(effect="write", breaker=None, redact=["card"])
    def pay(to: str, card: str = "") -> str:
        raise TimeoutError(f"no answer for card {card}")

    @guard.tool(effect="write", approve=True)
    def send(to: str) -> str:
        return to

    return pay, send


@pytest.fixture
def guarded(place, inbox):
    """A guard whose alerts go to the inbox; its postman is called by the test, unless it is woken."""
    with settled.Guard(place, alerts=Webhook(inbox.url, SECRET)) as guard:
        guard.pay, guard.send = declare(guard)
        guard.keeps = guard.floor.keeper.chores.pop()  # the test makes each round itself
        assert guard.keeps == guard._deliver_alerts
        yield guard


def round_of(guard):
    """Make one round as the postman's thread does, looking at open alarms too."""
    guard.postman._look_next = 0.0
    guard.postman.round()

"""The README's code does what the README says."""

import json
import multiprocessing
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest

import settled
from settled.core.states import State
from settled.ports import CallQuery
from tests.pages import run


def test_five_lines_that_are_started_again():
    """The README's table: a call whose end is on record is not made again, and one that was cut off is not either."""
    made, body = [], {"-> str: ...": "-> str: return made(title)"}
    with run("README.md", 0, made=lambda title: made.append(title) or "T-1", replace=body)["guard"]:
        pass
    names = run("README.md", 0, made=lambda title: made.append(title) or "T-2", replace=body)
    with names["guard"]:
        assert (names["ticket"], made) == ("T-1", ["The lamp came broken"])
        assert names["create_ticket"].call(title="x", body="y").status == "succeeded", "outside of the run"


def test_five_lines_that_are_killed_in_the_middle_of_the_call():
    dies = {"-> str: ...": "-> str: os._exit(9)", "import settled": "import settled, os"}
    child = multiprocessing.get_context("spawn").Process(target=run, args=("README.md", 0), kwargs={"replace": dies})
    child.start()
    child.join(60)
    assert child.exitcode == 9
    with pytest.raises(settled.CallUnknown):
        run("README.md", 0)
    with settled.Guard("sqlite:///agent.db") as guard:
        assert [str(call.state) for call in guard.journal.find(CallQuery())] == ["unknown"]


class Shop(ThreadingHTTPServer):
    """Takes orders, and loses the answer to the first."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Counter)
        self.orders = []


class Counter(BaseHTTPRequestHandler):
    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        orders = self.server.orders
        orders.append({"id": f"ord_{len(orders)}", **order})
        if len(orders) > 1:
            self.answer(orders[-1])

    def do_GET(self):
        (reference,) = parse_qs(urlsplit(self.path).query)["reference"]
        self.answer([order for order in self.server.orders if order["reference"] == reference])

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def shop():
    with Shop() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_tool_over_http_whose_first_answer_is_lost(shop):
    names = run("README.md", 1, replace={"127.0.0.1:8000": f"127.0.0.1:{shop.server_port}"})
    with names["guard"], names["api"]:
        lost = names["order"].call("tea", 2)
        assert (lost.status, lost.value) == ("succeeded", "ord_0"), "the shop itself was asked"
        assert names["order"]("milk", 1) == "ord_1"
        assert [order["sku"] for order in shop.orders] == ["tea", "milk"]


def test_an_agent_s_loop_that_is_started_again(guard):
    made = []

    @guard.tool(effect="write")
    def send(to: str) -> str:
        made.append(to)
        return f"sent to {to}"

    def reply(number):
        calls = [SimpleNamespace(name="send", arguments=json.dumps({"to": to})) for to in ("ann", "bob")]
        return SimpleNamespace(id=f"msg_{number}", tool_calls=calls)

    around = {"guard": guard, "thread_id": "t1", "user_message": SimpleNamespace(id="u1")}
    first = run("README.md", 2, history=[], reply=reply(1), **around)["history"]
    again = run("README.md", 2, history=[], reply=reply(2), **around)["history"]
    assert [step for step, _ in first] == ["msg_1/0", "msg_1/1"]
    assert made == ["ann", "bob"], "a model that is asked anew is answered from what was done"
    assert [json.loads(said)["result"] for _, said in again] == ["sent to ann", "sent to bob"]
    run("README.md", 2, history=again, reply=reply(3), **around)
    assert made == ["ann", "bob", "ann", "bob"], "what it has seen, and asks for again, it wants once more"


def test_a_run_that_needs_leave(guard):
    @guard.tool(effect="write")
    def cancel_booking(booking: str) -> str:
        return booking

    around = {"guard": guard, "known_account": lambda to, amount: True}
    first = run(
        "README.md", 4, cancel_booking=cancel_booking, replace={"pay.call": "pay.options(wait=0).call"}, **around
    )
    assert first["paid"].status == "awaiting_approval"
    guard.approve(first["paid"].operation_id, by="eva")
    with guard.run("trip-42"):
        first["book"]("flight")
        assert first["pay"].call("ann", 900).status == "succeeded"
    assert str(guard.journal.run("", "trip-42").state) == "completed"
    (paid,) = guard.journal.find(CallQuery(tool="pay"))
    assert (paid.state, paid.leave.by) == (State.SUCCEEDED, ("eva",))


def test_the_names_that_the_readme_speaks_of_are_public():
    errors = ("CallFailed", "CallNotDone", "CallUnknown", "CallInProgress", "CallConflict", "CallRejected")
    for name in (*errors, "CallRefused", "InvalidArguments", "CallPartial", "JournalError", "ToolOptions"):
        assert name in settled.__all__

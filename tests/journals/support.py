"""Processes that the tests of journals start."""

import os
import subprocess
import sys
import traceback
import warnings

from settled.testing.records import AWKWARD, begun, ended, make_ask, unknown_call
from tests.shared import ROOT

ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


def forked():
    """Fork, with other threads at work or not: that is what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def in_a_child(work):
    """Run ``work`` in a forked child that may lose rights and limits; return what it said."""
    reading, writing = os.pipe()
    pid = forked()
    if not pid:
        try:
            said = work() or "ok"
        except BaseException:  # noqa: BLE001 - it is told to the parent
            said = traceback.format_exc()
        os.write(writing, said.encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said


# --- programs that several processes run on one journal; the first argument is where it is, the second who runs it ---

OPENING = {
    "sqlite": "from settled.journals.sqlite import SqliteJournal as Journal; patience = {'busy_timeout': 60}",
    "redis": "from settled.journals.redis import RedisJournal as Journal; patience = {'patience': 60}",
    "postgres": "from settled.journals.postgres import PostgresJournal as Journal; patience = {'patience': 60}",
}

CLAIMER = """
import sys
from settled import host
from settled.core.ask import Begun
from settled.core.matching.claim import Claim
from settled.core.attempts.progress import End
from settled.testing.records import make_ask

where, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
journal = Journal(where, **patience)
print("ready", flush=True)
sys.stdin.readline()
for i in range(rounds):
    ask = make_ask(key=f"pay:{i}", fingerprint=f"1:{i}", operation_id=f"op_{i}_{name}", owner=host.this_process())
    reply = journal.perform(Claim(ask))
    if isinstance(reply, Begun):
        journal.perform(End(reply.call.operation_id, 1, 1, None, name.encode()))
        print("begun", i, flush=True)
journal.close()
"""

WRITER = """
import os, sys, threading
from settled import host
from settled.core.matching.claim import Claim
from settled.testing.records import make_ask

journal = Journal(sys.argv[1], **patience)
lock = threading.Lock()

def work(name):
    for i in range(10**6):
        number = f"{sys.argv[2]}_{name}_{i}"
        ask = make_ask(key=number, operation_id=f"op_{number}", owner=host.this_process())
        journal.perform(Claim(ask))
        with lock:  # told: from here on it must be there whatever happens
            sys.stdout.write(ask.operation_id + "\\n")
            sys.stdout.flush()

for name in range(8):
    threading.Thread(target=work, args=(name,), daemon=True).start()
os._exit(bool(sys.stdin.read()))  # with whoever started it, also where a test failed
"""

JOINED = """
import sys
from settled.core.ask import Begun
from settled.core.matching.claim import Claim
from settled.core.matching.entry import Entry
from settled.core.runs.entering import EnterRun
from settled.testing.records import scoped

url, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
journal = Journal(url, **patience)
print("ready", flush=True)
sys.stdin.readline()
entry, same = Entry(1), dict(identity="same", words="same", fingerprint="1")
for i in range(rounds):
    ask = scoped("shared", entry, operation_id=f"op_{i}_{name}", **same)
    reply = journal.perform(Claim(ask))
    assert isinstance(reply, Begun), reply
    print("begun", reply.call.n, "entry", journal.perform(EnterRun("entered", "acme")).no, flush=True)
journal.close()
"""

CROWD = """
import random, sys, threading
from settled.core.matching.claim import Claim
from settled.core.matching.entry import Entry
from settled.core.doubt.late import Evidence
from settled.core.model import KeyKind, Terms
from settled.core.attempts.progress import Begin, Close, End, Renew
from settled.core.runs.entering import EnterRun, scope_of_run
from settled.core.doubt.settling import Adopt, Over, Resolve
from settled.testing.records import LOST, REFUSED, make_ask

url, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
journal = Journal(url, **patience)
print("ready", flush=True)
sys.stdin.readline()

def act(dice, number):
    op = f"op_shared_{dice.randrange(5)}"
    call = journal.get(op)
    epoch, tried = (call.epoch, len(call.attempts)) if call else (1, 1)
    shared = dict(key=f"pay:{op}", fingerprint="1", terms=Terms(lifetime=0.0))
    ask = make_ask(operation_id=op, lease=dice.choice([0.0, 0.01, 30.0]), **shared)
    again = make_ask(operation_id=f"op_{name}_{number}", lease=0.01, **shared)
    run = f"run{dice.randrange(2)}"
    whose = dict(run_id=dice.choice([run, ""]), run_entry=dice.randrange(4))  # in the run, or fenced by no entry
    scope = dict(kind=KeyKind.SCOPED, key="", scope=scope_of_run("acme", run), **whose)
    same = dict(entry=Entry(1), identity="i", fingerprint="1", lease=0.0)
    inside = make_ask(operation_id=f"op_{name}_{number}_in", **scope, **same)
    journal.perform(dice.choice([
        *(Claim(ask), Claim(again), Claim(inside), EnterRun(run, "acme"), Begin(op, epoch, tried + 1, ask)),
        *(End(op, epoch, tried, LOST), End(op, epoch, tried, REFUSED, go_on=True), Close(op, epoch, "x")),
        *(Evidence(op, tried, REFUSED), Evidence(op, tried, LOST, over=False), Adopt(op), Over(op, [1, tried])),
        Renew([(f"op_shared_{i}", epoch, 5.0) for i in dice.sample(range(5), 5)]),
        Resolve(op, "did_not_happen", "eva", "r", "rerun", force=True, epoch=epoch),
        Resolve(op, "hold", "eva", "r", epoch=epoch),
    ]))

def work(i):
    dice = random.Random(f"{name} {i}")
    for number in range(rounds):
        act(dice, f"{i}_{number}")

threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("done", journal.seal(), flush=True)
journal.close()
"""


def start(program, *arguments, journal):
    """Start a process that runs a program on a kind of journal."""
    command = [sys.executable, "-c", f"{OPENING[journal]}\n{program}", *map(str, arguments)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def together(program, where, rounds, *, journal):
    """Let eight processes do the same at once; return the words that each has said."""
    children = [start(program, where, name, rounds, journal=journal) for name in range(8)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [child.communicate(timeout=120)[0].split() for child in children]
    assert [child.returncode for child in children] == [0] * 8
    return said


def sealed_twice(journal):
    """Put three calls into a journal, sealed twice, and one more."""
    ended(journal, begun(journal, make_ask(operation_id="op_a", tool=AWKWARD)), result=b"receipt")
    journal.seal()
    ended(journal, begun(journal, make_ask(operation_id="op_b")), result=b"receipt")
    unknown_call(journal, operation_id="op_c")
    journal.seal()
    begun(journal, make_ask(operation_id="op_d"))

"""Threads that fork at once: no child inherits a connection, none waits for ever, nothing that was told is lost."""

import os
import subprocess
import sys
import threading
import time

from settled.journals.forks import tell_of_forks
from tests.journals.support import ENVIRONMENT, forked

FORKING = """
import os, sys, threading, time, warnings
from settled.core.matching.claim import Claim
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import make_ask

warnings.simplefilter("ignore")
journals = [SqliteJournal(path, busy_timeout=20.0) for path in sys.argv[1:3]]
until, told, failed = time.monotonic() + 6.0, [], []

def claim(name):
    for number, journal in enumerate(journals):
        ask = make_ask(operation_id=f"op_{name}_{number}", key=f"{name}:{number}")
        journal.perform(Claim(ask))
        yield number, ask.operation_id

def work(name):
    count = 0
    while time.monotonic() < until:
        told.extend(claim(f"{name}_{count}"))
        count += 1

def child(writing):
    try:
        assert not any(journal._file.at_work for journal in journals), "it has inherited a connection"
        for number, operation_id in claim(f"child_{os.getpid()}"):
            os.write(writing, f"{number} {operation_id}\\n".encode())
    except BaseException as error:
        os.write(2, repr(error).encode())
        os._exit(1)
    os._exit(0)

def fork():
    while time.monotonic() < until:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            child(writing)
        os.close(writing)
        _, status = os.waitpid(pid, 0)
        failed.extend([status] if status else [])
        with os.fdopen(reading) as pipe:
            told.extend((int(number), operation_id) for number, operation_id in map(str.split, pipe))

threads = [threading.Thread(target=work, args=(f"work_{n}",), daemon=True) for n in range(2)]
threads += [threading.Thread(target=fork, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
hang = sum(thread.is_alive() for thread in threads)
lost = [operation_id for number, operation_id in told if journals[number].get(operation_id) is None]
print(len(told) > 50, failed, hang, lost, flush=True)
os._exit(0)
"""


def test_threads_that_fork_at_once(tmp_path):
    command = [sys.executable, "-c", FORKING, str(tmp_path / "one.db"), str(tmp_path / "two.db")]
    ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.stdout, ended.stderr) == ("True [] 0 []\n", "")


class Held:
    """What rests while its process forks; let go by another thread than it was held by, it says so."""

    def __init__(self, wrong):
        self.lock, self.wrong, self.by = threading.Lock(), wrong, 0

    def before_fork(self):
        self.lock.acquire()
        self.by = threading.get_ident()

    def after_fork_in_parent(self):
        if self.by != threading.get_ident():
            self.wrong.append("let go by another thread's fork")
        self.lock.release()
        time.sleep(0.005)  # another thread that waits to fork goes on here

    def after_fork_in_child(self):
        pass


def test_what_a_thread_holds_for_its_fork_no_other_lets_go():
    wrong, pids = [], []
    held = [Held(wrong) for _ in range(3)]
    for each in held:
        tell_of_forks(each)

    def fork():
        for _ in range(4):
            pid = forked()
            if not pid:
                os._exit(0)
            pids.append(pid)

    threads = [threading.Thread(target=fork, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for pid in pids:
        os.waitpid(pid, 0)
    assert (len(pids), wrong) == (12, [])

"""Several processes on one file: one executes, none hangs, nothing is lost when one is killed or forked."""

import os
import signal
import threading

import pytest

from settled.core.ask import Begun, Busy
from settled.core.attempts.progress import Begin, End, FencedOut
from settled.core.matching.claim import Claim
from settled.core.values import replace
from settled.journals.sqlite import SqliteJournal
from settled.ports import CallQuery
from settled.testing.records import FakeClock, Look, begun, ended, make_ask
from tests.journals.support import CLAIMER, WRITER, forked, start, together
from tests.waiting import until


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.db"


def test_of_8_processes_one_begins_each_call(path):
    """They even create the file together."""
    begun_by = together(CLAIMER, path, 25, journal="sqlite")
    assert sum(words.count("begun") for words in begun_by) == 25
    journal = SqliteJournal(path)
    assert journal.count() == {"succeeded": 25}
    assert journal.check().ok
    assert journal.verify().ok
    journal.close()


@pytest.mark.parametrize("lines", [1, 60, 300])
def test_what_was_told_survives_a_kill(path, lines):
    """SIGKILL while the leader commits for eight threads; another process goes on at once."""
    child = start(WRITER, path, "w", journal="sqlite")
    told = [child.stdout.readline().strip() for _ in range(lines)]
    child.send_signal(signal.SIGKILL)
    told += child.stdout.read().split("\n")[:-1]
    child.wait(30)
    child.stdin.close()
    child.stdout.close()
    assert len(told) >= lines, "it worked before it was killed"
    journal = SqliteJournal(path)
    assert [op for op in told if journal.get(op) is None] == []
    assert len(journal.find(CallQuery(limit=10**6))) <= len(told) + 8, "at most what was in the last commit, untold"
    begun(journal, make_ask())
    assert journal.check().ok
    assert journal.verify().ok
    journal.close()


def test_an_open_journal_goes_on_when_another_process_is_killed(path):
    """The killed one may hold the write lock: the system lets it go."""
    journal = SqliteJournal(path)
    child = start(WRITER, path, "w", journal="sqlite")
    assert child.stdout.readline()
    for _ in range(20):
        ended(journal, begun(journal, make_ask(key=os.urandom(4).hex(), operation_id=f"op_{os.urandom(4).hex()}")))
    child.kill()
    child.communicate(timeout=30)
    for _ in range(20):
        ended(journal, begun(journal, make_ask(key=os.urandom(4).hex(), operation_id=f"op_{os.urandom(4).hex()}")))
    assert journal.check().ok
    assert journal.verify().ok
    journal.close()


# --- forks ---


def fork(work):
    """Run ``work`` in a forked child; return its process id."""
    pid = forked()
    if not pid:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def exit_codes(pids):
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


@pytest.mark.case("CASE-056-sqlite-over-fork")
@pytest.mark.parametrize("used", [True, False], ids=["used", "fresh"])
def test_four_children_of_one_open_journal(path, used):
    """As a pre-forking server does it: all claim one key, and each a key of its own, while the parent works on."""
    journal = SqliteJournal(path, busy_timeout=30)
    if used:
        ended(journal, begun(journal, make_ask()))
        journal.get("op_none")
    shared, own = make_ask(), [make_ask() for _ in range(4)]

    def child(i):
        reply = journal.perform(Claim(_named(shared, i)))
        assert isinstance(reply, Begun | Busy)
        if isinstance(reply, Begun):
            (path.parent / f"begun-{i}").touch()
        for _ in range(5):
            ended(journal, begun(journal, _new(i)))
        ended(journal, begun(journal, own[i]))
        journal.close()

    pids = [fork(lambda i=i: child(i)) for i in range(4)]
    for _ in range(10):
        ended(journal, begun(journal, _new(9)))
    assert exit_codes(pids) == [0] * 4
    assert len(list(path.parent.glob("begun-*"))) == 1
    assert [journal.get(ask.operation_id).state for ask in own] == ["succeeded"] * 4
    assert journal.count()["succeeded"] == 4 * 6 + 10 + used
    assert journal.check().ok
    assert journal.verify().ok
    journal.close()
    reopened = SqliteJournal(path)
    assert reopened.count()["succeeded"] == 4 * 6 + 10 + used
    reopened.close()


def _named(ask, i):
    return replace(ask, operation_id=f"{ask.operation_id}.{i}")


def _new(i):
    name = f"{i}_{os.urandom(6).hex()}"
    return make_ask(key=f"pay:{name}", operation_id=f"op_{name}")


def test_children_survive_the_end_of_their_parents_journal(path):
    """The last to close tidies up the write-ahead log: it must see that others are still there."""
    journal = SqliteJournal(path)
    begun(journal, make_ask())
    reading, writing = os.pipe()
    ask, later = make_ask(), make_ask()

    def child():
        begun(journal, ask)
        os.read(reading, 1)
        begun(journal, later)
        journal.close()

    pid = fork(child)
    until(lambda: journal.get(ask.operation_id), "the intent is on record")
    journal.close()
    os.write(writing, b"x")
    assert exit_codes([pid]) == [0]
    os.close(reading)
    os.close(writing)
    reopened = SqliteJournal(path)
    assert reopened.get(later.operation_id) is not None
    assert reopened.check().ok
    reopened.close()


def test_a_fork_amid_work_leaves_both_whole(path):
    """Threads commit while the process forks: the child has no queue, no leader, no lock of theirs."""
    journal = SqliteJournal(path, busy_timeout=30)
    stop = threading.Event()

    def work(i):
        while not stop.is_set():
            ended(journal, begun(journal, _new(i)))
            journal.get("op_none")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    pids = [fork(lambda i=i: ended(journal, begun(journal, _new(f"child{i}")))) for i in range(5)]
    codes = exit_codes(pids)
    stop.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert codes == [0] * 5
    assert len([c for c in journal.find(CallQuery(limit=10**6)) if "child" in c.key]) == 5
    assert journal.verify().ok
    assert journal.check().ok
    journal.close()


def test_a_child_of_a_closed_journal_is_refused_as_its_parent_is(path):
    journal = SqliteJournal(path, clock=FakeClock())
    journal.close()

    def child():
        with pytest.raises(Exception, match="closed"):
            begun(journal, make_ask())

    assert exit_codes([fork(child)]) == [0]


def test_a_fork_that_python_was_not_told_of(path, monkeypatch):
    """From C, say: what was inherited is neither used nor closed."""
    journal = SqliteJournal(path)
    begun(journal, make_ask())
    inherited = journal._file.at_work
    monkeypatch.setattr(os, "getpid", lambda: -1)
    begun(journal, make_ask())
    assert journal._file.at_work is not inherited
    assert inherited.execute("SELECT count(*) FROM calls").fetchone() == (2,)
    monkeypatch.undo()
    journal.close()  # the other stays open: another file could have its number else, and be taken for this one


def test_the_end_of_an_attempt_is_recorded_by_whoever_has_it(path):
    """A child answers for the call that its parent began."""
    journal = SqliteJournal(path)
    call = begun(journal, make_ask())
    assert exit_codes([fork(lambda: journal.perform(End(call.operation_id, 1, 1, None, b"1")))]) == [0]
    assert journal.get(call.operation_id).result == b"1"
    journal.close()


def test_what_another_connection_changes_is_seen_at_once(tmp_path):
    """A process keeps in mind how its own calls stand, for as long as nobody else writes to the file."""
    path = tmp_path / "journal.db"
    ours, theirs = SqliteJournal(path), SqliteJournal(path)
    call = begun(ours, make_ask())
    assert ours.perform(Look(lambda books: books.by_id(call.operation_id))) == call
    done = theirs.perform(End(call.operation_id, call.epoch, 1, None, b"receipt"))
    assert ours.perform(Look(lambda books: books.by_id(call.operation_id))) == done
    assert isinstance(ours.perform(Begin(call.operation_id, call.epoch, 2, make_ask())), FencedOut)
    for journal in (ours, theirs):
        journal.close()


def test_what_was_rolled_back_is_not_kept_in_mind(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.db")
    call = begun(journal, make_ask())

    def end_and_fail(books):
        End(call.operation_id, call.epoch, 1, None, b"receipt").apply(books, journal.now())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        journal.perform(Look(end_and_fail))
    assert journal.perform(Look(lambda books: books.by_id(call.operation_id))) == call
    journal.close()

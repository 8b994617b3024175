"""A journal that was emptied, replaced, evicted in part, or has lost its last commits is noticed."""

import logging
import shutil

import pytest

import settled
from settled.core.attempts.progress import End, FencedOut, Renew
from settled.core.matching.claim import Claim
from settled.core.states import State
from settled.errors import JournalError
from settled.journals.redis import RedisJournal
from settled.testing.records import begun, ended, make_ask
from tests.servers.redis import RedisServer


@pytest.fixture
def own(tmp_path):
    """A server that a test may ruin."""
    with RedisServer() as server:
        yield server


def opened(server, tmp_path, **options):
    return RedisJournal(server.url(), **{"spill": tmp_path / "spill", "patience": 0.5, **options})


def guarded(server, tmp_path, effects, **options):
    guard = settled.Guard(server.url(), spill=tmp_path / "spill", **options)

    @guard.tool(effect="write", key="{order}")
    def pay(order: str) -> str:
        effects.append(order)
        return f"paid {order}"

    return guard, pay


@pytest.mark.parametrize("accept_loss", [False, True])
def test_an_emptied_server_fails_closed(own, tmp_path, accept_loss):
    """Also where the loss of some records is accepted: this is the loss of all."""
    effects = []
    guard, pay = guarded(own, tmp_path, effects, accept_loss=accept_loss)
    pay("7")
    with own.client() as client:
        client.flushall()
    for _ in range(2):
        with pytest.raises(JournalError, match=r"is not there .*\(emptied.*nothing was executed"):
            pay("7")
    with pytest.raises(JournalError, match="is not there"):
        guard.journal.get("op_none")
    guard.close()
    with pytest.raises(JournalError, match=r"is not there .*but was in use here.*delete .*spill-mark"):
        settled.Guard(own.url(), spill=tmp_path / "spill")
    assert effects == ["7"]


def test_a_journal_that_others_began_anew_is_another(own, tmp_path):
    effects = []
    guard, pay = guarded(own, tmp_path, effects)
    pay("7")
    with own.client() as client:
        client.flushall()
    other = opened(own, tmp_path, spill=tmp_path / "elsewhere")
    with pytest.raises(JournalError, match=f"is {other.journal_id}, and {guard.journal.journal_id} was in use here"):
        pay("7")
    guard.close()
    with pytest.raises(JournalError, match="was in use here: it was replaced"):
        opened(own, tmp_path)
    with pytest.raises(JournalError, match="and journal_id= asks for jn_other"):
        opened(own, tmp_path, spill=tmp_path / "third", journal_id=None, must_exist=True) and opened(
            own, tmp_path, spill=tmp_path / "fourth", journal_id="jn_other"
        )
    assert effects == ["7"]


@pytest.mark.parametrize("part", ["meta", "calls", "rows", "index", "log"])
def test_a_part_that_was_evicted(own, tmp_path, part):
    """Each is deleted as eviction would do it; nothing is made once more, and the guard cannot be opened."""
    effects = []
    guard, pay = guarded(own, tmp_path, effects)
    pay("7")
    with own.client() as client:
        assert client.delete(f"{{settled}}:{part}") == 1
    with pytest.raises(JournalError, match=r"not whole: its parts held .* and hold|not there any more"):
        pay("7")
    guard.close()
    with pytest.raises(JournalError, match=r"not whole|not there"):
        opened(own, tmp_path)
    with pytest.raises(JournalError, match=r"not whole|not there"):  # where no mark is to warn either
        opened(own, tmp_path, spill=tmp_path / "elsewhere")
    assert effects == ["7"]


def test_true_eviction(tmp_path):
    """The memory is filled up by somebody else until the server evicts the journal."""
    with RedisServer(maxmemory="8mb", maxmemory_policy="allkeys-random") as server:
        effects = []
        guard, pay = guarded(server, tmp_path, effects, accept_loss=True)
        pay("7")
        with server.client() as client:
            number = 0
            while client.exists("{settled}:meta", "{settled}:calls", "{settled}:rows") == 3:
                client.set(f"somebody:{number}", b"x" * 100_000)
                number += 1
        with pytest.raises(JournalError, match=r"not whole|not there any more"):
            pay("7")
        guard.close()
        assert effects == ["7"]


def test_a_full_memory_refuses_and_nothing_is_executed(tmp_path):
    """Where nothing may be evicted, what is there is still answered."""
    with RedisServer(maxmemory="8mb") as server:
        effects = []
        guard, pay = guarded(server, tmp_path, effects)
        pay("7")
        with server.client() as client:
            client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)
        with pytest.raises(JournalError, match=r"nothing was recorded; its memory is full: raise maxmemory"):
            pay("8")
        assert pay("7") == "paid 7"
        assert guard.journal.verify().ok
        guard.close()
        assert effects == ["7"]


def test_an_empty_replica_took_over(tmp_path):
    """The primary died before its replica had got anything."""
    effects = []
    with RedisServer() as primary, RedisServer() as replica:
        link = primary.socket.with_name("link.sock")
        link.symlink_to(primary.socket)
        url = f"unix://{link}"
        guard = settled.Guard(url, spill=tmp_path / "spill", patience=0.5)

        @guard.tool(effect="write", key="{order}")
        def pay(order: str) -> str:
            effects.append(order)
            return f"paid {order}"

        pay("7")
        link.unlink()
        link.symlink_to(replica.socket)
        primary.kill()
        for order in ("7", "8"):
            with pytest.raises(JournalError, match=r"is not there .*but was in use here"):
                pay(order)
        guard.close()
    assert effects == ["7"]


def test_a_replica_is_refused_and_one_that_took_over_is_known(tmp_path):
    """With all that it had got; the failover is one more life of the journal."""
    with RedisServer(port="0") as primary:
        journal = opened(primary, tmp_path, accept_loss=True)
        call = ended(journal, begun(journal, make_ask()), result=b"receipt")
        primary.settings["port"] = "0"
        with primary.client() as client:
            assert client.info("replication")["role"] == "master"
            client.execute_command("REPLICAOF", "127.0.0.1", "1")
            with pytest.raises(JournalError, match="its server is a replica; let the address lead to the primary"):
                opened(primary, tmp_path)
            with pytest.raises(JournalError, match=r"nothing was recorded; it is a replica that only reads"):
                begun(journal, make_ask())
            client.execute_command("REPLICAOF", "NO", "ONE")
        again = opened(primary, tmp_path, accept_loss=True)
        assert again.get(call.operation_id) == call
        assert again.check().facts["lives"] == 2
        begun(journal, make_ask())
        assert again.verify().ok
        journal.close()
        again.close()


def older_copy(server, tmp_path, journal):
    """Put a copy of the server's files in their place that lacks the last commits; return what it lacks."""
    kept = ended(journal, begun(journal, make_ask()))
    server.stop()
    shutil.copytree(server.data, tmp_path / "copy", ignore=shutil.ignore_patterns("*.sock"))
    server.start()
    lost = ended(journal, begun(journal, make_ask()))
    server.stop()
    for path in (tmp_path / "copy").iterdir():
        (shutil.copytree if path.is_dir() else shutil.copy)(path, server.data / path.name, **DIRS[path.is_dir()])
    shutil.rmtree(server.data / "appendonlydir", ignore_errors=True)
    for path in (tmp_path / "copy").glob("appendonly*"):
        if path.is_dir():
            shutil.copytree(path, server.data / path.name)
    server.start()
    return kept, lost


DIRS = {True: {"dirs_exist_ok": True}, False: {}}


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_lost_commits_are_noticed_also_by_those_who_come_late(tmp_path, kind):
    """An older copy of its file, or a failover to a replica that lagged behind."""
    with RedisServer(kind) as server:
        journal = opened(server, tmp_path)
        kept, lost = older_copy(server, tmp_path, journal)
        newcomer = opened(server, tmp_path, spill=tmp_path / "elsewhere")  # knows nothing, and works on
        for _ in range(5):
            begun(newcomer, make_ask())
        for work in (lambda: begun(journal, make_ask()), lambda: journal.get(kept.operation_id)):
            with pytest.raises(JournalError, match=r"ends at commit \d+, and commit \d+ was seen of it.*not in it"):
                work()
        journal.close()
        with pytest.raises(JournalError, match=r"was seen of it: what was done since is not in it"):
            opened(server, tmp_path)
        assert newcomer.get(kept.operation_id) == kept
        assert newcomer.get(lost.operation_id) is None
        problems = newcomer.check().problems
        assert len(problems) == 1
        assert "were seen by a client and lost when the server lived anew" in problems[0]
        newcomer.close()


def test_where_loss_is_accepted_it_is_told_and_work_goes_on(own, tmp_path, caplog):
    journal = opened(own, tmp_path, accept_loss=True)
    kept, lost = older_copy(own, tmp_path, journal)
    with caplog.at_level(logging.WARNING, "settled"):
        assert journal.get(kept.operation_id) == kept
        assert journal.get(lost.operation_id) is None
        begun(journal, make_ask())
    assert [record.message.count("accept_loss=True lets it go on") for record in caplog.records] == [1]
    assert "lost when the server lived anew" in journal.check().problems[0]
    assert journal.verify().ok
    journal.close()
    opened(own, tmp_path, accept_loss=True).close()


@pytest.mark.case("CASE-016-redis-failover-loses-lock")
def test_an_owner_whose_claim_was_lost_sees_it_at_its_renewal_and_is_fenced_out(own, tmp_path):
    """What it did is not recorded over another owner's claim; it is told so."""
    journal = opened(own, tmp_path, accept_loss=True)
    ask = make_ask()
    ended(journal, begun(journal, make_ask()))
    own.stop()
    shutil.copytree(own.data, tmp_path / "copy", ignore=shutil.ignore_patterns("*.sock"))
    own.start()
    claim = begun(journal, ask)
    own.stop()
    shutil.rmtree(own.data / "appendonlydir")
    shutil.copytree(tmp_path / "copy" / "appendonlydir", own.data / "appendonlydir")
    own.start()
    assert journal.perform(Renew([(claim.operation_id, 1, 60.0)])) == (claim.operation_id,)
    second = opened(own, tmp_path, spill=tmp_path / "elsewhere")
    taken = second.perform(Claim(make_ask(key=ask.key, fingerprint=ask.fingerprint, operation_id="op_second")))
    assert taken.call.state is State.PROCESSING
    assert journal.perform(End(claim.operation_id, 1, 1, None, b"first")) == FencedOut(None)
    assert second.get("op_second").result is None
    journal.close()
    second.close()

"""What cannot be opened says why and what to do, and nothing is created or executed."""

import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

import pytest

import settled
from settled.errors import DeclarationError, JournalError
from settled.journals.redis import RedisJournal
from settled.journals.redis.address import read_address
from settled.journals.redis.line import HANGS
from settled.testing.records import begun, ended, make_ask
from tests.journals.support import ENVIRONMENT
from tests.servers.redis import KINDS, RedisServer


def test_a_guard_opens_it_by_its_address(server, prefix, tmp_path):
    effects = []
    for _ in range(2):
        with settled.Guard(server.url(prefix=prefix, spill=tmp_path / "spill")) as guard:

            @guard.tool(effect="write", key="{order}")
            def pay(order: str) -> str:
                effects.append(order)
                return f"receipt {len(effects)}"

            assert pay("7") == "receipt 1"
    assert effects == ["7"]


async def test_it_serves_asyncio(server, prefix, tmp_path):
    with settled.Guard(server.url(prefix=prefix, spill=tmp_path / "spill")) as guard:

        @guard.tool(effect="write", key="{order}")
        async def pay(order: str) -> str:
            return f"paid {order}"

        assert await pay("7") == "paid 7"
        assert (await pay.acall("7")).replayed


def test_a_run_is_entered_again(server, prefix, tmp_path):
    """Two identical calls stay two, and neither is made again."""
    effects = []
    for _ in range(2):
        with settled.Guard(server.url(prefix=prefix, spill=tmp_path / "spill")) as guard:

            @guard.tool(effect="write")
            def pay(order: str) -> str:
                effects.append(order)
                return f"{order} {effects.count(order)}"

            with guard.run("trip") as run:
                assert [pay("7"), pay("7")] == ["7 1", "7 2"]
                assert [each.value for each in run.gather(pay.bind("8"), pay.bind("9"))] == ["8 1", "9 1"]
    assert sorted(effects) == ["7", "7", "8", "9"]


def on_a_port(stack):
    """Start a server that listens there. A port that was free a moment ago may be taken since: then on another."""
    for _ in range(9):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with suppress(AssertionError):
            return stack.enter_context(RedisServer(port=str(port), bind="127.0.0.1"))
    raise AssertionError("no server starts on any port")


def test_valkey_s_name_and_tcp_and_tls(tmp_path):
    with ExitStack() as stack:
        server = on_a_port(stack)
        port = server.settings["port"]
        for scheme in ("redis", "valkey"):
            address = f"{scheme}://127.0.0.1:{port}/3?prefix=a.b"
            journal = RedisJournal(address, spill=tmp_path / scheme)
            assert journal.url == address
            begun(journal, make_ask())
            journal.close()
        with server.client(db=3) as client:
            assert sorted(client.keys()) == sorted(
                b"{a.b}:%s" % part for part in (b"meta", b"calls", b"rows", b"index", b"log")
            )
        began = time.monotonic()
        with pytest.raises(JournalError, match="cannot be reached"):
            RedisJournal(f"rediss://127.0.0.1:{port}/3", spill=tmp_path / "spill", patience=0.2)
        assert time.monotonic() - began < HANGS / 2, "who speaks no TLS is not waited for longer than was wanted"


def test_without_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("settled.journals.redis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(DeclarationError, match=r"pip install 'settled\[redis\]'"):
        settled.Guard("redis://host")


def test_it_is_loaded_only_when_it_is_used():
    program = "import sys, settled; settled.Guard('memory://').close(); assert 'redis' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, check=True, timeout=60)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("redis://user@127.0.0.1:1/0", "cannot be reached: check that it runs"),
        ("unix:///nowhere/server.sock", "cannot be reached: check that it runs"),
        ("redis://user@host/0?pool=many", "the options of a journal's address are"),
        ("redis://user@host/0?accept_loss=perhaps", "the options of a journal's address are"),
        ("redis://user@host/0?prefix=a b", "no plain name"),
        ("redis://user:secret@host/agents", "not understood"),
        ("redis://user:secret@host:port/0", "not understood"),
        ("redis://user:secret@host/0?nonsense=1", "an option of the journal's address is not understood"),
    ],
)
def test_an_address_that_leads_nowhere(address, said, tmp_path):
    with pytest.raises(JournalError, match=said) as caught:
        settled.Guard(address, spill=tmp_path / "spill", patience=0.2)
    assert "secret" not in str(caught.value)


def test_a_missing_journal_that_must_exist(server, open_journal, prefix):
    for options in ({"must_exist": True}, {"journal_id": "jn_other"}):
        with pytest.raises(JournalError, match="does not exist, and it must exist"):
            open_journal(**options)
    with server.client() as client:
        assert client.keys(f"{{{prefix}}}*") == []


def test_passwords_and_rights(tmp_path):
    """On a server that asks for them."""
    with RedisServer("redis", requirepass="right") as server:
        with server.client(password="right") as admin:
            admin.execute_command("ACL", "SETUSER", "agent", "on", ">own", "~*", "+@all", "-evalsha", "-eval")
            admin.execute_command("ACL", "SETUSER", "shy", "on", ">own", "~*", "+@all", "-config")
        address = f"unix://{{}}{server.socket}"
        for user, said in (
            ("", "it asks for a password: write redis"),
            (":wrong-one@", "it refuses the password: correct"),
            ("agent:wrong-one@", "it refuses the password: correct"),
            ("agent:own@", "the user lacks a right: let it use EVALSHA"),
        ):
            with pytest.raises(JournalError, match=said) as caught:
                RedisJournal(address.format(user), spill=tmp_path / "spill")
            assert "wrong-one" not in str(caught.value)
        journal = RedisJournal(address.format("shy:own@"), spill=tmp_path / "spill")
        assert "own" not in journal.url
        assert any("settings" in problem for problem in journal.check().problems)
        journal.close()


RIGHTS = (
    *("~{settled}:*", "+@hash", "+@sortedset", "+@stream", "+eval", "+evalsha", "+script|load"),
    *("+info", "+config|get", "+time", "+exists"),
)
"""As docs/explanation/journals.md has them."""
USED = ("", "xadd", "xtrim", "hset", "hdel", "zadd", "zrem", "hget", "hmget", "zrangebylex")


@pytest.mark.parametrize("kind", KINDS)
def test_the_rights_that_it_needs_and_each_that_is_missing(kind, tmp_path):
    """A server takes nothing back of a script that is refused in its middle: it must be refused before."""
    with RedisServer(kind) as server, server.client() as admin:
        for number, missing in enumerate(USED):
            admin.flushall()
            less = [f"-{missing}"] if missing else []
            admin.execute_command("ACL", "SETUSER", "agents", "reset", "on", ">own", *RIGHTS, *less)
            address = f"unix://agents:own@{server.socket}?spill={tmp_path / str(number)}"
            if missing:
                with pytest.raises(JournalError, match="the user lacks a right"):
                    _write_twice(address)
                admin.execute_command("ACL", "SETUSER", "agents", "+@all")
            _write_twice(address)


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_that_is_taken_away_in_mid_use_leaves_nothing_half(kind, tmp_path):
    """Neither the right for a command, nor that for a key: what it does next is refused whole, and told."""
    taken = [*(f"-{command}" for command in ("xadd", "hset", "zadd", "zrem")), *KEYS_OF_PARTS]
    with RedisServer(kind) as server, server.client() as admin:
        admin.execute_command("ACL", "SETUSER", "agents", "reset", "on", ">own", *RIGHTS)
        address = f"unix://agents:own@{server.socket}?spill={tmp_path / 'spill'}&patience=0.2"
        with settled.Guard(address) as guard:

            @guard.tool(effect="write", key="{name}")
            def act(name: str, away: str = "") -> str:
                if away:
                    admin.execute_command("ACL", "SETUSER", "agents", *_without(away))
                return f"did {name}"

            for number, away in enumerate(taken):
                act(f"whole {number}")
                admin.execute_command("ACL", "SETUSER", "agents", *_without(away))
                if away != "-zrem":  # which an intent does not need
                    with pytest.raises(JournalError, match="the user lacks a right"):
                        act(f"intent {number}")
                admin.execute_command("ACL", "SETUSER", "agents", "reset", "on", ">own", *RIGHTS)
                assert act(f"end {number}", away) == f"did end {number}", "its end waits in the spill"
                admin.execute_command("ACL", "SETUSER", "agents", "reset", "on", ">own", *RIGHTS)
                assert act(f"intent {number}") == f"did intent {number}"
            assert guard.journal.verify().ok


KEYS_OF_PARTS = tuple(f"{{settled}}:{part}" for part in ("meta", "calls", "rows", "index", "log"))


def _without(right):
    if right.startswith("-"):
        return (right,)
    others = [f"~{part}" for part in KEYS_OF_PARTS if part != right]
    return ("reset", "on", ">own", *others, *RIGHTS[1:])


def _write_twice(address):
    with settled.Guard(address) as guard:

        @guard.tool(effect="write", key="{name}")
        def act(name: str) -> str:
            return f"did {name}"

        assert [act(name) for name in ("a", "b", "a")] == ["did a", "did b", "did a"]
        assert guard.journal.verify().ok


def test_a_key_of_the_wrong_type(server, open_journal, prefix):
    """Somebody else's under the same name."""
    with server.client() as client:
        client.set(f"{{{prefix}}}:meta", "mine")
        with pytest.raises(JournalError, match="not the journal's: give prefix="):
            open_journal()
        client.delete(f"{{{prefix}}}:meta")
        journal = open_journal()
        call = begun(journal, make_ask())
        client.delete(f"{{{prefix}}}:index")
        client.set(f"{{{prefix}}}:index", "mine")
        with pytest.raises(JournalError, match="nothing was recorded; one of its keys holds something that is not"):
            ended(journal, call)
        assert client.get(f"{{{prefix}}}:index") == b"mine"


def test_another_format_is_left_alone(server, open_journal, prefix):
    open_journal().close()
    with server.client() as client:
        client.hset(f"{{{prefix}}}:meta", "format", "2")
    with pytest.raises(JournalError, match=r"kept in format 2, and this release keeps 1: upgrade settled"):
        open_journal()


def test_the_shown_address_has_no_secret():
    address, options = read_address("redis://me:secret@db.example:6380/2?prefix=mine&pool=2")
    assert address.shown == "redis://me@db.example:6380/2?prefix=mine"
    assert options == {"pool": 2}
    assert "secret" not in repr(address)
    address, _ = read_address("unix://me:secret@/run/server.sock?db=2")
    assert address.shown == "unix://me@/run/server.sock?db=2&prefix=settled"


def test_what_it_does_not_keep_is_refused(open_journal):
    """A part that only a journal in SQL has, and rows in a transaction of the tool's own."""

    class Needs:
        def apply(self, books, now):
            return books.ledger("more than calls")

    journal = open_journal()
    with pytest.raises(JournalError, match=r"does not keep what this needs \(ledger\): use a journal in SQL"):
        journal.perform(Needs())
    with pytest.raises(DeclarationError, match="use one in SQLite or PostgreSQL"):
        settled.Guard(journal).tool(effect="transactional")(_insert)


def _insert(order: str, rows: settled.Transaction) -> None:
    rows.execute("INSERT INTO orders VALUES (?)", (order,))


# --- may it lose what it has recorded? ---

LOSING = {
    "no file": {"appendonly": "no"},
    "a file synced each second": {"appendfsync": "everysec"},
    "a file that is not synced": {"appendfsync": "no"},
    "no sync while it is rewritten": {"no_appendfsync_on_rewrite": "yes"},
    "eviction": {"maxmemory": "100mb", "maxmemory_policy": "allkeys-lru"},
}


@pytest.mark.parametrize("name", LOSING)
def test_writes_on_a_server_that_may_lose_them(name, tmp_path):
    """Are refused at their declaration, unless the loss is accepted; other tools are not."""
    with RedisServer(**LOSING[name]) as server:
        with settled.Guard(server.url(), spill=tmp_path / "spill") as guard:
            with pytest.raises(DeclarationError, match=r"may lose the record of a write.*accept_loss=True"):
                guard.tool(effect="write", name="pay")(_pay)
            with pytest.raises(DeclarationError, match="may lose the record"):
                guard.tool(_pay)

            @guard.tool(effect="idempotent")
            def put(order: str) -> str:
                return order

            assert put("7") == "7"
            report = guard.journal.check()
            assert report.facts["may_lose_writes"]
            assert len(report.problems) == 1
            with pytest.raises(DeclarationError, match=r"may lose the record of a step.*accept_loss=True"):
                guard.run("trip", on_error="compensate").__enter__()
            assert guard.journal.runs() == []
        for address, options in ((server.url(accept_loss="true"), {}), (server.url(), {"accept_loss": True})):
            with settled.Guard(address, spill=tmp_path / "spill", **options) as guard:
                pay = guard.tool(effect="write", name="pay", key="{order}")(_pay)
                assert pay("7") == "paid 7"


def _pay(order: str) -> str:
    return f"paid {order}"


def test_a_server_that_keeps_everything_says_so(tmp_path):
    with RedisServer(maxmemory="100mb", maxmemory_policy="volatile-lru") as server:
        journal = RedisJournal(server.url(), spill=tmp_path / "spill")
        report = journal.check()
        assert (report.ok, report.facts["may_lose_writes"], report.facts["appendfsync"]) == (True, False, "always")
        journal.close()


def test_settings_that_are_changed_meanwhile(server, open_journal, monkeypatch):
    """No write begins on a server that has become one that loses them; what is on record is answered and ended."""
    journal = open_journal()
    call = begun(journal, ask := make_ask())
    monkeypatch.setattr("settled.journals.redis.journal._SETTINGS_LAST", 0.0)
    with server.client() as client:
        client.config_set("appendfsync", "everysec")
        try:
            journal.seal()
            with pytest.raises(JournalError, match="may lose the record of a write"):
                begun(journal, refused := make_ask())
            assert journal.get(refused.operation_id) is None
            assert ended(journal, call).state == "succeeded"
            assert journal.get(ask.operation_id).state == "succeeded"
        finally:
            client.config_set("appendfsync", "always")
    journal.seal()
    begun(journal, refused)

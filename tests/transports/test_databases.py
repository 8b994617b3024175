"""What psycopg and redis-py are seen to do, on real servers behind a proxy that cuts: evidence against the rows there.

Each row cuts the connection at one message. What the record says is held against what the server then has.
"""

import asyncio
import itertools
import re
from contextlib import closing

import psycopg
import pytest
import redis
import redis.asyncio

import settled
from settled import transports
from settled.core.model import Evidence, Phase
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer

INSERT = "INSERT INTO sent VALUES (%s)"


class Cut:
    """Cuts the connection where one side says something for the n-th time; before it is passed on."""

    def __init__(self, side, words, *, nth=1):
        self._side, self._words, self._left = side, re.compile(words), nth

    def __call__(self, side, data):
        if side == self._side and self._words.search(data):
            self._left -= 1
            return self._left == 0
        return False


def tried(guard, act, **options):
    """Make one guarded call; return its evidence, and what was seen of its requests."""
    options = {"effect": "write", "attempts": 1, "breaker": None, "name": f"t{id(act)}"} | options
    result = guard.tool(**options)(act).call()
    fault = guard.journal.get(result.operation_id).attempts[-1].fault
    return (None, ()) if fault is None else (fault.evidence, fault.seen)


# --- psycopg ------------------------------------------------------------------------------


@pytest.fixture
def table(postgres):
    with postgres.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS sent")
        connection.execute(
            "CREATE TABLE sent (one integer PRIMARY KEY, of integer REFERENCES sent DEFERRABLE INITIALLY DEFERRED)"
        )
    return postgres


def there(postgres):
    with postgres.connect() as connection:
        return connection.execute("SELECT count(*) FROM sent").fetchone()[0]


def by_commit(url):
    with psycopg.connect(url) as connection:
        connection.execute(INSERT, (1,))


def by_block(url):
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        connection.execute("SELECT 1")
        connection.execute(INSERT, (1,))


def by_words(url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute(INSERT, (1,))
        connection.execute("COMMIT")


def by_itself(url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(INSERT, (1,))


def by_many(url):
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.executemany(INSERT, [(1,), (2,)])


def by_async(url):
    async def act():
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute(INSERT, (1,))

    asyncio.run(act())


WAYS = {act.__name__: act for act in (by_commit, by_block, by_words, by_itself, by_many, by_async)}
IN_TRANSACTION = [name for name in WAYS if name != "by_itself"]

# where it is cut, and what may be said of it then
ROWS = {
    "the insert is lost": (Cut, ("client", rb"INSERT"), Evidence.NONE),
    "the answer to the insert is lost": (Cut, ("server", rb"INSERT 0 "), Evidence.NONE),
    "the commit is lost": (Cut, ("client", rb"COMMIT"), Evidence.MAYBE),
    "the answer to the commit is lost": (Cut, ("server", rb"COMMIT\0"), Evidence.MAYBE),
}


@pytest.mark.parametrize(("way", "row"), list(itertools.product(IN_TRANSACTION, ROWS)))
@pytest.mark.usefixtures("hooked")
def test_a_transaction_is_as_far_as_its_commit(table, guard, way, row):
    """A commit that never left has changed nothing, whichever answer was lost before."""
    kind, where, evidence = ROWS[row]
    with Proxy(table.folder() / ".s.PGSQL.5432", kind(*where)) as proxy:
        said, seen = tried(guard, lambda: WAYS[way](proxy.url()))
        assert proxy.cuts == 1
    happened = there(table)
    assert said is evidence
    assert bool(happened) is (row == "the answer to the commit is lost")
    [commit] = [each for each in seen if each.method == "COMMIT"]
    assert commit.phase is (Phase.NOT_SENT if evidence is Evidence.NONE else Phase.SENT)
    assert commit.target.endswith("/postgres/COMMIT")


@pytest.mark.parametrize("row", ["the insert is lost", "the answer to the insert is lost"])
def test_a_statement_that_commits_by_itself_is_in_doubt_once_it_left(table, guard, hooked, row):
    kind, where, _ = ROWS[row]
    with Proxy(table.folder() / ".s.PGSQL.5432", kind(*where)) as proxy:
        said, [seen] = tried(guard, lambda: by_itself(proxy.url()))
    assert (said, seen.method, seen.phase) == (Evidence.MAYBE, "INSERT", Phase.SENT)
    assert there(table) == (row != "the insert is lost")


@pytest.mark.parametrize("way", WAYS)
def test_what_the_server_refuses_is_not_done(table, guard, hooked, way):
    """Also at the commit: a constraint that is looked at there."""
    by_itself(table.url())
    said, seen = tried(guard, lambda: WAYS[way](table.url()))
    assert said is Evidence.NONE
    assert there(table) == 1
    assert {each.phase for each in seen} == {Phase.ANSWERED if way == "by_itself" else Phase.NOT_SENT}

    def late():
        with closing(psycopg.connect(table.url())) as connection:
            connection.execute("INSERT INTO sent VALUES (5, 6)")
            connection.commit()

    said, [seen] = tried(guard, late)
    assert (said, seen.method, seen.phase) == (Evidence.NONE, "COMMIT", Phase.ANSWERED)
    assert there(table) == 1


@pytest.mark.parametrize("row", ["the answer to the insert is lost", "the answer to the commit is lost"])
def test_without_the_hooks_all_that_was_lost_is_in_doubt(table, guard, row):
    kind, where, _ = ROWS[row]
    with Proxy(table.folder() / ".s.PGSQL.5432", kind(*where)) as proxy:
        assert tried(guard, lambda: by_commit(proxy.url())) == (Evidence.MAYBE, ())


def test_a_connection_that_was_closed_sends_no_commit(table, guard, hooked):
    def act():
        with closing(psycopg.connect(table.url())) as connection:
            connection.execute(INSERT, (1,))
        connection.commit()

    said, [seen] = tried(guard, act)
    assert (said, seen.method, seen.phase) == (Evidence.NONE, "COMMIT", Phase.NOT_SENT)
    assert there(table) == 0


def test_what_was_committed_before_is_not_unsaid(table, guard, hooked):
    def act():
        with psycopg.connect(table.url()) as connection:
            connection.execute(INSERT, (1,))
            connection.commit()
            connection.execute(INSERT, (1,))

    said, seen = tried(guard, act)
    assert said is Evidence.MAYBE
    assert [each.phase for each in seen] == [Phase.ANSWERED, Phase.NOT_SENT]
    assert there(table) == 1


def test_reading_before_says_nothing(table, guard, hooked):
    by_itself(table.url())

    def act():
        with psycopg.connect(table.url(), autocommit=True) as connection:
            connection.execute("/* how many */ SELECT count(*) FROM sent WHERE one IN (1, 2)")
            connection.execute("SHOW work_mem")
            connection.execute(INSERT, (1,))

    said, seen = tried(guard, act)
    assert (said, [each.method for each in seen]) == (Evidence.NONE, ["GET", "GET", "INSERT"])


def test_a_function_may_change_something(table, guard, hooked):
    by_itself(table.url())

    def act():
        with psycopg.connect(table.url(), autocommit=True) as connection:
            connection.execute("SELECT setseed(0.5)")
            connection.execute(INSERT, (1,))

    said, seen = tried(guard, act)
    assert (said, [each.method for each in seen]) == (Evidence.MAYBE, ["SELECT", "INSERT"])


def test_an_attempt_that_was_left_commits_nothing_any_more(table, guard, hooked):
    """Cut off while it still works: its transaction is not let through when it comes to its commit."""
    import threading  # noqa: PLC0415 - where it is used

    go_on, ended, connections = threading.Event(), [], []

    def act():
        try:
            with closing(psycopg.connect(table.url())) as connection:
                connection.execute(INSERT, (1,))
                assert go_on.wait(60)
                connections.append(connection)
                connection.commit()
        except BaseException as error:
            ended.append(error)
            raise

    said, [seen] = tried(guard, act, timeout=2)  # enough to get as far as that
    assert (said, seen.method, seen.phase) == (Evidence.NONE, "COMMIT", Phase.NOT_SENT)
    go_on.set()
    while not ended:
        pass
    assert isinstance(ended[0], settled.errors.AttemptLeft)
    assert vars(connections[0]).get("settled") is None
    assert there(table) == 0


def test_outside_of_calls_nothing_changes(table, hooked):
    by_commit(table.url())
    assert there(table) == 1


def test_the_journals_own_connections_are_not_taken_down(table, postgres, tmp_path, hooked):
    """A guarded call inside of another one is recorded while the outer one is being made."""
    with settled.Guard(postgres.url(schema="nested", spill=tmp_path / "spill")) as guard:

        @guard.tool(effect="write")
        def inner() -> str:
            return "done"

        def act():
            inner()
            guard.journal.count()
            by_itself(table.url())

        by_itself(table.url())
        said, seen = tried(guard, act)
        assert (said, [each.method for each in seen]) == (Evidence.NONE, ["INSERT"])


# --- redis --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    with RedisServer() as server:
        yield server


@pytest.fixture
def valkey(server):
    with server.client() as client:
        client.flushall()
    return server


def value(server):
    with server.client() as client:
        return int(client.get("x") or 0)


def by_command(path):
    with redis.Redis(unix_socket_path=path, socket_timeout=5) as client:
        client.get("y")
        client.execute_command("INCR", "x")


def by_pipeline(path):
    with redis.Redis(unix_socket_path=path, socket_timeout=5) as client, client.pipeline() as pipe:
        pipe.execute_command("INCR", "x").get("x").execute()


def by_command_async(path):
    async def act():
        async with redis.asyncio.Redis(unix_socket_path=path, socket_timeout=5) as client:
            await client.execute_command("INCR", "x")

    asyncio.run(act())


def by_pipeline_async(path):
    async def act():
        async with redis.asyncio.Redis(unix_socket_path=path) as client, client.pipeline() as pipe:
            await pipe.execute_command("INCR", "x").get("x").execute()

    asyncio.run(act())


COMMANDS = {act.__name__: act for act in (by_command, by_pipeline, by_command_async, by_pipeline_async)}


@pytest.mark.parametrize(("way", "lost"), list(itertools.product(COMMANDS, ["command", "answer"])))
@pytest.mark.usefixtures("hooked")
def test_a_command_that_left_is_in_doubt_and_is_sent_once(valkey, guard, way, lost):
    """The client's own repeats would make eleven of one."""
    cut = Cut("client", rb"INCR") if lost == "command" else AfterCommand()
    with Proxy(valkey.socket, cut) as proxy:
        said, seen = tried(guard, lambda: COMMANDS[way](str(proxy.path)))
        assert proxy.cuts == 1
    assert said is Evidence.MAYBE
    assert (seen[-1].method, seen[-1].phase) == ("INCR", Phase.SENT)
    assert seen[-1].target == "redis://local/0/INCR"
    assert value(valkey) == (lost == "answer")


class AfterCommand:
    """Cuts at the answer to an INCR."""

    def __init__(self):
        self._asked = False

    def __call__(self, side, data):
        cut = side == "server" and self._asked
        self._asked = not cut and (self._asked or (side == "client" and b"INCR" in data))
        return cut


@pytest.mark.parametrize("way", ["by_command", "by_command_async"])
def test_without_the_hooks_the_client_repeats(valkey, guard, way):
    with Proxy(valkey.socket, AfterCommand()) as proxy:
        said, seen = tried(guard, lambda: COMMANDS[way](str(proxy.path)))
    assert (said, seen) == (Evidence.MAYBE, ())
    assert value(valkey) > 1


@pytest.mark.parametrize("way", COMMANDS)
def test_a_command_that_never_left_is_not_done(valkey, guard, hooked, way):
    said, seen = tried(guard, lambda: COMMANDS[way](str(valkey.socket.with_name("nobody.sock"))))
    assert said is Evidence.NONE
    assert {each.phase for each in seen} == {Phase.NOT_SENT}


def test_a_connection_that_broke_before_the_command_is_made_anew_or_not(valkey, guard, hooked):
    """Reconnecting fails: without the hooks that looks as if the command might have been sent before."""

    def act():
        with Proxy(valkey.socket) as proxy:
            client = redis.Redis(unix_socket_path=str(proxy.path), single_connection_client=True)
            client.ping()
        client.connection.disconnect()
        client.execute_command("INCR", "x")

    said, seen = tried(guard, act)
    assert (said, seen[-1].phase) == (Evidence.NONE, Phase.NOT_SENT)
    assert value(valkey) == 0


def test_what_the_server_answers_is_known(valkey, guard, hooked):
    with valkey.client() as client:
        client.set("word", "a")

    def refused():
        with valkey.client() as client:
            client.incr("word")

    def in_a_pipeline():
        with valkey.client() as client, client.pipeline(transaction=False) as pipe:
            pipe.incr("x").incr("word").execute()

    def aborted():
        with valkey.client() as client, client.pipeline() as pipe:
            pipe.watch("x")
            client.execute_command("INCR", "x")
            pipe.multi()
            pipe.incr("y").execute()

    said, [seen] = tried(guard, refused)
    assert (said, seen.phase) == (Evidence.NONE, Phase.ANSWERED)
    said, [seen] = tried(guard, in_a_pipeline)
    assert (said, seen.phase) == (Evidence.MAYBE, Phase.ANSWERED)
    said, seen = tried(guard, aborted)
    assert said is Evidence.MAYBE, "the other client's command was done"
    assert [each.phase for each in seen] == [Phase.ANSWERED] * 3
    assert value(valkey) == 2


def test_one_client_can_be_watched_alone(valkey, guard):
    with valkey.client() as client, valkey.client() as other:
        transports.redis.install(client)

        def act():
            other.incr("x")
            client.execute_command("INCR", "x")
            raise RuntimeError

        _, [seen] = tried(guard, act)
        assert seen.phase is Phase.ANSWERED
        transports.redis.uninstall(client)


# --- what the hooks are for: without them ---


def test_without_the_hooks_a_second_transaction_unsays_the_first(table, guard):
    def act():
        with psycopg.connect(table.url()) as connection:
            connection.execute(INSERT, (1,))
            connection.commit()
            connection.execute(INSERT, (1,))

    assert tried(guard, act) == (Evidence.NONE, ())
    assert there(table) == 1

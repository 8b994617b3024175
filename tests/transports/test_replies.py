"""What a real Valkey answers to several commands at once, where nobody watches: held against what it then has."""

import asyncio

import pytest
import redis.asyncio

from settled import transports
from settled.core.faults import classify
from tests.servers.redis import RedisServer

TWO = "redis.call('INCR', 'x'); redis.call('INCR', 'word')"


@pytest.fixture(scope="module")
def server():
    with RedisServer() as server:
        yield server


@pytest.fixture
def client(server):
    with server.client() as client:
        client.flushall()
        client.set("word", "a")
        client.xgroup_create("stream", "group", mkstream=True)
        yield client


def pipeline(client, *commands, **options):
    with client.pipeline(**options) as pipe:
        for command in commands:
            pipe.execute_command(*command)
        pipe.execute()


def transaction(client, *commands):
    pipeline(client, *commands, transaction=True)


def loose(client, *commands):
    pipeline(client, *commands, transaction=False)


async def at_once(path):
    async with redis.asyncio.Redis(unix_socket_path=path) as client, client.pipeline() as pipe:
        await pipe.execute_command("INCR", "x").execute_command("INCR", "word").execute()


def async_pipeline(client):
    asyncio.run(at_once(client.connection_pool.connection_kwargs["path"]))


X, WORD, NONSENSE = ("INCR", "x"), ("INCR", "word"), ("NO-SUCH-COMMAND",)
DONE_IN_PART = {
    "transaction": lambda client: transaction(client, X, WORD),
    "pipeline": lambda client: loose(client, X, WORD),
    "pipeline, the first refused": lambda client: loose(client, WORD, X),
    "pipeline, async": async_pipeline,
    "block": lambda client: client.transaction(lambda pipe: (pipe.multi(), pipe.incr("x"), pipe.incr("word"))),
    "script": lambda client: client.eval(TWO, 0),
    "registered script": lambda client: client.register_script(TWO)(),
    "script that gives up": lambda client: client.eval("redis.call('INCR', 'x'); error('no')", 0),
    "script with an error of its own": lambda client: client.eval(
        "redis.call('INCR', 'x'); return redis.error_reply('NO such luck')", 0
    ),
    "script in a pipeline": lambda client: loose(client, ("EVAL", TWO, 0)),
}
REFUSED = {
    "command": lambda client: client.incr("word"),
    "transaction that was never begun": lambda client: transaction(client, X, NONSENSE),
    "pipeline of one": lambda client: loose(client, WORD),
    "transaction of one": lambda client: transaction(client, WORD),
    "pipeline of which all is refused": lambda client: loose(client, WORD, NONSENSE),
    "group that is there": lambda client: client.xgroup_create("stream", "group"),
}


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("act", [*DONE_IN_PART, *REFUSED])
def test_an_answer_speaks_of_one_command(client, guard, act, watched):
    if watched:
        transports.install()

    @guard.tool(effect="write", attempts=3, breaker=None)
    def tool() -> None:
        {**DONE_IN_PART, **REFUSED}[act](client)

    status = tool.call().status
    assert int(client.get("x") or 0) == (act in DONE_IN_PART)
    assert status == ("unknown" if act in DONE_IN_PART else "failed")


@pytest.mark.parametrize(
    ("setting", "ill", "well"), [("min-replicas-to-write", "1", "0"), ("maxmemory", "1", "0")], ids=str
)
def test_what_the_server_cannot_do_for_now_is_done_once_it_can(client, guard, setting, ill, well):
    @guard.tool(effect="write", key="set:{name}", attempts=1, breaker=None)
    def tool(name: str) -> str:
        client.set(name, 1)
        return "set"

    client.config_set(setting, ill)
    try:
        first = tool.call("y")
    finally:
        client.config_set(setting, well)
    assert (first.status, tool.call("y").value) == ("not_done", "set")


def test_an_answer_after_doubt_may_be_our_own_success(client):
    with pytest.raises(redis.ResponseError) as caught:
        client.xgroup_create("stream", "group")
    assert classify(caught.value, doubtful=True).own_success

"""The same deaths on Valkey and Redis: killed at a boundary, a process leaves nothing done twice, misreported or lost.

Every third boundary, plain code and asyncio in turn. Where the server is killed too: ``tests/outage/test_redis.py``.
"""

import pytest

from settled.testing.kill.plan import Plan
from settled.testing.kill.rounds import everywhere
from tests.servers.redis import RedisServer

SCRIPTS = ("agent", "doubt", "desk", "fan", "person", "care", "late", "saga", "doubtful saga")


@pytest.fixture(scope="module")
def servers():
    with RedisServer("valkey") as valkey, RedisServer("redis") as redis:
        yield {"valkey": valkey, "redis": redis}


@pytest.mark.parametrize(("kind", "script"), [*(("valkey", each) for each in SCRIPTS), ("redis", "agent")])
def test_killed_at_boundaries(nursery, servers, tmp_path, kind, script):
    number = SCRIPTS.index(script) + (kind == "redis")
    plan = Plan(str(tmp_path), script, at=1 + number % 3, is_async=bool(number % 2), journal=servers[kind].url())
    deaths = list(everywhere(nursery, plan, step=3))
    assert [str(death) for death in deaths if death.problems] == []
    assert [death.died for death in deaths] == [True] * (len(deaths) - 1) + [False]
    assert len(deaths) > 5

"""The same deaths on PostgreSQL: killed at a boundary, a process leaves nothing done twice, misreported or lost.

Every third boundary, plain code and asyncio in turn; ``Plan(journal=...)`` takes the scripts to any server.
"""

import pytest

from settled.testing.kill.plan import Plan
from settled.testing.kill.rounds import everywhere
from tests.servers.postgres import PostgresServer

SCRIPTS = ("agent", "doubt", "desk", "fan", "person", "care", "late")


@pytest.fixture(scope="module")
def postgres():
    with PostgresServer() as server:
        yield server


@pytest.mark.parametrize("script", SCRIPTS)
def test_killed_at_boundaries(nursery, postgres, tmp_path, script):
    number = SCRIPTS.index(script)
    plan = Plan(str(tmp_path), script, at=1 + number % 3, is_async=bool(number % 2), journal=postgres.url())
    deaths = list(everywhere(nursery, plan, step=3))
    assert [str(death) for death in deaths if death.problems] == []
    assert [death.died for death in deaths] == [True] * (len(deaths) - 1) + [False]
    assert len(deaths) > 5

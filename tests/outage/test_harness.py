"""The judge of outages finds what is wrong: a lie about an effect that had happened."""

import json

import pytest

import settled
from settled.testing.kill.ledger import Ledger, append
from tests.outage.harness import Load, judge
from tests.outage.load import Mine, serve


@pytest.fixture
def load(tmp_path):
    return Load(f"sqlite:///{tmp_path}/agent.db", tmp_path)


@pytest.fixture
def pay(load):
    with settled.Guard(load.url) as guard:
        yield guard.tool(effect="write", key="{order}", breaker=None)(serve(Ledger(load.folder / "ledger"), Mine()))


def tell(load, status, *, before):
    append(load.folder / "told-1", json.dumps(["7", status, None, before]))


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("status", ["not_done", "failed"])
def test_told_not_done_of_what_was_done_at_once(load, pay, status, before):
    pay("7")
    tell(load, status, before=before)
    [problem] = judge(load).problems
    assert problem.startswith(f"7: told {status}, and it")


def test_told_not_done_before_it_was_done(load, pay):
    """A call's first attempt was proved not done; who asks again has it done."""
    with settled.Guard(load.url) as guard:

        @guard.tool(effect="write", key="{order}", breaker=None, attempts=1, name="pay")
        def refused(order: str) -> str:
            raise ConnectionRefusedError

        tell(load, refused.call("7").status, before=False)
    pay("7")
    assert judge(load).problems == []
    tell(load, "not_done", before=True)
    assert judge(load).problems == ["7: told not_done, and it had happened"]

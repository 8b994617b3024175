"""What waits for a person, and the evidence on each call, as plain data: a review page of one's own needs no more."""

import json

import pytest

import settled


@pytest.fixture
def guard(tmp_path):
    with settled.Guard(f"sqlite:///{tmp_path}/agent.db") as guard:
        yield guard


def declared(guard):
    @guard.tool(effect="write", breaker=None)
    def pay(order: str) -> str:
        raise TimeoutError

    return pay


def test_nothing_waits(guard):
    assert guard.waiting() == {"total": 0, "calls": [], "findings": [], "unreadable": []}
    assert guard.evidence("op_none") is None


def test_what_waits_is_listed_with_its_run_and_told_of_in_full(guard):
    pay = declared(guard)
    with guard.run("r-1"):
        first = pay.call("7")
    pay.call("8")
    [inside, outside] = guard.waiting()["calls"]
    assert (inside["operation_id"], inside["run"], outside["run"]) == (first.operation_id, "r-1", None)
    told = guard.evidence(first.operation_id)
    assert (told["state"], told["arguments"], len(told["attempts"])) == ("unknown", {"order": "7"}, 1)
    assert [row["event"] for row in told["log"]] == ["claim", "doubt"]
    assert json.loads(json.dumps(told)) == told
    guard.resolve(first.operation_id, "happened", by="anna", reason="seen", result="paid")
    assert [call["operation_id"] for call in guard.waiting()["calls"]] == [outside["operation_id"]]
    assert guard.evidence(first.operation_id)["result"] == "paid"


def test_it_is_chosen_and_limited_and_all_of_it_counted(guard):
    pay = declared(guard)
    with guard.run("r-1"):
        [pay.call(str(number)) for number in range(3)]
    pay.call("9")
    assert [(len(found["calls"]), found["total"]) for found in (guard.waiting(), guard.waiting(limit=2))] == [
        (4, 4),
        (2, 4),
    ]
    assert guard.waiting(run="r-1")["total"] == 3
    assert guard.waiting(tool="other")["total"] == 0


def test_another_tenants_calls_are_nobodys(tmp_path):
    address = f"sqlite:///{tmp_path}/agent.db"
    with settled.Guard(address, tenant="acme") as acme, settled.Guard(address, tenant="zeta") as zeta:
        found = declared(acme).call("7")
        assert (acme.waiting()["total"], zeta.waiting()["total"]) == (1, 0)
        assert zeta.evidence(found.operation_id) is None
        assert acme.evidence(found.operation_id)["tenant"] == "acme"

"""An alert sink that raises harms no call, and loses no alert."""

import threading

import pytest

import settled
from settled.ports import CallQuery
from tests.waiting import until


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_sink_that_raises_harms_no_call(tmp_path, is_async):
    def broken(event, facts):
        raise RuntimeError(event)

    with settled.Guard(f"sqlite:///{tmp_path}/agent.db", alerts=broken) as guard:

        @guard.tool(effect="write", key="{order}", attempts=1)
        async def asend(order: str) -> str:
            return f"{order} done"

        @guard.tool(effect="write", key="{order}", attempts=1)
        def send(order: str) -> str:
            return f"{order} done"

        result = await (asend if is_async else send).acall(order="a")
        assert (result.status, result.value, result.recorded) == ("succeeded", "a done", True)
        assert send.call(order="b").value == "b done"


def told_of(address, told):
    """Return a guard whose sink notes the alerts: nothing was attempted with it."""
    return settled.Guard(address, alerts=lambda event, facts: event == "alert" and told.append(facts["kind"]))


@pytest.mark.parametrize("wait", [0, 60])
def test_the_alert_of_a_first_call_that_waits_for_leave_is_delivered(tmp_path, wait):
    told, made = [], []
    with told_of(f"sqlite:///{tmp_path}/agent.db", told) as guard:

        @guard.tool(effect="write", approve=True)
        def send(order: str) -> str:
            return f"{order} done"

        asker = threading.Thread(target=lambda: made.append(send.options(wait=wait).call("a")))
        asker.start()
        until(lambda: told == ["approval"], "a person was told")
        guard.refuse(guard.journal.find(CallQuery())[0].operation_id, by="eva", reason="no")
        asker.join(timeout=30)
    assert [result.status for result in made] == ["refused" if wait else "awaiting_approval"]


def test_closing_delivers_what_is_on_record(tmp_path):
    told = []
    with told_of(f"sqlite:///{tmp_path}/agent.db", told) as guard:

        @guard.tool(effect="write", approve=True)
        def send(order: str) -> str:
            return f"{order} done"

        for order in "abc":
            send.options(wait=0).call(order)
    assert told == ["approval"] * 3


def test_a_guard_that_only_reconciles_delivers_its_alerts(tmp_path):
    address, told = f"sqlite:///{tmp_path}/agent.db", []
    with settled.Guard(address) as silent:

        @silent.tool(effect="write")
        def send(order: str) -> str:
            raise TimeoutError

        assert send.call("a").status == "unknown"
    with told_of(address, told) as guard:
        guard.reconcile()
        until(lambda: told == ["unknown"], "a person was told")


def test_an_alert_stays_until_a_sink_has_taken_it(tmp_path):
    taken, moods = [], [RuntimeError, RuntimeError]

    def moody(event, facts):
        if event == "alert":
            if moods:
                raise moods.pop()
            taken.append(facts["operation_id"])

    with settled.Guard(f"sqlite:///{tmp_path}/agent.db", alerts=moody) as guard:

        @guard.tool(effect="write", key="{order}")
        def send(order: str) -> str:
            raise TimeoutError

        unknown = send.call(order="a")
        assert unknown.status == "unknown"
        until(lambda: taken == [unknown.operation_id], "the alert was taken")
        until(lambda: not guard.journal.alerts(), "and left the outbox")

"""An alert sink that raises harms no call, and loses no alert."""

import pytest

import settled


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


def test_an_alert_stays_until_a_sink_has_taken_it(tmp_path, until):
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

"""What an operator can type next stands in the error that plain code gets, and is shown to no model."""

import pytest

import settled


@pytest.fixture
def guard():
    with settled.Guard("memory://") as made:
        yield made


def fails(order: str) -> str:
    raise RuntimeError(order)


def says(guard, call, hint):
    """The error names the command, and the answer for a model does not."""
    assert call.hint == hint
    with pytest.raises(settled.CallError) as raised:
        call.unwrap()
    assert str(raised.value).endswith(f"; to look at it: {hint}")
    assert hint not in call.for_model()


def test_of_an_unknown_call(guard):
    call = guard.tool(effect="write")(fails).call("7")
    assert call.status == "unknown"
    says(guard, call, f"settled queue show {call.operation_id}")


def test_of_a_call_that_waits_for_leave(guard):
    call = guard.tool(effect="write", approve=True)(fails).options(wait=0).call("7")
    assert call.status == "awaiting_approval"
    says(guard, call, f"settled queue show {call.operation_id}")


def test_of_a_batch_that_is_done_in_part(guard):
    @guard.tool(effect="write", attempts=1, partial=lambda answer, items: answer)
    def send(to: list[str]) -> list[settled.partial.Outcome]:
        return [settled.partial.done(1), settled.partial.failed("refused")]

    call = send.call(["ann", "bob"])
    assert call.status == "partial"
    says(guard, call, f"settled queue show {call.operation_id}")


def test_of_a_tool_that_is_paused(guard):
    tool = guard.tool(effect="write")(fails)
    guard.pause("fails", by="ann", reason="mended today")
    says(guard, tool.call("7"), "settled tools list")


def test_of_a_tool_whose_breaker_is_open(guard):
    tool = guard.tool(effect="read", attempts=1)(fails)
    calls = [tool.call(str(n)) for n in range(40)]
    turned_away = [call for call in calls if call.reason == "breaker_open"]
    says(guard, turned_away[0], "settled breakers list")


def test_of_a_call_that_an_unknown_one_bars(guard):
    guard.tool(effect="write")(fails)
    with guard.run("r"):
        guard.dispatch("fails", {"order": "7"}, step="m/0")
        call = guard.dispatch("fails", {"order": "8"}, step="n/0")
    assert call.reason == "unknown_before"
    says(guard, call, "settled queue list")


def test_nothing_is_to_be_typed_where_it_is_clear(guard):
    @guard.tool(effect="write")
    def refused(order: str) -> str:
        raise settled.NotExecuted(order)

    assert (refused.call("7").status, refused.call("7").hint) == ("failed", "")


def test_of_a_call_in_conflict_nothing_is_said_to_have_answered(guard):
    @guard.tool(effect="write", key="order:{order}")
    def pay(order: str, amount: int) -> str:
        return order

    with guard.run("r"):
        first = pay.call("7", 1)
        call = pay.call("7", 2)
    assert (call.status, call.hint) == ("conflict", f"settled runs rewind r --from {first.operation_id}")
    assert "answered" not in call.message


def test_of_a_call_that_was_undone_it_is_said_that_its_key_is_used_up(guard):
    guard.tool(effect="idempotent", name="fails")(lambda order: order)

    @guard.tool(effect="write", key="order:{order}", compensate="fails")
    def pay(order: str) -> str:
        return order

    with guard.run("r", on_error="compensate") as run:
        pay("7")
        run.compensate("changed")
    with guard.run("another"), pytest.raises(settled.CallRefused, match="not done again under the same key"):
        pay("7")


def test_of_a_key_that_is_taken(guard):
    pay = guard.tool(effect="write", key="pay:{order}")(lambda order, cents: cents)
    first = pay.call("7", 2)
    says(guard, pay.call("7", 3), f"settled calls show {first.operation_id}")


def test_the_calls_that_are_listed_are_named_to_plain_code_too(guard):
    """Its error speaks of calls listed here, and has no list but this."""
    wire = guard.tool(effect="write", irreversible=True, waiver="known")(fails)
    with guard.run("r"):
        first = wire.call("7")
        with pytest.raises(settled.CallRejected, match=rf"\[not recorded; listed: {first.operation_id}\]"):
            wire("8")


def test_who_enters_a_run_inside_of_itself_is_not_told_of_somebody_else_alone(guard):
    with guard.run("r"), pytest.raises(settled.RunInProgress, match="or around this entry, works on run 'r'"):
        guard.run("r", wait=0).__enter__()

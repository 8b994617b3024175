"""Wrong uses of the public names: mypy and pyright refuse each.

Each line carries both checkers' ignores. Either one is an error where it is not needed, so a wrong use that a checker
lets pass fails the lint run.
"""

import settled

settled.no_such_name  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

guard = settled.Guard("memory://")


@guard.tool(effect="write")
def pay(order: str) -> int:
    """A sync tool."""
    return len(order)


pay(order=1)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
pay()  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
pay.call("a", "b")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
pay.bind(amount=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
guard.tool(effect="writes")  # type: ignore[call-overload] # pyright: ignore[reportArgumentType]
guard.tool(efect="write")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]
guard.run(42)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
settled.RetryBudget(total="many")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
guard.resolve("op", "perhaps", by="ann", reason="guess")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
guard.run("r", on_error="undo")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
guard.refuse("op", by="ann")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
guard.tool(irreversible="yes")  # type: ignore[call-overload] # pyright: ignore[reportArgumentType]


def found(call: settled.Call) -> bool:
    """A probe says what it has found out; true and false are no words for that."""
    return bool(call.key)


def by_position(result: int) -> dict[str, int]:
    """What makes a compensation's arguments takes the call and its result."""
    return {"order": result}


guard.tool(probe=found, max_request_lifetime=1)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
guard.tool(compensate=pay, undo=by_position)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
guard.tool(compensate=found)  # type: ignore[call-overload] # pyright: ignore[reportArgumentType]
guard.tool(fallback=[pay, 7])  # type: ignore[list-item] # pyright: ignore[reportArgumentType]

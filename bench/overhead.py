"""What a guarded read costs beside retry and breaker libraries: `python -m bench.overhead [--json] [--only WORD]`.

All cases run in one process, round by round, and the CPU time of one call is told: the median of the rounds, and as
ratio the median of the rounds' own ratios. Under test is a tool that only reads, outside of any run, so that nothing
is recorded. "plain" has no parameters (nothing to validate) and no time-out; the others have default options.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import statistics
import tracemalloc
from typing import TYPE_CHECKING, Any

from bench import kit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.kit import Case

PEERS = ("tenacity", "stamina", "pybreaker", "nopanic", "pyresilience", "redress")


def look(city: str = "Bern") -> str:
    """The tool: it does nothing that costs."""
    return city


def here() -> str:
    """The same without parameters."""
    return "Bern"


async def alook(city: str = "Bern") -> str:
    """The same, async."""
    return city


async def ahere() -> str:
    """The same without parameters, async."""
    return "Bern"


class DownError(ConnectionError):
    """What a failing tool raises."""


class Third:
    """A tool that fails twice of three times."""

    def __init__(self) -> None:
        self.calls = 0

    def now(self) -> str:
        """Fail, fail, succeed."""
        self.calls += 1
        if self.calls % 3:
            raise DownError
        return "Bern"

    async def later(self) -> str:
        """The same, async."""
        return self.now()


def repeated(call: Callable[[], Any]) -> Callable[[int], None]:
    """Return what makes ``n`` calls."""

    def run(n: int) -> None:
        for _ in range(n):
            call()

    return run


def repeated_city(call: Callable[..., Any]) -> Callable[[int], None]:
    """Return what makes ``n`` calls with an argument."""

    def run(n: int) -> None:
        for _ in range(n):
            call(city="Bern")

    return run


def awaited(call: Callable[[], Awaitable[Any]]) -> Callable[[int], None]:
    """Return what awaits ``n`` calls, on the loop that all cases share."""

    async def run(n: int) -> None:
        for _ in range(n):
            await call()

    return lambda n: LOOP.run_until_complete(run(n))


def awaited_city(call: Callable[..., Awaitable[Any]]) -> Callable[[int], None]:
    """Return what awaits ``n`` calls with an argument."""

    async def run(n: int) -> None:
        for _ in range(n):
            await call(city="Bern")

    return lambda n: LOOP.run_until_complete(run(n))


LOOP = asyncio.new_event_loop()
NEVER = 10**9
"""Failures that trip a breaker which is not to trip."""

# ------------------------------------------------------------------------------------------------------------ the peers


def with_tenacity(function: Callable[..., Any]) -> Any:
    """tenacity: three attempts, exponential wait with jitter (none is waited here)."""
    import tenacity

    wait = tenacity.wait_random_exponential(multiplier=0.1, max=20)
    return tenacity.retry(stop=tenacity.stop_after_attempt(3), wait=wait, reraise=True)(function)


def with_stamina(function: Callable[..., Any]) -> Any:
    """stamina: three attempts."""
    import stamina

    return stamina.retry(on=ConnectionError, attempts=3)(function)


def with_pybreaker(function: Callable[..., Any]) -> Any:
    """pybreaker; from async code its `calling` around the await is the one way that it has."""
    import pybreaker

    breaker = pybreaker.CircuitBreaker(fail_max=5, reset_timeout=30)
    if not asyncio.iscoroutinefunction(function):
        return breaker(function)

    async def call(*args: Any, **kwargs: Any) -> Any:
        with breaker.calling():
            return await function(*args, **kwargs)

    return call


def with_both(function: Callable[..., Any]) -> Any:
    """Tenacity around pybreaker."""
    return with_tenacity(with_pybreaker(function))


def with_nopanic(function: Callable[..., Any], backoff: Any = None) -> Any:
    """nopanic: retry, budget and breaker."""
    import nopanic

    breaker = nopanic.circuit_breaker(failure_threshold=0.5, reset_timeout=30.0)
    given = {} if backoff is None else {"backoff": backoff}
    return nopanic.retry(attempts=3, on=ConnectionError, budget=nopanic.RetryBudget(), **given)(breaker(function))


def with_pyresilience(function: Callable[..., Any], delay: float = 1.0, least: int = 3) -> Any:
    """pyresilience: retry, budget and a breaker over the last 20 calls."""
    import pyresilience as p

    return p.resilient(
        retry=p.RetryConfig(max_attempts=3, delay=delay, jitter=delay > 0),
        circuit_breaker=p.CircuitBreakerConfig(sliding_window_size=20, minimum_calls=least),
        retry_budget=p.RetryBudgetConfig(max_retries=10**9, refill_rate=1e9),
    )(function)


def with_redress(function: Callable[..., Any], wait: float = 0.1, least: int = 5) -> Any:
    """redress: retry by class of error, budget and breaker."""
    import redress

    given: dict[str, Any] = {
        "classifier": redress.default_classifier,
        "strategy": lambda ctx: wait,  # noqa: ARG005 - it looks at the name of the parameter
        "max_attempts": 3,
        "max_unknown_attempts": 3,
        "budget": redress.Budget(max_retries=10**9, window_s=60),
    }
    breaker = redress.CircuitBreaker(failure_threshold=least)
    if asyncio.iscoroutinefunction(function):
        apolicy = redress.AsyncPolicy(retry=redress.AsyncRetry(**given), circuit_breaker=breaker)
        return lambda **kwargs: apolicy.call(lambda: function(**kwargs))
    policy = redress.Policy(retry=redress.Retry(**given), circuit_breaker=breaker)
    return lambda **kwargs: policy.call(lambda: function(**kwargs))


WRAPPERS: dict[str, Callable[..., Any]] = {
    "bare": lambda function: function,
    "tenacity": with_tenacity,
    "stamina": with_stamina,
    "pybreaker": with_pybreaker,
    "tenacity+pybreaker": with_both,
    "nopanic (retry, budget, breaker)": with_nopanic,
    "pyresilience (retry, budget, breaker)": with_pyresilience,
    "redress (retry, budget, breaker)": with_redress,
}

# ----------------------------------------------------------------------------------------------------------- the groups


def settled_tool(function: Callable[..., Any], **options: Any) -> Any:
    """Return the function as a settled tool that reads, in a guard of its own."""
    import settled

    return settled.Guard("memory://").tool(effect="read", **options)(function)


def success_sync() -> list[Case]:
    """A call that succeeds at once, sync."""
    cases = [kit.Case(name, repeated_city(wrap(look))) for name, wrap in WRAPPERS.items()]
    return [
        *cases,
        kit.Case("settled", repeated_city(settled_tool(look))),
        kit.Case("settled, Result instead of value", repeated_city(settled_tool(look).call)),
        kit.Case("settled, time-out of 60 s (a thread)", repeated_city(settled_tool(look, timeout=60.0))),
    ]


def plain_sync() -> list[Case]:
    """The same without validation and time-out, sync."""
    cases = [kit.Case(name, repeated(wrap(here))) for name, wrap in WRAPPERS.items()]
    return [*cases, kit.Case("settled", repeated(settled_tool(here)))]


def success_async() -> list[Case]:
    """A call that succeeds at once, async; settled with its default time-out of 60 s."""
    cases = [kit.Case(name, awaited_city(wrap(alook))) for name, wrap in WRAPPERS.items()]
    return [
        *cases,
        kit.Case("settled", awaited_city(settled_tool(alook))),
        kit.Case("settled, Result instead of value", awaited_city(settled_tool(alook).acall)),
    ]


def plain_async() -> list[Case]:
    """The same without validation and time-out, async."""
    cases = [kit.Case(name, awaited(wrap(ahere))) for name, wrap in WRAPPERS.items()]
    return [*cases, kit.Case("settled", awaited(settled_tool(ahere, timeout=None)))]


def three_sync() -> list[Case]:
    """Three attempts without a wait, the third succeeds, sync."""
    import settled

    return [
        kit.Case("nopanic (retry, budget, breaker)", repeated(_nopanic_three())),
        kit.Case("pyresilience (retry, budget, breaker)", repeated(with_pyresilience(Third().now, 0.0, NEVER))),
        kit.Case("redress (retry, budget, breaker)", repeated(with_redress(Third().now, 0.0, NEVER))),
        kit.Case("tenacity, sleep replaced by nothing", repeated(_tenacity_three())),
        kit.Case("settled", repeated(_settled_three(Third().now, settled))),
    ]


def three_async() -> list[Case]:
    """Three attempts without a wait, the third succeeds, async."""
    import settled

    return [
        kit.Case("nopanic (retry, budget, breaker)", awaited(_nopanic_three(is_async=True))),
        kit.Case("pyresilience (retry, budget, breaker)", awaited(with_pyresilience(Third().later, 0.0, NEVER))),
        kit.Case("redress (retry, budget, breaker)", awaited(with_redress(Third().later, 0.0, NEVER))),
        kit.Case("settled", awaited(_settled_three(Third().later, settled))),
    ]


def _nopanic_three(*, is_async: bool = False) -> Any:
    import nopanic

    breaker = nopanic.circuit_breaker(failure_threshold=1.0, min_calls=NEVER)
    budget = nopanic.RetryBudget(ratio=10.0, min_retries_per_sec=1e9)
    function = Third().later if is_async else Third().now
    return nopanic.retry(attempts=3, on=ConnectionError, backoff=0.0, budget=budget)(breaker(function))


def _tenacity_three() -> Any:
    import tenacity

    stop = tenacity.stop_after_attempt(3)
    return tenacity.retry(stop=stop, wait=tenacity.wait_none(), sleep=lambda _: None, reraise=True)(Third().now)


def _settled_three(function: Callable[..., Any], settled: Any) -> Any:
    """Fail twice of three times for ever: with a pool that is filled so fast, and a breaker that minds it so little."""
    guard = settled.Guard("memory://")
    breaker = settled.BreakerPolicy.static(failures=10, rate=None)
    options = {"retry": settled.Backoff(base=1e-9, cap=1e-9), "timeout": None, "breaker": breaker}
    tool = guard.tool(effect="read", name="third", **options)(function)
    from settled.core.attempts.budget import Pool, Pools

    guard._pools["third"] = Pools(process=Pool(capacity=1e6, deposit=1e3))  # noqa: SLF001 - no option fills it so fast
    return tool


def rejected() -> list[Case]:
    """A call that an open breaker turns away."""
    return [
        kit.Case("pybreaker", repeated(_open_pybreaker())),
        kit.Case("nopanic", repeated(_open_nopanic())),
        kit.Case("pyresilience", repeated(_open_pyresilience())),
        kit.Case("settled, raised", repeated(_open_settled(raises=True))),
        kit.Case("settled, Result", repeated(_open_settled(raises=False))),
    ]


def _fails() -> str:
    raise DownError


def _caught(call: Callable[[], Any], times: int = 20) -> Callable[[], None]:
    """Let it fail until its breaker is open; return what calls it and catches what it raises."""

    def run() -> None:
        with contextlib.suppress(Exception):  # the rejection
            call()

    for _ in range(times):
        run()
    return run


def _open_pybreaker() -> Callable[[], None]:
    import pybreaker

    return _caught(pybreaker.CircuitBreaker(fail_max=3, reset_timeout=3600)(_fails))


def _open_nopanic() -> Callable[[], None]:
    import nopanic

    return _caught(nopanic.circuit_breaker(failure_threshold=0.1, reset_timeout=3600)(_fails))


def _open_pyresilience() -> Callable[[], None]:
    import pyresilience as p

    breaker = p.CircuitBreakerConfig(failure_threshold=3, recovery_timeout=3600)
    return _caught(p.resilient(circuit_breaker=breaker)(_fails))


def _open_settled(*, raises: bool) -> Callable[[], None]:
    import settled

    policy = settled.BreakerPolicy(cooldown=3600, longest_cooldown=3600)
    tool = settled_tool(_fails, attempts=1, breaker=policy)
    run = _caught(tool)
    assert tool.call().reason == "breaker_open"
    return run if raises else tool.call


GROUPS: dict[str, tuple[str, Callable[[], list[Case]], tuple[str, ...]]] = {
    "success-sync": ("a read that succeeds, sync", success_sync, ("tenacity+pybreaker",)),
    "success-async": ("a read that succeeds, async", success_async, ("tenacity+pybreaker",)),
    "plain-sync": ("without validation and time-out, sync", plain_sync, ("fastest of retry, budget, breaker",)),
    "plain-async": ("without validation and time-out, async", plain_async, ("fastest of retry, budget, breaker",)),
    "three-sync": ("three attempts without a wait, sync", three_sync, ("fastest of retry, budget, breaker",)),
    "three-async": ("three attempts without a wait, async", three_async, ("fastest of retry, budget, breaker",)),
    "rejected": ("turned away by an open breaker", rejected, ("pybreaker",)),
}


def measured(name: str, rounds: int) -> dict[str, Any]:
    """Measure one group; return each case's median, and ours as ratio to the others."""
    title, make, _ = GROUPS[name]
    cases = make()
    kit.interleaved(cases, rounds)
    full = [case for case in cases if "budget" in case.name]
    fastest = min(full, key=lambda case: statistics.median(case.cpu), default=None)
    rows = {}
    for case in cases:
        row: dict[str, Any] = {"us": round(statistics.median(case.cpu) * 1e6, 3)}
        if case.name.startswith("settled"):
            others = {"tenacity+pybreaker", fastest.name if fastest else "pybreaker"}
            row["ratio"] = {o.name: round(kit.ratio(case.cpu, o.cpu), 2) for o in cases if o.name in others}
        rows[case.name] = row
    return {"title": title, "rounds": rounds, "cases": rows}


# --------------------------------------------------------------------------------------------------------------- memory


def memory(number: int = 2000) -> dict[str, int]:
    """Return the bytes of one breaker, filled, of each library."""
    import nopanic
    import pybreaker

    from settled.core.attempts.breaker import Breaker

    def ours() -> Breaker:
        breaker = Breaker("tool:look")
        for at in range(40):
            breaker.record(breaker.generation, "success" if at % 7 else "failure", 1e6 + at / 7, 0.5)
        return breaker

    def nopanics() -> Any:
        breaker = nopanic.circuit_breaker()
        for _ in range(40):
            breaker(here)()
        return breaker

    def pybreakers() -> Any:
        breaker = pybreaker.CircuitBreaker()
        for _ in range(40):
            breaker.call(here)
        return breaker

    makers = {"settled": ours, "nopanic": nopanics, "pybreaker": pybreakers}
    return {name: _bytes_of(make, number) for name, make in makers.items()}


def _bytes_of(make: Callable[[], object], number: int) -> int:
    make()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [make() for _ in range(number)]
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return round((used - 8 * len(kept)) / number)


# ---------------------------------------------------------------------------------------------------------- the command


def text_of(found: dict[str, Any]) -> str:
    """Return the report to be read."""
    lines = [f"machine: {found['machine']}", f"versions: {found['versions']}", ""]
    for group in found["groups"].values():
        rows = [[name, f"{row['us']:.2f} us", _ratios(row)] for name, row in group["cases"].items()]
        lines += [f"{group['title']} (CPU time of one call, median of {group['rounds']} rounds)", ""]
        lines += [kit.table(["case", "median", "ratio"], rows), ""]
    if found["memory"]:
        rows = [[name, f"{size} bytes"] for name, size in found["memory"].items()]
        lines += ["memory of one breaker, filled", "", kit.table(["breaker", "size"], rows)]
    return "\n".join(lines)


def _ratios(row: dict[str, Any]) -> str:
    return ", ".join(f"{ratio:.2f} of {name}" for name, ratio in row.get("ratio", {}).items())


def main() -> None:
    """Measure what is asked for, and print it."""
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--only", action="append", help=f"measure this only: {', '.join([*GROUPS, 'memory'])}")
    parser.add_argument("--rounds", type=int, default=9, help="rounds (9)")
    given = parser.parse_args()
    kit.in_own_environment("bench.overhead")
    logging.disable()
    asyncio.set_event_loop(LOOP)
    chosen = [name for name in [*GROUPS, "memory"] if not given.only or any(word in name for word in given.only)]
    found = {"machine": kit.machine(), "versions": kit.versions(*PEERS)}
    found["groups"] = {name: measured(name, given.rounds) for name in chosen if name != "memory"}
    found["memory"] = memory() if "memory" in chosen else {}
    kit.output(found, text_of(found), as_json=given.json)


if __name__ == "__main__":
    main()

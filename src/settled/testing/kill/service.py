"""The other side: one tool of each effect over the ledger, with the troubles that services have."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import settled
from settled.testing.kill.ledger import Effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from settled.testing.kill.fuse import Fuse
    from settled.testing.kill.ledger import Ledger

Trouble = str
"""Of the first attempt: refused before the effect (``busy``; ``away``: for a minute); no answer, before the effect
(``dropped``) or after it (``lost``); held up until a test lets it go on, before the effect (``stuck``) or after it
(``held``). Scripts with tools of their own have words of their own."""
Steps = Generator[float, None, str]
"""Seconds to sleep, one after the other, and then what a tool returns."""
Act = Callable[[str, str], Steps]
"""What a tool does with an order, and with the trouble that it has."""
DAY = 86400.0
MOST_PATIENCE = 60.0
"""Seconds that a tool is held up at the most: a test that forgets it fails, and does not hang."""

OPTIONS: dict[str, dict[str, Any]] = {
    "look": {"effect": "read"},
    "put": {"effect": "idempotent"},
    "charge": {"effect": "deduplicated", "remote_retention": 30 * DAY},
    "send": {"effect": "write"},
    "book": {"effect": "write", "max_request_lifetime": 0.02, "max_attempt_lifetime": 600.0},
    "crawl": {"effect": "write", "timeout": 0.2},
    "note": {"effect": "write", "retention": 0.0},
}
REPEATABLE = ("look", "put", "charge")
"""May be done again; of ``charge`` the service sees to it that there is one effect."""
PROBED = "book"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a script means to do once."""

    tool: str
    order: str
    trouble: Trouble = ""


class Service:
    """What the tools do; ``folder`` holds the ledger and the sign that lets held-up tools go on."""

    def __init__(self, ledger: Ledger, folder: Path, fuse: Fuse) -> None:
        self.ledger, self._fuse = ledger, fuse
        self._go_on = folder / "go-on"

    def receive(self, trouble: str) -> None:
        """Take a request, or fail before its effect."""
        if trouble in ("busy", "away"):
            wait = MOST_PATIENCE if trouble == "away" else None
            raise settled.NotExecuted(trouble, retryable=True, retry_after=wait)
        if trouble == "dropped":
            raise TimeoutError("the request was dropped")

    def act(self, tool: str, order: str, trouble: str) -> str:
        """Have the effect, and answer unless the answer is lost."""
        value = self.happen(Effect(tool, order, settled.current_call().key, f"{order}-{token_hex(6)}"))
        if trouble == "lost":
            raise TimeoutError("the answer was lost")
        return value

    def happen(self, effect: Effect) -> str:
        """Let an effect happen between two boundaries; return its value."""
        self._fuse.cross(f"{effect.tool}: before the effect")
        if effect.tool == "charge":
            effect = self.ledger.once(effect)
        else:
            self.ledger.write(effect)
        self._fuse.cross(f"{effect.tool}: after the effect")
        return effect.value

    def find(self, call: settled.Call) -> settled.Happened | settled.NotHappened:
        """Look an effect up by its key: the probe."""
        self._fuse.cross("before the probe")
        found = next((effect for effect in self.ledger.effects() if effect.key == call.key), None)
        self._fuse.cross("after the probe")
        return settled.NotHappened() if found is None else settled.Happened(found.value)

    def pauses(self, name: str) -> Iterator[float]:
        """Yield seconds to sleep until a test lets the tool go on."""
        self._fuse.cross(name)
        end = time.monotonic() + MOST_PATIENCE
        while not self._go_on.exists() and time.monotonic() < end:
            yield 0.005


def either(function: Callable[..., Any], *, is_async: bool) -> Any:
    """Return a tool's function as it is, or as ``async def``."""
    if not is_async:
        return function

    @functools.wraps(function)
    async def act(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args, **kwargs)

    return act


def declare(guard: settled.Guard, service: Service, names: Iterable[str], *, is_async: bool) -> None:
    """Declare tools, as ``def`` or as ``async def``; ``crawl``, which outlives its time-out, always as ``def``."""
    for name in names:
        more: dict[str, Any] = {"probe": service.find} if name == PROBED else {}
        function = function_of(tool_of(service, name), is_async=is_async and name != "crawl")
        guard.tool(name=name, identity=("order",), **OPTIONS[name], **more)(function)


def tool_of(service: Service, name: str) -> Act:
    """Return what a tool does."""

    def act(order: str, trouble: str) -> Steps:
        trouble = at_first(trouble)
        service.receive(trouble)
        if trouble == "stuck":
            yield from service.pauses(trouble)
        value = service.act(name, order, trouble)
        if trouble == "held":
            yield from service.pauses(trouble)
        return value

    return act


def at_first(trouble: str) -> str:
    """Return the trouble that an attempt has: only the first has any."""
    return trouble if settled.current_call().attempt == 1 else ""


def function_of(act: Act, *, is_async: bool) -> Any:
    """Return the function of a tool that sleeps as ``act`` yields, as ``def`` or as ``async def``."""

    def here(order: str, trouble: str = "", memo: str = "") -> str:
        del memo  # the model's words: others each time
        steps = act(order, trouble)
        while True:
            try:
                time.sleep(next(steps))
            except StopIteration as stop:
                return str(stop.value)

    async def there(order: str, trouble: str = "", memo: str = "") -> str:
        del memo
        steps = act(order, trouble)
        while True:
            try:
                await asyncio.sleep(next(steps))
            except StopIteration as stop:
                return str(stop.value)

    return there if is_async else here

"""The tools' side of the world: requests, effects, key stores, probes. Ground truth, and nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from settled.core.model import Effect as Kind
from settled.testing.simulation import tools
from settled.testing.simulation.loop import Gate
from settled.testing.simulation.tools import TOOLS, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from settled.core.call import Call
    from settled.core.model import Fault
    from settled.testing.simulation.loop import Loop

Intention = tuple[str, str, str]
"""Tool, whom it concerns, what it says: what program or model meant. The library never sees it."""


@dataclass(slots=True)
class Request:
    """One request on its way. ``answer`` opens with a value (``str``) or a fault, if one comes back."""

    tool: ToolSpec
    operation_id: str
    attempt: int
    key: str
    intention: Intention
    sent: float
    fate: str
    answer: Gate = field(default_factory=Gate)
    landed: float | None = None
    executed: bool = False
    heard: bool = False
    """Its own definite answer reached the caller."""

    @property
    def lifetime(self) -> float:
        """Seconds from when it was sent in which it can still take effect, as its tool declares."""
        return self.tool.terms.lifetime or 20.0

    @property
    def last(self) -> float:
        """The last moment at which it can take effect, and from which on a probe sees it."""
        return self.sent + self.lifetime


@dataclass(frozen=True, slots=True)
class Effect:
    """Something happened out there. Probes see it from ``visible`` on."""

    operation_id: str
    attempt: int
    key: str
    tool: str
    intention: Intention
    at: float
    visible: float
    value: str


@dataclass(slots=True)
class Stored:
    """What a service that de-duplicates keeps for one key."""

    until: float
    answer: str | Fault | None = None


FATES = (
    "ok",
    "lost",
    "slow",
    "late",
    "answer_lost",
    "error_after",
    "error_before",
    "refuse",
    "throttle",
    "not_sent",
    "unauthorized",
    "forbidden",
)
WEIGHTS = {
    "calm": (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "plain": (60, 4, 4, 4, 5, 5, 4, 4, 3, 5, 2, 1),
    "busy": (40, 1, 1, 1, 1, 1, 1, 1, 40, 30, 1, 1),
    "storm": (15, 8, 8, 8, 10, 10, 8, 8, 8, 12, 5, 2),
    "grim": (22, 3, 3, 3, 4, 5, 4, 30, 5, 12, 2, 5),
}


class World:
    """Executes requests, with its dice as the weather."""

    def __init__(self, loop: Loop, dice: Random, weather: str = "plain") -> None:
        self.loop, self.dice, self.weather = loop, dice, weather
        self.requests: list[Request] = []
        self.effects: list[Effect] = []
        self.by_key: defaultdict[str, list[Effect]] = defaultdict(list)
        self.stores: dict[str, Stored] = {}
        self.fences: set[str] = set()
        self.blind = 0.1
        """How often a probe can't tell."""
        self.note: Callable[..., None] = lambda *_: None

    def send(self, tool: ToolSpec, call: Call | None, no: int, intention: Intention) -> Request:
        """Let a request leave now."""
        fate = self.dice.choices(FATES, WEIGHTS[self.weather])[0]
        operation_id, key = (call.operation_id, call.key) if call else ("", "")
        request = Request(tool, operation_id, no, key, intention, self.loop.now, fate)
        self.requests.append(request)
        self._on_the_way(request)
        return request

    def _on_the_way(self, request: Request) -> None:
        dice, now = self.dice, self.loop.now
        lifetime = request.lifetime
        match request.fate:
            case "not_sent":
                self.loop.at(now + dice.uniform(0.0, 0.1), lambda: self._tell(request, tools.REFUSED_CONNECTION))
            case "lost":
                if dice.random() < 0.5:
                    self.loop.at(now + dice.uniform(0.1, 8.0), lambda: self._tell(request, tools.RESET))
            case "slow":
                self.loop.at(now + dice.uniform(0.3, 0.95) * lifetime, lambda: self._land(request))
            case "late":  # given up by the network, executed all the same
                self.loop.at(now + dice.uniform(0.1, 2.0), lambda: self._tell(request, tools.RESET))
                self.loop.at(now + dice.uniform(0.1, 0.95) * lifetime, lambda: self._land(request))
            case _:
                self.loop.at(now + dice.uniform(0.01, 0.4), lambda: self._land(request))

    def _land(self, request: Request) -> None:
        request.landed = self.loop.now
        if request.key in self.fences:
            return self._tell(request, tools.FENCED)
        door = {"throttle": tools.THROTTLED, "unauthorized": tools.UNAUTHORIZED, "error_before": tools.BAD_GATEWAY}
        door["forbidden"] = tools.FORBIDDEN
        if request.fate in door:
            return self._tell(request, door[request.fate])
        if request.tool.service == "store":
            return self._land_in_store(request)
        if request.fate == "refuse":
            return self._tell(request, tools.REFUSAL)
        return self._execute(request)

    def _land_in_store(self, request: Request) -> None:
        kept = self.stores.get(request.key)
        if kept is not None and kept.until > self.loop.now:
            answer = tools.IN_PROGRESS if kept.answer is None else kept.answer
            return self._tell(request, answer)
        kept = self.stores[request.key] = Stored(self.loop.now + (request.tool.terms.remote_retention or 0.0))
        if request.fate == "refuse" and request.tool.terms.remote_errors == "stored":
            kept.answer = tools.NO_FUNDS
            return self._tell(request, kept.answer)
        if request.fate == "refuse":
            del self.stores[request.key]
            return self._tell(request, tools.REFUSAL)
        if self.dice.random() < 0.2:  # still at work for a while, as long as a request can take at the most
            at = min(self.loop.now + self.dice.uniform(0.5, 3.0), request.last)
            self.loop.at(at, lambda: self._execute(request, kept))
            return None
        return self._execute(request, kept)

    def _execute(self, request: Request, kept: Stored | None = None) -> None:
        value = f"done:{request.intention[1]}:{len(self.effects)}"
        if request.tool.terms.effect is not Kind.READ:
            self._effect(request, value)
        request.executed = True
        if kept is not None:
            kept.answer = value
        if request.fate == "error_after":
            return self._tell(request, tools.BAD_GATEWAY)
        return self._tell(request, value)

    def _effect(self, request: Request, value: str) -> None:
        now = self.loop.now
        seen_after = self.dice.choice((0.0, 0.0, 0.0, 1.0, 8.0)) if request.tool.policy.probe else 0.0
        effect = Effect(
            request.operation_id,
            request.attempt,
            request.key,
            request.tool.name,
            request.intention,
            now,
            max(now, min(request.last, now + seen_after)),
            value,
        )
        self.effects.append(effect)
        self.note("EFFECT", request.operation_id, request.attempt, request.key, "visible", effect.visible)
        self.by_key[request.key].append(effect)

    def row(self, tool: ToolSpec, call: Call, intention: Intention) -> Callable[[], object]:
        """Rows were written in the transaction that records ``call``; return what takes them back."""
        request = Request(tool, call.operation_id, len(call.attempts), call.key, intention, self.loop.now, "ok")
        self._effect(request, call.result.decode() if call.result else "")
        effect = self.effects[-1]

        def take_back() -> None:
            self.effects.remove(effect)
            self.by_key[call.key].remove(effect)

        return take_back

    def by_hand(self, tool: ToolSpec, call: Call, intention: Intention) -> str:
        """A person has done what was left to a person; return what it brought."""
        value = f"by hand:{intention[1]}:{len(self.effects)}"
        self._effect(Request(tool, call.operation_id, 0, call.key, intention, self.loop.now, "ok"), value)
        return value

    def whole(self, tool: ToolSpec, call: Call, no: int, intention: Intention) -> None:
        """A call that consists of others has happened."""
        if not self.by_key[call.key]:
            self._effect(Request(tool, call.operation_id, no, call.key, intention, self.loop.now, "ok"), "all done")

    def _tell(self, request: Request, answer: str | Fault) -> None:
        if request.fate == "answer_lost":
            if self.dice.random() < 0.5:
                self.loop.at(self.loop.now + 1.0, lambda: self.loop.open(request.answer, tools.RESET))
            return
        back = self.loop.now + self.dice.uniform(0.01, 0.3)
        self.loop.at(back, lambda: self.loop.open(request.answer, answer))

    # --- looking ---------------------------------------------------------------------------

    def probe(self, tool: ToolSpec, key: str) -> tuple[bool | None, str | None]:
        """Look for an effect under a key, as it is to be seen now; a fence bars what comes later."""
        if self.dice.random() < self.blind:
            return None, None
        seen = self.seen(key)
        if seen is None and tool.policy.fence:
            self.fences.add(key)
            seen = self.by_key[key][0].value if self.by_key[key] else None
        return seen is not None, seen

    def seen(self, key: str) -> str | None:
        """Return what an effect of this key brought, if one is to be seen now."""
        return next((effect.value for effect in self.by_key[key] if effect.visible <= self.loop.now), None)

    def counts(self) -> Counter[Intention]:
        """Return the number of effects of each intention."""
        return Counter(effect.intention for effect in self.effects)


__all__ = ["FATES", "TOOLS", "WEIGHTS", "Effect", "Intention", "Request", "World"]

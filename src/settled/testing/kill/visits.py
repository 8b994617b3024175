"""A host and its guest on one run, each with a boundary to die at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.values import replace
from settled.testing.kill.fuse import crossed
from settled.testing.kill.joins import no_more_guests, token_file
from settled.testing.kill.judge import judge
from settled.testing.kill.nursery import KILLED, awaited
from settled.testing.kill.plan import Plan

if TYPE_CHECKING:
    from pathlib import Path

    from settled.testing.kill.nursery import Nursery


class Visit:
    """One host and one guest on one journal. ``host``, ``guest``: the boundaries that they are to die at."""

    def __init__(
        self,
        nursery: Nursery,
        home: Path,
        *,
        host: int | str | None = None,
        guest: int | str | None = None,
        is_async: bool = False,
        journal: str = "",
        scripts: tuple[str, str] = ("host", "guest"),
    ) -> None:
        home.mkdir()
        self._nursery = nursery
        self.host = Plan(str(home), scripts[0], name="host", at=host, is_async=is_async, journal=journal)
        self.guest = replace(self.host, script=scripts[1], name="guest", at=guest, is_async=not is_async)
        self.pids: dict[str, int] = {}
        self.codes: dict[str, int] = {}

    def start(self) -> None:
        """Let the host begin, and its guest once there is a token; none if the host died before."""
        self.pids["host"] = self._nursery.start(self.host)
        there = token_file(self.host.home)
        awaited(lambda: 0 if there.exists() or _is_dead(self.host) else None, "the host gives no token")
        if there.exists():
            self.pids["guest"] = self._nursery.start(self.guest)

    def end(self) -> None:
        """Wait for both, the guest first."""
        for name in sorted(self.pids):
            self.codes[name] = self._nursery.wait(self.pids[name])
            no_more_guests(self.host.home).touch()
        no_more_guests(self.host.home).touch()

    def problems(self) -> list[str]:
        """Judge what they have left."""
        return judge(replace(self.host, at=None, entry=20))

    @property
    def died(self) -> list[str]:
        """Return the boundaries at which one died."""
        plans = {"host": self.host, "guest": self.guest}
        return [crossed(plans[name].trace, "main")[-1] for name, code in self.codes.items() if code == KILLED]


def _is_dead(plan: Plan) -> bool:
    names = crossed(plan.trace, "main")
    return plan.at is not None and (len(names) == plan.at or names[-1:] == [plan.at])

"""A run with a guest, and SIGKILL for host, guest or both on the way: nothing done twice, nothing left behind."""

import shutil
import time

import pytest

from settled.core.values import replace
from settled.testing.kill.fuse import crossed
from settled.testing.kill.joins import no_more_guests, token_file
from settled.testing.kill.judge import judge
from settled.testing.kill.ledger import Ledger
from settled.testing.kill.nursery import KILLED
from settled.testing.kill.plan import Plan

PATIENCE = 60.0


def until(there, what):
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end, what
        time.sleep(0.002)


class Visit:
    """One host and one guest on one journal, each with the boundary that it is to die at."""

    def __init__(self, nursery, home, *, host=None, guest=None, is_async=False, journal="", script="guest"):
        home.mkdir()
        self.nursery = nursery
        self.host = Plan(str(home), "host", name="host", at=host, is_async=is_async, journal=journal)
        self.guest = replace(self.host, script=script, name="guest", at=guest, is_async=not is_async)
        self.codes = {}

    def start(self):
        """Let the host begin; return whether it lived to give its token."""
        self.pids = {"host": self.nursery.start(self.host)}
        until(lambda: token_file(self.host.home).exists() or self.is_dead(self.host), "no token")
        if token_file(self.host.home).exists():
            self.pids["guest"] = self.nursery.start(self.guest)

    @staticmethod
    def is_dead(plan):
        names = crossed(plan.trace, "main")
        return plan.at is not None and (len(names) == plan.at or names[-1:] == [plan.at])

    def end(self):
        for name in sorted(self.pids):
            self.codes[name] = self.nursery.wait(self.pids[name])
            no_more_guests(self.host.home).touch()
        no_more_guests(self.host.home).touch()

    def problems(self):
        found = judge(replace(self.host, at=None, entry=20))
        if not found:
            shutil.rmtree(self.host.home)
        return found

    @property
    def died(self):
        """The boundaries at which one died."""
        plans = {"host": self.host, "guest": self.guest}
        return [crossed(plans[name].trace, "main")[-1] for name, code in self.codes.items() if code == KILLED]


def visits(nursery, folder, first, *, step, **of):
    """Play a visit again and again, one boundary further on each time, until nobody dies; return where they died."""
    number, places, problems = first, [], []
    while True:
        numbers = {who: number if at is ... else at for who, at in of.items() if who in ("host", "guest")}
        visit = Visit(nursery, folder / f"at-{number}", is_async=bool(number % 2), **{**of, **numbers})
        visit.start()
        visit.end()
        died = visit.died
        places += died
        problems += [f"died at {number} {died}: {problem}" for problem in visit.problems()]
        moving = next(who for who, at in of.items() if at is ...)
        if visit.codes.get(moving) != KILLED:
            assert problems == []
            return places
        number += step


@pytest.fixture(params=["sqlite", "postgres"])
def place(request):
    """A journal's address."""
    return "" if request.param == "sqlite" else request.getfixturevalue("postgres").url()


def test_the_guest_dies_at_every_boundary(nursery, place, tmp_path):
    died = visits(nursery, tmp_path, 1, step=5 if place else 1, guest=..., journal=place)
    assert len(died) > 4
    if not place:
        assert {"inside JoinRun", "inside Claim", "rent: after the effect", "hire: before the effect"} <= set(died)


def test_the_host_dies_at_boundaries_all_the_way(nursery, place, tmp_path):
    died = visits(nursery, tmp_path, 1, step=9 if place else 5, host=..., journal=place)
    assert len(died) > 6


def test_both_die(nursery, place, tmp_path):
    died = visits(nursery, tmp_path, 1, step=5 if place else 3, host="gave the token", guest=..., journal=place)
    assert died.count("gave the token") > 4


def test_the_host_dies_while_it_undoes_what_a_dead_guest_left(nursery, place, tmp_path):
    guest, step = "rent: after the effect", 11 if place else 5
    died = visits(nursery, tmp_path, 30, step=step, host=..., guest=guest, journal=place)
    assert died.count(guest) > 2


@pytest.mark.parametrize("dies", [False, True])
def test_the_host_gives_up_while_the_guest_is_at_work(nursery, place, tmp_path, dies):
    visit = Visit(nursery, tmp_path / "visit", journal=place, script="stuck guest")
    visit.start()
    until(lambda: "stuck" in crossed(visit.guest.trace), "the guest never came to its work")
    no_more_guests(visit.host.home).touch()
    until(lambda: "after StartRollback" in crossed(visit.host.trace), "the host never gave up")
    if dies:
        assert nursery.kill(visit.pids.pop("guest")) == KILLED
    else:
        (visit.host.home / "go-on").touch()
    visit.end()
    assert set(visit.codes.values()) == {0}
    effects = [(effect.tool, effect.order) for effect in Ledger(visit.host.home / "ledger").effects()]
    assert ("hire", "cook") not in effects  # nothing begins behind the rollback's back
    if not dies:
        assert effects[-3:] == [("give_back", "boat"), ("give_back", "tent"), ("fire", "guide")]
    assert visit.problems() == []

"""A run with a guest, and SIGKILL for host, guest or both on the way: nothing done twice, nothing left behind."""

import shutil
from random import Random

import pytest

from settled.testing.kill.fuse import crossed
from settled.testing.kill.joins import no_more_guests
from settled.testing.kill.ledger import Ledger
from settled.testing.kill.nursery import KILLED
from settled.testing.kill.rounds import at_random
from settled.testing.kill.visits import Visit
from tests.waiting import until


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
        found = visit.problems()
        problems += [f"died at {number} {died}: {problem}" for problem in found]
        if not found:
            shutil.rmtree(visit.host.home)
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


@pytest.mark.parametrize("seed", range(3))
def test_both_at_work_at_once_die_at_random(nursery, place, tmp_path, seed):
    dice, folder = Random(seed), tmp_path / "round"
    folder.mkdir()
    deaths = at_random(nursery, folder, dice, scripts=["pair"], journal=place)
    assert [str(death) for death in deaths if death.problems] == []
    assert len(deaths) == 2


def test_both_die(nursery, place, tmp_path):
    died = visits(nursery, tmp_path, 1, step=5 if place else 3, host="gave the token", guest=..., journal=place)
    assert died.count("gave the token") > 4


def test_the_host_dies_while_it_undoes_what_a_dead_guest_left(nursery, place, tmp_path):
    guest, step = "rent: after the effect", 11 if place else 5
    died = visits(nursery, tmp_path, 30, step=step, host=..., guest=guest, journal=place)
    assert died.count(guest) > 2


@pytest.mark.parametrize("dies", [False, True])
def test_the_host_gives_up_while_the_guest_is_at_work(nursery, place, tmp_path, dies):
    visit = Visit(nursery, tmp_path / "visit", journal=place, scripts=("host", "stuck guest"))
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

"""The server's clock may be set: it ends no lease early, and proves nothing early."""

import itertools

import pytest

from settled.core.doubt.settling import Adopt
from settled.core.states import State
from settled.journals.postgres.clock import ASK, FRESH, UNWATCHED, ServerClock
from settled.testing.records import begun, make_ask

HOUR = 3600.0


class World:
    """True time, a server whose wall clock can be set, and machines with steady clocks of their own."""

    def __init__(self):
        self.time = 0.0
        self.step = 0.0
        self.row = (1e9, 1e9, "", 0.0)
        self._numbers = itertools.count(1)

    def client(self, boot):
        offset = 1000.0 * next(self._numbers)
        return ServerClock("journal", mono=lambda: self.time + offset, boot=lambda: boot)

    def read(self, clock, answer=0.0):
        """Let a client read; ``answer``: seconds until it hears of it. What it puts on record is."""
        before = clock.mono()
        row = (1e9 + self.time + self.step, *self.row)
        self.time += answer
        reading = clock.read(row, before, clock.mono())
        if reading.record is not None and reading.record[4:] == self.row[:2]:
            self.row = reading.record[:4]
        return reading.moment.mono - 1e9


@pytest.fixture
def world():
    return World()


def test_an_honest_clock_is_followed(world):
    one, two = world.client("a"), world.client("b")
    for _ in range(500):
        world.time += 0.7
        assert world.read(one, 0.01) == pytest.approx(world.time, abs=0.02)
        assert world.read(two, 0.01) == pytest.approx(world.time, abs=0.03)


@pytest.mark.parametrize("step", [600.0, HOUR, 86_400.0, 3.0])
def test_a_step_forward_is_taken_off_by_whoever_sees_it_first(world, step):
    one, two = world.client("a"), world.client("b")
    for clock in (one, two, one):
        world.read(clock)
        world.time += 1.5
    world.step = step
    for clock in (two, one, two, world.client("c"), world.client("a")):
        world.time += 0.5
        assert world.read(clock) <= world.time * 1.02 + UNWATCHED


def test_a_step_that_nobody_saw_counts_as_no_time_at_all(world):
    """All were away; who comes first cannot tell it from time that has passed."""
    stood = world.read(world.client("a"))
    world.time, world.step = 10.0, HOUR
    assert world.read(world.client("b")) <= stood + UNWATCHED


def test_a_machine_that_was_there_before_can_tell(world):
    """A command that comes once a minute, say: the record bears its boot's clock."""
    clock = world.client("a")
    world.read(clock)
    world.time += 60.0
    again = ServerClock("journal", mono=clock.mono, boot=lambda: "a")
    assert world.read(again) == pytest.approx(60.0)
    world.time, world.step = world.time + 60.0, HOUR
    assert world.read(ServerClock("journal", mono=clock.mono, boot=lambda: "a")) == pytest.approx(120.0, rel=0.02)


def test_a_step_back_holds_nothing_up_for_long(world):
    clock = world.client("a")
    for _ in range(3):
        world.read(clock)
        world.time += 2.0
    world.step = -HOUR
    stood = world.read(clock)
    world.time += 30.0
    assert stood + 29.0 <= world.read(clock) <= world.time


def test_many_small_steps_do_not_add_up(world):
    """Nor do slow answers."""
    clock, start = world.client("a"), 0.0
    start = world.read(clock)
    for number in range(1000):
        world.time += 0.1
        world.step += 0.05
        world.read(clock, 0.02 if number % 7 else 0.5)
    assert world.read(clock) - start <= world.time * 1.02 + 0.01


def test_who_was_idle_follows_those_who_were_not(world):
    """A clock that was held back by another is not pushed forward again."""
    idle = world.client("a")
    world.read(idle)
    world.time = HOUR
    other = world.client("b")
    low = world.read(other)
    world.time += 1.0
    assert world.read(idle) <= low + 1.0 + FRESH


# --- on a real server, whose clock is set by way of a function ---


def stepped(seconds):
    return ASK.replace("clock_timestamp())", f"clock_timestamp() + interval '{seconds} seconds')")


def test_a_stepped_server_ends_no_lease(open_journal, monkeypatch):
    owner, other = open_journal(), open_journal()
    call = begun(owner, make_ask(lease=30.0))
    other.now()
    for module in ("transactions", "journal"):
        monkeypatch.setattr(f"settled.journals.postgres.{module}.ASK", stepped(HOUR))
    newcomer = open_journal()
    for journal in (other, newcomer, owner):
        assert journal.perform(Adopt(call.operation_id)) == call
        assert journal.now().mono < call.lease.mono
    assert owner.now().wall > call.created.wall + HOUR - 60


def test_a_lease_ends_in_time(open_journal):
    owner, other = open_journal(), open_journal()
    call = begun(owner, make_ask(lease=0.2))
    while (found := other.perform(Adopt(call.operation_id))).state is State.PROCESSING:
        pass
    assert found.state is State.UNKNOWN
    assert found.changed.since(call.created) >= 0.2

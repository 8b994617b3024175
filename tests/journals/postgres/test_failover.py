"""A primary and its standby, both real: what a standby says, and what becomes of calls when it takes over."""

import pytest

import settled
from settled.errors import JournalError
from tests.servers.postgres import PostgresServer
from tests.waiting import until


@pytest.fixture
def primary():
    with PostgresServer(wal_level="replica", max_wal_senders="3") as server:
        yield server


def guarded(address, effects, after_effect=None):
    guard = settled.Guard(address)

    @guard.tool(effect="write", key="{name}")
    def act(name: str) -> str:
        effects.append(name)
        if name == "last" and after_effect is not None:
            after_effect()
        return f"did {name}"

    return guard, act


def test_a_standby_is_named_as_one(primary, tmp_path):
    guarded(primary.url(spill=tmp_path / "first"), [])[0].close()
    with PostgresServer(primary=primary) as standby:
        guard, act = guarded(standby.url(patience=1, spill=tmp_path / "second"), [])
        with guard, pytest.raises(JournalError, match="the server is read-only, perhaps a standby"):
            act("one")


def caught_up(primary, standby):
    """Wait until the standby, which follows without being waited for, has what was committed."""
    with primary.connect() as one, standby.connect() as other:
        (come,) = one.execute("SELECT pg_current_wal_lsn()").fetchone()
        until(lambda: other.execute("SELECT pg_last_wal_replay_lsn() >= %s", (come,)).fetchone()[0], "the standby")


@pytest.mark.parametrize("in_step", [True, False])
def test_a_standby_takes_over_between_an_effect_and_its_record(primary, tmp_path, in_step):
    effects = []
    guarded(primary.url(spill=tmp_path / "spill"), effects)[0].close()
    with PostgresServer(primary=primary) as standby:

        def fail_over():
            if in_step:
                caught_up(primary, standby)
            primary.kill()
            if not in_step:
                standby.start()
            standby.promote()

        if not in_step:
            standby.stop()
        hosts = f"host={primary.folder()},{standby.folder()}"
        address = f"postgresql://postgres@/postgres?{hosts}&target_session_attrs=read-write&spill={tmp_path / 'spill'}"
        guard, act = guarded(address, effects, fail_over)
        with guard:
            assert [act("first"), act("last")] == ["did first", "did last"]
            for name in ("first", "last", "next"):
                if in_step:
                    assert act.call(name=name).replayed is (name != "next")
                else:  # what it has not got may be done: nothing is
                    with pytest.raises(JournalError, match="it is an older copy"):
                        act(name)
        assert effects == ["first", "last", *["next"] * in_step]

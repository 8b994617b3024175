"""What is kept of breakers never stands in a call's way by itself."""

import settled
from settled.journals.sqlite import SqliteJournal
from tests.waiting import until


def failing(tmp_path):
    guard = settled.Guard(f"sqlite:///{tmp_path}/agent.db", busy_timeout=0.3)

    @guard.tool(effect="read", record=False, attempts=1)
    def look() -> str:
        raise ConnectionError

    return guard, look


def tripped(tmp_path):
    guard, look = failing(tmp_path)
    for _ in range(20):
        look.call()
    assert look.call().reason == "breaker_open"
    guard.floor.keeper.wake()
    guard.close()


def test_a_reset_while_no_process_lived_is_heeded_by_the_next(tmp_path):
    tripped(tmp_path)
    guard, look = failing(tmp_path)
    assert look.call().reason == "breaker_open"
    guard.close()
    journal = SqliteJournal(tmp_path / "agent.db")
    assert journal.reset_breakers(["tool:look"]) == ["tool:look"]
    journal.close()
    guard, look = failing(tmp_path)
    with guard:
        until(lambda: look.call().reason != "breaker_open", "the reset")


def test_a_read_that_needs_no_record_asks_nothing_of_a_locked_journal(tmp_path, holder):
    guard, look = failing(tmp_path)
    with guard:
        holder.hold()
        assert look.call().status == "not_done"


def test_what_a_breaker_learnt_is_kept_when_its_guard_is_closed(tmp_path):
    """However short the process lived: nobody waits for the keeper."""
    guard, look = failing(tmp_path)
    for _ in range(20):
        look.call()
    guard.close()
    guard, look = failing(tmp_path)
    with guard:
        assert look.call().reason == "breaker_open"


def test_a_guard_that_came_to_look_puts_nothing_over_what_others_have_learnt(tmp_path):
    onlooker, look = failing(tmp_path)
    [seen] = onlooker.breakers.of(look)
    assert seen.state(onlooker.floor.now()) == "closed"
    tripped(tmp_path)
    onlooker.close()
    guard, look = failing(tmp_path)
    with guard:
        assert look.call().reason == "breaker_open"


def test_the_breaker_over_all_tools_goes_on_in_the_next_process_too(tmp_path):
    policy = settled.BreakerPolicy.static(failures=2, cooldown=60)

    def opened():
        guard = settled.Guard(f"sqlite:///{tmp_path}/agent.db", breaker=policy)

        @guard.tool(effect="read", breaker=None, attempts=1)
        def look() -> str:
            raise ConnectionError

        return guard, look

    guard, look = opened()
    with guard:
        for _ in range(2):
            look.call()
    guard, look = opened()
    with guard:
        assert look.call().reason == "breaker_open"

"""A run's state: saved with the ends of its calls, name by name, and found by later entries."""

import pytest

import settled
from settled.core.attempts.progress import End
from settled.journals.postgres.transactions import Transactions
from settled.testing.records import AWKWARD


def test_the_state_is_saved_with_the_next_call_and_found_later(shared_desk):
    guard = shared_desk.open()
    with pytest.raises(LookupError), guard.run("trip") as run:
        run.state["plan"] = {"days": [1, 2]}
        run.state[AWKWARD] = AWKWARD
        guard.tools["book"]("flight")
        run.state["unsaved"] = "until the run is left"
        raise LookupError
    other = shared_desk.open()
    with other.run("trip") as run:
        assert dict(run.state) == {}  # the program walks from the top
        assert run.saved_state == {"plan": {"days": [1, 2]}, AWKWARD: AWKWARD, "unsaved": "until the run is left"}


def test_a_new_turn_goes_on_with_the_state_and_the_same_turn_begins_as_it_began(desk):
    guard = desk.open()
    with guard.run("chat", turn="u1") as run:
        run.state["facts"] = ["likes trains"]
    for _ in range(2):
        with pytest.raises(LookupError), guard.run("chat", turn="u2") as run:
            assert run.state["facts"] == ["likes trains"]
            run.state["facts"].append("hates planes")
            guard.tools["book"]("train")
            raise LookupError
    with guard.run("chat", turn="u3") as run:
        assert run.state["facts"] == ["likes trains", "hates planes"]
        del run.state["facts"]
        assert run.save()
        assert run.saved_state == {}


def test_a_large_state_costs_only_what_has_changed(shared_desk, monkeypatch):
    guard = shared_desk.open()
    saved = []
    perform = guard.journal.perform

    def noting(transition):
        if isinstance(transition, End):
            saved.append([change.name for change in transition.checkpoint.changes] if transition.checkpoint else [])
        return perform(transition)

    monkeypatch.setattr(guard.journal, "perform", noting)
    with guard.run("trip") as run:
        for number in range(100):
            run.state[f"page {number}"] = "x" * 10_000
        guard.tools["book"]("one")
        guard.tools["book"]("two")
        run.state["page 7"] = "y"
        guard.tools["book"]("three")
        run.state["list"] = []
        guard.tools["book"]("four")
        run.state["list"].append(1)
        guard.tools["book"]("five")
        guard.tools["book"]("six")
    assert [len(names) for names in saved] == [100, 0, 1, 1, 1, 0]
    assert saved[2] == ["page 7"]
    with guard.run("trip") as run:
        assert (len(run.saved_state), run.saved_state["list"]) == (101, [1])


def test_what_cannot_be_saved_is_refused_where_it_is_set(desk):
    guard = desk.open()
    with guard.run("trip") as run:
        with pytest.raises(settled.DeclarationError, match="cannot be saved"):
            run.state["x"] = object()
        with pytest.raises(TypeError):
            run.state[1] = "x"
        run.state["x"] = [1]
        guard.tools["book"]("flight")
        run.state["x"].append(object())
        guard.tools["book"]("hotel")  # an effect is never lost to bookkeeping
        assert run.saved_state == {"x": [1]}


def test_an_old_entry_saves_nothing_over_a_newer_ones_state(shared_desk):
    one, two = shared_desk.open(), shared_desk.open()
    with one.run("trip") as old:
        old.state["x"] = "old"
        with two.run("trip", take_over=True) as new:
            new.state["x"] = "new"
            assert new.save()
        assert old.save() is False
    with two.run("trip") as run:
        assert run.saved_state == {"x": "new"}


def test_the_state_is_encrypted_with_the_rest(shared_desk):
    from cryptography.fernet import Fernet  # noqa: PLC0415 - an extra

    guard = shared_desk.open(encryption_key=Fernet.generate_key())
    with guard.run("trip") as run:
        run.state["secret"] = "planted secret"
        run.save()
        assert run.saved_state == {"secret": "planted secret"}
        from settled.core.runs.entering import ReadState  # noqa: PLC0415 - here alone

        kept = guard.journal.perform(ReadState("trip", "", 9))
    assert b"planted" not in b"".join(kept.values())


@pytest.fixture
def commits(shared_desk, monkeypatch):
    """Counts the durable commits so far: SQLite's journal does itself, PostgreSQL's is listened to."""
    if not shared_desk.address.startswith("postgres"):
        return lambda guard: guard.journal.check().facts["commits"]
    made, end, commit = [0], Transactions._end, Transactions._commit

    def counting(self, line, books, record):
        made[0] += books.changed or record is not None
        end(self, line, books, record)

    def counting_foretold(self, line, books, now):
        made[0] += 1
        commit(self, line, books, now)

    monkeypatch.setattr(Transactions, "_end", counting)
    monkeypatch.setattr(Transactions, "_commit", counting_foretold)
    return lambda _: made[0]


@pytest.mark.parametrize("on_error", ["keep", "compensate"])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("tokens", [None, settled.TokenWindow(10, count=lambda tool, arguments: 1)])
def test_a_run_of_20_calls_adds_at_most_two_commits(shared_desk, commits, on_error, fails, tokens):
    guard = shared_desk.open()
    guard.floor.keeper.chores.clear()  # seals and renewals go by the clock, not by calls
    book = guard.tools["book"]

    def cost(work):
        before = commits(guard)
        work()
        return commits(guard) - before

    def in_run():
        with guard.run("trip", on_error=on_error, tokens=tokens) as run:
            for n in range(20):
                run.state["n"] = n
                book(f"{n}")
            undone.append(commits(guard))
            if fails:
                raise LookupError

    def failing():
        with pytest.raises(LookupError):
            in_run()

    undone = []
    alone = cost(lambda: [book(f"alone {n}") for n in range(20)])
    assert alone == 40  # an intent and an end each
    begun = commits(guard)
    added = cost(failing if fails else in_run)
    if fails and on_error == "compensate":  # what it undoes are calls of their own
        added = undone[0] - begun
    assert added <= alone + 2

"""A run's state: saved with the ends of its calls, name by name, and found by later entries."""

import pytest

import settled
from settled.core.progress import End
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
        from settled.core.runs import ReadState  # noqa: PLC0415 - here alone

        kept = guard.journal.perform(ReadState("trip", "", 9))
    assert b"planted" not in b"".join(kept.values())


def test_a_run_of_20_calls_adds_at_most_two_commits(tmp_path):
    with settled.Guard(f"sqlite:///{tmp_path}/agent.db") as guard:

        @guard.tool(effect="write")
        def act(n: int) -> int:
            return n

        def cost(work):
            before = guard.journal.check().facts["commits"]
            work()
            return guard.journal.check().facts["commits"] - before

        def in_run():
            with guard.run("trip") as run:
                for n in range(20):
                    run.state["n"] = n
                    act(n)

        alone = cost(lambda: [act(100 + n) for n in range(20)])
        assert cost(in_run) <= alone + 2

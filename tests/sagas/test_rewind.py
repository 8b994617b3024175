"""An operator rewinds a run: from one call on everything is made anew, and what was done is not forgotten."""

import pytest

import settled
from settled.core.states import State
from settled.journals.memory import MemoryJournal
from settled.ports import CallQuery
from settled.testing.records import FakeClock


@pytest.fixture
def made():
    return []


@pytest.fixture
def guard(desk, made):
    guard = desk.open()

    @guard.tool(effect="write", key="order:{number}", waiver="an order stays")
    def order(number: int, item: str) -> str:
        made.append(("order", number, item))
        return f"{number}: {item}"

    @guard.tool(effect="write", key="room:{number}", compensate="leave", undo=lambda call, result: {"room": result})
    def take(number: int, guest: str) -> str:
        made.append(("take", number, guest))
        return f"room {number}"

    @guard.tool(effect="write")
    def leave(room: str) -> None:
        made.append(("leave", room))

    guard.order, guard.take, guard.leave = order, take, leave
    return guard


def rewound(guard, result, **options):
    return guard.rewind("r", from_call=result.operation_id, by="eva", reason="typed wrong", **options)


def test_a_conflict_names_the_command(guard):
    with guard.run("r"):
        first = guard.order.call(1, "tea")
    with guard.run("r"):
        second = guard.order.call(1, "coffee")
        assert (second.status, second.hint) == ("conflict", f"settled runs rewind r --from {first.operation_id}")
        assert "rewind" not in second.for_model()
        with pytest.raises(settled.CallConflict, match=f"rewind r --from {first.operation_id}"):
            guard.order(1, "coffee")


def test_what_is_made_anew_is_sent_another_key(desk):
    """Under the old one the service knows what was set aside: a probe by key would take that for the new effect."""
    guard, sent, lost = desk.open(), {}, []

    def probe(call):
        return settled.Happened(sent[call.key]) if call.key in sent else settled.NotHappened()

    options = {"probe": probe, "max_request_lifetime": 0.0, "attempts": 1, "breaker": None}

    @guard.tool(effect="write", key="room:{number}", waiver="a room stays", **options)
    def room(number: int, guest: str) -> str:
        if guest in lost:
            raise TimeoutError
        return sent.setdefault(settled.current_call().key, guest)

    with guard.run("r"):
        first = room.call(1, "ann")
        assert room(2, "bob") == "bob"
    rewound(guard, first, effects="keep")
    lost.append("cid")
    with guard.run("r"):
        assert room.call(1, "cid").status == "not_done"
    lost.clear()
    with guard.run("r"):
        second = room.call(1, "cid")
        assert (second.value, room(2, "bob")) == ("cid", "bob")
    rewound(guard, second, effects="keep")
    with guard.run("r"):
        assert room(1, "dan") == "dan"
    assert sorted(sent.values()) == ["ann", "bob", "bob", "cid", "dan"]
    assert sent[guard.journal.get(first.operation_id).outward] == "ann"  # it is still asked about by what was sent
    assert sent[guard.journal.get(second.operation_id).outward] == "cid"


def test_what_had_an_effect_is_not_rewound_by_itself(guard, made):
    with guard.run("r"):
        first = guard.order.call(1, "tea")
    with pytest.raises(settled.DeclarationError, match="had an effect"):
        rewound(guard, first)
    with guard.run("r"):
        assert guard.order.call(1, "tea").replayed
    assert made == [("order", 1, "tea")]


def test_calls_are_made_anew_and_the_old_ones_stay_on_record(guard, made):
    with guard.run("r"):
        look = guard.tools["look"].call("before")
        first = guard.order.call(1, "tea")
        guard.tools["note"].call("after")
    told = rewound(guard, first, effects="keep")
    assert (len(told.operation_ids), told.kept[-1], look.operation_id in told.operation_ids) == (
        2,
        first.operation_id,
        False,
    )
    for _ in range(2):
        with guard.run("r"):
            assert guard.tools["look"].call("before").replayed
            again = guard.order.call(1, "coffee")
            guard.tools["note"].call("after")
    assert (again.value, again.replayed) == ("1: coffee", True)
    assert made == [("order", 1, "tea"), ("order", 1, "coffee")]
    old = guard.journal.get(first.operation_id)
    assert old.state is State.SUCCEEDED
    assert guard.journal.log(first.operation_id)[-1].detail == "rewound by eva: typed wrong"
    assert guard.journal.verify().ok
    assert guard.journal.run("", "r").state == "completed"


@pytest.mark.parametrize("fails", [False, True])
def test_a_call_without_a_key_is_made_anew_too_and_not_answered_from_what_was_kept(guard, made, fails):
    @guard.tool(effect="write")
    def charge(amount: int) -> str:
        made.append(("charge", amount))
        return f"{amount} in all"

    with guard.run("r"):
        charge(1)
        first = guard.order.call(1, "tea")
        charge(2)
    if fails:
        with guard.run("r"):
            assert guard.order.call(1, "coffee").status == "conflict"
    rewound(guard, first, effects="keep")
    for replayed in (False, True):
        with guard.run("r"):
            assert charge.call(1).replayed
            assert guard.order.call(1, "coffee").replayed is replayed
            assert charge.call(2).replayed is replayed, "its record was set aside, and answers nobody"
    anew = [("order", 1, "coffee"), ("charge", 2)]
    assert made == [("charge", 1), ("order", 1, "tea"), ("charge", 2), *anew]


def test_what_was_done_is_undone_first_the_last_begun_first(guard, made):
    with guard.run("r"):
        first = guard.take.call(1, "ann")
        guard.take.call(2, "bob")
        guard.tools["look"].call("x")
    rewound(guard, first, effects="undo")
    assert made[2:] == [("leave", "room 2"), ("leave", "room 1")]
    with guard.run("r"):
        assert guard.take.call(1, "eve").value == "room 1"
    assert made[-1] == ("take", 1, "eve")
    with guard.run("r") as run:
        assert run.compensate("over") == "compensated"  # only what stands is undone, and the old ones are no more
    assert made[-1] == ("leave", "room 1")
    assert made.count(("leave", "room 1")) == 2


def test_what_was_kept_is_still_the_runs_to_undo(guard, made):
    with guard.run("r"):
        first = guard.take.call(1, "ann")
    rewound(guard, first, effects="keep")
    with guard.run("r") as run:
        guard.take.call(1, "eve")
        assert run.compensate("over") == "compensated"
    assert made[2:] == [("leave", "room 1")] * 2


def test_what_cannot_be_undone_stops_it(guard, made):
    with guard.run("r"):
        first = guard.order.call(1, "tea")
        guard.take.call(1, "ann")
    with pytest.raises(settled.DeclarationError, match="nothing undoes order"):
        rewound(guard, first, effects="undo")
    assert len(made) == 2


def test_an_undoing_that_fails_leaves_all_as_it_is_and_can_be_gone_on_with(desk):
    guard = desk.open()
    with guard.run("r"):
        first = guard.tools["book"].call("flight")
        guard.tools["book"].call("hotel")
    desk.trouble["cancel", "b-flight"] = settled.NotExecuted("closed")
    with pytest.raises(settled.DeclarationError, match="could not be undone"):
        guard.rewind("r", from_call=first.operation_id, by="eva", reason="x", effects="undo")
    assert desk.left == ["flight"]
    assert guard.journal.get(first.operation_id).reason == "undo_failed"
    desk.trouble.clear()
    guard.resolve(first.operation_id, "undone", by="eva", reason="by hand")
    guard.rewind("r", from_call=first.operation_id, by="eva", reason="x", effects="undo")
    with guard.run("r"):
        assert guard.tools["book"].call("flight").value == "b-flight"


def test_what_agents_did_that_had_joined_is_rewound_with_it(desk, made):
    guard = desk.open(token_key="k" * 32)

    @guard.tool(effect="write", waiver="an order stays")
    def order(item: str) -> str:
        made.append(item)
        return item

    with guard.run("r") as run:
        first = order.call("tea")
        with guard.join(run.token(lane="bar")):
            second = order.call("milk")
    assert set(rewound(guard, first, effects="keep").operation_ids) == {first.operation_id, second.operation_id}
    with guard.run("r") as run:
        assert not order.call("tea").replayed
        with guard.join(run.token(lane="bar")):
            assert not order.call("milk").replayed
    assert made == ["tea", "milk"] * 2


@pytest.fixture
def batch(guard, made):
    """A batch whose second item is refused at first, and of whose third the first answer does not tell."""
    busy, silent = settled.partial.not_done("busy"), settled.partial.unknown("silent")
    early = {"b": busy, "c": silent}

    @guard.tool(effect="write")
    def drop(docs: list[str]) -> None:
        made.extend(f"-{doc}" for doc in docs)

    def read(answer, items):
        return [settled.partial.done(doc) if answer[doc] else early[doc] for doc in items]

    @guard.tool(effect="write", partial=read, compensate=drop, attempts=1, retry=settled.Backoff(base=1e-6))
    def store(docs: list[str]) -> dict:
        first = not made
        made.extend(doc for doc in docs if not (first and doc == "b"))
        return {doc: not first or doc == "a" for doc in docs}

    return store


def halved(guard, batch):
    """Make a batch of which a person, and a later call of the run's next entry, settle what its answer left."""
    with guard.run("r"):
        first = batch.options(wait=0).call(docs=["a", "b", "c"])
        later = guard.order.call(9, "tea")
    guard.resolve(first.items[2].operation_id, "happened", by="eva", reason="looked")
    with guard.run("r"):
        whole = batch.call(docs=["a", "b", "c"])
        assert (whole.status, whole.operation_id) == ("succeeded", first.operation_id)
    return whole, later


@pytest.mark.parametrize("position", [1, 2])
def test_a_part_of_a_batch_is_not_set_aside_without_it(guard, batch, made, position):
    whole, _ = halved(guard, batch)
    before = list(made)
    with pytest.raises(settled.DeclarationError, match=f"items of {whole.operation_id}: name that one"):
        guard.rewind("r", from_call=whole.items[position].operation_id, by="e", reason="x", effects="undo")
    assert made == before
    rewound(guard, whole, effects="keep")
    with guard.run("r"):
        assert not batch.call(docs=["a", "b", "c"]).replayed


def test_a_part_that_was_done_later_stays_with_its_batch(guard, batch, made):
    whole, later = halved(guard, batch)
    assert made == ["a", "c", ("order", 9, "tea"), "b"]
    assert rewound(guard, later, effects="keep").operation_ids == (later.operation_id,)
    with guard.run("r"):
        again = batch.call(docs=["a", "b", "c"])
        assert (again.status, again.replayed, again.operation_id) == ("succeeded", True, whole.operation_id)
    assert len(made) == 4


@pytest.mark.parametrize("outer", [{"effect": "read"}, {"effect": "write"}, {"effect": "write", "compensate": "leave"}])
@pytest.mark.parametrize("inner", ["done", "lost"])
def test_what_was_done_inside_of_a_call_that_failed_is_named_too(guard, made, outer, inner):
    fails = [inner == "lost"]

    @guard.tool(effect="write", compensate="leave", undo=lambda call, result: {"room": result}, breaker=None)
    def pay(what: str) -> str:
        made.append(what)
        if fails.pop():
            raise TimeoutError
        fails.append(False)
        return what

    @guard.tool(attempts=1, **outer)
    def help_with(room: str) -> str:
        result = pay.call(room)
        if len(made) == 1:
            raise settled.NotExecuted("no")
        return result.value

    with guard.run("r"):
        failed = help_with.call("attic")
    assert failed.status == "failed"
    if inner == "lost":
        with pytest.raises(settled.DeclarationError, match="may still have an effect"):
            rewound(guard, failed, effects="keep")
        return
    with pytest.raises(settled.DeclarationError, match=r"pay \[\w+\] had an effect"):
        rewound(guard, failed)
    assert len(rewound(guard, failed, effects="undo").undone) == 1
    with guard.run("r"):
        assert help_with("attic") == "attic"
    assert made == ["attic", ("leave", "attic"), "attic"]


def test_what_a_late_request_would_do_anew_is_not_undone_yet(made):
    clock = FakeClock()
    with settled.Guard(MemoryJournal(clock)) as guard:

        @guard.tool(effect="write")
        def leave(room: str) -> None:
            made.append(("leave", room))

        @guard.tool(effect="idempotent", compensate=leave, max_request_lifetime=60, retry=settled.Backoff(base=1e-6))
        def take(room: str) -> str:
            made.append(("take", room))
            if len(made) == 1:
                raise TimeoutError
            return room

        with guard.run("r"):
            call = take.call("attic")
        assert (call.status, len(made)) == ("succeeded", 2)
        with pytest.raises(settled.DeclarationError, match="may still arrive"):
            rewound(guard, call, effects="undo")
        assert len(made) == 2
        clock.advance(61)
        assert rewound(guard, call, effects="undo").undone == (call.operation_id,)
        assert made[2:] == [("leave", "attic")]


def test_what_is_in_doubt_is_settled_first(desk):
    guard = desk.open()
    with guard.run("r"):
        first = guard.tools["look"].call("x")
        desk.trouble["note"] = TimeoutError("no answer")
        guard.tools["note"].call("a")
    with pytest.raises(settled.DeclarationError, match="may still have an effect"):
        guard.rewind("r", from_call=first.operation_id, by="eva", reason="x", effects="keep")


def test_a_run_at_work_and_one_that_was_rolled_back_are_not_rewound(desk):
    guard, other = desk.open(), desk.open()
    with guard.run("r") as run:
        first = guard.tools["book"].call("flight")
        if desk.address != "memory://":
            with pytest.raises(settled.DeclarationError, match="another process works on run 'r'"):
                other.rewind("r", from_call=first.operation_id, by="eva", reason="x", effects="keep")
        run.compensate("over")
    with pytest.raises(settled.DeclarationError, match="it is compensated"):
        guard.rewind("r", from_call=first.operation_id, by="eva", reason="x", effects="keep")


def test_a_dry_run_changes_nothing(guard, made):
    with guard.run("r"):
        first = guard.take.call(1, "ann")
    before = guard.journal.get(first.operation_id), guard.journal.run("", "r")
    told = rewound(guard, first, effects="undo", dry_run=True)
    assert (told.operation_ids, told.undone) == ((first.operation_id,),) * 2
    assert (guard.journal.get(first.operation_id), guard.journal.run("", "r")) == before
    assert len(made) == 1


def test_a_step_that_code_named_is_made_anew_too(guard, made):
    step = {"step": "pay"}
    with guard.run("r"):
        first = guard.tools["note"].options(**step).call("a")
    with guard.run("r"):
        assert guard.tools["note"].options(**step).call("b").status == "conflict"
    rewound(guard, first, effects="keep")
    for _ in range(2):
        with guard.run("r"):
            again = guard.tools["note"].options(**step).call("b")
    assert (again.value, again.replayed) == ("b", True)
    assert len(guard.journal.find(CallQuery(tool="note"))) == 2


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"by": " "}, "needs a name"),
        ({"reason": ""}, "needs a name"),
        ({"effects": "all"}, "none of"),
        ({"from_call": "op_none"}, "no call of run"),
    ],
)
def test_what_is_not_said_clearly_is_refused(guard, more, why):
    with guard.run("r"):
        first = guard.order.call(1, "tea")
    given = {"from_call": first.operation_id, "by": "eva", "reason": "x"} | more
    with pytest.raises(settled.DeclarationError, match=why):
        guard.rewind("r", **given)


async def test_it_is_the_same_in_async_code(guard, made):
    async with guard.run("r"):
        first = await guard.take.acall(1, "ann")
    await guard.arewind("r", from_call=first.operation_id, by="eva", reason="x", effects="undo")
    async with guard.run("r"):
        await guard.take.acall(1, "eve")
    assert made[1:] == [("leave", "room 1"), ("take", 1, "eve")]

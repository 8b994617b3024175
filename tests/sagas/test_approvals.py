"""Leave for one exact call: asked for before anything is done, given or refused by name, used once."""

import asyncio
import contextvars
import threading
import time

import pytest

import settled
from settled.api.people.queue import waiting
from settled.core.values import replace
from settled.ports import CallQuery
from settled.testing.records import Look
from tests.lapsing import lapse

FAST = settled.Backoff(base=0.001, cap=0.01)


@pytest.fixture
def paid():
    return []


def pay_of(guard, paid, **options):
    @guard.tool(**{"effect": "write", "approve": True, **options})
    def pay(to: str, amount: int) -> str:
        paid.append((to, amount))
        return f"paid {to}"

    return pay


def dispatched(guard, step):
    """Let a model ask for a payment, and not wait for anybody."""
    bound = guard.bind("pay", {"to": "ann", "amount": 10}, step=step)
    return replace(bound, options=replace(bound.options, wait=0.0)).call()


def test_a_call_waits_for_leave_and_is_made_when_it_is_asked_again(desk, paid):
    guard = desk.open()
    pay = pay_of(guard, paid)
    first = pay.options(wait=0).call("ann", 10)
    assert (first.status, first.next, first.reason, paid) == ("awaiting_approval", "wait", "its tool always asks", [])
    assert [(call.tool, str(call.state)) for call in waiting(guard.journal)] == [("pay", "awaiting_approval")]
    assert [alert.kind for alert in guard.journal.alerts()] == ["approval"]
    assert pay.options(wait=0).call("ann", 10).operation_id == first.operation_id  # still one call, that waits
    guard.approve(first.operation_id, by="eva", reason="as agreed")
    made = pay.call("ann", 10)
    assert (made.value, made.operation_id, paid) == ("paid ann", first.operation_id, [("ann", 10)])
    assert pay.options(wait=0).call("ann", 10).status == "awaiting_approval"  # the leave was for one call
    assert paid == [("ann", 10)]


@pytest.mark.case("CASE-062-approved-args-changed")
def test_leave_for_these_arguments_is_no_leave_for_others(desk, paid):
    guard = desk.open()
    pay = pay_of(guard, paid)
    with guard.run("r"):
        first = dispatched(guard, "m1/0")
        guard.approve(first.operation_id, by="eva")
    with guard.run("r"):
        other = pay.options(wait=0).call("ann", 9000)
        assert (other.status, other.operation_id != first.operation_id, paid) == ("awaiting_approval", True, [])
        assert pay.call("ann", 10).value == "paid ann"
    assert paid == [("ann", 10)]


def test_leave_is_for_one_version_of_the_tool(shared_desk, paid):
    one, two = shared_desk.open(), shared_desk.open()
    first = pay_of(one, paid, version="1", key="{to}").options(wait=0).call("ann", 10)
    one.approve(first.operation_id, by="eva")
    pay = pay_of(two, paid, version="2", key="{to}")
    assert (pay.options(wait=0).call("ann", 10).status, paid) == ("awaiting_approval", [])
    two.approve(first.operation_id, by="eva")
    assert (pay.call("ann", 10).ok, paid) == (True, [("ann", 10)])


def test_what_is_refused_is_never_made(desk, paid):
    guard = desk.open()
    pay = pay_of(guard, paid, key="{to}")
    first = pay.options(wait=0).call("ann", 10)
    with pytest.raises(settled.DeclarationError, match="a refusal its reason"):
        guard.refuse(first.operation_id, by="eva", reason=" ")
    guard.refuse(first.operation_id, by="eva", reason="too much")
    again = pay.call("ann", 10)
    assert (again.status, again.reason, again.next, paid) == ("refused", "too much", "give_up", [])
    assert again.message == "a person refused it: too much"
    assert again.message in again.for_model()
    with pytest.raises(settled.CallRefused, match="a person refused it: too much"):
        again.unwrap()
    with pytest.raises(settled.DeclarationError, match="the call is refused"):
        guard.approve(first.operation_id, by="eva")


def test_a_threshold_on_an_argument_asks(desk, paid):
    guard = desk.open()
    pay = pay_of(guard, paid, approve={"amount": 500})
    assert pay.call("ann", 500).ok
    asked = pay.options(wait=0).call("ann", 501)
    assert (asked.status, asked.reason) == ("awaiting_approval", "amount is over 500")


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (lambda to, amount: "a stranger" if to == "bob" else "", "a stranger"),
        (lambda to, amount: to == "bob", "its rule asks"),
        (lambda to, amount: 1 / 0, "its rule failed: ZeroDivisionError"),
    ],
)
def test_a_rule_asks_and_what_it_cannot_judge_a_person_does(desk, paid, rule, reason):
    guard = desk.open()
    pay = pay_of(guard, paid, approve=rule)
    asked = pay.options(wait=0).call("bob", 1)
    assert (asked.status, asked.reason, paid) == ("awaiting_approval", reason, [])


def test_four_eyes_are_of_two_persons(desk, paid):
    guard = desk.open()
    pay = pay_of(guard, paid, approvers=2, key="{to}")
    first = pay.options(wait=0).call("ann", 10)
    assert guard.approve(first.operation_id, by="eva").status == "awaiting_approval"
    with pytest.raises(settled.DeclarationError, match="eva has agreed already"):
        guard.approve(first.operation_id, by="eva")
    assert pay.options(wait=0).call("ann", 10).status == "awaiting_approval"
    guard.approve(first.operation_id, by="bob")
    assert (pay.call("ann", 10).ok, paid) == (True, [("ann", 10)])


@pytest.mark.parametrize("same", [" eva ", "EVA", "eva\n"])
def test_blanks_and_case_make_nobody_a_second_person(desk, paid, same):
    guard = desk.open()
    pay = pay_of(guard, paid, approvers=2, key="{to}")
    first = pay.options(wait=0).call("ann", 10)
    guard.approve(first.operation_id, by=" Eva ")
    with pytest.raises(settled.DeclarationError, match="has agreed already: it takes somebody else"):
        guard.approve(first.operation_id, by=same)
    with pytest.raises(settled.DeclarationError, match="a decision needs a name"):
        guard.approve(first.operation_id, by="  ")
    assert guard.journal.get(first.operation_id).leave.by == ("Eva",)
    assert pay.options(wait=0).call("ann", 10).status == "awaiting_approval"
    assert paid == []


def test_leave_ends_and_is_asked_for_anew(desk, paid):
    guard = desk.open()
    pay = pay_of(guard, paid, approve_within=60, key="{to}")
    first = pay.options(wait=0).call("ann", 10)
    lapse(guard, first.operation_id)
    assert waiting(guard.journal) == []
    with pytest.raises(settled.DeclarationError, match="nobody decided in time"):
        guard.approve(first.operation_id, by="eva")
    assert pay.options(wait=0).call("ann", 10).status == "awaiting_approval"
    guard.approve(first.operation_id, by="eva")
    lapse(guard, first.operation_id)
    assert (pay.options(wait=0).call("ann", 10).status, paid) == ("awaiting_approval", [])


def test_whoever_waits_gets_the_outcome(shared_desk, paid):
    one, two = shared_desk.open(), shared_desk.open()
    pay = pay_of(one, paid)
    told = []
    thread = threading.Thread(target=lambda: told.append(pay.options(wait=60).call("ann", 10)))
    thread.start()
    end = time.monotonic() + 60
    while not (found := waiting(two.journal)):
        assert time.monotonic() < end
        time.sleep(0.01)
    pay_of(two, paid)
    two.approve(found[0].operation_id, by="eva")  # another process than the one that waits
    thread.join(60)
    assert ([result.value for result in told], paid) == (["paid ann"], [("ann", 10)])


async def test_async_callers_wait_too(desk, paid):
    guard = desk.open()

    @guard.tool(effect="write", approve=True)
    async def apay(to: str) -> str:
        paid.append(to)
        return to

    task = asyncio.create_task(apay.options(wait=60).acall("ann"))
    while not (found := waiting(guard.journal)):
        await asyncio.sleep(0.01)
    await asyncio.to_thread(guard.approve, found[0].operation_id, by="eva")
    assert ((await task).value, paid) == ("ann", ["ann"])


def test_an_agent_that_comes_back_later_finds_it(shared_desk, paid):
    one = shared_desk.open()
    pay_of(one, paid)
    with one.run("r"):
        first = dispatched(one, "m1/0")
        again = dispatched(one, "m2/0")
        assert (first.status, again.operation_id) == ("awaiting_approval", first.operation_id)
    one.approve(first.operation_id, by="eva")
    one.close()
    two = shared_desk.open()
    pay_of(two, paid)
    with two.run("r"):
        made = dispatched(two, "m9/0")
    assert (made.status, made.operation_id, paid) == ("succeeded", first.operation_id, [("ann", 10)])


def test_leave_covers_the_attempts_of_one_series(desk, paid):
    guard = desk.open()
    failing = [2]

    @guard.tool(effect="write", approve=True, key="{to}", attempts=3, retry=FAST, breaker=None)
    def pay(to: str) -> str:
        failing[0] -= 1
        if failing[0] >= 0:
            raise ConnectionRefusedError("away")
        paid.append(to)
        return to

    first = pay.options(wait=0).call("ann")
    guard.approve(first.operation_id, by="eva")
    assert (pay.call("ann").ok, paid) == (True, ["ann"])
    failing[0] = 5
    second = pay.options(wait=0).call("bob")
    guard.approve(second.operation_id, by="eva")
    assert pay.call("bob").status == "not_done"
    assert pay.options(wait=0).call("bob").status == "awaiting_approval"  # a further series is a further leave


def test_what_a_run_that_was_undone_had_asked_for_is_not_approved_any_more(desk, paid):
    guard = desk.open()
    pay = pay_of(guard, paid, waiver="a test")
    with guard.run("r") as run:
        first = pay.options(wait=0).call("ann", 10)
        run.compensate("no longer wanted")
    with pytest.raises(settled.DeclarationError, match="its run was rolled back"):
        guard.approve(first.operation_id, by="eva")
    with pytest.raises(settled.DeclarationError, match="its run was rolled back"):
        guard.refuse(first.operation_id, by="eva", reason="too late")
    call = guard.journal.get(first.operation_id)
    assert (call.state, call.decided, call.reason) == ("refused", "rollback", "the run was rolled back")
    assert waiting(guard.journal) == []
    assert [str(row.event) for row in guard.journal.log(first.operation_id)] == ["ask_leave", "refuse"]


def test_a_rollback_closes_what_waits_however_deep(shared_desk, paid):
    guard = shared_desk.open()
    pay = pay_of(guard, paid, waiver="a test")

    @guard.tool(effect="write", compensate="cancel", undo=lambda call, result: {"booking": result})
    def errand(to: str) -> str:
        pay.options(wait=0).call(to, 1)
        return to

    with pytest.raises(LookupError), guard.run("r", on_error="compensate", tools=["errand", "pay"]):
        with guard.run("inner"):
            pay.options(wait=0).call("ann", 1)
        errand("bob")
        pay.options(wait=0).call("eve", 1)
        assert len(waiting(guard.journal)) == 3
        raise LookupError
    assert waiting(guard.journal) == []
    found = guard.journal.find(CallQuery(tool="pay"))
    assert {(str(call.state), call.decided) for call in found} == {("refused", "rollback")}
    assert guard.journal.verify().ok


def test_whoever_waits_when_the_run_is_undone_is_told(shared_desk, paid):
    """One waits in the run; one elsewhere, for the same business key."""
    guard, other = shared_desk.open(), shared_desk.open()
    pay = pay_of(guard, paid, waiver="a test", key="{to}")
    elsewhere = pay_of(other, paid, key="{to}")
    told = {}
    with guard.run("r") as run:
        context = contextvars.copy_context()
        inside = threading.Thread(
            target=context.run, args=(lambda: told.update(inside=pay.options(wait=60).call("ann", 1)),)
        )
        inside.start()
        end = time.monotonic() + 60
        while not waiting(other.journal):
            assert time.monotonic() < end
            time.sleep(0.01)
        outside = threading.Thread(target=lambda: told.update(outside=elsewhere.options(wait=60).call("ann", 1)))
        outside.start()
        run.compensate("no longer wanted")
        inside.join(60)
        outside.join(60)
    assert (told["inside"].status, told["inside"].reason) == ("rejected", "rolled_back")
    assert (told["outside"].status, told["outside"].next) == ("refused", "give_up")
    assert told["outside"].message == "not done, and it never is: the run was rolled back"
    assert paid == []


def test_two_persons_at_once_decide_once(shared_desk, paid):
    one, two = shared_desk.open(), shared_desk.open()
    first = pay_of(one, paid).options(wait=0).call("ann", 10)
    outcomes, start = [], threading.Barrier(2)

    def decide(guard, by):
        start.wait()
        try:
            outcomes.append(guard.approve(first.operation_id, by=by).status)
        except settled.DeclarationError:
            outcomes.append("too late")

    threads = [threading.Thread(target=decide, args=pair) for pair in ((one, "eva"), (two, "bob"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["not_done", "too late"]
    assert len([row for row in one.journal.log(first.operation_id) if row.event == "grant"]) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"approve": {"amout": 5}}, "no parameter 'amout'; did you mean 'amount'"),
        ({"approve": {"amount": "5"}}, "needs a number to be compared with"),
        ({"approve": "yes"}, "approve is True, "),
        ({"approvers": 0}, "approvers is a whole number of persons"),
        ({"approve_within": 0}, "approve_within must be seconds above 0"),
    ],
)
def test_a_mistake_is_named_when_it_is_declared(desk, paid, options, words):
    with pytest.raises(settled.DeclarationError, match=words):
        pay_of(desk.open(), paid, **options)


def test_every_decision_is_on_record(desk, paid):
    guard = desk.open()
    first = pay_of(guard, paid, approvers=2).options(wait=0).call("ann", 10)
    guard.approve(first.operation_id, by="eva", reason="seen")
    guard.refuse(first.operation_id, by="bob", reason="no")
    log = [(str(row.event), str(row.state), row.detail) for row in guard.journal.log(first.operation_id)]
    assert log == [
        ("ask_leave", "awaiting_approval", "its tool always asks"),
        ("note", "awaiting_approval", "leave given by eva: seen"),
        ("refuse", "refused", "refused by bob: no"),
    ]
    assert guard.journal.verify().ok
    [call] = guard.journal.find(CallQuery(tool="pay"))
    assert (call.leave.by, call.leave.used, call.decided) == (("eva",), False, "person:bob")
    assert guard.journal.perform(Look(lambda books: books.by_id(first.operation_id))) == replace(call)


@pytest.mark.parametrize("by_model", [False, True])
def test_leave_that_is_given_after_a_turn_counts_in_the_next_one(desk, paid, by_model):
    """People decide when they can; whoever then asks for the same asks for what was decided on, and no other leave."""
    guard = desk.open()
    pay = pay_of(guard, paid).options(wait=0)

    def ask(turn, to="ann"):
        with guard.run("r", turn=turn):
            return guard.dispatch("pay", {"to": to, "amount": 10}) if by_model else pay.call(to, 10)

    first, again = ask("1"), ask("2")
    assert (first.status, again.status, first.operation_id) == ("awaiting_approval", again.status, again.operation_id)
    guard.approve(first.operation_id, by="eva")
    assert ask("3", to="bob").status == "awaiting_approval", "leave is for one exact call"
    done, another = ask("3"), ask("4")
    assert (done.status, done.operation_id, paid) == ("succeeded", first.operation_id, [("ann", 10)])
    assert (another.status, another.operation_id == first.operation_id) == ("awaiting_approval", False)

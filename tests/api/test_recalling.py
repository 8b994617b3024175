"""A run that is entered again answers what is plainly on record from memory, as the journal would, unasked."""

import asyncio
import contextvars
import os
import random
import threading
import time
from contextlib import suppress

import pytest

import settled
from settled.api.calls.asking import digests
from settled.api.runs import recollection as module
from settled.core.runs.entering import EnterRun, LeaveRun, scope_of_run
from settled.host import steady
from settled.ports import CallQuery


class Shop:
    def __init__(self, address="memory://", **options):
        self.guard = settled.Guard(address, **options)
        self.done = []
        guard, done = self.guard, self.done

        @guard.tool(effect="write")
        def undo_buy(what: str) -> None:
            done.append(("undo", what))

        @guard.tool(effect="write", compensate=undo_buy)
        def buy(what: str, fails: str = "") -> str:
            if fails == "no":
                raise settled.NotExecuted("sold out")
            done.append(("buy", what))
            if fails == "lost":
                raise TimeoutError("no answer")
            return f"{what} no {len(done)}"

        @guard.tool(effect="write", identity=("what",), compensate=undo_buy)
        def order(what: str, note: str = "") -> str:
            done.append(("order", what, note))
            return f"{what} {note}"

        @guard.tool(effect="write", compensate=undo_buy)
        async def abuy(what: str) -> str:
            done.append(("abuy", what))
            return what

        @guard.tool(effect="read")
        def price(what: str) -> int:
            return len(what)

        self.buy, self.order, self.abuy, self.price = buy, order, abuy, price

    def transitions(self):
        """Note every transition that the journal performs from now on."""
        seen, journal = [], self.guard.journal
        perform = journal.perform

        def noting(transition):
            seen.append(transition)
            return perform(transition)

        journal.perform = noting  # what async code asks for comes here too
        return seen


@pytest.fixture
def shop():
    shop = Shop()
    yield shop
    shop.guard.close()


def test_what_is_plainly_on_record_costs_the_journal_nothing(shop):
    def work():
        with shop.guard.run("r"):
            return [shop.buy("tea"), shop.order("milk", note="cold"), shop.price("tea")], shop.buy.call("jam")

    values, fresh = work()
    seen = shop.transitions()
    again, replayed = work()
    assert [type(each) for each in seen] == [EnterRun, LeaveRun]
    assert (again, replayed.value, replayed.replayed, replayed.operation_id) == (
        values,
        fresh.value,
        True,
        fresh.operation_id,
    )
    assert [earlier.operation_id for earlier in replayed.earlier] == [fresh.operation_id]
    assert len(shop.done) == 3


async def test_from_async_code_too(shop):
    async def work():
        async with shop.guard.run("r"):
            return await shop.abuy("tea"), await shop.abuy.acall("jam"), await shop.buy.acall("milk")

    await work()
    seen = shop.transitions()
    value, jam, milk = await work()
    assert [type(each) for each in seen] == [EnterRun, LeaveRun]
    assert (value, jam.replayed, milk.replayed, len(shop.done)) == ("tea", True, True, 3)


def test_two_equal_calls_stay_two(shop):
    def work(*what):
        with shop.guard.run("r"):
            return [shop.buy(each) for each in what]

    first = work("tea", "tea")
    assert work("tea", "tea", "tea")[:2] == first
    assert shop.done == [("buy", "tea")] * 3
    with shop.guard.run("other"):
        shop.buy("milk")
    with shop.guard.run("other"):
        assert [shop.buy.call("milk").replayed for _ in range(2)] == [True, False]


def test_other_words_are_compared_by_the_journal(shop):
    with shop.guard.run("r"):
        shop.order("tea", note="green")
    with shop.guard.run("r"):
        answered = shop.order.call("tea", note="of the green kind")
    assert (answered.replayed, answered.reworded, answered.value) == (True, True, "tea green")


@pytest.mark.parametrize(("fails", "status"), [("no", "failed"), ("lost", "unknown")])
def test_what_did_not_succeed_is_answered_by_the_journal(shop, fails, status):
    for _ in range(2):
        with shop.guard.run("r"):
            shop.buy("jam")
            found = shop.buy.options(wait=0).call("tea", fails=fails)
    assert (found.status, len(shop.done)) == (status, 1 + (fails == "lost"))


def test_once_the_run_is_undone_nothing_is_answered_as_if_it_stood(shop):
    with shop.guard.run("r", on_error="compensate"):
        shop.buy("tea")
    with shop.guard.run("r", on_error="compensate") as run:
        assert shop.buy.call("tea").replayed
        shop.guard.tools["price"]("tea")
        assert run.compensate("no longer wanted") == "compensated"
        assert shop.buy.call("tea").reason == "rolled_back"


def test_whoever_was_taken_over_does_nothing_new(tmp_path):
    address = f"sqlite:///{tmp_path}/agent.db"
    one, two = Shop(address), Shop(address)
    with one.guard.run("r"):
        one.buy("tea")
        one.buy("milk")
    with one.guard.run("r"):
        assert one.buy.call("milk").replayed
        with two.guard.run("r", take_over=True):
            assert two.buy.call("tea").replayed
        assert one.buy.call("tea").replayed
        assert one.buy.call("jam").reason == "superseded"
    assert (len(one.done), two.done) == (2, [])
    one.guard.close()
    two.guard.close()


@pytest.mark.parametrize("end", [KeyError, None])
def test_whoever_has_lost_its_lease_before_it_reads_remembers_nothing(tmp_path, end):
    address = f"sqlite:///{tmp_path}/agent.db"
    one, two = Shop(address, lease=2.0), Shop(address)
    with one.guard.run("r"):
        one.buy("tea")
        one.buy("milk")
    with one.guard.run("r"):
        own = contextvars.copy_context()
        one.guard.runs_here.drop(next(iter(one.guard.runs_here._held)))  # as if it were stopped
        with suppress(KeyError), two.guard.run("r", on_error="compensate", wait=60):
            assert own.run(one.buy.call, "tea").reason == "superseded"
            if end is not None:
                raise end
        assert not own.run(one.buy.call, "milk").ok
    assert (len(one.done), two.done) == (2, [] if end is None else [("undo", "milk"), ("undo", "tea")])
    one.guard.close()
    two.guard.close()


def test_it_is_read_again_when_the_lease_is_over(shop):
    with shop.guard.run("r"):
        for what in ("tea", "jam"):
            shop.buy(what)
    with shop.guard.run("r") as run:
        assert shop.buy.call("tea").replayed
        run.recollection._until = steady()
        looked, find = [], shop.guard.journal.find
        shop.guard.journal.find = lambda query: (looked.append(query), find(query))[1]
        assert shop.buy.call("jam").replayed
        assert len(looked) == 1
        assert not shop.buy.call("tea").replayed  # answered once: the second is another one
    assert [what for _, what in shop.done] == ["tea", "jam", "tea"]


def test_a_run_that_is_too_long_asks_the_journal(shop, monkeypatch):
    monkeypatch.setattr(module, "MOST_CALLS", 2)
    for _ in range(2):
        with shop.guard.run("r") as run:
            values = [shop.buy.call(what) for what in ("a", "b", "c")]
    assert ([each.replayed for each in values], run.recollection) == ([True] * 3, None)


def test_where_it_has_come_to_what_is_new_it_remembers_no_more(shop):
    with shop.guard.run("r"):
        shop.buy("tea")
        shop.buy("never asked for again")
    with shop.guard.run("r") as run:
        assert shop.buy.call("tea").replayed
        for number in range(module.MOST_MISSES):
            assert run.recollection is not None
            assert not shop.buy.call(f"new {number}").replayed
        assert run.recollection is None


def test_what_the_journal_decides_on_it_alone_answers(shop):
    with shop.guard.run("r"):
        shop.buy("tea")
    with shop.guard.run("r") as run:
        run.recollection.read(run)
        assert shop.buy.options(wait=1.0).call("tea").replayed  # with options it is the journal's to decide
        run.recollection.read(run)
        tea = digests(shop.buy, shop.buy.schema.bind(("tea",), {}))
        assert run.recollection.take(run, "buy", *tea) is None


def test_a_forked_child_leaves_its_parents_memory_alone(tmp_path):
    shop = Shop(f"sqlite:///{tmp_path}/agent.db")
    with shop.guard.run("r"):
        shop.buy("tea")
    with shop.guard.run("r") as run:
        run.recollection._lock.acquire()  # as another thread may hold it at that moment
        pid = os.fork()
        if not pid:
            code = 1
            with suppress(BaseException):
                code = 0 if shop.buy.call("tea").status == "succeeded" else 2
            os._exit(code)
        assert os.waitstatus_to_exitcode(_waited(pid)) == 0
        run.recollection._lock.release()
    shop.guard.close()


def _waited(pid):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.01)
    os.kill(pid, 9)
    return os.waitpid(pid, 0)[1]


def test_many_threads_get_each_record_once(shop):
    names = [f"n{number}" for number in range(40)]
    with shop.guard.run("r"):
        for name in names:
            shop.buy(name)
    results, start = [], threading.Barrier(4)
    with shop.guard.run("r") as run:

        def ask():
            run_here = run.context()
            start.wait()
            results.extend(run_here.run(shop.buy.call, name) for name in names)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    replayed = [each.value for each in results if each.replayed]
    assert (len(results), len(replayed), len(set(replayed)), len(shop.done)) == (160, 40, 40, 160)


@pytest.mark.parametrize("seed", range(60))
def test_the_answers_are_those_of_the_journal(seed, monkeypatch):
    """Random programs, entered again and again with other calls: with the memory and without it all is the same."""
    told = []
    for remembers in (True, False):
        with monkeypatch.context() as patch:
            if not remembers:
                patch.setattr(module.Recollection, "is_read", property(lambda _: True))  # never reads anything
            told.append(_played(seed))
    assert told[0] == told[1]


def _played(seed):
    draw, shop, names = random.Random(seed), Shop(), {}
    for _ in range(4):
        with suppress(LookupError), shop.guard.run("r", on_error=draw.choice(["keep", "keep", "compensate"])):
            for _ in range(draw.randrange(12)):
                tool = draw.choice([shop.buy, shop.buy, shop.order, shop.price])
                given = {"what": draw.choice("abcd")}
                if tool is shop.order:
                    given["note"] = draw.choice(["", "x"])
                if tool is shop.buy:
                    given["fails"] = draw.choices(["", "no", "lost"], [8, 1, 1])[0]
                result = tool.options(wait=0.0).call(**given) if draw.random() < 0.2 else tool.call(**given)
                no = names.setdefault(result.operation_id, len(names))
                words = (result.status, result.reason, result.value, result.replayed, result.reworded)
                shop.done.append((tool.name, no, *words, len(result.earlier)))
            if draw.random() < 0.3:
                raise LookupError
        if shop.guard.journal.run("", "r").state in ("compensated", "partly_compensated"):
            break
        if draw.random() < 0.4:
            shop.done.append(_rewound(shop.guard, draw))
    shop.guard.close()
    return shop.done


def _rewound(guard, draw):
    calls = guard.journal.find(CallQuery(scope=scope_of_run("", "r")))
    if not calls:
        return "nothing to rewind"
    from_call, effects = draw.choice(calls).operation_id, draw.choice(["keep", "undo"])
    try:
        return len(guard.rewind("r", from_call=from_call, by="eva", reason="wrong", effects=effects).operation_ids)
    except settled.DeclarationError as error:
        return type(error).__name__


def test_a_call_that_was_set_aside_is_not_remembered(shop):
    with shop.guard.run("r"):
        first = shop.buy.call("tea")
        shop.buy("milk")
    shop.guard.rewind("r", from_call=first.operation_id, by="eva", reason="wrong", effects="keep")
    with shop.guard.run("r"):
        assert [shop.buy.call(each).replayed for each in ("tea", "milk")] == [False, False]
    with shop.guard.run("r"):
        assert [shop.buy.call(each).replayed for each in ("tea", "milk")] == [True, True]
    assert shop.done == [("buy", "tea"), ("buy", "milk")] * 2


def test_in_async_code_it_is_read_off_the_loop(shop):
    async def work():
        async with shop.guard.run("r"):
            await shop.abuy("tea")
        here, read = threading.get_ident(), []
        find = shop.guard.journal.find
        shop.guard.journal.find = lambda query: (read.append(threading.get_ident() != here), find(query))[1]
        async with shop.guard.run("r"):
            await shop.abuy("tea")
        return read

    assert asyncio.run(work()) == [True]

"""The contract of journals on the store: what is kept, listed, sealed and pruned, and many at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from settled.core.ask import Ask, Begun, Busy, Paused, Stands
from settled.core.attempts.progress import End, FencedOut
from settled.core.books import RunRecord
from settled.core.call import Call
from settled.core.doubt.settling import Adopt, Refused
from settled.core.expiry import Expire
from settled.core.matching.claim import Claim
from settled.core.model import Effect, Exchange, Fault, FaultClass, KeyKind, Phase, Terms
from settled.core.model import Evidence as Proof
from settled.core.noted.notes import PAUSES, read
from settled.core.noted.pausing import Pause
from settled.core.states import State
from settled.core.values import replace
from settled.errors import JournalError
from settled.journals.audit import broken_chains
from settled.journals.prune import Pruned, prune
from settled.ports import CallQuery
from settled.testing.records import (
    AWKWARD,
    Look,
    PutNote,
    Raising,
    Timed,
    at_once,
    begun,
    ended,
    ids,
    make_ask,
    sealed,
    stands,
    unknown_call,
)

if TYPE_CHECKING:
    from settled.ports import Journal


class StoreContract(Timed):
    """Values, lists, alerts, breakers, audit, expiry, concurrency."""

    # --- what is kept ---

    def test_everything_is_kept_as_it_is(self, journal: Journal) -> None:
        """Awkward texts, all bytes, exact floats, and values that look alike."""
        everything = bytes(range(256))
        terms = Terms(
            Effect.DEDUPLICATED,
            declared=False,
            version=AWKWARD,
            lifetime=0.1 + 0.2,
            attempt_lifetime=1e-300,
            timeout=0.0,
            remote_retention=float("inf"),
            remote_errors="stored",
            retention=None,
            probed=True,
        )
        changes = dict.fromkeys(("tenant", "tool", "identity", "words", "message", "step", "lane"), AWKWARD)
        ask = make_ask(**changes, terms=terms, arguments=everything, key=AWKWARD, despite=frozenset({"b", AWKWARD}))
        call = begun(journal, ask)
        seen = Exchange("POST", AWKWARD, Phase.ANSWERED, 502, ((AWKWARD, AWKWARD),), AWKWARD, AWKWARD, 0.1, 0.2, "ours")
        fault = Fault(FaultClass.PARTIAL, Proof.SOME, AWKWARD, AWKWARD, throttled=True, retry_after=0.1, uncertain=True)
        fault = replace(fault, seen=(seen, Exchange("GET", "", Phase.NOT_SENT)))
        done = journal.perform(End(call.operation_id, 1, 1, fault, everything, AWKWARD, reason=AWKWARD))
        assert isinstance(done, Call)
        assert journal.get(call.operation_id) == done
        assert (done.arguments, done.result, done.fault, done.terms) == (everything, everything, fault, terms)
        assert journal.log(call.operation_id)[1].detail == f"{AWKWARD}/some"
        assert isinstance(journal.perform(Claim(replace(ask, operation_id="op_awkward"))), Stands)

    def test_none_and_empty_stay_apart(self, journal: Journal) -> None:
        """For results, for turns."""
        for result in (None, b""):
            call = begun(journal, make_ask())
            ended(journal, call, result=result)
            found = journal.get(call.operation_id)
            assert found is not None
            assert found.result == result
            assert type(found.result) is type(result)
        records = [RunRecord(f"turn-{turn}", "apart", turn=turn) for turn in (None, "")]
        for record in records:
            journal.perform(Look(lambda books, record=record: books.put_run(record)))  # type: ignore[misc]  # a default binds the loop's value
        assert [run for run in journal.runs(10_000) if run.tenant == "apart"] == records[::-1]

    # --- lists ---

    def test_calls_are_listed_newest_first_and_in_pages(self, journal: Journal) -> None:
        """After a call that is gone there is nothing."""
        made = [begun(journal, make_ask(tool="paged")).operation_id for _ in range(5)]
        first = journal.find(CallQuery(tool="paged", limit=2))
        second = journal.find(CallQuery(tool="paged", limit=10, after=first[-1].operation_id))
        assert [call.operation_id for call in (*first, *second)] == made[::-1]
        assert list(journal.find(CallQuery(tool="paged", after="op_gone"))) == []
        assert list(journal.find(CallQuery(tool="paged", tenant="nobody"))) == []
        assert list(journal.find(CallQuery(tool="paged", states=[]))) == []

    def test_calls_are_counted_by_state(self, journal: Journal) -> None:
        """Only the states that there are."""
        before = journal.count()
        ended(journal, begun(journal, make_ask()))
        unknown_call(journal)
        after = journal.count()
        assert after[State.SUCCEEDED] == before.get(State.SUCCEEDED, 0) + 1
        assert after[State.UNKNOWN] == before.get(State.UNKNOWN, 0) + 1
        assert 0 not in after.values()

    def test_nothing_is_found_where_nothing_is(self, journal: Journal) -> None:
        """Unknown ids are no error."""
        assert journal.get("op_none") is None
        assert list(journal.log("op_none")) == []
        assert journal.perform(Adopt("op_none")) is None
        assert journal.perform(End("op_none", 1, 1, None)) == FencedOut(None)

    # --- alerts and breakers ---

    def test_alerts_wait_until_they_are_delivered(self, journal: Journal) -> None:
        """Oldest first, each with a number of its own."""
        first, second = unknown_call(journal), unknown_call(journal)
        waiting = [
            alert for alert in journal.alerts(10_000) if alert.operation_id in (first.operation_id, second.operation_id)
        ]
        assert [alert.operation_id for alert in waiting] == [first.operation_id, second.operation_id]
        assert waiting[0].alert_id < waiting[1].alert_id
        journal.delivered([waiting[0].alert_id, 10**9])
        journal.delivered([])
        left = {alert.alert_id for alert in journal.alerts(10_000)}
        assert waiting[0].alert_id not in left
        assert waiting[1].alert_id in left

    def test_breakers_are_kept_and_reset_from_outside(self, journal: Journal) -> None:
        """A reset is a number that grows, so that every process sees it."""
        assert "pay" not in journal.save_breakers({"pay": {"state": "open", "wait": 0.1}, "mail": {"state": "closed"}})
        assert journal.breakers()["pay"] == {"state": "open", "wait": 0.1}
        assert list(journal.reset_breakers(["pay", "never seen"])) == ["pay"]
        assert journal.save_breakers({"pay": {"state": "closed"}})["pay"] == 1
        assert set(journal.reset_breakers()) >= {"pay", "mail"}
        assert journal.save_breakers({})["pay"] == 2
        assert journal.breakers()["pay"] == {"state": "closed"}

    # --- audit ---

    def test_notes_are_kept_by_kind_and_name(self, journal: Journal) -> None:
        """Whatever is in them; a later one takes an earlier one's place, and none of them is anybody else's."""
        for kind, name, text in (("a", AWKWARD, "x"), ("a", "b", ""), ("b", "b", AWKWARD), ("a", AWKWARD, AWKWARD)):
            journal.perform(PutNote(kind, name, text))
        assert dict(journal.notes("a")) == {AWKWARD: AWKWARD, "b": ""}
        assert journal.perform(PutNote("b", "b", None)) == (AWKWARD, None)
        assert (dict(journal.notes("b")), dict(journal.notes("c"))) == ({}, {})
        assert journal.perform(PutNote("a", "b", "again")) == ("", "again")

    def test_a_note_of_who_raises_is_taken_back(self, journal: Journal) -> None:
        """With all else that it wrote."""
        journal.perform(PutNote("kept", "one", "before"))
        try:
            journal.perform(PutNote("kept", "one", "after", raises=True))
        except ArithmeticError:
            pass
        else:
            raise AssertionError("its error is lost")
        assert dict(journal.notes("kept")) == {"one": "before"}

    def test_nothing_of_a_paused_tool_begins(self, journal: Journal) -> None:
        """In one more claim or the next; what has begun ends, what is done is answered, and a repetition is known."""
        tool = "paused_tool"
        at_work = begun(journal, make_ask(tool=tool))
        ended(journal, done := begun(journal, ask := make_ask(tool=tool)), result=b"done")
        pause = Pause(tool, "ann", "it is odd", resume=False, nonce="n1")
        assert journal.perform(pause) == journal.perform(pause)
        assert isinstance(journal.perform(replace(pause, nonce="n2")), Refused)
        assert journal.perform(Claim(make_ask(tool=tool))) == Paused("ann", "it is odd")
        assert isinstance(journal.perform(Claim(make_ask(tool="another"))), Begun)
        assert isinstance(journal.perform(Claim(replace(ask, operation_id="op_replay"))), Stands)
        assert ended(journal, at_work, result=b"done").state is done.state.SUCCEEDED
        journal.perform(replace(pause, resume=True, nonce="n3"))
        assert isinstance(journal.perform(Claim(make_ask(tool=tool))), Begun)
        assert [each["what"] for each in read(journal.notes(PAUSES)[tool])["history"]] == ["paused", "resumed"]

    def test_the_log_is_chained_and_sealed(self, journal: Journal) -> None:
        """A seal covers what is new; any head that was kept is found again."""
        call = ended(journal, begun(journal, make_ask()), result=b"1")
        log = journal.log(call.operation_id)
        assert list(broken_chains(log)) == []
        assert (log[-1].head, log[-1].no) == (call.log_head, call.log_no)
        assert sealed(journal)
        head = journal.head()
        assert journal.seal() is False
        unknown_call(journal)
        assert sealed(journal)
        assert journal.head() != head
        assert journal.verify(head).ok
        assert journal.verify(journal.head()).ok
        assert journal.verify().problems in ([], ())

    def test_a_head_of_another_log_is_missed(self, journal: Journal) -> None:
        """A log that was cut off cannot give the head that was kept."""
        report = journal.verify("f" * 64)
        assert not report.ok
        assert "cut off" in report.problems[0]

    def test_a_healthy_journal_says_so(self, journal: Journal) -> None:
        """With facts for a person."""
        report = journal.check()
        assert report.ok
        assert report.facts["journal"]

    # --- expiry ---

    def test_expired_calls_leave_a_tombstone(self, journal: Journal) -> None:
        """The payload is gone, the key is known, the log is whole; a random key's record goes."""
        terms = Terms(retention=3600.0)
        kept = begun(journal, make_ask(terms=terms))
        keyed = ended(journal, begun(journal, ask := make_ask(terms=terms)), result=b"receipt")
        random = ended(journal, begun(journal, make_ask(terms=terms, kind=KeyKind.RANDOM)), result=b"receipt")
        doubt = unknown_call(journal, terms=terms)
        assert keyed.operation_id not in ids(journal, past_retention=True)
        assert journal.perform(Expire(keyed.operation_id)) is False
        self.pass_time(3600.0)
        prune(journal, limit=0)
        assert {keyed.operation_id, random.operation_id} <= ids(journal, past_retention=True)
        pruned = prune(journal)
        assert (pruned.tombstones >= 1, pruned.removed >= 1) == (True, True)
        reply = journal.perform(Claim(replace(ask, operation_id="op_again")))
        assert isinstance(reply, Stands)
        assert (reply.call.state, reply.call.result, reply.call.arguments) == (State.EXPIRED, None, b"")
        assert journal.get(random.operation_id) is None
        assert journal.log(random.operation_id)[-1].event.value == "expire"
        assert [stands(journal, op) for op in (kept.operation_id, doubt.operation_id)] == [
            State.PROCESSING,
            State.UNKNOWN,
        ]
        assert prune(journal) == Pruned()
        journal.seal()
        assert journal.verify(journal.head()).ok

    def test_a_retention_of_zero_is_over_at_once(self, journal: Journal) -> None:
        """And one of none never ends."""
        zero = ended(journal, begun(journal, make_ask(terms=Terms(retention=0.0))))
        ever = ended(journal, begun(journal, make_ask(terms=Terms(retention=None))))
        self.pass_time(1e9)
        found = ids(journal, past_retention=True)
        assert zero.operation_id in found
        assert ever.operation_id not in found

    # --- many at once ---

    def test_of_64_threads_with_one_key_one_begins(self, journal: Journal) -> None:
        """The others are told that it is busy, and none hangs."""
        ask = make_ask()
        replies = at_once(64, lambda i: journal.perform(Claim(replace(ask, operation_id=f"{ask.operation_id}.{i}"))))
        assert sum(isinstance(reply, Begun) for reply in replies) == 1
        assert sum(isinstance(reply, Busy) for reply in replies) == 63

    def test_many_threads_lose_nothing(self, journal: Journal) -> None:
        """Each has its own calls on record, whole."""

        def work(_: int) -> list[Call]:
            return [ended(journal, begun(journal, make_ask()), result=b"%d" % i) for i in range(10)]

        for calls in at_once(16, work):
            assert [journal.get(call.operation_id) for call in calls] == calls
        assert journal.verify().ok

    def test_who_raises_harms_no_other(self, journal: Journal) -> None:
        """Its writes are taken back, its error is its own, the others' commits stand."""

        def work(i: int) -> Call | Exception:
            try:
                return journal.perform(Raising(make_ask())) if i % 2 else begun(journal, make_ask())
            except ArithmeticError as error:
                return error

        outcomes = at_once(32, work)
        assert [isinstance(outcome, ArithmeticError) for outcome in outcomes] == [bool(i % 2) for i in range(32)]
        for outcome in outcomes:
            if isinstance(outcome, Call):
                assert journal.get(outcome.operation_id) == outcome
            else:
                assert journal.get(str(outcome)) is None
        assert journal.verify().ok

    def test_an_event_loop_is_served_too(self, journal: Journal) -> None:
        """Many tasks at once; one that is cancelled spoils nothing for the others."""

        async def work(ask: Ask) -> Call:
            reply = await journal.aperform(Claim(ask))
            assert isinstance(reply, Begun)
            done = await journal.aperform(End(reply.call.operation_id, 1, 1, None))
            assert isinstance(done, Call)
            return done

        async def main() -> list[Call | BaseException]:
            tasks = [asyncio.create_task(work(make_ask())) for _ in range(40)]
            await asyncio.sleep(0)
            for task in tasks[::4]:
                task.cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

        calls = [outcome for outcome in asyncio.run(main()) if isinstance(outcome, Call)]
        assert len(calls) >= 30
        assert [journal.get(call.operation_id) for call in calls] == calls

    def test_an_error_reaches_the_task_that_caused_it(self, journal: Journal) -> None:
        """And no other."""

        async def main() -> list[Any]:
            work = [journal.aperform(Raising(make_ask())), journal.aperform(Claim(make_ask()))]
            return await asyncio.gather(*work, return_exceptions=True)

        raised, reply = asyncio.run(main())
        assert isinstance(raised, ArithmeticError)
        assert isinstance(reply, Begun)

    def test_closing_twice_is_harmless(self, journal: Journal) -> None:
        """What comes after is refused as a fault of the journal, if at all."""
        journal.close()
        journal.close()
        try:
            journal.perform(Claim(make_ask()))
        except JournalError:
            return
        assert not journal.durable

"""What was foretold and is not so: the server sees it, and the rules are applied to what is there."""

import threading

import pytest

from settled.core.ask import Begun, Paused, Stands
from settled.core.attempts.progress import Close, End, FencedOut, Renew
from settled.core.call import Call
from settled.core.doubt.settling import Resolve
from settled.core.matching.claim import Claim
from settled.core.model import KeyKind
from settled.core.noted.pausing import Pause
from settled.core.states import State
from settled.core.values import replace
from settled.errors import JournalError
from settled.journals.postgres.clock import ASK, SURELY, surely
from settled.journals.postgres.foresight import ForetoldBooks, Unforeseen
from settled.journals.postgres.line import Line
from settled.journals.postgres.statements import inserted_unless
from settled.journals.postgres.transactions import Transactions
from settled.ports import CallQuery
from settled.testing.records import begun, ended, make_ask, unknown_call


def random_ask(**changes):
    return make_ask(kind=KeyKind.RANDOM, **changes)


@pytest.fixture
def journal(open_journal):
    """One that knows the time, and so foretells."""
    journal = open_journal()
    ended(journal, begun(journal, make_ask()))
    return journal


@pytest.fixture
def looked(monkeypatch):
    """How many batches were looked up first."""
    found, perform = [], Transactions._perform
    monkeypatch.setattr(Transactions, "_perform", lambda self, *args: (found.append(args[1]), perform(self, *args))[1])
    return found


def settled_log(journal, call):
    assert journal.verify().ok
    return [row.event.value for row in journal.log(call.operation_id)]


def test_a_new_call_and_its_end_are_not_looked_up_first(journal, looked):
    for ask in (random_ask(), make_ask()):
        call = ended(journal, begun(journal, ask))
        assert settled_log(journal, call) == ["claim", "succeed"]
    closed = begun(journal, random_ask())
    assert journal.perform(Close(closed.operation_id, 1, "stopped")).state is State.UNKNOWN
    assert looked == []
    assert journal.count() == {"succeeded": 3, "unknown": 1}


def test_a_key_that_is_there_already(journal, open_journal, looked):
    call = ended(open_journal(), begun(open_journal(), make_ask()), result=b"1")
    looked.clear()
    ask = make_ask(key=call.key, fingerprint=call.fingerprint)
    assert journal.perform(Claim(ask)) == Stands(call)
    assert len(looked) == 1
    journal.perform(Claim(replace(ask, operation_id="op_again")))
    assert len(looked) == 2, "that tool's calls are looked up first until one was new"
    begun(journal, make_ask())
    begun(journal, make_ask())
    assert len(looked) == 3


def test_a_like_call_in_doubt_elsewhere(journal, open_journal):
    call = unknown_call(open_journal(), kind=KeyKind.RANDOM, identity="same", fingerprint="1:same")
    reply = journal.perform(Claim(random_ask(identity="same", fingerprint="1:same")))
    assert reply.call == call
    assert len(journal.log(call.operation_id)) == 2


def test_a_like_call_whose_outcome_is_owed(journal, open_journal):
    other = open_journal()
    call = unknown_call(other, kind=KeyKind.RANDOM, identity="same", fingerprint="1:same")
    other.perform(Resolve(call.operation_id, "happened", "eva", "seen", epoch=call.epoch))
    reply = journal.perform(Claim(random_ask(identity="same", fingerprint="1:same")))
    assert isinstance(reply, Stands)
    assert reply.call.operation_id == call.operation_id


def test_a_pause_bars_every_claim_of_a_batch(journal, open_journal):
    open_journal().perform(Pause("pay", "ann", "test", resume=False, nonce="p"))
    replies = at_once(journal, [Claim(random_ask()) for _ in range(3)])
    assert [type(reply) for reply in replies] == [Paused] * 3
    assert not journal.count().get("processing")


def test_of_a_batch_only_who_was_wrong_is_looked_up(journal, open_journal, looked):
    there = ended(open_journal(), begun(open_journal(), make_ask()))
    mine = begun(journal, random_ask())
    looked.clear()
    asks = [random_ask(), make_ask(key=there.key, fingerprint=there.fingerprint), random_ask()]
    *replies, end = at_once(journal, [*map(Claim, asks), End(mine.operation_id, 1, 1, None, b"1")])
    assert [type(reply) for reply in replies] == [Begun, Stands, Begun]
    assert end.state is State.SUCCEEDED
    assert [len(group) for group in looked] == [1]
    assert journal.count() == {"succeeded": 3, "processing": 2}
    assert journal.verify().ok


def test_of_two_like_claims_of_one_batch_the_second_sees_the_first(journal, looked):
    asks = [random_ask(identity="same", fingerprint="1:same", lease=0.0) for _ in range(2)]
    first, second = at_once(journal, [Claim(ask) for ask in asks])
    assert isinstance(first, Begun)
    assert second.call.operation_id == first.call.operation_id
    assert [len(group) for group in looked] == [2]


def test_an_own_call_that_another_has_settled(journal, open_journal):
    call = begun(journal, random_ask(lease=0.0))
    other = open_journal()
    taken = other.perform(Resolve(call.operation_id, "not_happened", "eva", "seen", epoch=call.epoch))
    assert isinstance(taken, Call)
    reply = journal.perform(End(call.operation_id, 1, 1, None, b"1"))
    assert isinstance(reply, FencedOut)
    assert journal.verify().ok


def test_a_lease_that_was_prolonged_is_known(journal, looked):
    call = begun(journal, random_ask())
    assert journal.perform(Renew(((call.operation_id, 1, 90.0),))) == ()
    looked.clear()
    ended(journal, call)
    assert looked == []


def test_the_very_same_claim_comes_again(journal):
    ask = random_ask()
    call = begun(journal, ask)
    assert journal.perform(Claim(ask)) == Begun(call)
    assert len(journal.log(call.operation_id)) == 1


def test_a_guess_of_the_time_that_is_wrong_is_not_put_on_record(journal, monkeypatch, looked):
    def stepped(statement):
        return statement.replace("clock_timestamp())", "clock_timestamp() - interval '1 hour')")

    changed = {"ASK": stepped(ASK), "SURELY": stepped(SURELY), "surely": lambda statement: stepped(surely(statement))}
    for name, value in changed.items():
        monkeypatch.setattr(f"settled.journals.postgres.transactions.{name}", value)
    call = begun(journal, random_ask())
    assert len(looked) == 1
    assert call.created.wall < ended(journal, begun(journal, make_ask())).changed.wall


@pytest.mark.parametrize("off", [-10.0, 10.0])
@pytest.mark.parametrize("together", [1, 3])
def test_a_time_that_is_off_is_seen_with_whatever_is_written(journal, looked, off, together):
    """By a change that is alone in its transaction, and by a batch."""
    begun(journal, random_ask())
    assert looked == []
    moment, asked = journal._transactions._heard
    journal._transactions._heard = moment.plus(off), asked
    replies = at_once(journal, [Claim(random_ask()) for _ in range(together)])
    assert [len(group) for group in looked] == [together]
    assert {abs(reply.call.created.mono - moment.mono) < 5 for reply in replies} == {True}


def test_what_fails_at_the_commit_itself_is_not_told(journal, postgres, schema_name, monkeypatch):
    """As a queue of notifications that is full, or a check of the owner's that is deferred."""
    with postgres.connect() as connection:
        connection.execute(f'SET search_path = "{schema_name}"')
        connection.execute(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER deferred AFTER INSERT ON calls DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
            "WHEN (NEW.tool = 'barred') EXECUTE FUNCTION no()"
        )
    with pytest.raises(JournalError, match="not now"):
        begun(journal, random_ask(tool="barred"))
    ended(journal, begun(journal, random_ask()))
    assert "barred" not in {call.tool for call in journal.find(CallQuery())}
    assert "WARNING" not in postgres.log


def test_a_commit_whose_answer_is_lost_is_looked_up(journal, monkeypatch):
    at_once_, left = Line.at_once, [1]

    def lost(line, statements):
        answers = at_once_(line, statements)
        if left[0]:
            left[0] -= 1
            line.close()
            answers = at_once_(line, ())
        return answers

    monkeypatch.setattr(Line, "at_once", lost)
    call = begun(journal, random_ask())
    left[0] = 1
    assert ended(journal, call).log_no == 2
    assert journal.count() == {"succeeded": 2}


def test_a_commit_of_several_whose_answer_is_lost_is_looked_up(journal, monkeypatch):
    settle, left = Line.settle, [1]

    def lost(line):
        settle(line)
        if left[0]:
            left[0] -= 1
            line.close()
            settle(line)

    monkeypatch.setattr(Line, "settle", lost)
    asks = [random_ask() for _ in range(3)]
    calls = [reply.call for reply in at_once(journal, list(map(Claim, asks)))]
    assert [len(journal.log(call.operation_id)) for call in calls] == [1, 1, 1]


def test_of_a_batch_that_is_given_up_nothing_stands(journal, postgres, monkeypatch, looked):
    """What was sent by those before is taken back; then all of them are looked up."""
    apply, turns = ForetoldBooks.apply, iter(range(1, 4))

    def third_is_not_foreseen(books, member, now):
        if next(turns) == 3:
            books.line.settle()
            raise Unforeseen
        apply(books, member, now)

    asks = [random_ask() for _ in range(3)]
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(ForetoldBooks, "apply", third_is_not_foreseen)
        meanwhile.setattr(Transactions, "_perform", lambda self, line, group, locks: looked.append(group))
        at_once(journal, [Claim(ask) for ask in asks])
    assert [len(group) for group in looked] == [3]
    ended(journal, begun(journal, random_ask()))
    assert [journal.get(ask.operation_id) for ask in asks] == [None] * 3
    assert "WARNING" not in postgres.log


def test_a_planted_lack_of_the_condition_is_seen(journal, open_journal, monkeypatch):
    """Without what the insertion is bound to, a paused tool would begin."""
    monkeypatch.setattr(
        "settled.journals.postgres.foresight.inserted_unless",
        lambda *look_ups: inserted_unless(*look_ups).replace("NOT EXISTS", "true OR NOT EXISTS"),
    )
    open_journal().perform(Pause("pay", "ann", "test", resume=False, nonce="p"))
    assert isinstance(journal.perform(Claim(random_ask())), Begun)


def at_once(journal, transitions):
    """Perform them in one batch, in this order."""
    assert journal._commit.hold(5)
    replies = [None] * len(transitions)

    def perform(number):
        replies[number] = journal.perform(transitions[number])

    threads = []
    for number in range(len(transitions)):
        threads.append(threading.Thread(target=perform, args=(number,)))
        threads[-1].start()
        while len(journal._commit._queue) <= number:
            pass
    journal._commit.let_go()
    for thread in threads:
        thread.join(30)
    return replies

"""What keeps a call from beginning, and the key that it sends once it does."""

from settled.core.ask import Begun, Paused, Stands
from settled.core.attempts.progress import End
from settled.core.instead.fallback import FELL_BACK
from settled.core.matching.claim import Claim
from settled.core.noted.pausing import Pause
from settled.core.parts import OF
from settled.core.runs.entering import scope_of_run
from settled.core.states import State
from settled.core.values import replace
from settled.testing.records import Look, begun, entered, make_ask
from tests.core.build import BUSY


def test_a_paused_tool_begins_nothing(journal):
    done = begun(journal, make_ask())
    journal.perform(End(done.operation_id, 1, 1, BUSY))
    journal.perform(Pause("pay", "eva", "odd answers", resume=False, nonce="n1"))
    assert journal.perform(Claim(make_ask())) == Paused("eva", "odd answers")
    again = make_ask(key=done.key, fingerprint=done.fingerprint, identity=done.identity)
    assert journal.perform(Claim(again)) == Paused("eva", "odd answers")
    assert len(journal.get(done.operation_id).attempts) == 1
    journal.perform(Pause("pay", "eva", "mended", resume=True, nonce="n2"))
    assert isinstance(journal.perform(Claim(again)), Begun)


def test_a_run_that_was_rewound_sends_another_key(journal):
    entered(journal, "trip")
    asks = [make_ask(run_id="trip", run_entry=1, scope=scope_of_run("acme", "trip")) for _ in range(2)]
    assert begun(journal, asks[0]).outward == asks[0].key
    run = replace(journal.run("acme", "trip"), rewound=2)
    journal.perform(Look(lambda records: records.put_run(run)))
    assert begun(journal, asks[1]).outward == f"{asks[1].key}~2"
    item = make_ask(run_id="trip", run_entry=1, scope=scope_of_run("acme", "trip"), message=f"{OF}op_1")
    assert begun(journal, item).outward == item.key, "items are named by their batch's record"


def test_a_call_that_is_forgone_is_on_record_as_failed(journal):
    ask = make_ask()
    told = journal.perform(Claim(ask, begin=False, forgo=True))
    call = journal.get(ask.operation_id)
    assert told == Stands(call)
    assert (call.state, call.reason, call.decided, call.attempts) == (State.FAILED, FELL_BACK, "answer", ())
    assert [row.detail for row in journal.log(ask.operation_id)] == [FELL_BACK]

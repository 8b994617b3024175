"""What is answered from memory: one call of its kind, that has succeeded, in these very words, once."""

import pytest

from settled.core.matching.entry import Entry
from settled.core.matching.recall import Recall
from settled.core.model import KeyKind
from settled.core.states import State
from settled.core.values import replace
from settled.journals.memory import MemoryJournal
from settled.testing.records import FakeClock, begun, ended, make_ask


def call_of(**changes):
    journal = MemoryJournal(FakeClock())
    call = ended(journal, begun(journal, make_ask()))
    plain = {"kind": KeyKind.SCOPED, "tool": "pay", "identity": "i", "words": "w", "entry": 1, "lane": ""}
    return replace(call, **{**plain, **changes})


def entry_of(**changes):
    return Entry(no=2, earlier=(1,), **changes)


def test_it_answers_once_and_the_entry_is_told():
    entry, call = entry_of(), call_of(operation_id="op_1")
    recall = Recall([call], entry)
    assert (len(recall), recall.take("pay", "i", "w"), len(recall)) == (1, call, 0)
    assert recall.take("pay", "i", "w") is None
    assert (entry.answered, entry.told) == ({"op_1": "w"}, {"op_1": State.SUCCEEDED})
    assert (entry.steps, dict(entry.open), entry.untold(call)) == ({"op_1": ""}, {}, False)


@pytest.mark.parametrize(
    "changes",
    [
        *({"state": state} for state in State if state is not State.SUCCEEDED),
        {"kind": KeyKind.BUSINESS},
        {"lane": "a joined agent"},
        {"disputed": True},
        {"key": "k~op_1", "operation_id": "op_1"},
        {"entry": 7},
        {"words": "others"},
        {"tool": "another"},
        {"identity": "another"},
    ],
    ids=str,
)
def test_what_is_not_plain_is_left_to_the_claim(changes):
    assert Recall([call_of(**changes)], entry_of()).take("pay", "i", "w") is None


def test_of_two_like_calls_none_is_plain():
    calls = [call_of(operation_id="op_1"), call_of(operation_id="op_2", state=State.FAILED)]
    assert Recall(calls, entry_of()).take("pay", "i", "w") is None


@pytest.mark.parametrize("memory", ["answered", "reserved"])
def test_what_has_answered_or_is_kept_for_a_sibling_is_left_to_the_claim(memory):
    entry = entry_of(**{memory: {"op_1": "x"}})
    assert Recall([call_of(operation_id="op_1")], entry).take("pay", "i", "w") is None

"""Draft and confirm: the draft comes first, a person may look at it, and what is not confirmed is thrown away."""

import pytest

import settled
from settled.api.people.queue import waiting
from settled.api.runs import carrying_on
from settled.core.approval.drafts import LookAtDraft
from settled.core.states import State
from tests.drafts.mailbox import mail_of
from tests.lapsing import lapse


class Broken(Exception):
    pass


def draft_of(guard, operation_id):
    return guard.journal.perform(LookAtDraft(operation_id))[1]


def test_a_draft_is_made_and_confirmed(guard, box):
    mail = mail_of(guard, box)
    assert mail("ann", "hello") == "ann: hello"
    assert box.names() == ["write", "send"]
    assert mail.json_schema()["required"] == ["to", "text"]


def test_in_a_run_it_is_answered_from_the_record(guard, box):
    mail = mail_of(guard, box)
    for _ in range(2):
        with guard.run("r"):
            assert mail.call("ann", "hello").value == "ann: hello"
    assert box.names() == ["write", "send"]
    with guard.run("r"):
        mail("ann", "hello")
        mail("ann", "hello")  # another one
    assert box.names() == ["write", "send"] * 2


def test_leave_lies_between_draft_and_confirmation(guard, box):
    mail = mail_of(guard, box, approve=True)
    with guard.run("r"):
        first = mail.options(wait=0).call("ann", "hello")
    assert (first.status, box.names()) == ("awaiting_approval", ["write"])
    assert draft_of(guard, first.operation_id).state is State.SUCCEEDED  # the person can look at it
    with guard.run("r"):
        assert mail.options(wait=0).call("ann", "hello").operation_id == first.operation_id
    guard.approve(first.operation_id, by="eva")
    with guard.run("r"):
        assert mail("ann", "hello") == "ann: hello"
    assert box.names() == ["write", "send"]


def test_what_is_refused_is_thrown_away(guard, box):
    mail = mail_of(guard, box, approve=True)
    first = mail.options(wait=0).call("ann", "hello")
    guard.refuse(first.operation_id, by="eva", reason="no")
    assert (box.names(), box.drafts) == (["write", "throw_away"], {})
    assert mail.options(wait=0).call("ann", "hello").status == "refused"
    assert box.names() == ["write", "throw_away"]


def test_what_waits_in_a_run_that_is_rolled_back_is_thrown_away(guard, box):
    mail = mail_of(guard, box, approve=True)
    with pytest.raises(Broken), guard.run("r", on_error="compensate"):
        first = mail.options(wait=0).call("ann", "hello")
        raise Broken
    assert (box.names(), box.drafts) == (["write", "throw_away"], {})
    assert guard.journal.get(first.operation_id).state is State.REFUSED
    assert guard.journal.run("", "r").state == "compensated"
    carrying_on.carry_on(guard)
    assert box.names() == ["write", "throw_away"]
    with pytest.raises(settled.DeclarationError, match="its run was rolled back"):
        guard.approve(first.operation_id, by="eva")


def test_what_is_refused_where_the_tools_are_not_known_is_thrown_away_by_the_worker(guard, box):
    mail = mail_of(guard, box, approve=True)
    first = mail.options(wait=0).call("ann", "hello")
    kept, guard.tools = guard.tools, {}
    guard.refuse(first.operation_id, by="eva", reason="no")
    assert box.names() == ["write"]
    guard.tools = kept
    carrying_on.carry_on(guard)
    carrying_on.carry_on(guard)
    assert (box.names(), box.drafts) == (["write", "throw_away"], {})


def test_what_nobody_decides_in_time_is_thrown_away_and_drafted_anew(guard, box):
    mail = mail_of(guard, box, approve=True)
    with guard.run("r"):
        first = mail.options(wait=0).call("ann", "hello")
        lapse(guard, first.operation_id)
        carrying_on.carry_on(guard)
        assert (box.names(), box.drafts) == (["write", "throw_away"], {})
        again = mail.options(wait=0).call("ann", "hello")
    assert (again.operation_id, again.status, box.names()[2:]) == (first.operation_id, "awaiting_approval", ["write"])
    guard.approve(first.operation_id, by="eva")
    with guard.run("r"):
        assert mail("ann", "hello") == "ann: hello"


def test_a_confirmation_that_fails_for_good_leaves_no_draft(guard, box):
    mail = mail_of(guard, box)
    box.trouble["send"] = settled.NotExecuted("no such address")
    assert mail.call("ann", "hello").status == "failed"
    assert (box.names(), box.drafts) == (["write", "send", "throw_away"], {})


def test_a_confirmation_in_doubt_is_never_made_again_and_its_draft_stays(guard, box):
    mail = mail_of(guard, box)
    box.trouble["send"] = TimeoutError("no answer")
    for _ in range(2):
        with guard.run("r"):
            assert mail.call("ann", "hello").status == "unknown"
    assert (box.names(), len(box.drafts)) == (["write", "send"], 1)
    [left] = waiting(guard.journal)
    guard.resolve(left.operation_id, "did_not_happen", by="eva", reason="looked", then="rerun", force=True)
    with guard.run("r"):
        assert mail("ann", "hello") == "ann: hello"
    assert box.names() == ["write", "send", "send"]


def test_a_draft_that_cannot_be_made_confirms_nothing(guard, box):
    mail = mail_of(guard, box)
    box.trouble["write"] = settled.NotExecuted("mailbox is full")
    with guard.run("r"):
        result = mail.call("ann", "hello")
    assert (result.status, result.tool, "mailbox is full" in result.message) == ("failed", "mail", True)
    box.trouble["write"] = TimeoutError("no answer")
    with guard.run("r2"):
        result = mail.call("bob", "hello")
    assert (result.status, result.reason) == ("not_done", "draft_unknown")
    assert box.names() == ["write", "write"]
    assert [call.tool for call in waiting(guard.journal)] == ["write"]


def test_a_draft_in_doubt_is_settled_before_its_run_is_rewound(guard, box):
    mail = mail_of(guard, box)
    box.trouble["write"] = TimeoutError("no answer")
    with guard.run("r"):
        result = mail.call("ann", "hello")
    with pytest.raises(settled.DeclarationError, match="may still have an effect"):
        guard.rewind("r", from_call=result.operation_id, by="eva", reason="wrong", effects="keep")
    (draft,) = waiting(guard.journal)
    guard.resolve(draft.operation_id, "did_not_happen", by="eva", reason="looked", then="fail", force=True)
    guard.rewind("r", from_call=result.operation_id, by="eva", reason="wrong", effects="refuse")
    with guard.run("r"):
        assert mail("ann", "hello") == "ann: hello"
    assert box.names() == ["write", "write", "send"]


def test_a_run_that_is_undone_throws_drafts_away_and_takes_letters_back(guard, box):
    mail = mail_of(guard, box, approve=lambda to, text: to == "boss")
    with pytest.raises(Broken), guard.run("r", on_error="compensate"):
        mail("ann", "hello")
        assert mail.options(wait=0).call("boss", "hello").status == "awaiting_approval"
        raise Broken
    assert guard.journal.run("", "r").state == "compensated"
    assert box.log[-2:] == [("throw_away", "draft-1"), ("take_back", "ann: hello")]
    assert (box.sent, list(box.drafts)) == ([], ["draft-0"])  # what was confirmed is no draft any more


def test_a_draft_that_cannot_be_thrown_away_stands_in_the_queue(guard, box):
    mail = mail_of(guard, box, approve=True)
    box.trouble["throw_away"] = settled.NotExecuted("is locked")
    first = mail.options(wait=0).call("ann", "hello")
    guard.refuse(first.operation_id, by="eva", reason="no")
    [left] = waiting(guard.journal)
    assert (left.tool, str(left.state), left.reason) == ("write", "compensating", "undo_failed")
    guard.resolve(left.operation_id, "undone", by="eva", reason="done by hand")
    assert waiting(guard.journal) == []


def test_a_program_that_died_behind_its_draft_goes_on_with_it(guard, box):
    mail = mail_of(guard, box)
    with pytest.raises(KeyboardInterrupt):
        box.trouble["write"] = KeyboardInterrupt()
        mail("ann", "hello")
    assert box.names() == ["write"]
    [left] = waiting(guard.journal)
    guard.resolve(left.operation_id, "happened", by="eva", reason="seen", result="draft-9")
    box.drafts["draft-9"] = ("ann", "hello")
    assert mail("ann", "hello") == "ann: hello"
    assert box.names() == ["write", "send"]


async def test_it_is_the_same_in_async_code(guard, box):
    @guard.tool(effect="write")
    async def write(to: str) -> str:
        box.act("write", to)
        return f"draft for {to}"

    @guard.tool(effect="write")
    async def throw_away(draft: str) -> None:
        box.act("throw_away", draft)

    async def send(draft: str) -> str:
        box.act("send", draft)
        return "sent"

    @guard.tool(effect="write", draft=write, confirm=send, discard=throw_away)
    async def mail(to: str) -> str:
        """Send a letter."""

    assert await mail("ann") == "sent"
    box.trouble["send"] = settled.NotExecuted("no")
    assert (await mail.acall("ann")).status == "failed"
    assert box.names() == ["write", "send", "write", "send", "throw_away"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"draft": "write"}, "belong together"),
        ({"draft": 3, "confirm": lambda draft: draft, "discard": "x"}, "draft must be a tool"),
        ({"draft": "write", "confirm": lambda: 1, "discard": "x"}, "confirm must take 'draft'"),
        ({"draft": "write", "confirm": lambda draft, x: 1, "discard": "x"}, r"takes \['x'\]"),
        ({"draft": "write", "confirm": lambda draft: 1, "discard": "x", "effect": "read"}, "need no draft"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_declared(guard, options, why):
    with pytest.raises(settled.DeclarationError, match=why):

        @guard.tool(**{"effect": "write", **options})
        def mail(to: str) -> str:
            """Send a letter."""

"""The reference lists what there is."""

import re
from typing import get_args

import settled
from settled.api.calls import words
from settled.core.answer import Answer, Status
from tests.docs.reference import reference
from tests.shared import ROOT

PAGE = (ROOT / "docs/reference/results.md").read_text()


def rows():
    """The cells of each row of the page's tables: names in the first column, and the words of ``next``."""
    for line in PAGE.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            yield re.findall(r"`([^`]+)`", cells[0]), re.findall(r"`([^`]+)`", cells[2])


def test_each_status_stands_there_with_what_to_do_next():
    listed = {name: following for names, following in rows() for name in names}
    assert set(get_args(Status)) <= listed.keys()
    for status in set(get_args(Status)) - {"rejected"}:
        assert words.next_step(Answer(status)) in listed[status]


def test_each_reason_of_a_rejection_stands_there_with_what_to_do_next():
    listed = {name: following for names, following in rows() for name in names}
    assert words._REJECTED.keys() <= listed.keys()
    for reason in words._REJECTED:
        assert [words.next_step(Answer("rejected", reason=reason))] == listed[reason]


def test_the_reference_of_python_is_made_of_the_docstrings():
    written = (ROOT / "docs/reference/python.md").read_text()
    assert written.rstrip() == reference(), "python -m tests.docs.reference > docs/reference/python.md"


def test_every_public_name_stands_in_the_reference_of_python():
    page = reference()
    others = {"BoundCall", "PendingCall", "Evidence", "Fault", "FaultClass"}  # given by what stands there
    assert {name for name in settled.__all__ if not re.search(rf"\b{name}\b", page)} <= others

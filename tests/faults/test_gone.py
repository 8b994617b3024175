"""The journal's file is deleted, emptied, or replaced by an older copy: refused, and nothing is made again."""

import os
import shutil

import pytest

from settled import Guard
from settled.errors import JournalError

FILES = ("agent.db", "agent.db-wal", "agent.db-shm")


def delete(folder):
    for name in FILES:
        (folder / name).unlink(missing_ok=True)


def empty(folder):
    for name in FILES[1:]:
        (folder / name).unlink(missing_ok=True)
    os.truncate(folder / "agent.db", 0)


def cut(folder):
    os.truncate(folder / "agent.db", 4096)


def older(folder):
    """Put the older copy under the name, as a restored backup would be."""
    for name in FILES[1:]:
        (folder / name).unlink(missing_ok=True)
    shutil.copy(folder / "older", folder / "draft")
    (folder / "draft").replace(folder / "agent.db")


def older_in_place(folder):
    """Write the older copy over the file."""
    shutil.copyfile(folder / "older", folder / "agent.db")


def other(folder):
    """Put the journal of another guard under the name."""
    delete(folder)
    shutil.copy(folder / "other.db", folder / "agent.db")


DAMAGES = [delete, empty, cut, older, older_in_place, other]
named = pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)


@pytest.fixture
def at(shop, tmp_path):
    """A guard with three calls on record; beside it an older copy with one, and another journal."""
    path = shop.path
    shop.path = tmp_path / "other.db"
    other = shop.open()
    other.send.call(order="elsewhere")
    other.guard.close()
    shop.path = path
    at = shop.open()
    at.send.call(order="a")
    at.guard.journal.seal()
    at.guard.journal.compact()
    shutil.copy(path, tmp_path / "older")
    at.send.call(order="b")
    at.send.call(order="c")
    at.guard.journal.seal()
    at.guard.journal.compact()
    shop.effects.clear()
    return at


def asked(at, order):
    """Return the result, or what the journal's error says instead."""
    try:
        return at.send.options(wait=0.0).call(order=order)
    except JournalError as error:
        return str(error)


@named
def test_before_opening(shop, at, tmp_path, damage):
    at.guard.close()
    damage(tmp_path)
    with pytest.raises(JournalError, match=r"agent\.db"):
        shop.open()
    assert shop.effects == []


@named
def test_while_it_is_open(shop, at, tmp_path, damage):
    damage(tmp_path)
    answers = [asked(at, order) for order in "abc"]
    assert all_known(answers)
    assert shop.effects == []
    assert any(isinstance(answer, str) for answer in [*answers, asked(at, "d")])
    assert shop.effects == []


@named
def test_while_a_call_is_in_its_effect(shop, at, tmp_path, damage):
    shop.after = lambda: damage(tmp_path)
    result = at.send.call(order="d")
    assert (result.status, result.value) == ("succeeded", "d done")
    assert not result.recorded or damage is older_in_place  # there its pages are all in the write-ahead log
    shop.after = lambda: None
    assert all_known(asked(at, order) for order in "abcd")
    at.guard.close()
    try:
        again = shop.open()
    except JournalError as error:
        assert "agent.db" in str(error)  # noqa: PT017 - closing may have written back what another open can read
    else:
        assert all_known(asked(again, order) for order in "abcd")
    assert shop.effects == ["d"]


def all_known(answers):
    """Whether each was answered from the record, or by an error that names the file."""
    return all("agent.db" in a if isinstance(a, str) else a.replayed or a.status == "unknown" for a in answers)


@pytest.mark.parametrize("field", ["must_exist=true", "journal_id=jn_the_right_one"])
def test_what_the_address_says_of_the_journal_is_heeded(tmp_path, field):
    with pytest.raises(JournalError, match="must exist"):
        Guard(f"sqlite:///{tmp_path}/agent.db?{field}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [{"must_exist": True}, {"journal_id": "jn_the_right_one"}])
def test_with_the_mark_gone_too_a_guard_that_says_what_it_wants_is_refused(shop, at, tmp_path, options):
    at.guard.close()
    delete(tmp_path)
    for path in tmp_path.glob("agent.db*"):
        path.unlink()
    with pytest.raises(JournalError, match="must exist"):
        shop.open(**options)
    assert shop.effects == []


def test_a_smaller_copy_written_over_the_open_file_is_noticed(shop, at, tmp_path):
    for number in range(100):
        at.send.call(order=f"more {number}")
    at.guard.journal.compact()
    shop.effects.clear()
    older_in_place(tmp_path)
    answers = [asked(at, order) for order in ("a", "c", "more 99", "new")]
    assert all_known(answers)
    assert all("agent.db" in answer for answer in answers[1:])
    assert shop.effects == []

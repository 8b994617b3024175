"""The log tells who changed it; what is too old goes, and the rest can still be checked."""

import pytest

from settled.core.expiry import Expire
from settled.core.model import KeyKind, Terms
from settled.journals.prune import prune
from settled.testing.records import FakeClock, begun, ended, make_ask
from tests.journals.support import sealed_twice

DAY = 86400.0


@pytest.fixture
def journal(open_journal, monkeypatch):
    monkeypatch.setattr("settled.journals.redis.journal._BETWEEN_TRIMS", 0.0)
    return open_journal(clock=FakeClock(), log_kept=10 * DAY)


def test_a_changed_row_is_named(server, prefix, journal):
    sealed_twice(journal)
    with server.client() as client:
        ((number, fields),) = client.xrange(f"{{{prefix}}}:log", "2", "2")
        client.xdel(f"{{{prefix}}}:log", number)
        later = client.xrange(f"{{{prefix}}}:log", "3", "+")
        client.delete(f"{{{prefix}}}:log")
        ((_, first), *_) = [(b"1-0", fields), *later]
        client.xadd(f"{{{prefix}}}:log", first, id="1-0")
        client.xadd(f"{{{prefix}}}:log", fields, id="2-0")
        for number, own in later:
            client.xadd(f"{{{prefix}}}:log", own, id=number)
    report = journal.verify()
    assert not report.ok
    assert any("op_a: log row" in problem for problem in report.problems)
    assert any(problem.startswith("seal") for problem in report.problems)


def test_a_changed_result_is_named(server, prefix, journal):
    sealed_twice(journal)
    with server.client() as client:
        value = client.hget(f"{{{prefix}}}:calls", "op_a")
        client.hset(f"{{{prefix}}}:calls", "op_a", value.replace(b"receipt", b"Receipt"))
    assert journal.verify().problems == ["op_a: the result is not the one whose digest its log holds"]


def test_a_deleted_call_is_named(server, prefix, journal):
    sealed_twice(journal)
    with server.client() as client:
        client.hdel(f"{{{prefix}}}:calls", "op_a")
        size = client.hget(f"{{{prefix}}}:meta", "sizes").split()
        client.hset(f"{{{prefix}}}:meta", "sizes", b" ".join([b"%d" % (int(size[0]) - 1), *size[1:]]))
    assert journal.verify().problems == ["op_a: the call was deleted; its log ends at succeeded, row 2"]


def test_a_tail_that_was_cut_off_is_missed_where_its_head_was_kept(server, prefix, journal):
    sealed_twice(journal)
    head = journal.head()
    assert journal.verify(head).ok
    assert "cut off" in journal.verify("f" * 64).problems[0]


def test_what_is_older_than_it_is_to_be_kept_goes(server, prefix, journal):
    """A forgotten call's name goes with its last row; a tombstone, an old call and one at work stay."""
    clock = journal._given
    terms = Terms(retention=DAY)
    keyed = ended(journal, begun(journal, ask := make_ask(terms=terms)), result=b"1")
    random = ended(journal, begun(journal, make_ask(terms=terms, kind=KeyKind.RANDOM)), result=b"2")
    ever = ended(journal, begun(journal, make_ask(terms=Terms(retention=None))), result=b"3")
    at_work = begun(journal, make_ask(lease=100 * DAY))
    assert journal.seal()
    first = journal.head()
    clock.advance(2 * DAY)
    assert prune(journal).total == 2
    assert journal.seal()
    clock.advance(5 * DAY)
    ended(journal, at_work, result=b"4")
    assert journal.seal()
    head = journal.head()
    clock.advance(4 * DAY)  # the first seal is eleven days old
    journal.seal()
    assert [row.no for row in journal.log(keyed.operation_id)] == [3]
    assert [row.no for row in journal.log(random.operation_id)] == [3]
    assert (journal.log(ever.operation_id), journal.get(ever.operation_id)) == ([], ever)
    assert journal.get(keyed.operation_id).state == "expired"
    assert [row.no for row in journal.log(at_work.operation_id)] == [2]
    assert (journal.verify(head).problems, journal.verify(first).problems) == ([], [])
    clock.advance(2 * DAY)
    journal.seal()
    assert journal.log(random.operation_id) == []
    with server.client() as client:
        names = client.hkeys(f"{{{prefix}}}:rows")
        assert not [name for name in names if name.startswith(b"log ")]
        assert client.xlen(f"{{{prefix}}}:log") == 1
    report = journal.verify(head)
    assert (report.problems, report.facts["rows_let_go"]) == ([], 9)
    assert "cut off" in journal.verify(first).problems[0]
    begun(journal, make_ask())
    assert journal.seal()
    assert journal.verify(journal.head()).ok
    assert journal.perform(Expire(ever.operation_id)) is False
    assert ask.key == journal.get(keyed.operation_id).key


def test_a_log_that_is_kept_for_ever(open_journal, monkeypatch):
    monkeypatch.setattr("settled.journals.redis.journal._BETWEEN_TRIMS", 0.0)
    journal = open_journal(clock=FakeClock(), log_kept=None)
    call = ended(journal, begun(journal, make_ask()))
    journal.seal()
    journal._given.advance(1000 * DAY)
    begun(journal, make_ask())
    journal.seal()
    assert [row.no for row in journal.log(call.operation_id)] == [1, 2]


@pytest.mark.parametrize("look", range(8))
def test_what_others_do_while_it_is_checked_is_no_damage(open_journal, journal, monkeypatch, look):
    """They make and end calls, forget some, seal, and let the oldest rows go: between two of its looks."""
    clock, terms = journal._given, Terms(retention=DAY)
    other = open_journal(clock=clock, log_kept=10 * DAY)
    for _ in range(3):
        ended(journal, begun(journal, make_ask(terms=terms, kind=KeyKind.RANDOM)))
        ended(journal, begun(journal, make_ask(terms=terms)))
        assert journal.seal()
    clock.advance(9.9 * DAY)
    looks, look_on = iter(range(100)), journal._look_on

    def meanwhile(line, asked):
        if next(looks) == look:
            ended(other, begun(other, make_ask()))
            clock.advance(DAY)
            assert prune(other).total == 6
            assert other.seal()  # lets go of a seal's rows each time
            begun(other, make_ask())
            assert other.seal()
        return look_on(line, asked)

    monkeypatch.setattr("settled.journals.redis.audit._PAGE", 4)
    monkeypatch.setattr(journal, "_look_on", meanwhile)
    report = journal.verify(journal.head())
    assert report.problems == []
    assert next(looks) > look, "there were fewer looks"

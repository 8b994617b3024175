"""Pruning reaches the bytes, and a check says how the journal is."""

from pathlib import Path

import pytest

from settled.core.doubt.late import Evidence
from settled.core.model import KeyKind, Terms
from settled.journals.prune import Pruned, prune
from settled.journals.sqlite import FileSpill, SqliteJournal
from settled.testing.records import FakeClock, begun, ended, make_ask, unknown_call

SECRETS = [b"argument-secret", b"result-secret", b"long-secret " * 2000]


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def journal(tmp_path, clock):
    journal = SqliteJournal(tmp_path / "journal.db", clock=clock)
    yield journal
    journal.close()


def on_disk(journal):
    """All that the journal's files hold."""
    folder = Path(journal.path).parent
    return b"".join(path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm"))


@pytest.mark.parametrize("vacuum", [False, True])
def test_an_expired_payload_is_in_no_file(journal, clock, vacuum):
    terms = Terms(retention=60.0)
    for kind in (KeyKind.BUSINESS, KeyKind.RANDOM):
        for _ in range(10):
            ask = make_ask(kind=kind, terms=terms, arguments=b"%b %b" % (SECRETS[0], SECRETS[2]))
            ended(journal, begun(journal, ask), result=SECRETS[1] + SECRETS[2])
    kept = ended(journal, begun(journal, make_ask(arguments=b"kept")), result=b"kept-result")
    journal.compact()
    assert all(secret[:15] in on_disk(journal) for secret in SECRETS)
    clock.advance(61.0)
    assert prune(journal) == Pruned(tombstones=10, removed=10)
    journal.compact(vacuum=vacuum)
    content = on_disk(journal)
    assert [secret[:15] for secret in SECRETS if secret[:15] in content] == []
    assert b"kept-result" in content
    assert journal.get(kept.operation_id) == kept
    assert journal.verify().ok


def test_pruning_stops_at_its_limit(journal, clock):
    for _ in range(7):
        ended(journal, begun(journal, make_ask(terms=Terms(retention=0.0))))
    assert prune(journal, limit=5).total == 5
    assert prune(journal, limit=5).total == 2
    assert prune(journal, limit=5).total == 0


def test_pruning_takes_few_commits(journal, clock):
    for _ in range(50):
        ended(journal, begun(journal, make_ask(terms=Terms(retention=0.0))))
    before = journal.check().facts["commits"]
    assert prune(journal).total == 50
    assert journal.check().facts["commits"] == before + 1


def test_a_check_tells_the_facts(journal):
    ended(journal, begun(journal, make_ask()))
    unknown_call(journal)
    report = journal.check()
    assert (report.ok, report.problems) == (True, [])
    assert report.facts["journal"] == journal.path
    assert report.facts["journal_id"] == journal.journal_id
    assert report.facts["calls"] == {"succeeded": 1, "unknown": 1}
    assert report.facts["synchronous"] == "FULL"
    assert report.facts["integrity"] == "ok"
    assert report.facts["commits"] == 4
    assert report.facts["wal_bytes"] > 0


def test_a_check_says_what_normal_means(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.db", synchronous="NORMAL")
    assert "power cut" in journal.check().facts["durability"]
    journal.close()


def test_a_check_points_at_evidence_that_waits(journal):
    FileSpill(f"{journal.path}-spill").keep(Evidence("op_1", 1, None))
    report = journal.check()
    assert not report.ok
    assert "spill" in report.problems[0]

"""A pause counts for every process from the moment that it is on record: no claim that read before it commits after."""

import threading
from itertools import count

from settled.core.ask import Begun, Paused
from settled.core.matching.claim import Claim
from settled.core.noted.pausing import Pause
from settled.ports import CallQuery
from settled.testing.records import make_ask

ROUNDS = 25


def test_nothing_is_committed_behind_a_pause(open_journal):
    ours = open_journal()
    others = [open_journal() for _ in range(3)]
    stop, begun, refused = threading.Event(), count(), count()
    failed = []

    def claims(journal):
        try:
            while not stop.is_set():
                reply = journal.perform(Claim(make_ask(tool="pay")))
                assert isinstance(reply, Begun | Paused)
                next(begun if isinstance(reply, Begun) else refused)
        except Exception as error:  # noqa: BLE001 - the test tells of it
            failed.append(error)

    threads = [threading.Thread(target=claims, args=(journal,)) for journal in others]
    for thread in threads:
        thread.start()
    try:
        for number in range(ROUNDS):
            ours.perform(Pause("pay", "ann", "test", resume=False, nonce=f"p{number}"))
            there = len(ours.find(CallQuery(tool="pay", limit=100_000)))
            for _ in range(3):
                assert isinstance(ours.perform(Claim(make_ask(tool="pay"))), Paused)
            assert len(ours.find(CallQuery(tool="pay", limit=100_000))) == there
            ours.perform(Pause("pay", "ann", "test", resume=True, nonce=f"r{number}"))
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not failed
    assert next(begun) > ROUNDS, "calls were made in between"
    assert next(refused) > ROUNDS

"""A tool that takes batches, and its ledger: what lists by other keys than those looked for proves nothing."""

import itertools

import pytest

import settled
from settled.journals.memory import MemoryJournal
from tests.ledger.conftest import Clock

LISTINGS = {
    "call": lambda key, item, doc: {"key": key},
    "item": lambda key, item, doc: {"key": item},
    "arguments": lambda key, item, doc: {"arguments": {"docs": [doc]}},
    "keyed and described": lambda key, item, doc: {"key": item, "arguments": {"docs": [doc]}},
}


class Shelf:
    """Keeps documents; loses answers, or documents, as it is told to."""

    def __init__(self, listing, key_format):
        self.clock, self.rows, self.silent, self.lost, self.dies = Clock(), [], set(), set(), False
        self.guard = settled.Guard(MemoryJournal(self.clock))

        def rows(since):
            for number, (key, item, doc, at) in enumerate(self.rows):
                yield settled.Effect(at=at, ref=str(number), **LISTINGS[listing](key, item, doc))

        def read(answer, items):
            unknown = settled.partial.unknown("silent")
            return [unknown if doc in self.silent | self.lost else settled.partial.done(doc) for doc in items]

        @self.guard.tool(
            effect="write",
            partial=read,
            ledger=rows,
            max_request_lifetime=1.0,
            breaker=None,
            key_format=key_format,
            waiver="documents stay",
        )
        def store(docs: list[str]) -> str:
            call = settled.current_call()
            for doc, item in zip(docs, call.items, strict=True):
                if doc not in self.lost:
                    self.rows.append((call.key, item, doc, self.clock.wall))
            if self.dies:
                raise TimeoutError("no answer")
            return "stored"

        self.store = store

    def compare(self):
        self.clock.pass_time(5.0)
        (compared,) = self.guard.reconcile(ledger=True, since=7200.0).ledgers
        return compared

    def docs(self):
        return sorted(doc for _, _, doc, _ in self.rows)


@pytest.fixture(params=itertools.product(LISTINGS, ["text", "uuid"]), ids=str)
def shelf(request):
    shelf = Shelf(*request.param)
    with shelf.guard:
        yield shelf


@pytest.mark.parametrize("dies", [False, True])
def test_nothing_that_was_done_is_sent_again_and_nothing_is_found(shelf, dies):
    shelf.silent, shelf.dies = {"c"}, dies
    with shelf.guard.run("r"):
        shelf.store.call(docs=["a", "b", "c"])
    with shelf.guard.run("other"):
        shelf.dies = False
        shelf.store.call(docs=["d"])
    shelf.silent = set()
    for _ in range(2):
        assert (shelf.compare().findings, shelf.docs()) == ((), ["a", "b", "c", "d"])
        with shelf.guard.run("r"):
            shelf.store.call(docs=["a", "b", "c"])
    assert shelf.docs() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("key_format", ["text", "uuid"])
def test_what_a_ledger_of_items_lacks_was_not_done(key_format):
    shelf = Shelf("item", key_format)
    shelf.lost = {"c"}
    with shelf.guard.run("r"):
        shelf.store.call(docs=["a", "b", "c"])
    assert shelf.compare().did_not_happen == 1
    shelf.lost = set()
    with shelf.guard.run("r"):
        assert shelf.store.call(docs=["a", "b", "c"]).status == "succeeded"
    assert shelf.docs() == ["a", "b", "c"]
    assert shelf.compare().findings == ()
    shelf.guard.close()

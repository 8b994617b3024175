"""Whatever a batch is answered, entry after entry: nothing is done twice, and each item is reported as it is."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import settled
from settled.api.people import facts
from settled.api.people.queue import waiting

FATES = {
    "done": (True, 201, True),
    "untold": (True, 201, False),
    "lost": (False, 201, False),
    "broken after": (True, 500, True),
    "broken before": (False, 500, True),
    "busy": (False, 429, True),
    "refused": (False, 400, True),
}
"""Whether it is stored, the status, and whether the answer speaks of it."""
DOCS = ["a", "b", "c"]
REQUEST = st.fixed_dictionaries({
    "fates": st.lists(st.sampled_from(sorted(FATES)), min_size=3, max_size=3),
    "cut": st.sampled_from([False, False, False, True]),
    "turned": st.booleans(),
})  # fmt: skip


class Store:
    def __init__(self, requests):
        self.requests, self.stored, self.removed = iter(requests), Counter(), Counter()

    def take(self, docs):
        request = next(self.requests, {"fates": ["done"] * 3, "cut": False, "turned": False})
        entries = []
        for doc, fate in zip(docs, request["fates"], strict=False):
            happens, status, told = FATES[fate]
            self.stored[doc["id"]] += happens
            if told:
                entries.append({"id": doc["id"], "status": status})
        if request["cut"]:
            raise TimeoutError("no answer")
        return entries[::-1] if request["turned"] else entries

    def drop(self, docs):
        for doc in docs:
            self.removed[doc["id"]] += 1


def declared(guard, store):
    @guard.tool(effect="write", breaker=None)
    def drop(docs: list[dict]) -> None:
        store.drop(docs)

    @guard.tool(
        effect="write",
        partial=settled.partial.http_207,
        compensate=drop,
        retry=settled.Backoff(base=1e-6, cap=1e-6),
        breaker=None,
    )
    def put(docs: list[dict]) -> list:
        return store.take(docs)

    return put


def check(result, store):
    """Hold what is said of each item against what the store has."""
    items = result.items or [settled.partial.Item(n, "unknown") for n in range(len(DOCS))]
    for name, item in zip(DOCS, items, strict=True):
        if result.status == "succeeded" or item.status == "done":
            assert store.stored[name] == 1
        if result.status in ("failed", "not_done") or item.status in ("failed", "not_done"):
            assert store.stored[name] == 0
    assert set(store.stored.values()) <= {0, 1}


@given(st.lists(REQUEST, max_size=6), st.integers(1, 3), st.lists(st.booleans(), max_size=6))
@settings(max_examples=150, deadline=None)
def test_any_answers(requests, entries, rerun):
    store = Store(requests)
    with settled.Guard("memory://") as guard:
        put = declared(guard, store)
        for _ in range(entries):
            with guard.run("r") as run:
                result = put.call(docs=[{"id": name} for name in DOCS])
            check(result, store)
            decide(guard, store, rerun)
        with guard.run("r") as run:
            check(put.call(docs=[{"id": name} for name in DOCS]), store)
            ended = run.compensate("over")
        assert store.removed <= store.stored
        in_doubt = {doc["id"] for call in waiting(guard.journal) for doc in guard_arguments(guard, call)}
        assert set(store.stored - store.removed) <= in_doubt
        assert (ended == "compensated") == (not in_doubt)


def guard_arguments(guard, call):
    return facts.arguments_of(guard, call)[0]["docs"]


def decide(guard, store, rerun):
    """A person looks into the store, and says of some items in doubt what happened."""
    for call in waiting(guard.journal):
        docs = guard_arguments(guard, call)
        if not rerun or not rerun.pop() or len(docs) > 1:
            continue
        happened = bool(store.stored[docs[0]["id"]])
        verdict, then = ("happened", "fail") if happened else ("did_not_happen", "rerun")
        guard.resolve(call.operation_id, verdict, by="eva", reason="looked", then=then, force=not happened)


@pytest.mark.parametrize("fate", ["lost", "untold"])
def test_the_check_sees_a_reader_that_takes_silence_for_an_answer(fate):
    """Planted: what the answer leaves out counts as done, or as surely not done."""
    guess = settled.partial.done() if fate == "lost" else settled.partial.failed("silent")
    store = Store([{"fates": ["done", fate, "done"], "cut": False, "turned": False}])

    def read(answer, items):
        told = {entry["id"] for entry in answer}
        return [settled.partial.done() if item["id"] in told else guess for item in items]

    with settled.Guard("memory://") as guard:

        @guard.tool(effect="write", partial=read)
        def put(docs: list[dict]) -> list:
            return store.take(docs)

        result = put.call(docs=[{"id": name} for name in DOCS])
    with pytest.raises(AssertionError):
        check(result, store)

"""A store that takes batches, and tools over it."""

import settled


class Store:
    """What it holds, what it was asked, and how it is to answer next."""

    def __init__(self):
        self.held = []
        self.asked = []
        self.removed = []
        self.trouble = {}
        """Document -> statuses that it is answered with, one after the other, before it is stored."""
        self.cut = None
        """How many entries of the next answer arrive; ``None``: all."""

    def take(self, docs):
        """Store what it can; answer as Elasticsearch does."""
        self.asked.append(list(docs))
        entries = [{"index": {"_id": doc, "status": self.one(doc)}} for doc in docs]
        arrived, self.cut = (entries if self.cut is None else entries[: self.cut]), None
        return {"errors": any(e["index"]["status"] >= 400 for e in entries), "items": arrived}

    def one(self, doc):
        statuses = self.trouble.get(doc)
        status = statuses.pop(0) if statuses else 201
        if status < 400:
            self.held.append(doc)
        return status

    def drop(self, docs):
        for doc in docs:
            self.held.remove(doc)
        self.removed.append(list(docs))


def index_of(guard, store, **options):
    """Declare a tool that stores documents, and one that removes them."""

    @guard.tool(effect="write")
    def drop(docs: list[str]) -> int:
        store.drop(docs)
        return len(docs)

    def read(answer, items):
        named = [{"_id": item} for item in items]
        return settled.partial.elasticsearch_bulk(answer, named)

    merge = settled.partial.elasticsearch_bulk.merge
    declared = {
        "effect": "write",
        "compensate": "drop",
        "retry": settled.Backoff(base=0.001, cap=0.01),
        "breaker": None,
    }

    @guard.tool(partial=settled.partial.Reader(read, merge), **{**declared, **options})
    def index(docs: list[str]) -> dict:
        return store.take(docs)

    return index

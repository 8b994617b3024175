"""A repeat under a key that is on record sends the request that is on record, however the model puts it now."""

import pytest

import settled


class Store:
    """A service that de-duplicates by key and refuses a key that comes with another request."""

    def __init__(self):
        self.requests = {}
        self.lose_answer = True

    def pay(self, key, **request):
        known = self.requests.setdefault(key, request)
        assert known == request, "this key came with another request before"
        if self.lose_answer:
            self.lose_answer = False
            raise ConnectionResetError
        return known


@pytest.fixture
def guard():
    with settled.Guard("memory://") as guard:
        yield guard


def test_a_reworded_repeat_sends_the_recorded_words(guard):
    store = Store()

    @guard.tool(
        effect="deduplicated", remote_retention=3600, key="invoice:{invoice}", identity=("invoice",), attempts=1
    )
    def pay(invoice: str, memo: str) -> dict:
        return store.pay(settled.current_call().key, invoice=invoice, memo=memo)

    with guard.run("r"):
        first = guard.dispatch("pay", {"invoice": "7", "memo": "as agreed"})
    with guard.run("r"):
        second = guard.dispatch("pay", {"invoice": "7", "memo": "for last week"})
    assert (first.status, second.status) == ("unknown", "succeeded")
    assert second.value == {"invoice": "7", "memo": "as agreed"}
    assert len(store.requests) == 1


async def test_from_async_code_too(guard):
    store = Store()

    @guard.tool(effect="deduplicated", remote_retention=3600, identity=("invoice",), attempts=1)
    async def pay(invoice: str, memo: str) -> dict:
        return store.pay(settled.current_call().key, invoice=invoice, memo=memo)

    async with guard.run("r"):
        await guard.adispatch("pay", {"invoice": "7", "memo": "as agreed"})
    async with guard.run("r"):
        second = await guard.adispatch("pay", {"invoice": "7", "memo": "for last week"})
    assert second.value == {"invoice": "7", "memo": "as agreed"}
    assert len(store.requests) == 1


def test_what_the_record_hides_comes_from_the_asker(guard):
    seen = []

    @guard.tool(effect="idempotent", identity=("user",), redact=("password",), attempts=1)
    def log_in(user: str, password: str, note: str) -> int:
        seen.append((user, password, note))
        if len(seen) == 1:
            raise ConnectionResetError
        return len(seen)

    with guard.run("r"):
        guard.dispatch("log_in", {"user": "ann", "password": "first-secret", "note": "a"})
    with guard.run("r"):
        guard.dispatch("log_in", {"user": "ann", "password": "first-secret", "note": "b"})
    assert seen == [("ann", "first-secret", "a"), ("ann", "first-secret", "a")]

"""Batches of which only a part is done: what was done stays done, what was not is tried again, doubt stands alone."""

import json
import threading
from contextlib import nullcontext

import pytest

import settled
from settled.api.people.queue import waiting
from settled.api.runs.carrying_on import carry_on
from settled.cli import main
from settled.core.states import State
from settled.ports import CallQuery
from tests.batches.store import index_of
from tests.waiting import until

TEN = [f"d{n}" for n in range(10)]


def statuses(result):
    return [item.status for item in result.items]


@pytest.mark.case("CASE-039-bulk-partial")
def test_case_039_only_what_failed_is_sent_again(guard, store, index):
    store.trouble = {"d7": [429], "d8": [503], "d9": [400]}
    with guard.run("r"):
        result = index.call(docs=TEN)
    assert store.asked == [TEN, ["d7", "d8"]]
    assert sorted(store.held) == TEN[:9]
    assert (result.status, statuses(result)) == ("partial", ["done"] * 9 + ["failed"])
    assert result.value == {"done": TEN[:9], "failed": ["d9"], "unknown": []}
    assert '"failed": [9]' in result.for_model()
    with guard.run("r"):
        again = index.call(docs=TEN)
    assert (again.status, statuses(again), again.replayed) == ("partial", statuses(result), True)
    assert len(store.asked) == 2


def test_once_all_are_done_the_call_has_succeeded_with_one_value(guard, store, index):
    store.trouble = {"d0": [429], "d2": [429, 429]}
    with guard.run("r"):
        value = index(docs=TEN[:3])
    assert store.asked == [["d0", "d1", "d2"], ["d0", "d2"], ["d2"]]
    assert [entry["index"]["_id"] for entry in value["items"]] == ["d0", "d1", "d2"]
    assert value["errors"] is False
    with guard.run("r"):
        again = index.call(docs=TEN[:3])
    assert (again.status, again.value, len(store.asked)) == ("succeeded", value, 3)


@pytest.mark.parametrize("in_run", [True, False], ids=["in a run", "by a key"])
def test_items_are_told_again_as_they_were_told_first(guard, store, index, in_run):
    store.trouble, told = {"d0": [429]}, []
    for _ in range(3):
        with guard.run("r") if in_run else nullcontext():
            told.append(index.options(key=None if in_run else "k").call(docs=["d0", "d1"]))
    assert [(result.status, result.replayed) for result in told] == [("succeeded", number > 0) for number in range(3)]
    assert [item.status for item in told[0].items] == ["done", "done"]
    assert told[0].items == told[1].items == told[2].items
    assert store.asked == [["d0", "d1"], ["d0"]]


async def test_async_items_are_told_again_too(guard, store):
    @guard.tool(effect="write", partial=settled.partial.elasticsearch_bulk, retry=settled.Backoff(base=0.001))
    async def index(docs: list[dict]) -> dict:
        return store.take([doc["_id"] for doc in docs])

    store.trouble, told = {"d0": [429]}, []
    for _ in range(2):
        async with guard.run("r"):
            told.append(await index.acall(docs=[{"_id": "d0"}, {"_id": "d1"}]))
    assert (told[1].replayed, [item.status for item in told[1].items]) == (True, ["done", "done"])
    assert told[0].items == told[1].items


def test_attempts_are_counted_over_all_that_went_on_with_an_item(guard, store, index):
    store.trouble = {"d1": [429] * 9}
    with guard.run("r"):
        result = index.call(docs=TEN[:2])
    assert (result.status, statuses(result), result.next) == ("partial", ["done", "not_done"], "ask_again")
    assert [len(docs) for docs in store.asked] == [2, 1, 1]
    with guard.run("r"):  # a later entry has attempts of its own
        index.call(docs=TEN[:2])
    assert store.asked[3:] == [["d1"]] * 3
    store.trouble = {}
    with guard.run("r"):
        assert index.call(docs=TEN[:2]).status == "succeeded"
    assert sorted(store.held) == ["d0", "d1"]


def test_nothing_done_is_a_failure_of_the_whole(guard, store, index):
    store.trouble = {"d0": [400], "d1": [400]}
    with guard.run("r"):
        result = index.call(docs=TEN[:2])
    assert (result.status, store.held) == ("failed", [])
    store.trouble = {"d2": [429], "d3": [400, 400]}
    with guard.run("r"):
        result = index.call(docs=["d2", "d3"])  # as a whole it may be tried again
    assert (result.status, statuses(result)) == ("partial", ["done", "failed"])


def test_none_done_after_all_is_a_failure(guard, store, index):
    store.trouble = {"d0": [400], "d1": [500]}
    with guard.run("r"):
        result = index.call(docs=TEN[:2])
        assert (result.status, statuses(result)) == ("partial", ["failed", "unknown"])
        guard.resolve(result.items[1].operation_id, "did_not_happen", by="eva", reason="looked", force=True)
    with guard.run("r"):
        failed = index.call(docs=TEN[:2])
    assert (failed.status, failed.asserted) == ("failed", True)  # the whole rests on the person's word, too


def test_what_the_answer_leaves_out_is_in_doubt_and_never_sent_again(guard, store, index):
    store.cut = 2
    with guard.run("r"):
        result = index.call(docs=TEN[:4])
    assert (result.status, statuses(result), result.next) == (
        "partial",
        ["done", "done", "unknown", "unknown"],
        "ask_human",
    )
    left = waiting(guard.journal)
    assert [call.operation_id for call in left] == [item.operation_id for item in result.items[2:]]
    assert [guard.journal.get(call.operation_id).key for call in left] == [item.key for item in result.items[2:]]
    assert [alert.kind for alert in guard.journal.alerts()] == ["unknown", "unknown"]
    with guard.run("r"):
        assert statuses(index.call(docs=TEN[:4])) == statuses(result)
    assert store.asked == [TEN[:4]]
    guard.resolve(left[0].operation_id, "happened", by="eva", reason="seen")
    guard.resolve(left[1].operation_id, "did_not_happen", by="eva", reason="not seen", then="rerun", force=True)
    with guard.run("r"):
        done = index.call(docs=TEN[:4])
    assert (done.status, store.asked[1:]) == ("succeeded", [["d3"]])


@pytest.mark.parametrize("answer", [{}, {"items": []}, {"items": None}, [], "", None, {"errors": False}])
def test_an_answer_that_tells_of_no_item_leaves_the_call_in_doubt(guard, answer):
    @guard.tool(effect="write", partial=settled.partial.elasticsearch_bulk)
    def index(docs: list[str]) -> object:
        return answer

    with guard.run("r"):
        assert index.call(docs=["a", "b"]).status == "unknown"
    assert len(waiting(guard.journal)) == 1


def test_a_reader_that_fails_or_says_too_much_or_too_little_proves_nothing(guard):
    done = settled.partial.done()
    said = iter([ValueError("broken"), [done] * 3, ["done", "done"], [done], []])

    def read(answer, items):
        found = next(said)
        if isinstance(found, Exception):
            raise found
        return found

    @guard.tool(effect="write", partial=read, breaker=None)
    def send(letters: list[str]) -> str:
        return "sent"

    for _ in range(5):
        assert send.call(letters=[f"{_}a", f"{_}b"]).status == "unknown"


def test_a_like_call_of_the_same_entry_goes_on_with_what_is_left(guard, store, index):
    store.trouble = {"d1": [429] * 3}
    with guard.run("r"):
        assert index.call(docs=TEN[:2]).status == "partial"
        assert index.call(docs=TEN[:2]).status == "succeeded"
        assert store.asked == [["d0", "d1"], ["d1"], ["d1"], ["d1"]]
        index.call(docs=TEN[:2])  # now it is another one
    assert sorted(store.held) == ["d0", "d0", "d1", "d1"]


@pytest.mark.parametrize("in_run", [True, False], ids=["in a run", "outside of runs"])
@pytest.mark.parametrize("ask", ["tool", "model"])
def test_a_model_that_asks_for_all_of_them_again_doubles_nothing(guard, store, index, in_run, ask):
    store.trouble = {"d8": [400], "d9": [400]}
    with guard.run("r") if in_run else nullcontext():
        for _ in range(3):
            result = index.call(docs=TEN) if ask == "tool" else guard.dispatch("index", {"docs": TEN})
            assert (result.status, statuses(result)) == ("partial", ["done"] * 8 + ["failed"] * 2)
        assert index.call(docs=["d8", "d9"]).ok
    assert store.asked == [TEN, ["d8", "d9"]]


@pytest.mark.parametrize("docs", [["d2"], ["d1", "d2"], TEN[:3]])
def test_an_item_in_doubt_bars_in_all_of_the_run(guard, store, index, docs):
    store.cut, store.trouble = 2, {"d1": [429] * 3}
    with guard.run("r"):
        with guard.run("r/one"):
            assert statuses(index.call(docs=TEN[:3])) == ["done", "not_done", "unknown"]
        with guard.run("r/two"):
            said = guard.dispatch("index", {"docs": docs})
    assert (said.status, said.reason, store.held.count("d2")) == ("rejected", "unknown_before", 1)


@pytest.mark.parametrize("docs", [["d2"], ["d1", "d2"], ["d2", "d1", "d0"], ["d2", "new"]])
def test_an_item_in_doubt_bars_a_model_from_sending_it_in_another_list(guard, store, index, docs):
    store.cut, store.trouble = 2, {"d1": [429] * 3}
    with guard.run("r"):
        assert statuses(index.call(docs=TEN[:3])) == ["done", "not_done", "unknown"]
        said = guard.dispatch("index", {"docs": docs})
    assert (said.status, said.reason) == ("rejected", "unknown_before")
    assert store.held.count("d2") == 1


def test_once_all_are_done_a_like_call_is_another_one(guard, store, index):
    with guard.run("r"):
        assert [index.call(docs=TEN).replayed for _ in range(2)] == [False, False]
    assert store.asked == [TEN, TEN]


def test_equal_items_are_two(guard, store, index):
    store.trouble = {"same": [201, 429]}
    seen = []

    def read(answer, items):
        return (
            [settled.partial.done(), settled.partial.not_done("busy")] if len(items) > 1 else [settled.partial.done()]
        )

    @guard.tool(effect="write", partial=read, retry=settled.Backoff(base=0.001))
    def send(letters: list[str], call: settled.Call) -> list[str]:
        seen.append((list(letters), call.items))
        return letters

    with guard.run("r"):
        assert send.call(letters=["same", "same"]).status == "succeeded"
    (first, keys), (second, left) = seen
    assert (first, second) == (["same", "same"], ["same"])
    assert (len(set(keys)), left) == (2, (keys[1],))


def test_items_keep_their_keys_and_names_may_collide(guard):
    seen = []

    def read(answer, items):
        return [
            settled.partial.not_done("busy") if len(seen) == 1 and n else settled.partial.done(n)
            for n, _ in enumerate(items)
        ]

    @guard.tool(effect="write", partial=read, item_key="id", retry=settled.Backoff(base=0.001))
    def send(letters: list[dict]) -> int:
        seen.append(settled.current_call().items)
        return len(letters)

    with guard.run("r"):
        result = send.call(letters=[{"id": 1, "x": 1}, {"id": 1, "x": 2}, {"id": 2}])
    assert len(set(seen[0])) == 3
    assert seen[1] == seen[0][1:]
    assert [item.key for item in result.items] == list(seen[0])


def test_what_cannot_name_its_items_sends_nothing(guard):
    sent = []

    @guard.tool(effect="write", partial=settled.partial.http_207, item_key="id")
    def send(letters: list[dict]) -> list:
        sent.append(letters)
        return []

    result = send.call(letters=[{"id": 1}, {"name": 2}])
    assert (result.status, sent) == ("failed", [])


def test_a_tool_may_say_itself_which_items_it_did(guard):
    sent = []

    @guard.tool(effect="write", items="letters", retry=settled.Backoff(base=0.001))
    def send(letters: list[str]) -> str:
        sent.append(list(letters))
        if len(sent) == 1:
            raise settled.PartlyDone(done=["a"], failed=["b"])
        return "sent"

    with guard.run("r"):
        result = send.call(letters=["a", "b", "c"])
    assert (result.status, statuses(result)) == ("partial", ["done", "done", "unknown"])
    assert sent == [["a", "b", "c"], ["b"]]


def test_doubt_of_an_earlier_attempt_is_not_cleared_by_a_refusal(guard):
    answers = [TimeoutError(), [settled.partial.done(), settled.partial.failed("exists")]]

    @guard.tool(effect="deduplicated", remote_retention=3600, partial=lambda a, i: a, retry=settled.Backoff(base=0.001))
    def send(letters: list[str]) -> list:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with guard.run("r"):
        assert statuses(send.call(letters=["a", "b"])) == ["done", "unknown"]
    [left] = waiting(guard.journal)
    with guard.run("r"):
        send.call(letters=["a", "b"])  # alone, under a key that the other side has never seen: not to be repeated
    assert guard.journal.get(left.operation_id).state is State.UNKNOWN
    assert answers == []


def test_an_answer_that_comes_late_is_read_by_item_too(guard, store):
    release = threading.Event()

    @guard.tool(effect="write", timeout=0.05, partial=settled.partial.http_207)
    def send(letters: list[str]) -> list:
        assert release.wait(60)
        return [{"status": 201}, {"status": 500}]

    with guard.run("r"):
        first = send.options(wait=0).call(letters=["a", "b"])
        assert first.status == "unknown"
        release.set()
        until(lambda: guard.journal.get(first.operation_id).state is not State.UNKNOWN, "its late answer")
    assert guard.look(first.operation_id).status == "partial"
    assert statuses(guard.look(first.operation_id)) == ["done", "unknown"]
    assert [str(call.state) for call in waiting(guard.journal)] == ["unknown"]


def test_an_item_in_doubt_is_asked_about_by_itself(guard, store):
    asked = []

    def look(call):
        asked.append((call.key, call.arguments["docs"]))
        return settled.Happened() if call.arguments["docs"] == ["d1"] else settled.Inconclusive()

    index = index_of(guard, store, probe=look, max_request_lifetime=0.01)
    store.trouble = {"d1": [500], "d2": [500]}
    with guard.run("r"):
        result = index.options(wait=0).call(docs=TEN[:3])
    assert statuses(result) == ["done", "done", "unknown"]
    assert asked[0] == (result.items[1].key, ["d1"])


def test_only_what_was_done_is_undone_and_doubt_is_left_to_a_person(guard, store, index):
    store.trouble = {"d1": [429], "d2": [400], "d3": [500]}
    with pytest.raises(RuntimeError), guard.run("r", on_error="compensate", tools=["index"]):
        index.call(docs=TEN[:4])
        raise RuntimeError
    assert store.removed == [["d1"], ["d0"]]  # the last begun first
    assert store.held == []
    assert guard.journal.run("", "r").state == "partly_compensated"
    [left] = waiting(guard.journal)
    guard.resolve(left.operation_id, "happened", by="eva", reason="seen")
    store.held.append("d3")
    assert carry_on(guard, wait=1.0).compensated == 1
    assert (store.removed[-1], store.held) == (["d3"], [])


def test_a_batch_that_was_wholly_done_in_parts_is_undone_once(guard, store, index):
    store.trouble = {"d1": [429], "d2": [429, 429]}
    with pytest.raises(RuntimeError), guard.run("r", on_error="compensate", tools=["index"]):
        assert index.call(docs=TEN[:3]).ok
        raise RuntimeError
    assert sorted(doc for docs in store.removed for doc in docs) == TEN[:3]
    assert (store.held, guard.journal.run("", "r").state) == ([], "compensated")


def test_a_run_that_was_rolled_back_sends_nothing_more(guard, store, index):
    store.trouble = {"d1": [429] * 3}
    with guard.run("r") as run:
        index.call(docs=TEN[:2])
        run.compensate("no more")
        assert index.call(docs=TEN[:2]).status in ("rejected", "partial", "compensated")
    assert len(store.asked) == 3
    assert store.held == []


def test_repeats_cost_what_repeats_cost(guard, store, index):
    store.trouble = {"d1": [429] * 9}
    with guard.run("r", retries=settled.RetryBudget(total=1)):
        result = index.call(docs=TEN[:2])
    assert [len(docs) for docs in store.asked] == [2, 1]
    assert (result.status, guard.journal.run("", "r").spent) == ("partial", {"index": 1})


async def test_it_is_the_same_in_async_code(guard):
    sent = []

    @guard.tool(effect="write", partial=settled.partial.http_207, retry=settled.Backoff(base=0.001))
    async def send(letters: list[str]) -> list:
        sent.append(list(letters))
        return [{"status": 429 if letter == "b" and len(sent) == 1 else 201} for letter in letters]

    async with guard.run("r"):
        assert await send(letters=["a", "b"]) == [{"status": 201}, {"status": 201}]
    assert sent == [["a", "b"], ["b"]]


def test_secrets_of_an_item_are_kept_nowhere(guard):
    @guard.tool(effect="write", partial=settled.partial.http_207, redact=["letters[].pin"])
    def send(letters: list[dict]) -> list:
        return [{"status": 201}, {"status": 500}]

    send.call(letters=[{"to": "ann", "pin": "12345"}, {"to": "bob", "pin": "67890"}])
    calls = guard.journal.find(CallQuery())
    assert [call.state for call in calls] == [State.UNKNOWN, State.PARTIAL]
    assert b"67890" not in b"".join(call.arguments for call in calls)
    assert b"bob" in calls[0].arguments


def test_an_items_code_repeats_no_secret_and_is_short(guard):
    pin, key = "9f2c77aa", "sk-live-0123456789abcdef"
    said = [settled.partial.done(), settled.partial.failed(f"pin {pin}"), settled.partial.unknown(f"api_key={key}")]
    said += [settled.partial.not_done("x" * 10_000), settled.partial.not_done(429)]

    @guard.tool(effect="write", partial=lambda *_: said, redact=["letters[].pin"], attempts=1, breaker=None)
    def send(letters: list[dict]) -> str:
        return "sent"

    result = send.call(letters=[{"no": n, "pin": pin} for n in range(5)])
    assert [item.code for item in result.items] == ["", "pin [redacted]", "api_key=[redacted]", "x" * 100, "429"]
    calls = guard.journal.find(CallQuery())
    kept = repr(calls) + repr(result.for_model()) + result.reason
    assert (pin in kept, key in kept, len(calls)) == (False, False, 2)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"partial": "x"}, "plain function"),
        ({"partial": settled.partial.http_207, "items": "nope"}, "no parameter 'nope'"),
        ({"item_key": "id"}, "give partial="),
        ({"partial": settled.partial.http_207, "item_key": 3}, "item_key"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_declared(guard, options, why):
    with pytest.raises(settled.DeclarationError, match=why):

        @guard.tool(effect="write", **options)
        def send(letters: list[str]) -> list:
            """Send them."""


def test_the_parameter_must_be_clear(guard):
    with pytest.raises(settled.DeclarationError, match="Write items="):

        @guard.tool(effect="write", partial=settled.partial.http_207)
        def send(letters: list[str], to: list[str]) -> list:
            """Send them."""


def test_the_command_line_shows_each_item(tmp_path, store, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with settled.Guard("sqlite:///items.db") as guard:
        store.trouble = {"d1": [400], "d2": [500]}
        result = index_of(guard, store).call(docs=TEN[:3])
    words = ["calls", "show", result.operation_id, "--journal", "sqlite:///items.db"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "Items" in shown
    assert "http_400" in shown
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [item["status"] for item in document["items"]] == ["done", "failed", "unknown"]
    assert main(["calls", "show", document["items"][2]["operation_id"], *words[3:], "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert (alone["part_of"], alone["arguments"], alone["state"]) == (result.operation_id, {"docs": ["d2"]}, "unknown")

"""Several agents on one run: each in a lane of its own, all undone by one rollback, nobody by a token that is over."""

import asyncio
import base64
import json
import logging
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import settled
from settled import tokens
from settled.api.people.facts import arguments_of
from settled.api.runs import sagas
from settled.core.states import State
from settled.ports import CallQuery
from tests.sagas.conftest import desk_on

KEY = "0123456789abcdef" * 2
OTHER = "fedcba9876543210" * 2


desk = desk_on("memory", "sqlite", "postgres", "redis")
shared_desk = desk_on("sqlite", "postgres", "redis")
"""Of one that several processes can share."""


@pytest.fixture
def guard(desk):
    return desk.open(token_key=KEY)


@pytest.fixture
def both(shared_desk):
    """Two guards, as two processes have them."""
    return shared_desk.open(token_key=KEY), shared_desk.open(token_key=KEY)


def calls(guard, tool="book"):
    return guard.journal.find(CallQuery(tool=tool, limit=100))


def elsewhere(work):
    """Do it in a thread, which knows nothing of this one's run; return or raise what came of it."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result(30)


# --- joining ---


def test_a_joined_call_stands_in_the_run_under_a_key_of_its_own(guard, desk):
    with guard.run("trip") as run:
        assert guard.tools["book"]("flight") == "b-flight"
        with guard.join(run.token(lane="hotels")):
            assert guard.tools["book"]("flight") == "b-flight"  # the same words, and another agent's action
        assert guard.tools["book"].call("car").replayed is False
    assert desk.books == [("book", "flight"), ("book", "flight"), ("book", "car")]
    made = calls(guard)
    assert {call.scope for call in made} == {"run:0::trip"}
    assert sorted(call.lane for call in made) == ["", "", "hotels"]
    assert len({call.key for call in made}) == 3


def test_two_lanes_may_use_the_same_steps(guard, desk):
    with guard.run("trip") as run:
        with guard.join(run.token(lane="a")):
            assert guard.dispatch("note", {"text": "one"}, step="msg/0").value == "one"
        with guard.join(run.token(lane="b")):
            assert guard.dispatch("note", {"text": "two"}, step="msg/0").value == "two"
        assert guard.dispatch("note", {"text": "three"}, step="msg/0").value == "three"
    assert [text for _, text in desk.books] == ["one", "two", "three"]


def test_a_model_is_not_told_of_what_another_agent_did_with_the_tool(guard):
    with guard.run("trip") as run:
        with guard.join(run.token(lane="a")):
            guard.dispatch("note", {"text": "one"})
        with guard.join(run.token(lane="b")):
            assert guard.dispatch("note", {"text": "two"}).status == "succeeded"
    with guard.run("trip") as run, guard.join(run.token(lane="b")):
        assert guard.dispatch("note", {"text": "again two"}).earlier[0].arguments == {"text": "two"}


def test_an_agent_that_joins_again_is_answered_from_what_it_did(both, shared_desk):
    host, guest = both
    with host.run("trip") as run:
        token = run.token(lane="hotels")
        with guest.join(token):
            guest.tools["book"]("hotel")
        with guest.join(token):
            again = guest.tools["book"].call("hotel")
    assert (again.value, again.replayed) == ("b-hotel", True)
    assert shared_desk.books == [("book", "hotel")]


def test_a_run_that_starts_again_lets_its_agents_go_on_where_they_were(both, shared_desk):
    host, guest = both
    with pytest.raises(ValueError, match="crash"), host.run("trip") as run:
        with guest.join(run.token(lane="hotels")):
            guest.tools["book"]("hotel")
        raise ValueError("crash")
    with host.run("trip") as run, guest.join(run.token(lane="hotels")) as joined:
        assert joined.lane_entry == 2
        assert guest.tools["book"]("hotel") == "b-hotel"
    assert shared_desk.books == [("book", "hotel")]


def test_history_tells_which_steps_of_the_lane_were_answered(guard, desk):
    with guard.run("trip") as run:
        with guard.join(run.token(lane="a")):
            guard.dispatch("note", {"text": "one"}, step="m1/0")
        with guard.join(run.token(lane="a"), answered=["m1/0"]):
            assert guard.dispatch("note", {"text": "one"}, step="m2/0").replayed is False
    assert len(desk.books) == 2


def test_each_lane_keeps_a_state_of_its_own(guard):
    with guard.run("trip") as run:
        run.state["at"] = "host"
        with guard.join(run.token(lane="a")) as joined:
            assert dict(joined.state) == {}
            joined.state["at"] = "guest"
            guard.tools["note"]("x")
            assert (joined.saved_state, run.saved_state) == ({"at": "guest"}, {})
        guard.tools["note"]("y")
        assert run.saved_state == {"at": "host"}


async def test_agents_on_one_loop_join_side_by_side(guard, desk):
    async def agent(token, what):
        async with guard.join(token):
            return await guard.tools["book"].bind(what).acall()

    async with guard.run("trip") as run:
        made = await asyncio.gather(*(agent(run.token(lane=name), name) for name in ("x", "y", "z")))
    assert [each.value for each in made] == ["b-x", "b-y", "b-z"]
    assert sorted(desk.left) == ["x", "y", "z"]


def test_a_thread_finds_the_run_by_context_only_where_it_is_given_one(guard):
    with guard.run("trip") as run:
        token = run.token(lane="a")

        def agent():
            with guard.join(token) as joined:
                guard.tools["book"]("hotel")
                return joined.lane

        assert elsewhere(agent) == "a"
        guard.tools["book"]("car")
    assert {call.lane: arguments_of(guard, call)[0]["what"] for call in calls(guard)} == {"a": "hotel", "": "car"}


def test_an_agent_hands_on_no_more_than_it_has(guard):
    with guard.run("trip") as run, guard.join(run.token(lane="a", tools=["book", "note"], within=60)) as joined:
        with pytest.raises(settled.DeclarationError, match="does not name 'mail'"):
            joined.token(lane="b", tools=["mail"])
        with guard.join(joined.token(lane="b", tools=["note"], within=600)) as inner:
            assert inner.lane == "a/b"
            assert inner.deadline <= joined.deadline + 0.1
            assert guard.tools["book"].call("hotel").reason == "not_in_token"
            assert guard.tools["note"]("x") == "x"
        with guard.join(joined.token(lane="c")) as inner:
            assert guard.tools["mail"].call("m").reason == "not_in_token"


# --- what it may do ---


def test_only_the_tools_that_the_token_names_are_called(guard, desk):
    with guard.run("trip") as run, guard.join(run.token(lane="a", tools=[guard.tools["note"]])):
        refused = guard.dispatch("book", {"what": "hotel"})
        assert (refused.status, refused.reason, refused.next) == ("rejected", "not_in_token", "give_up")
        with pytest.raises(settled.CallRejected, match="does not name this tool"):
            guard.tools["look"]("hotel")
        assert guard.tools["note"]("x") == "x"
    assert desk.books == [("note", "x")]


def test_its_deadline_is_what_is_left(guard, desk):
    with guard.run("trip", within=20) as run:
        with guard.join(run.token(lane="a", within=600)) as joined:
            assert joined.deadline <= run.deadline + 0.1
            assert guard.tools["note"]("in time") == "in time"
            joined.deadline = 0.0
            assert guard.tools["note"].call("too late").reason == "deadline"
    assert desk.books == [("note", "in time")]


def test_retries_of_all_agents_are_the_runs(guard):
    made = []

    @guard.tool(effect="idempotent", retry=settled.Backoff(base=0.001, cap=0.002), breaker=None)
    def put(what: str) -> str:
        made.append(what)
        raise ConnectionResetError("away")

    with guard.run("trip", retries=settled.RetryBudget(total=2)) as run:
        assert put.call("a").attempts == 3
        with guard.join(run.token(lane="a")):
            again = put.call("b")
    assert (again.attempts, again.reason) == (1, "retry_budget:run")
    assert made == ["a", "a", "a", "b"]


def test_what_cannot_be_undone_is_refused_in_a_run_to_be_undone(guard):
    @guard.tool(effect="write")
    def burn(what: str) -> str:
        return what

    with guard.run("trip", on_error="compensate", tools=["book"]) as run:
        with guard.join(run.token(lane="a", tools=["book"])):
            assert guard.tools["book"]("hotel") == "b-hotel"
        with pytest.raises(settled.DeclarationError, match="burn cannot be undone"):
            guard.join(run.token(lane="b", tools=["burn"])).__enter__()


def test_what_cannot_be_undone_waits_for_what_another_agent_left_in_doubt(guard, desk):
    desk.trouble["book"] = Lost()
    desk.probing["blind"] = True
    with guard.run("trip") as run:
        with guard.join(run.token(lane="a")):
            assert guard.tools["book"].call("hotel").status == "unknown"
        refused = guard.tools["wire"].call("bank")
    assert (refused.status, refused.reason) == ("rejected", "unsettled_before")
    assert ("wire", "bank") not in desk.books


def test_what_another_agent_left_in_doubt_bars_the_same_action_until_it_is_settled(guard, desk):
    desk.trouble["book"] = Lost()
    desk.probing["blind"] = True
    with guard.run("trip") as run:
        with guard.join(run.token(lane="a")):
            guard.tools["book"].call("hotel")
        desk.trouble.clear()
        refused = guard.tools["book"].bind("hotel").call()
        assert (refused.status, refused.reason) == ("rejected", "unknown_before")
        desk.probing.clear()
        assert guard.tools["book"].options(wait=5).call("hotel").replayed is False
    assert desk.books == [("book", "hotel")]


# --- tokens that are worth nothing ---


def test_without_a_key_there_are_no_tokens(desk):
    plain = desk.open()
    with plain.run("trip") as run, pytest.raises(settled.DeclarationError, match="token_key"):
        run.token(lane="a")
    with pytest.raises(settled.DeclarationError, match="token_key"):
        plain.join("settled1.x.y")


@pytest.mark.parametrize("key", ["short", b"short", 5, [5], ["0123456789abcdef", "x"]])
def test_a_key_that_cannot_work_is_refused(key):
    with pytest.raises(settled.DeclarationError, match="token_key"):
        settled.Guard("memory://", token_key=key)


@pytest.mark.parametrize("lane", ["", "two words", "ü", 5, None, "x" * 101, "a/b"])
def test_a_lane_that_cannot_work_is_refused(guard, lane):
    with guard.run("trip") as run, pytest.raises(settled.DeclarationError, match="lane="):
        run.token(lane=lane)


def test_a_token_needs_a_run_at_work(guard):
    with pytest.raises(settled.DeclarationError, match="not entered"):
        guard.run("trip").token(lane="a")
    with guard.run("trip", within=0.0) as run, pytest.raises(settled.DeclarationError, match="is over"):
        run.token(lane="a")
    with guard.run("trip") as run, pytest.raises(settled.DeclarationError, match="within must be"):
        run.token(lane="a", within=0)


def test_keys_are_changed_one_side_after_the_other(shared_desk):
    old, new = shared_desk.open(token_key=OTHER), shared_desk.open(token_key=[KEY, OTHER])
    late = shared_desk.open(token_key=KEY)
    with old.run("trip") as run:
        with new.join(run.token(lane="a")):
            new.tools["note"]("x")
        with pytest.raises(settled.TokenRefused, match="not signed with a key"):
            late.join(run.token(lane="a"))
    with new.run("trip 2") as run, late.join(run.token(lane="a")):
        late.tools["note"]("y")


def test_a_token_that_was_tampered_with_is_refused(guard):
    with guard.run("trip") as run:
        text = run.token(lane="a", tools=["note"]).reveal()
    head, said, mac = text.split(".")
    claims = json.loads(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)))
    more = base64.urlsafe_b64encode(json.dumps(claims | {"tools": None}).encode()).decode().rstrip("=")
    flipped = mac[:-1] + ("A" if mac[-1] != "A" else "E")
    tampered = [f"{head}.{more}.{mac}", f"{head}.{said}.{flipped}", f"{head}.{said}.{mac[::-1]}", f"{head}..{mac}"]
    tampered += ["", "settled1", text + "x", text[:-1], text.upper(), f" {text}", "a" * 100_000, text + "\n"]
    for wrong in tampered:
        with pytest.raises(settled.TokenRefused) as refused:
            guard.join(wrong)
        assert refused.value.status in ("signature", "malformed")
        assert mac not in str(refused.value)


def test_a_token_is_for_one_tenant(shared_desk):
    acme, rival = shared_desk.open(token_key=KEY, tenant="acme"), shared_desk.open(token_key=KEY, tenant="rival")
    with acme.run("trip") as run, pytest.raises(settled.TokenRefused) as refused:
        rival.join(run.token(lane="a"))
    assert refused.value.status == "tenant"
    assert "trip" not in str(refused.value)  # whose run it is, and which, is nobody else's business


def test_a_token_is_for_one_journal(guard, tmp_path):
    with settled.Guard(f"sqlite:///{tmp_path}/other.db", token_key=KEY) as other, guard.run("trip") as run:
        with pytest.raises(settled.TokenRefused) as refused:
            other.join(run.token(lane="a"))
    assert refused.value.status == "journal"


def test_a_token_is_for_one_lane(guard):
    with guard.run("trip") as run:
        with pytest.raises(settled.TokenRefused) as refused:
            guard.join(run.token(lane="a"), lane="b")
        assert refused.value.status == "lane"
        with guard.join(run.token(lane="b"), lane="b"):
            pass


def test_a_token_expires_by_the_journals_clock(guard, desk):
    with guard.run("trip") as run:
        token = run.token(lane="a", within=0.001)
        while guard.journal.now().wall < guard.join(token).grant.until:
            pass
        with pytest.raises(settled.TokenRefused, match="has expired") as refused, guard.join(token):
            guard.tools["note"]("x")
    assert refused.value.status == "expired"
    assert desk.books == []


def test_one_process_at_a_time_works_in_a_lane(guard, desk):
    with guard.run("trip") as run:
        token = run.token(lane="a")
        with guard.join(token):
            with pytest.raises(settled.RunInProgress, match="lane 'a' of run 'trip'"):
                elsewhere(guard.join(token, wait=0.0).__enter__)
            with guard.join(token, take_over=True):
                assert guard.tools["note"]("new") == "new"
            late = guard.tools["note"].call("old")
    assert (late.status, late.reason) == ("rejected", "superseded")
    assert desk.books == [("note", "new")]


# --- the end ---


@pytest.mark.parametrize("how", ["completed", "kept", "compensated", "entered again"])
def test_no_call_begins_by_a_token_whose_run_is_over(both, shared_desk, how):
    host, guest = both
    run = host.run("trip", on_error="compensate" if how == "compensated" else "keep", wait=0.0)
    run.__enter__()
    token = run.token(lane="a")
    with guest.join(token) as joined:
        guest.tools["book"]("hotel")
        error = ValueError("gave up") if how in ("kept", "compensated") else None
        if how == "entered again":
            host.run("trip", take_over=True).__enter__()
        else:
            run.__exit__(type(error), error, None)
        late = within(joined, lambda: guest.tools["book"].call("late"))
    why = {"compensated": "rolled_back", "entered again": "superseded"}.get(how, "run_ended")
    assert (late.status, late.reason, late.recorded) == ("rejected", why, False)
    assert ("book", "late") not in shared_desk.books
    with pytest.raises(settled.RunError) as refused, guest.join(token):
        guest.tools["book"]("later")
    assert refused.value.status == {"rolled_back": "compensated"}.get(why, why)
    assert ("book", "later") not in shared_desk.books


def test_one_rollback_undoes_the_calls_of_all_in_the_journals_order(both, shared_desk):
    host, guest = both
    with pytest.raises(ValueError, match="no car"), host.run("trip", on_error="compensate") as run:
        host.tools["book"]("flight")
        with guest.join(run.token(lane="a")) as a, guest.join(run.token(lane="b")) as b:
            within(a, lambda: guest.tools["book"]("hotel"))
            within(b, lambda: guest.tools["book"]("boat"))
            within(a, lambda: guest.tools["book"]("bus"))
        host.tools["book"]("car")
        raise ValueError("no car")
    undone = [what.removeprefix("b-") for tool, what in shared_desk.books if tool == "cancel"]
    assert undone == ["car", "bus", "boat", "hotel", "flight"]
    assert run.status == "compensated"


def within(joined, work):
    """Work in this lane, whichever was entered last."""
    return joined.context().run(work)


def test_a_joined_call_under_way_is_settled_before_the_rollback_undoes_it(both, shared_desk):
    host, guest = both
    sent, go_on = threading.Event(), threading.Event()

    def slow(what: str) -> str:
        sent.set()
        go_on.wait(20)
        shared_desk.act("book", what)
        return f"b-{what}"

    for guard in both:
        guard.tool(effect="write", compensate="cancel", undo=lambda call, result: {"booking": result})(slow)

    token, came = [], []

    def agent():
        with guest.join(token[0]):
            came.append(guest.tools["slow"].call("hotel"))
            came.append(guest.tools["book"].call("late"))

    thread = threading.Thread(target=agent)
    with pytest.raises(ValueError, match="stop"), host.run("trip", on_error="compensate") as run:
        host.tools["book"]("flight")
        token.append(run.token(lane="a"))
        thread.start()
        assert sent.wait(20)
        threading.Timer(0.2, go_on.set).start()
        raise ValueError("stop")
    thread.join(20)
    assert shared_desk.books[1:] == [("book", "hotel"), ("cancel", "b-hotel"), ("cancel", "b-flight")]
    assert (came[1].status, came[1].reason) == ("rejected", "rolled_back")
    assert run.status == "compensated"


def test_a_joined_agents_error_ends_its_lane_and_leaves_the_run_to_its_host(guard, desk):
    with guard.run("trip", on_error="compensate") as run:
        with pytest.raises(ValueError, match="no room"), guard.join(run.token(lane="a")):
            guard.tools["book"]("hotel")
            raise ValueError("no room")
        assert run.lanes() == {"a": "kept"}
        with guard.join(run.token(lane="a")) as joined:
            assert guard.tools["book"].call("hotel").replayed
            with pytest.raises(settled.DeclarationError, match="tell its host"):
                joined.compensate("enough")
        assert run.lanes() == {"a": "completed"}
    assert (run.status, desk.left) == ("completed", ["hotel"])


def test_a_run_waits_for_its_agents_before_it_is_completed(both, shared_desk):
    host, guest = both
    joined, stood = threading.Event(), []

    def agent(token):
        with guest.join(token):
            joined.set()
            stood.append(guest.tools["book"].call("hotel").status)

    with host.run("trip", wait=20) as run:
        thread = threading.Thread(target=agent, args=[run.token(lane="a")])
        thread.start()
        assert joined.wait(20)
    assert (run.status, run.lanes()) == ("completed", {"a": "completed"})
    thread.join(20)
    assert stood == ["succeeded"]


async def test_a_run_tells_which_agents_it_ended_without(desk):
    told = []
    guard = desk.open(token_key=KEY, alerts=lambda event, facts: told.append((event, facts)))
    async with guard.run("trip", wait=0.05) as run:
        joined = await guard.join(run.token(lane="slow")).__aenter__()
    assert run.status == "completed"
    assert guard.journal.run("", "trip").reason == "still at work when it ended: slow"
    assert [facts for event, facts in told if event == "lanes_left"] == [{"run": "trip", "lanes": ["slow"]}]
    late = await joined.context().run(asyncio.ensure_future, guard.tools["book"].bind("x").acall())
    assert late.reason == "run_ended"
    await joined.__aexit__(None, None, None)


async def test_a_cancelled_wait_for_agents_undoes_the_run(desk):
    guard = desk.open(token_key=KEY)
    waiting = asyncio.Event()

    async def host():
        async with guard.run("trip", wait=60, on_error="compensate") as run:
            await guard.tools["book"].bind("flight").acall()
            await guard.join(run.token(lane="slow")).__aenter__()
            waiting.set()

    task = asyncio.create_task(host())
    await waiting.wait()
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (desk.left, guard.journal.run("", "trip").state) == ([], "compensated")


def test_an_operator_undoes_what_all_did(both, shared_desk):
    host, guest = both
    with host.run("trip") as run:
        host.tools["book"]("flight")
        with guest.join(run.token(lane="a")):
            guest.tools["book"]("hotel")
    ended = sagas.roll_back(guest, sagas.order_for(guest, "trip", tenant="", reason="by hand"))
    assert (str(ended.state), shared_desk.left) == ("compensated", [])


def test_runs_entered_by_a_joined_agent_are_undone_with_the_run(guard, desk):
    with pytest.raises(ValueError, match="x"), guard.run("trip", on_error="compensate") as run:
        with guard.join(run.token(lane="a")), guard.run("side"):
            guard.tools["book"]("boat")
        raise ValueError("x")
    assert desk.left == []
    assert guard.journal.run("", "side").state == "compensated"


def test_calls_made_inside_of_a_joined_agents_call_are_its_lanes(guard, desk):
    @guard.tool(effect="write", waiver="what it calls is undone")
    def tour(what: str) -> str:
        return guard.tools["book"](what)

    with pytest.raises(ValueError, match="x"), guard.run("trip", on_error="compensate") as run:
        with guard.join(run.token(lane="a", tools=[tour])):
            tour("hotel")
        raise ValueError("x")
    assert desk.left == []
    assert [call.lane for call in calls(guard)] == ["a"]


# --- sending it, and keeping it secret ---


def test_a_header_hands_it_on(guard):
    with guard.run("trip") as run:
        token = run.token(lane="a")
    headers = tokens.to_headers(token)
    assert list(headers) == ["Settled-Run"]
    assert headers["Settled-Run"].isascii()
    again = tokens.from_headers({"host": "x", "settled-run": f" {headers['Settled-Run']} "})
    assert again.reveal() == token.reveal()


def test_mcp_meta_hands_it_on(guard):
    with guard.run("trip") as run:
        token = run.token(lane="a")
    meta = tokens.to_meta(token)
    assert list(meta) == ["settled/run"]
    assert tokens.from_meta({"progressToken": 1} | meta).reveal() == token.reveal()
    assert tokens.from_meta(type("Meta", (), {"model_extra": meta})()).reveal() == token.reveal()


@pytest.mark.parametrize("take", [tokens.from_headers, tokens.from_meta])
@pytest.mark.parametrize("given", [{}, {"baggage": "settled/run=x"}, {"Settled-Run": 5, "settled/run": 5}])
def test_what_is_no_token_is_refused(take, given):
    with pytest.raises(settled.TokenRefused, match="no run is joined"):
        take(given)


def test_two_headers_are_refused():
    with pytest.raises(settled.TokenRefused, match="more than one"):
        tokens.from_headers({"Settled-Run": "a", "settled-run": "b"})
    with pytest.raises(settled.TokenRefused):
        tokens.from_meta(None)


@pytest.mark.case("CASE-068-secrets-in-errors")
def test_the_token_appears_nowhere(guard, desk, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ValueError, match="failed with"), guard.run("trip") as run:
        token = run.token(lane="a")
        text = token.reveal()

        @guard.tool(effect="write", waiver="x")
        def call_agent(what: str) -> str:
            raise ConnectionError(f"POST /agent with Settled-Run: {text} and {tokens.to_headers(token)} was reset")

        @guard.tool(effect="write", waiver="x")
        def pass_on(leave: object) -> str:
            return "passed on"

        with guard.join(token):
            said = [call_agent.call("x"), pass_on.call(token)]
        with pytest.raises(settled.TokenRefused) as refused:
            guard.join(text[:-2] + "AA")
        raise ValueError(f"failed with {text}")
    assert said[1].status == "invalid"
    shown = [repr(token), str(token), repr(said), str(said[0].message), str(refused.value), repr(refused.value)]
    shown += [repr(guard.journal.runs()), repr(run), caplog.text, repr(said[1].fields)]
    for call in guard.journal.find(CallQuery(limit=100)):
        shown += [repr(call), repr(guard.journal.log(call.operation_id))]
    mac = text.rpartition(".")[2]
    assert [each for each in shown if mac in each or mac[:20] in each] == []
    with pytest.raises(TypeError):
        pickle.dumps(token)


class Lost(TimeoutError):
    """The answer is lost, and nothing was done."""

    after = False


def test_nothing_of_a_joined_run_is_left_open(guard):
    with guard.run("trip") as run, guard.join(run.token(lane="a")):
        guard.tools["book"]("hotel")
    assert guard.journal.find(CallQuery(states=[State.PROCESSING, State.UNKNOWN])) == []


def test_an_agent_that_joins_again_is_not_answered_by_its_hosts_call(guard, desk):
    with guard.run("trip") as run:
        guard.tools["book"]("flight")
        token = run.token(lane="a")
        with guard.join(token):
            guard.tools["note"]("x")
        with guard.join(token):
            assert guard.tools["book"].call("flight").replayed is False
    assert desk.books == [("book", "flight"), ("note", "x"), ("book", "flight")]

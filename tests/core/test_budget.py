"""What repeats may cost."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from settled.core.attempts.budget import RETRY, Pool, Pools, RetryBudget, RunBudget, TokenWindow
from settled.core.attempts.retry import THROTTLED_COST
from tests.core.raised import raised

TOOLS = ("pay", "search", "mail", "book")
tools = st.sampled_from(TOOLS)
counts = st.integers(0, 30)
budgets = st.builds(
    RetryBudget,
    total=counts,
    per_tool=st.none() | st.dictionaries(tools, st.integers(0, 10)),
    floor=st.none() | st.floats(0, 1),
)


def spend_all(budget, tool):
    """Spend until refused; the number granted and the refusal."""
    granted = 0
    while (refusal := budget.try_spend(tool)) is None:
        granted += 1
    return granted, refusal


# ---- the pool of a process


def test_ten_first_attempts_pay_for_exactly_one_repeat():
    pool = Pool()
    for _ in range(10):
        pool.debit(RETRY)
    assert pool.level == 0
    for _ in range(9):
        pool.first_attempt()
    assert not pool.grants(RETRY)
    pool.first_attempt()
    assert pool.grants(RETRY)
    pool.debit(RETRY)
    assert pool.level == 0


def test_a_throttled_repeat_costs_a_third():
    pool = Pool()
    spent = 0
    while pool.grants(THROTTLED_COST):
        pool.debit(THROTTLED_COST)
        spent += 1
    assert spent == 28


def test_a_pool_never_holds_more_than_its_capacity():
    pool = Pool(capacity=2, deposit=0.5)
    pool.first_attempt()
    assert pool.level == 2
    pool.debit(1)
    pool.refund(5)
    assert pool.level == 2


def test_a_pool_gives_nothing_that_is_not_there():
    pool = Pool(capacity=1)
    pool.debit(0.5)
    with pytest.raises(ValueError, match=r"holds 0\.5"):
        pool.debit(0.501)
    assert pool.level == 0.5


def test_the_smallest_pool_is_of_a_thousandth():
    pool = Pool(capacity=0.001, deposit=0.001)
    pool.debit(0.001)
    pool.first_attempt()
    assert pool.level == 0.001


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, 0.0001])
def test_a_pool_of_nothing_is_refused(value):
    with pytest.raises(ValueError, match=r"^capacity "):
        Pool(capacity=value)
    with pytest.raises(ValueError, match=r"^deposit "):
        Pool(deposit=value)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_an_outage_is_amplified_by_a_tenth_per_layer(layers):
    """Every attempt fails, each layer makes up to three of each that it is asked for: without pools 3**layers."""
    stacks = [Pools(process=Pool()) for _ in range(layers)]
    attempts = 0

    def ask(layer):
        nonlocal attempts
        if layer == layers:
            attempts += 1
            return
        stacks[layer].first_attempt()
        ask(layer + 1)
        for _ in range(2):
            if stacks[layer].try_spend("search") is not None:
                return
            ask(layer + 1)

    firsts = 3000
    for _ in range(firsts):
        ask(0)
    assert 1.08**layers < attempts / firsts < 1.1**layers + 0.02


# ---- a run's budget


@pytest.mark.parametrize("value", [-1, 1.5, True, None, "3"])
def test_a_run_counts_whole_repeats(value):
    with pytest.raises(ValueError, match=r"^total "):
        RetryBudget(total=value)
    with pytest.raises(ValueError, match="pay"):
        RetryBudget(total=3, per_tool={"pay": value})
    with pytest.raises(ValueError, match="pay"):
        RunBudget(RetryBudget(total=3), {"pay": value})


@pytest.mark.parametrize("floor", [-0.1, 1.1, math.nan])
def test_a_floor_is_a_share(floor):
    with pytest.raises(ValueError, match="floor"):
        RetryBudget(total=3, floor=floor)


def test_a_budget_keeps_its_own_copy_of_the_limits():
    limits = {"pay": 1}
    budget = RetryBudget(total=9, per_tool=limits)
    limits["pay"] = 9
    assert budget.limit("pay") == 1
    assert budget == RetryBudget(total=9, per_tool={"pay": 1})
    assert len({budget, RetryBudget(total=9, per_tool={"pay": 1})}) == 1


def test_a_tool_alone_may_spend_the_whole_total():
    assert spend_all(RunBudget(RetryBudget(total=20)), "search") == (20, "retry_budget:run")


def test_a_tools_own_limit_is_named():
    budget = RunBudget(RetryBudget(total=20, per_tool={"pay": 5}))
    assert spend_all(budget, "pay") == (5, "retry_budget:run:pay")
    assert spend_all(budget, "search") == (15, "retry_budget:run")
    assert budget.spent == {"pay": 5, "search": 15}
    assert budget.left == 0


def test_one_tools_spending_never_starves_another():
    budget = RunBudget(RetryBudget(total=20), tools=("search", "pay", "mail"))
    assert budget.floor("pay") == 3  # ten held, three tools
    assert spend_all(budget, "search") == (14, "retry_budget:run")
    assert spend_all(budget, "pay") == (3, "retry_budget:run")
    assert spend_all(budget, "mail") == (3, "retry_budget:run")


def test_with_more_tools_than_are_held_for_each_keeps_one_while_the_held_lasts():
    budget = RunBudget(RetryBudget(total=20), tools=[f"tool{i}" for i in range(50)])
    assert spend_all(budget, "tool0") == (10, "retry_budget:run")
    assert [spend_all(budget, f"tool{i}")[0] for i in range(1, 12)] == [1] * 10 + [0]


def test_only_tools_that_may_repeat_share_what_is_held():
    budget = RunBudget(RetryBudget(total=20, per_tool={"pay": 0, "mail": 1}), tools=("search",))
    assert [budget.floor(tool) for tool in ("pay", "mail", "search")] == [0, 1, 5]
    assert spend_all(budget, "search") == (19, "retry_budget:run")
    assert spend_all(budget, "mail") == (1, "retry_budget:run:mail")


def test_a_tool_with_a_small_limit_leaves_its_share_to_others():
    budget = RunBudget(RetryBudget(total=20, per_tool={"pay": 2}), tools=("search", "mail"))
    assert spend_all(budget, "search") == (15, "retry_budget:run")  # 3 held for mail, 2 for pay
    assert spend_all(budget, "pay") == (2, "retry_budget:run:pay")
    assert spend_all(budget, "mail") == (3, "retry_budget:run")


def test_nothing_is_held_for_a_tool_that_may_not_repeat():
    budget = RunBudget(RetryBudget(total=10, per_tool={"pay": 0}))
    assert budget.floor("pay") == 0
    assert spend_all(budget, "search") == (10, "retry_budget:run")
    assert budget.try_spend("pay") == "retry_budget:run:pay"


def test_without_floors_first_come_is_first_served():
    budget = RunBudget(RetryBudget(total=4, floor=0), tools=TOOLS)
    assert spend_all(budget, "search") == (4, "retry_budget:run")
    assert budget.try_spend("pay") == "retry_budget:run"


def test_a_tool_met_later_has_a_floor_from_then_on():
    budget = RunBudget(RetryBudget(total=12), tools=("search",))
    assert [budget.try_spend("search") for _ in range(8)] == [None] * 8
    budget.meet("pay")
    assert spend_all(budget, "search") == (1, "retry_budget:run")
    assert spend_all(budget, "pay") == (3, "retry_budget:run")


def test_several_repeats_at_once_are_granted_whole_or_not():
    budget = RunBudget(RetryBudget(total=5))
    assert budget.try_spend("pay", 3) is None
    assert budget.try_spend("pay", 3) == "retry_budget:run"
    assert budget.try_spend("pay", 2) is None
    with pytest.raises(ValueError, match=r"^cost "):
        budget.try_spend("pay", -1)


def test_what_was_spent_is_restored_from_the_record():
    declared = RetryBudget(total=6, per_tool={"pay": 2})
    before = RunBudget(declared, tools=TOOLS)
    for tool in ("pay", "search", "pay"):
        before.try_spend(tool)
    after = RunBudget(declared, before.spent, tools=TOOLS)
    assert after.spent == {"pay": 2, "search": 1}
    assert [after.refusal(tool) for tool in TOOLS] == [before.refusal(tool) for tool in TOOLS]
    assert after.refusal("pay") == "retry_budget:run:pay"


def test_a_budget_made_smaller_after_the_fact_grants_nothing_more():
    budget = RunBudget(RetryBudget(total=2), {"pay": 5})
    assert budget.left == 0
    assert budget.try_spend("search") == "retry_budget:run"


def test_the_record_is_a_copy():
    budget = RunBudget(RetryBudget(total=2))
    budget.spent["pay"] = 2
    assert budget.left == 2


def test_only_what_was_spent_is_given_back():
    budget = RunBudget(RetryBudget(total=2))
    budget.try_spend("pay")
    budget.refund("pay")
    assert budget.left == 2
    for tool in ("pay", "mail"):
        with pytest.raises(ValueError, match=tool):
            budget.refund(tool)


@given(budgets, st.permutations(TOOLS), st.lists(tools, max_size=80))
def test_every_tool_known_from_the_start_gets_its_floor(declared, order, greed):
    budget = RunBudget(declared, tools=TOOLS)
    floors = {tool: budget.floor(tool) for tool in TOOLS}
    for tool in greed:
        budget.try_spend(tool)
    if sum(floors.values()) <= declared.held:
        for tool in order:
            spend_all(budget, tool)
        assert all(budget.spent.get(tool, 0) >= floors[tool] for tool in TOOLS)


@given(budgets, st.lists(st.tuples(tools, st.integers(0, 3)), max_size=40))
def test_spending_stays_within_total_and_limits_and_is_what_was_granted(declared, asks):
    budget = RunBudget(declared)
    granted = dict.fromkeys(TOOLS, 0)
    for tool, cost in asks:
        if budget.try_spend(tool, cost) is None:
            granted[tool] += cost
        assert {tool: budget.spent.get(tool, 0) for tool in TOOLS} == granted
        assert sum(granted.values()) + budget.left == declared.total
        assert all(granted[tool] <= declared.limit(tool) for tool in TOOLS)


@given(budgets)
def test_together_the_tools_can_spend_all_that_limits_allow(declared):
    budget = RunBudget(declared, tools=TOOLS)
    for tool in TOOLS * 2:  # twice: the floors of the others are free once they are used
        spend_all(budget, tool)
    allowed = min(declared.total, sum(declared.limit(tool) for tool in TOOLS))
    assert sum(budget.spent.values()) == allowed


# ---- the window of tokens


def test_a_repeat_that_would_overrun_the_window_is_not_granted():
    window = TokenWindow(1000)
    window.use(700)
    assert not window.grants(301)
    assert window.grants(300)
    assert window.used == 700


def test_a_first_call_counts_even_beyond_the_window():
    window = TokenWindow(100, used=90)
    window.use(50)
    assert window.used == 140
    assert not window.grants(1)
    assert window.grants(0)  # a tool's own repeat sends no tokens


def test_tokens_that_were_not_sent_are_given_back():
    window = TokenWindow(100)
    window.use(60)
    window.refund(60)
    assert window.used == 0
    with pytest.raises(ValueError, match="only 0 used"):
        window.refund(1)
    with pytest.raises(ValueError, match=r"^tokens "):
        window.refund(-1)


@pytest.mark.parametrize("value", [-1, 0.5, True])
def test_tokens_are_counts(value):
    with pytest.raises(ValueError, match=r"^limit "):
        TokenWindow(value)
    with pytest.raises(ValueError, match=r"^used "):
        TokenWindow(1, used=value)
    with pytest.raises(ValueError, match=r"^tokens "):
        TokenWindow(1).use(value)


# ---- both pools of a process together


def make(session=9, process=9.0):
    return Pools(
        session=RunBudget(RetryBudget(total=session, per_tool={"book": 1}), scope="session"),
        process=Pool(capacity=process),
    )


def held_by(pools):
    return pools.session.spent, pools.process.level


def test_both_are_debited_together():
    pools = make()
    assert pools.try_spend("pay") is None
    assert held_by(pools) == ({"pay": 1}, 8.0)


def test_a_session_counts_a_throttled_repeat_whole():
    pools = make()
    assert pools.try_spend("pay", THROTTLED_COST) is None
    assert held_by(pools) == ({"pay": 1}, 8.65)


@pytest.mark.parametrize(
    ("short", "name"), [({"session": 0}, "retry_budget:session"), ({"process": 0.9}, "retry_budget:process")]
)
def test_one_refusal_debits_nothing_and_is_named(short, name):
    pools = make(**short)
    before = held_by(pools)
    assert pools.try_spend("pay") == name
    assert held_by(pools) == before


def test_a_tools_own_limit_is_named_with_its_scope():
    pools = make()
    assert pools.try_spend("book") is None
    before = held_by(pools)
    assert pools.try_spend("book") == "retry_budget:session:book"
    assert held_by(pools) == before


def test_a_refund_undoes_a_debit():
    pools = make()
    before = pools.process.level
    pools.try_spend("pay", THROTTLED_COST)
    pools.refund("pay", THROTTLED_COST)
    assert (pools.session.left, pools.process.level) == (9, before)


def test_nothing_can_be_given_back_by_who_spent_nothing():
    budget = RunBudget(RetryBudget(total=3))
    budget.refund("mail", 0)
    assert budget.left == 3


def test_no_pools_bound_nothing():
    pools = Pools()
    pools.first_attempt()
    assert pools.try_spend("pay") is None
    pools.refund("pay")


@pytest.mark.parametrize("cost", [0, -1.0, math.inf, math.nan])
def test_a_repeat_has_a_cost(cost):
    with pytest.raises(ValueError, match=r"^cost "):
        Pools().try_spend("pay", cost)


class Conservation(RuleBasedStateMachine):
    """What is debited equals what was granted less what was given back, in every pool; nothing is ever negative."""

    @initialize(session=budgets, capacity=st.integers(1, 12))
    def open(self, session, capacity):
        self.pools = Pools(
            session=RunBudget(session, tools=TOOLS, scope="session"),
            process=Pool(capacity=capacity),
        )
        self.granted = []
        self.income = capacity * 1000

    @rule(tool=tools, cost=st.sampled_from([RETRY, THROTTLED_COST]))
    def spend(self, tool, cost):
        before = held_by(self.pools)
        refusal = self.pools.try_spend(tool, cost)
        if refusal is None:
            self.granted.append((tool, cost))
        else:
            assert held_by(self.pools) == before

    @rule()
    def first_attempt(self):
        before = self.pools.process.level
        self.pools.first_attempt()
        self.income += round((self.pools.process.level - before) * 1000)

    @rule(data=st.data())
    def refund(self, data):
        if self.granted:
            spent = self.granted.pop(data.draw(st.integers(0, len(self.granted) - 1)))
            before = self.pools.process.level
            self.pools.refund(*spent)
            self.income -= round(spent[1] * 1000) - round((self.pools.process.level - before) * 1000)

    @rule()
    def restart(self):
        session = self.pools.session
        restored = RunBudget(session.budget, session.spent, tools=TOOLS, scope="session")
        assert [restored.refusal(tool) for tool in TOOLS] == [session.refusal(tool) for tool in TOOLS]

    @invariant()
    def nothing_is_lost_or_made(self):
        if not hasattr(self, "pools"):
            return
        spent = sum(round(cost * 1000) for _, cost in self.granted)
        assert round(self.pools.process.level * 1000) == self.income - spent >= 0
        session = self.pools.session
        assert sum(session.spent.values()) == len(self.granted) <= session.budget.total
        assert min(session.spent.values(), default=0) >= 0


TestConservation = Conservation.TestCase
TestConservation.settings = settings(max_examples=50, deadline=None)


# ---- what is taken


def test_every_count_from_0_on_is_taken():
    budgets = [{"total": 0}, {"total": 1, "per_tool": {"pay": 0}}, *({"total": 2, "floor": f} for f in (0, 0.5, 1))]
    assert [numbers for numbers in budgets if raised(RetryBudget, **numbers)] == []
    run = RunBudget(RetryBudget(total=3))
    assert [spent for spent in ({}, {"pay": 0}, {"pay": 9}) if raised(RunBudget, run.budget, spent)] == []
    assert [cost for cost in (0, 1) if raised(run.try_spend, "pay", cost)] == []
    assert [cost for cost in (0, 1) if raised(run.refund, "pay", cost)] == []
    assert raised(run.refund, "mail") == "ValueError"
    assert raised(run.try_spend, "pay") is None
    assert (raised(run.refund, "pay"), raised(run.refund, "pay")) == (None, "ValueError")
    window = TokenWindow(0)
    assert [count for count in (0, 5) if raised(window.use, count)] == []
    assert [count for count in (0, 5) if raised(window.refund, count)] == []
    assert [numbers for numbers in ((0.001, 0.001), (1, 0.1)) if raised(Pool, *numbers)] == []
    pool = Pool(0.001, 0.001)
    assert raised(pool.debit, 0.001) is None
    assert raised(pool.debit, 0.001) == "ValueError"


def test_a_budget_in_which_nothing_may_be_spent_has_no_floors():
    nothing = [RetryBudget(total=0), RetryBudget(total=4, per_tool={"pay": 0}), RetryBudget(total=4, floor=0)]
    assert [budget for budget in nothing if raised(RunBudget(budget).floor, "pay")] == []
    assert RunBudget(RetryBudget(total=0)).floor("pay") == 0
    assert RunBudget(RetryBudget(total=4, per_tool={"pay": 0})).floor("pay") == 0
    assert RunBudget(RetryBudget(total=4, floor=0)).floor("pay") == 0

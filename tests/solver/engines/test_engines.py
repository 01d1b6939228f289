"""CP-SAT and GLOP on small forms whose answers are known."""

import random
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver import solve, verify
from solver.domain import Policy
from solver.engines import cpsat, linear
from solver.engines.cpsat import Effort, EngineError, EngineResult, EngineStatus
from solver.engines.linear import LinearProgram
from solver.model.form import Expression, IntegerForm
from tests.support import builders as b
from tests.support import solver_problems as s

EFFORT = Effort(seconds=30.0, deterministic_seconds=10.0, seed=1, workers=1, presolve=True)


def knapsack(weights: Sequence[int] = (3, 4, 5), limit: int = 7) -> tuple[IntegerForm, Expression]:
    """Take or leave: as much weight as a limit allows."""
    form = IntegerForm()
    variables = [form.variable(0, 1) for _ in weights]
    weight = dict(zip(variables, weights, strict=True))
    form.require(Expression(dict(weight)), "limit", high=limit)
    return form, Expression(weight)


def maximize(
    form: IntegerForm,
    objective: Expression | None,
    effort: Effort = EFFORT,
    *,
    hint: list[int] | None = None,
    cutoff: int | None = None,
) -> EngineResult:
    return cpsat.maximize(form, objective, effort, hint=hint, cutoff=cutoff)


@pytest.mark.parametrize("presolve", [True, False], ids=["presolve", "no presolve"])
def test_the_optimum_is_found_and_proven(*, presolve: bool) -> None:
    form, objective = knapsack()
    effort = Effort(seconds=30.0, deterministic_seconds=10.0, seed=1, workers=1, presolve=presolve)
    result = maximize(form, objective, effort)
    assert (result.status, result.values, result.bound) == (EngineStatus.OPTIMAL, [1, 1, 0], 7)


def test_a_constant_counts_in_the_bound() -> None:
    form, objective = knapsack()
    objective.offset = 100
    assert maximize(form, objective).bound == 107


def test_a_contradiction_is_infeasible() -> None:
    form, objective = knapsack()
    form.require(Expression({0: 1, 1: 1, 2: 1}), "all", low=3)
    result = maximize(form, objective)
    assert (result.status, result.values, result.bound) == (EngineStatus.INFEASIBLE, None, None)


def test_without_objective_any_solution_will_do() -> None:
    form, _ = knapsack()
    form.require(Expression({2: 1}), "the last", low=1)
    result = maximize(form, None)
    assert result.values is not None
    assert form.broken_by(result.values) == ()


def test_a_known_bound_is_kept() -> None:
    form, objective = knapsack()
    result = maximize(form, objective, cutoff=5)
    assert result.values is not None
    assert objective.value(result.values) == 5


def test_a_known_bound_of_an_objective_with_a_constant_is_kept() -> None:
    form, objective = knapsack()
    objective.offset = 100
    result = maximize(form, objective, cutoff=105)
    assert result.values is not None
    assert objective.value(result.values) == 105


def test_a_complete_hint_is_accepted() -> None:
    form, objective = knapsack()
    assert maximize(form, objective, hint=[1, 1, 0]).values == [1, 1, 0]


def test_without_time_nothing_is_claimed() -> None:
    form, objective = knapsack(range(1000, 1060), 30_123)
    none = Effort(seconds=0.0, deterministic_seconds=0.0, seed=1, workers=1, presolve=False)
    assert maximize(form, objective, none).status is not EngineStatus.INFEASIBLE


def test_one_seed_gives_one_answer() -> None:
    form, objective = knapsack(range(20, 60), 333)
    assert maximize(form, objective) == maximize(form, objective)


def test_a_model_that_the_engine_refuses_is_an_error() -> None:
    form = IntegerForm()
    huge = {form.variable(0, 2**61): 2**61}
    with pytest.raises(EngineError, match="CP-SAT refuses the model"):
        maximize(form, Expression(huge))


def test_amounts_near_the_largest_budget_are_exact() -> None:
    form, objective = knapsack((2**45, 1), 2**45)
    assert maximize(form, objective).bound == 2**45


def test_the_relaxation_bounds_from_above() -> None:
    form, objective = knapsack((3, 3, 3), 7)
    assert linear.bound(form, objective, 10.0).value == 7


def test_the_relaxation_is_rounded_down() -> None:
    form = IntegerForm()
    x = form.variable(0, 9)
    form.require(Expression({x: 2}), "half", high=7)
    assert linear.bound(form, Expression({x: 1}), 10.0).value == 3


def test_the_relaxation_counts_the_constant() -> None:
    form, objective = knapsack()
    objective.offset = -10
    assert linear.bound(form, objective, 10.0).value == -3


def test_a_constant_is_its_own_bound_without_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "engine", lambda: pytest.fail("asked"))
    assert linear.bound(IntegerForm(), Expression(offset=3), 1.0) == linear.LinearBound(3)


def test_the_relaxation_of_a_contradiction_is_infeasible() -> None:
    form = IntegerForm()
    x = form.variable(0, 1)
    form.require(Expression({x: 1}), "too much", low=2)
    found = linear.bound(form, Expression({x: 1}), 10.0)
    assert (found.value, found.is_infeasible) == (None, True)


def test_the_relaxation_of_nothing_is_nothing() -> None:
    assert linear.bound(IntegerForm(), Expression(), 10.0).value == 0


def test_a_search_that_ended_before_it_found_anything_proves_nothing() -> None:
    form, objective = IntegerForm(), Expression()
    variables = [form.variable(0, 1) for _ in range(60)]
    chance = random.Random(0)  # noqa: S311 - a hard case, not a secret
    for _ in range(6):  # market splits: hard for every engine
        weights = {each: chance.randrange(1, 1000) for each in variables}
        half = sum(weights.values()) // 2
        form.require(Expression(weights), "split", low=half, high=half)
    for each in variables:
        objective.add(each)
    hardly = Effort(seconds=30.0, deterministic_seconds=0.0001, seed=1, workers=1, presolve=False)
    result = maximize(form, objective, hardly)
    assert (result.status, result.values, result.bound) == (EngineStatus.UNKNOWN, None, None)


def test_a_form_is_asked_again_for_another_objective_and_other_limits() -> None:
    form, objective = knapsack()
    questions = cpsat.ReusableModel(form)
    plain = maximize(form, objective)
    limited = questions.maximize(objective, EFFORT, upper={0: 0, 1: 0, 2: 9})
    assert limited.values is not None
    assert (limited.values[0], limited.values[1]) == (0, 0)
    assert questions.maximize(objective, EFFORT, upper={}).bound == plain.bound
    assert questions.maximize(Expression({0: -1}), EFFORT, upper={}).bound == 0


def test_a_programme_grows_by_columns_and_prices_its_rows() -> None:
    programme = LinearProgram()
    rows = [programme.row(high=4), programme.row(low=1)]
    programme.column({rows[0]: 2, rows[1]: 1}, worth=3)
    first = programme.solve(10.0)
    assert first is not None
    assert (first.value, first.used, first.duals) == (6.0, (2.0,), (1.5, 0.0))
    programme.column({rows[0]: 1}, worth=2, most=2)
    second = programme.solve(10.0)
    assert second is not None
    assert (second.value, second.used) == (7.0, (1.0, 2.0))


def test_a_programme_without_a_solution_has_no_optimum() -> None:
    programme = LinearProgram()
    programme.column({programme.row(low=3): 1}, worth=1, most=2)
    assert programme.solve(10.0) is None


def test_numbers_that_a_float_does_not_hold_exactly_prove_nothing() -> None:
    form = IntegerForm()
    x = form.variable(0, 5)
    form.require(Expression({x: 9 * 10**18}), "capacity", low=0, high=9 * 10**18 + 1)
    found = linear.bound(form, Expression({x: 1}), 10.0)
    assert (found.value, found.is_infeasible) == (None, False)


NUMBERS = st.one_of(st.integers(-9, 9), st.sampled_from([2**30 + 1, -(2**31) - 1, 2**44 + 7, -(2**45) - 3]))


@given(
    rows=st.lists(st.tuples(st.lists(NUMBERS, min_size=3, max_size=3), NUMBERS, st.booleans()), max_size=3),
    worth=st.lists(st.integers(-3, 3), min_size=3, max_size=3),
)
def test_rows_of_very_different_numbers_allow_no_less(
    rows: list[tuple[list[int], int, bool]], worth: list[int]
) -> None:
    form = IntegerForm()
    variables = [form.variable(0, 3) for _ in worth]
    for factors, limit, is_most in rows:
        row = Expression(dict(zip(variables, factors, strict=True)))
        form.require(row, "row", high=limit) if is_most else form.require(row, "row", low=limit)
    objective = Expression(dict(zip(variables, worth, strict=True)))
    found = [objective.value(list(each)) for each in product(range(4), repeat=3) if not form.broken_by(list(each))]

    relaxed = linear.bound(form, objective, 10.0)

    assert not found or not relaxed.is_infeasible
    assert not found or relaxed.value is None or relaxed.value >= max(found)


ANY, N0 = b.device_class("any"), b.scope("n0")


def one_share(amount: str) -> list[s.Objects]:
    shared = b.device("d1", is_shareable=True, capacities={"u": amount})
    small = b.resource_slice("e1", b.device("d1", capacities={"u": "6"}), driver="x", at=N0)
    claim = b.claim("c", b.request("r", "any", capacity={"u": "1500m"}))
    return [b.resource_slice("e0", shared, driver="x", at=N0), small, claim]


def every_share(amount: str) -> list[s.Objects]:
    shared = b.device("d1", is_shareable=True, capacities={"m": b.capacity(amount, default="1")})
    plain = b.resource_slice("n0", b.device("g1", capacities={"m": amount}))
    every = b.request("r1", "any", mode="All", capacity={"m": amount})
    slices = plain, b.resource_slice("e", shared, b.device("d2"), driver="x", at=b.scope("n1"))
    return [*slices, b.claim("c", b.request("r0", "any"), every)]


@pytest.mark.parametrize("world", [one_share("1Pi"), one_share("1e20"), every_share("4Gi"), every_share("80Gi")])
def test_a_share_of_one_beside_one_of_very_many_is_no_contradiction(world: list[s.Objects]) -> None:
    """A driver may publish any amount, and a claim may ask for any part of it."""
    snapshot, batch = b.snapshot(b.node("n0"), b.node("n1"), ANY, *world), b.batch(b.pod("p", "c", cpu=1))
    plan = solve(snapshot, batch, Policy(), s.PATIENT)
    assert verify.check(snapshot, batch, plan, Policy()) == ()
    assert len(plan.placements) == 1

"""CP-SAT and GLOP on small forms whose answers are known."""

import random
from collections.abc import Sequence

import pytest

from solver.engines import cpsat, linear
from solver.engines.cpsat import Effort
from solver.engines.programme import Programme
from solver.engines.status import EngineError, EngineResult, EngineStatus
from solver.model.form import Expression, IntegerForm

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
    for _ in range(6):  # market splits: hard for everybody
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
    questions = cpsat.Questions(form)
    plain = maximize(form, objective)
    limited = questions.maximize(objective, EFFORT, upper={0: 0, 1: 0, 2: 9})
    assert limited.values is not None
    assert (limited.values[0], limited.values[1]) == (0, 0)
    assert questions.maximize(objective, EFFORT, upper={}).bound == plain.bound
    assert questions.maximize(Expression({0: -1}), EFFORT, upper={}).bound == 0


def test_a_programme_grows_by_columns_and_prices_its_rows() -> None:
    programme = Programme()
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
    programme = Programme()
    programme.column({programme.row(low=3): 1}, worth=1, most=2)
    assert programme.solve(10.0) is None


def test_numbers_that_a_float_does_not_hold_exactly_prove_nothing() -> None:
    form = IntegerForm()
    x = form.variable(0, 5)
    form.require(Expression({x: 9 * 10**18}), "capacity", low=0, high=9 * 10**18 + 1)
    found = linear.bound(form, Expression({x: 1}), 10.0)
    assert (found.value, found.is_infeasible) == (None, False)

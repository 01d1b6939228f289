"""What holds for every cluster and every batch, on small random ones."""

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver import greedy, solve, solve_greedily
from solver.domain import Batch, Budget, Plan, Policy, Snapshot
from solver.engines import cpsat
from solver.engines.cpsat import Effort
from solver.model import assignment, build, cells
from solver.model.form import Expression
from solver.model.objective import evaluate
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.search import bound, neighbourhoods
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.strategies import DRIVERS, Situation, situations

SMALL = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
EFFORT = Effort(seconds=60.0, deterministic_seconds=4.0, seed=0, workers=1, presolve=True)


def decide(snapshot: Snapshot, batch: Batch) -> Plan:
    return solve(snapshot, batch, Policy(), s.PATIENT)


def problem_of(situation: Situation) -> Problem:
    return prepare(situation.snapshot, situation.batch, Policy(), SolverCache())


def counts(decided: Plan) -> list[tuple[str, int]]:
    return [(level.name, level.value) for level in decided.report.levels if level.name.startswith("placed:")]


def optimum(problem: Problem) -> list[int]:
    """The exact optimum of every level under those before it, from a cold start."""
    form = build.build(problem, cells.single(problem)).form
    found = []
    for index, level in enumerate(form.levels):
        result = cpsat.maximize(form, level.expression, EFFORT)
        assert result.values is not None
        assert result.bound is not None
        found.append(level.expression.value(result.values))
        assert found[-1] == result.bound
        bound.require_at_least(form, index, found[-1])
    return found


@given(situations())
@SMALL
def test_every_pod_ends_once_and_in_batch_order(situation: Situation) -> None:
    decided = decide(*situation)
    placed, waiting = [each.pod for each in decided.placements], [each.pod for each in decided.unplaced]
    order = [pod.id for pod in situation.batch.pods]
    assert (sorted(placed + waiting), placed, waiting) == (
        sorted(order),
        [each for each in order if each in placed],
        [each for each in order if each in waiting],
    )


@given(situations())
@SMALL
def test_every_pod_that_waits_has_a_reason_in_words(situation: Situation) -> None:
    assert all(each.reasons and all(reason.message for reason in each.reasons) for each in decide(*situation).unplaced)


@given(situations(), st.randoms(use_true_random=False))
@SMALL
def test_the_order_of_the_batch_changes_no_count(situation: Situation, source: Random) -> None:
    pods = list(situation.batch.pods)
    source.shuffle(pods)
    assert counts(decide(situation.snapshot, Batch(pods=tuple(pods)))) == counts(decide(*situation))


@given(situations())
@SMALL
def test_one_more_node_full_of_devices_never_places_less(situation: Situation) -> None:
    attributes: dict[str, b.Attribute] = {"model": "A", "resource.example.com/numa": 0}
    devices = [b.device(f"d{index}", attributes=attributes) for index in range(4)]
    more = [b.resource_slice("n9", *devices, driver=driver) for driver in DRIVERS]
    snapshot = situation.snapshot
    grown = replace(
        snapshot,
        nodes=(*snapshot.nodes, b.node("n9", labels={"rack": "a"})),
        slices=tuple(sorted((*snapshot.slices, *more), key=lambda each: each.name)),
    )
    before, after = counts(decide(*situation)), counts(decide(grown, situation.batch))
    assert [value for _, value in after] >= [value for _, value in before]


@given(situations())
@SMALL
def test_a_level_never_exceeds_its_bound(situation: Situation) -> None:
    for decided in (decide(*situation), solve_greedily(*situation, Policy(), s.PATIENT)):
        assert all(level.value <= level.bound for level in decided.report.levels)


@given(situations())
@SMALL
def test_the_plan_is_as_good_as_a_search_from_nothing(situation: Situation) -> None:
    """Scores are searched where that is short, so that their value counts where it says that it is proven."""
    levels = decide(*situation).report.levels
    for level, best in zip(levels, optimum(problem_of(situation)), strict=True):
        assert level.value == best or (level.name == "scores" and not level.proven)
        assert best <= level.bound


@given(situations())
@SMALL
def test_the_relaxation_bounds_the_optimum(situation: Situation) -> None:
    problem = problem_of(situation)
    best = tuple(optimum(problem))
    limits = bound.bounds(problem, best, s.PATIENT).levels
    assert all(limit is None or limit >= value for limit, value in zip(limits, best, strict=True))


@given(situations())
@SMALL
def test_the_model_accepts_every_solution_of_the_greedy(situation: Situation) -> None:
    problem = problem_of(situation)
    variables = build.build(problem, cells.single(problem))
    for solution in greedy.candidates(problem):
        assert variables.form.broken_by(assignment.values_of(variables, solution)) == ()


@given(situations())
@SMALL
def test_the_model_values_a_solution_as_its_choices_do(situation: Situation) -> None:
    problem = problem_of(situation)
    variables = build.build(problem, cells.single(problem))
    for solution in greedy.candidates(problem):
        numbers = assignment.values_of(variables, solution)
        modelled = tuple(level.expression.value(numbers) for level in variables.form.levels)
        assert modelled == evaluate(problem, solution)


@given(situations())
@SMALL
def test_reading_a_solution_back_keeps_its_values(situation: Situation) -> None:
    problem = problem_of(situation)
    variables = build.build(problem, cells.single(problem))
    for solution in greedy.candidates(problem):
        numbers = assignment.values_of(variables, solution)
        again = assignment.solution_of(variables, numbers)
        assert (evaluate(problem, again), variables.form.broken_by(assignment.values_of(variables, again))) == (
            evaluate(problem, solution),
            (),
        )


@given(situations(), st.integers(0, 2**31 - 1))
@SMALL
def test_whatever_the_model_allows_can_be_read_and_written(situation: Situation, seed: int) -> None:
    problem = problem_of(situation)
    variables = build.build(problem, cells.single(problem))
    effort = Effort(seconds=60.0, deterministic_seconds=1.0, seed=seed, workers=1, presolve=False)
    weights = Random(seed)  # noqa: S311 - any point of the model will do
    anything = Expression({index: weights.randint(-2, 3) for index in range(len(variables.form.lower))})
    result = cpsat.maximize(variables.form, anything, effort)
    assert result.values is not None
    solution = assignment.solution_of(variables, result.values)
    again = assignment.values_of(variables, solution)
    assert variables.form.broken_by(again) == ()


@given(situations())
@SMALL
def test_neighbourhoods_give_what_the_model_accepts_and_never_lose(situation: Situation) -> None:
    problem = problem_of(situation)
    variables = build.build(problem, cells.single(problem))
    start = greedy.candidates(problem)[-1]
    limits = bound.bounds(problem, evaluate(problem, start), s.PATIENT)
    found = neighbourhoods.improve(problem, start, limits, Budget(seconds=60.0, deterministic_seconds=0.05)).solution
    assert variables.form.broken_by(assignment.values_of(variables, found)) == ()
    assert evaluate(problem, found) >= evaluate(problem, start)

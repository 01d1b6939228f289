"""What a plan leaves of devices, counted on its nodes alone, is what counting all nodes gives."""

from hypothesis import HealthCheck, given, settings

from solver import extract, greedy
from solver.domain import Policy
from solver.model.objective import best_of
from solver.problem.devices.states import StateCounter
from solver.problem.prepare import prepare
from solver.problem.solver_cache import SolverCache
from tests.support.strategies import ALL_FEATURES, Situation, situations

PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], max_examples=100)


@PROPERTY
@given(situation=situations(ALL_FEATURES))
def test_what_a_plan_leaves_is_what_counting_all_devices_gives(situation: Situation) -> None:
    problem = prepare(situation.snapshot, situation.batch, Policy(), SolverCache())
    solution = best_of(problem, greedy.candidates(problem))
    left = extract.after(problem, solution, extract.extract(problem, solution)).available

    every = StateCounter.of(problem.layout, problem.inventory, left.ledger).count(problem.inventory, left.ledger)
    assert left.states == every.local
    assert left.wide_state == every.wide
    assert left.is_unused.tolist() == every.is_unused.tolist()
    numbered = [left.kinds[number] for number in left.kind_of]
    assert numbered == [every.kinds[number] for number in every.kind_of]

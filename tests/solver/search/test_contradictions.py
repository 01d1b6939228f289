"""A stage that contradicts what is known raises; where the budget says so its result is dropped and reported."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from e2e.bench.workloads import workloads
from solver import SolverCache, solve, solve_greedily
from solver.domain import Batch, Budget, Plan, Policy, SearchParams, SearchStage, SearchStatus
from solver.engines import cpsat, linear
from solver.engines.cpsat import Effort, EngineResult, EngineStatus
from solver.greedy import candidates
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.search import column_generation, exact, exhaustive, neighbourhoods, restricted_problem
from solver.search.bound import BoundedSolution, Bounds, ContradictionError, SearchError, proves
from solver.solution import Solution
from solver.verify import check
from tests.support import builders as b
from tests.support.solver_problems import PATIENT

PODS = [b.pod(f"p{number}", f"c{number}", cpu=1) for number in range(4)]
OBJECTS: list[b.SnapshotObject] = [
    *(b.node(f"n{number}", cpu=2) for number in range(3)),
    *(b.gpu_slice(f"n{number}", count=2) for number in range(3)),
    b.gpu_class(),
    *(b.claim(f"c{number}") for number in range(4)),
]
SNAPSHOT, BATCH = b.snapshot(*OBJECTS), b.batch(*PODS)


def decided(budget: Budget = PATIENT) -> Plan:
    return solve(SNAPSHOT, BATCH, Policy(), budget)


def too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the relaxation say that no solution is as good as the one that is known."""
    found = linear.bound

    def lowered(*args: Any) -> linear.LinearBound:
        each = found(*args)
        return each if each.value is None else linear.LinearBound(each.value - 10)

    monkeypatch.setattr(linear, "bound", lowered)


def without_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the relaxation say nothing, and the exact search that there is no solution."""
    monkeypatch.setattr(linear, "bound", lambda *_: linear.LinearBound(None))
    monkeypatch.setattr(
        cpsat, "maximize", lambda *_, **__: EngineResult(status=EngineStatus.INFEASIBLE, values=None, bound=None)
    )


def nothing_relaxed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "bound", lambda *_: linear.LinearBound(None, is_infeasible=True))


BROKEN = pytest.mark.parametrize("broken", [too_low, without_solution, nothing_relaxed])


@BROKEN
def test_a_proof_that_cannot_be_is_raised(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)

    with pytest.raises(ContradictionError, match="level"):
        decided()


@BROKEN
def test_in_production_it_is_left_out_and_reported(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    plan = decided(replace(PATIENT, is_forgiving=True, may_defer=True))

    assert plan.report.defects
    assert all(": ContradictionError: " in each for each in plan.report.defects)
    assert plan.report.status is SearchStatus.FEASIBLE
    assert not any(level.proven for level in plan.report.levels if level.value != level.bound)
    assert len(plan.placements) == len(PODS)
    assert check(SNAPSHOT, BATCH, plan) == ()


def test_a_search_that_is_right_reports_no_defect() -> None:
    assert decided(replace(PATIENT, is_forgiving=True)).report.defects == ()


@pytest.mark.parametrize("stage", ["exact", "lns"])
def test_what_other_stages_found_stands_where_one_contradicts_itself(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns place more pods than the greedy and prove nothing; then the last stage says that there is no solution."""
    real = column_generation.improve

    def unproven(problem: Problem, start: Solution, bounds: Bounds, budget: Budget) -> BoundedSolution:
        found = real(problem, start, bounds, budget)
        assert found is not None
        return replace(found, bounds=bounds)

    def contradicting(*_: Any) -> Any:
        raise ContradictionError("level placed:0: wrong")

    monkeypatch.setattr(column_generation, "improve", unproven)
    monkeypatch.setattr(exact if stage == "exact" else neighbourhoods, "improve", contradicting)
    case = workloads()["W8h12"].make(0)
    left_out = frozenset({SearchStage.EXACT} if stage == "lns" else {SearchStage.LNS})
    budget = replace(PATIENT, deterministic_seconds=1.0, is_forgiving=True, params=SearchParams(without=left_out))
    greedily = solve_greedily(case.snapshot, case.batch, Policy(), budget)
    plan = solve(case.snapshot, case.batch, Policy(), budget)
    assert plan.report.defects == (f"{stage}: ContradictionError: level placed:0: wrong",)
    assert len(plan.placements) > len(greedily.placements)
    assert (plan.report.status, any(level.proven for level in plan.report.levels)) == (SearchStatus.FEASIBLE, False)


def test_a_neighbourhood_without_a_solution_contradicts_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = prepare(SNAPSHOT, BATCH, Policy(), SolverCache())
    monkeypatch.setattr(cpsat, "maximize", lambda *_, **__: EngineResult(EngineStatus.INFEASIBLE, None, None))
    with pytest.raises(ContradictionError, match="neighbourhood"):
        restricted_problem.solve(problem, candidates(problem)[0], [0, 1], Effort.within(PATIENT, 1.0, presolve=False))


@pytest.mark.parametrize(("bound", "expected"), [(None, False), (5, True), (6, False)])
def test_a_bound_proves_what_it_equals(bound: int | None, expected: bool) -> None:  # noqa: FBT001 - a table
    assert proves("placed", bound, 5) is expected


def test_a_bound_below_what_is_known_names_the_level_and_both() -> None:
    with pytest.raises(SearchError, match="level placed: a bound of 4 is below the value 5"):
        proves("placed", 4, 5)


def test_one_pod_is_placed_by_greedy_and_search_where_its_ways_cannot_be_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: Any) -> Any:
        raise ValueError("wrong")

    alone = Batch(pods=BATCH.pods[:1])
    whole = solve(SNAPSHOT, alone, Policy(), PATIENT)
    monkeypatch.setattr(exhaustive, "best", failing)
    plan = solve(SNAPSHOT, alone, Policy(), replace(PATIENT, is_forgiving=True))
    assert plan.report.defects == ("exhaustive: ValueError: wrong",)
    assert (plan.report.stages[0], whole.report.stages) == ("greedy", (SearchStage.EXHAUSTIVE,))
    assert [each.pod for each in plan.placements] == [each.pod for each in whole.placements]

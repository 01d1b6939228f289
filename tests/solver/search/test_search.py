"""Bounds of the relaxation, the exact search from a poor start, neighbourhoods, and what each of them claims."""

from collections.abc import Sequence

import pytest

from solver import greedy
from solver.domain import Budget, LevelReport, Pod
from solver.engines import cpsat
from solver.engines.cpsat import Effort, EngineResult, EngineStatus
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.model import assignment, build, cells
from solver.model.form import Expression, IntegerForm
from solver.model.objective import evaluate, level_names
from solver.problem.problem import Problem
from solver.search import bound, exact, neighbourhoods
from solver.search.bound import Bounds
from solver.solution import Solution
from tests.support import builders as b
from tests.support import solver_problems as s

GPU = b.gpu_class()
NONE = Budget(seconds=0.0, deterministic_seconds=0.0)


def packing(counts: Sequence[int], *, nodes: int = 2, cards: int = 4, priorities: Sequence[int] = ()) -> Problem:
    """Pods that want so many cards each, on equal nodes."""
    claims = [b.claim(f"c{index}", b.request(count=count)) for index, count in enumerate(counts)]
    pods: list[Pod] = [
        b.pod(f"p{index}", f"c{index}", priority=priorities[index] if priorities else 0) for index in range(len(counts))
    ]
    machines = [b.node(f"n{index}") for index in range(nodes)]
    slices = [b.gpu_slice(machine.name, count=cards) for machine in machines]
    return s.problem(machines, slices, GPU, claims, pods=pods)


def nothing_known(problem: Problem) -> Bounds:
    return Bounds((None,) * len(level_names(problem)), (0, 0))


def levels(problem: Problem, start: Solution, budget: Budget = s.PATIENT) -> tuple[LevelReport, ...]:
    limits = bound.bounds(problem, evaluate(problem, start), budget)
    return exact.improve(problem, start, limits, budget).levels


def test_the_search_places_what_the_greedy_missed() -> None:
    problem = packing((1, 3, 3, 1))
    assert levels(problem, Solution())[0] == LevelReport(name="placed:0", value=4, bound=4, proven=True)


def test_the_search_proves_all_levels_of_a_small_case() -> None:
    assert all(level.proven for level in levels(packing((1, 3, 3, 1, 2)), Solution()))


def test_the_search_goes_by_priority() -> None:
    problem = packing((1, 1, 1, 1, 4), nodes=1, priorities=(0, 0, 0, 0, 5))
    assert [level.value for level in levels(problem, Solution())][:2] == [1, 0]


def test_without_budget_the_start_stands() -> None:
    problem = packing((1, 3, 3, 1))
    found = exact.improve(problem, Solution(), nothing_known(problem), NONE)
    assert (found.solution.choices, found.deterministic_seconds) == ([], 0.0)


def test_without_budget_nothing_is_proven() -> None:
    problem = packing((1, 3, 3, 1))
    found = exact.improve(problem, Solution(), nothing_known(problem), NONE)
    assert not any(level.proven for level in found.levels)


def test_the_start_is_kept_where_nothing_is_better() -> None:
    problem = packing((4, 4))
    start = Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT).run()
    limits = bound.bounds(problem, evaluate(problem, start), s.PATIENT)
    found = exact.improve(problem, start, limits, s.PATIENT)
    assert evaluate(problem, found.solution) == evaluate(problem, start)


def test_bounds_of_equal_nodes_come_from_one_kind() -> None:
    small, large = (bound.bounds(packing((1,), nodes=nodes), (0,) * 5, s.PATIENT).size for nodes in (2, 60))
    assert small == large


def test_bounds_end_at_the_first_level_that_is_not_met() -> None:
    problem = packing((1, 3, 3, 1))
    found = bound.bounds(problem, (0, 0, 0, 0, 0), s.PATIENT).levels
    assert (found[0], found[1:]) == (4, (None,) * 4)


def test_bounds_go_on_where_a_level_is_met() -> None:
    problem = packing((4, 4))
    start = Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT).run()
    known = evaluate(problem, start)
    assert bound.bounds(problem, known, s.PATIENT).levels == known


def test_a_level_is_proven_by_a_bound_that_it_meets() -> None:
    problem = packing((4, 4))
    found = bound.levels_from_bounds(problem, (2, 0, -2, 0, -808), Bounds((2, 0, -2, 0, -808), (0, 0)))
    assert all(level.proven for level in found)


def test_a_level_after_one_that_is_not_proven_is_not_proven() -> None:
    problem = packing((4, 4))
    found = bound.levels_from_bounds(problem, (1, 0, -1, 0, -404), Bounds((2, 0, -1, 0, -404), (0, 0)))
    assert [level.proven for level in found] == [False] * 5


def test_without_bounds_every_pod_could_be_placed() -> None:
    problem = packing((4, 4, 4), priorities=(0, 3, 3))
    found = bound.levels_from_bounds(problem, (1, 0, 0, 0, 0, 0), nothing_known(problem))
    assert [(level.name, level.bound) for level in found][:2] == [("placed:3", 2), ("placed:0", 1)]


def improved(problem: Problem, start: Solution, budget: Budget = s.PATIENT) -> Solution:
    limits = bound.bounds(problem, evaluate(problem, start), budget)
    return neighbourhoods.improve(problem, start, limits, budget).solution


@pytest.mark.parametrize("counts", [(1, 3, 3, 1), (2, 2, 3, 1), (4, 1, 1, 1, 1)], ids=str)
def test_neighbourhoods_place_what_fits(counts: tuple[int, ...]) -> None:
    problem = packing(counts)
    assert evaluate(problem, improved(problem, Solution()))[0] == len(counts)


def test_neighbourhoods_never_lose() -> None:
    problem = packing((1, 1, 2, 3, 4, 1, 2), nodes=3)
    start = Greedy(problem, FitCache(problem), Order.QUEUE_FIRST_FIT).run()
    budget = Budget(seconds=60.0, deterministic_seconds=0.2)
    assert evaluate(problem, improved(problem, start, budget)) >= evaluate(problem, start)


def test_neighbourhoods_without_budget_leave_things_as_they_are() -> None:
    problem = packing((1, 3, 3, 1))
    start = Solution()
    found = neighbourhoods.improve(problem, start, nothing_known(problem), NONE)
    assert found.solution is start


def test_neighbourhoods_leave_shared_claims_where_they_are() -> None:
    claims = [
        b.claim("shared"),
        *(b.claim(f"c{index}", b.request(count=count)) for index, count in enumerate((1, 3, 3))),
    ]
    pods = [b.pod(name, "shared") for name in "xy"] + [b.pod(f"p{index}", f"c{index}") for index in range(3)]
    nodes = [b.node(name) for name in ("n0", "n1", "n2")]
    problem = s.problem(nodes, [b.gpu_slice(node.name, count=3) for node in nodes], GPU, claims, pods=pods)
    start = Greedy(problem, FitCache(problem), Order.QUEUE_FIRST_FIT).run()
    found = improved(problem, start, Budget(seconds=60.0, deterministic_seconds=0.2))
    assert found.shared == start.shared


def test_the_search_finds_where_two_network_devices_reach() -> None:
    labels: list[dict[str, str]] = [{"x": "y"}, {"x": "y", "z": "y"}, {"x": "y", "z": "y"}, {"z": "y"}]
    nodes = [b.node(f"n{index}", pods=1, labels=each) for index, each in enumerate(labels)]
    selectors = {"x": b.node_selector(x="y"), "z": b.node_selector(z="y")}
    slices = [
        b.resource_slice(name, b.device(name), driver=name, at=b.scope(selector=each))
        for name, each in selectors.items()
    ]
    classes = [b.device_class(name, driver=name) for name in selectors]
    claim = b.claim("c", b.request("r", "x"), b.request("t", "z"))
    problem = s.problem(nodes, slices, classes, claim, pods=[b.pod(name, "c") for name in "pqr"])
    found = exact.improve(problem, Solution(), nothing_known(problem), s.PATIENT)
    assert sorted(choice.node for choice in found.solution.choices) == [1, 2]


def test_what_is_equal_in_one_level_is_not_taken_where_a_later_one_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    claims = [b.claim("c0")]
    machines = [b.node(f"n{index}") for index in range(2)]
    slices = [b.gpu_slice("n0", count=1), b.gpu_slice("n1", count=1, memory="80Gi")]
    problem = s.problem(machines, slices, GPU, claims, pods=[b.pod("p0", "c0")])
    start = max(greedy.candidates(problem), key=lambda each: evaluate(problem, each))
    variables = build.build(problem, cells.single(problem))
    other = Solution([start.choices[0]._replace(node=1 - start.choices[0].node)])
    worse = assignment.values_of(variables, other)
    assert (evaluate(problem, other)[:3], evaluate(problem, other) < evaluate(problem, start)) == (
        evaluate(problem, start)[:3],
        True,
    )
    result = EngineResult(EngineStatus.FEASIBLE, worse, None, 100.0)
    monkeypatch.setattr(cpsat, "maximize", lambda *_, **__: result)
    found = exact.improve(problem, start, nothing_known(problem), s.PATIENT)
    assert evaluate(problem, found.solution) == evaluate(problem, start)


def test_what_the_engine_says_of_levels_behind_an_open_one_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = packing((1, 3, 3, 1))
    start = Solution(Greedy(problem, FitCache(problem), Order.QUEUE_FIRST_FIT).run().choices[:3])

    def one_more(_: IntegerForm, level: Expression, __: Effort, *, hint: list[int], **___: object) -> EngineResult:
        return EngineResult(EngineStatus.FEASIBLE, hint, level.value(hint) + 1, 0.0)

    monkeypatch.setattr(cpsat, "maximize", one_more)
    reports = exact.improve(problem, start, nothing_known(problem), s.PATIENT).levels
    assert (reports[0].value, reports[0].bound) == (3, 4)
    assert [report.bound for report in reports[1:]] == [0] * len(reports[1:])
    assert min(report.value for report in reports) < -1

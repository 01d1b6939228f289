"""Parts that share nothing are solved alone, and what they come to adds up to what solving them together would."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from solver.domain import Budget, LevelReport, Pod, Policy, SearchParams
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.model.objective import evaluate, level_names, objective_levels
from solver.problem.problem import Problem
from solver.search import decompose, exact, neighbourhoods, stages
from solver.search.bound import Bounds
from solver.solution import Solution
from tests.support import builders as b
from tests.support import solver_problems as s

GPU = b.gpu_class()
ZONES = ("a", "b", "c")


def zoned(pods: Sequence[tuple[str, int, int]], *, nodes_per_zone: int = 2, shared: bool = False) -> Problem:
    """Pods (zone or "" for any, cards, priority) on nodes with four cards each, in three zones."""
    claims = [b.claim(f"c{index}", b.request(count=cards)) for index, (_, cards, _) in enumerate(pods)]
    made: list[Pod] = [
        b.pod(
            f"p{index:02}",
            *((f"c{index}", "common") if shared else (f"c{index}",)),
            priority=priority,
            node_selector={"zone": zone} if zone else {},
        )
        for index, (zone, _, priority) in enumerate(pods)
    ]
    machines = [b.node(f"n-{zone}{index}", labels={"zone": zone}) for zone in ZONES for index in range(nodes_per_zone)]
    slices = [b.gpu_slice(machine.name, count=4) for machine in machines]
    extra = [b.claim("common")] if shared else []
    return s.problem(machines, slices, GPU, claims, extra, pods=made)


def first_fit(problem: Problem) -> Solution:
    return Greedy(problem, FitCache(problem), Order.QUEUE_FIRST_FIT).run()


def sizes(problem: Problem) -> list[int]:
    """Pods of each part."""
    return [sum(each.size for each in piece.problem.classes) for piece in decompose.divide(problem, first_fit(problem))]


def test_zones_share_nothing() -> None:
    assert sizes(zoned([("a", 1, 0), ("b", 1, 0), ("a", 2, 0), ("c", 3, 0)])) == [2, 1, 1]


def test_very_many_parts_are_brought_together() -> None:
    made = zoned([("a", 1, 0), ("b", 1, 0), ("a", 2, 0), ("c", 3, 0)])
    assert sizes(s.with_params(made, SearchParams(subproblems=2))) == [3, 1]


def test_a_pod_that_may_go_anywhere_joins_all() -> None:
    assert sizes(zoned([("a", 1, 0), ("b", 1, 0), ("", 1, 0)])) == [3]


def test_pods_that_share_a_claim_are_one_part() -> None:
    assert sizes(zoned([("a", 1, 0), ("b", 1, 0)], shared=True)) == [2]


def test_pods_of_one_group_of_nodes_are_one_part() -> None:
    label = Policy().group_labels[0]
    nodes = [b.node(f"n-{zone}", labels={"zone": zone, label: "clique"}) for zone in "ab"]
    pods = [b.pod(f"p{zone}", f"c{zone}", node_selector={"zone": zone}) for zone in "ab"]
    claims = [b.claim(f"c{zone}") for zone in "ab"]
    problem = s.problem(nodes, [b.gpu_slice(node.name, count=2) for node in nodes], GPU, claims, pods=pods)
    assert sizes(problem) == [2]


def test_pods_that_use_different_devices_of_different_nodes_share_nothing() -> None:
    nodes = [b.node("gpu"), b.node("nic")]
    slices = [b.gpu_slice("gpu", count=2), b.resource_slice("nics", b.device("nic-0"), driver="nic", at=b.scope("nic"))]
    claims = [b.claim("c0"), b.claim("c1", b.request("r", "nic"))]
    pods = [b.pod("p0", "c0"), b.pod("p1", "c1")]
    assert sizes(s.problem(nodes, slices, [GPU, b.device_class("nic", driver="nic")], claims, pods=pods)) == [1, 1]


def test_pods_that_use_the_same_cluster_wide_devices_are_one_part() -> None:
    nodes = [b.node(f"n{zone}", labels={"zone": zone}) for zone in "ab"]
    wide = b.resource_slice("wide", b.device("w0"), b.device("w1"), at=b.scope(all_nodes=True))
    claims = [b.claim("c0"), b.claim("c1")]
    pods = [b.pod("p0", "c0", node_selector={"zone": "a"}), b.pod("p1", "c1", node_selector={"zone": "b"})]
    assert sizes(s.problem(nodes, wide, GPU, claims, pods=pods)) == [2]


def test_a_level_is_proven_where_every_part_proves_it() -> None:
    problem = zoned([("a", 1, 0), ("b", 1, 0), ("b", 1, 0)])
    name, *_ = level_names(problem)
    proven, open_one = (LevelReport(name=name, value=1, bound=limit, proven=limit == 1) for limit in (1, 2))
    assert decompose.summed(problem, [(proven,), (proven,)])[0] == LevelReport(name=name, value=2, bound=2, proven=True)
    assert decompose.summed(problem, [(proven,), (open_one,)])[0] == LevelReport(
        name=name, value=2, bound=3, proven=False
    )


def test_behind_an_open_level_only_the_most_of_all_solutions_is_reported() -> None:
    problem = zoned([("a", 1, 0), ("b", 1, 0)])
    first, second, *_ = objective_levels(problem)
    open_first = LevelReport(name=first.name, value=1, bound=2, proven=False)
    later = LevelReport(name=second.name, value=-5, bound=-5, proven=False)
    rest = [LevelReport(name=each, value=0, bound=0, proven=False) for each in level_names(problem)[2:]]
    reports = decompose.summed(problem, [(open_first, later, *rest)])
    assert (reports[0].bound, reports[1].bound) == (2, second.upper_bound(problem))
    assert not reports[1].proven


def test_what_is_easy_is_proven_though_something_else_is_hard() -> None:
    hard = [("a", 1 + index % 3, 0) for index in range(14)]
    easy = [("b", 1, 5), ("b", 3, 5), ("b", 4, 5)]
    problem = zoned(hard + easy, nodes_per_zone=4)
    start = Solution()
    found = stages.search(problem, start, Budget(seconds=86_400.0, deterministic_seconds=0.01))
    assert found.levels[0].proven
    assert found.levels[0].value == 3


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from((*ZONES, "")), st.integers(1, 4), st.integers(0, 1)), min_size=2, max_size=10)
)
def test_parts_add_up_to_the_optimum_of_the_whole(pods: list[tuple[str, int, int]]) -> None:
    problem = zoned(pods)
    start = first_fit(problem)
    whole = exact.improve(problem, start, Bounds((None,) * len(level_names(problem)), (0, 0)), s.PATIENT)
    found = stages.search(problem, start, s.PATIENT)
    assert evaluate(problem, found.solution) == tuple(level.value for level in found.levels)
    assert found.levels == whole.levels


def test_a_part_is_searched_on_its_own_nodes_alone() -> None:
    problem = zoned([("a", 4, 0), ("a", 4, 0), ("b", 4, 0)], nodes_per_zone=1)
    piece = decompose.divide(problem, Solution())[0]
    limits = Bounds((None,) * len(level_names(problem)), (0, 0))
    found = neighbourhoods.improve(piece.problem, piece.start, limits, s.PATIENT).solution
    assert {problem.inventory.nodes[choice.node].name for choice in found.choices} == {"n-a0"}

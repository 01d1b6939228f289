"""Pods that no node can take delay no other pod."""

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from msgspec.structs import replace

from solver import solve
from solver.domain import Batch, Budget, Constraint, Policy, ResourceSlice, SearchParams, SearchStatus, Snapshot
from solver.engines import cpsat
from solver.problem.prepare import prepare
from solver.problem.solver_cache import SolverCache
from solver.search.impossible_pods import HAS_PLACE, without_impossible
from solver.solution import Solution
from tests.support import bruteforce
from tests.support import builders as b
from tests.support import extended_builders as extended
from tests.support import solver_problems as s
from tests.support.calls import counted
from tests.support.strategies import Feature, Situation, situations

PATIENT = Budget(seconds=86_400.0, deterministic_seconds=2.0)
INDEX = f"{b.GPU_DRIVER}/index"


ROOT = "x.io/root"
NOTHING = Solution([], {})


def crowd(constraints: Sequence[Constraint], requests: Sequence[int]) -> Situation:
    """Twelve pods whose claims have so many requests under constraints, and one that fits."""
    nodes = [b.node(f"n{index}", cpu=100) for index in range(6)]
    claims = [
        b.claim(
            f"c{at}",
            *(b.request(f"r{number}") for number in range(requests[at % len(requests)])),
            constraints=constraints,
        )
        for at in range(12)
    ]
    pods = (b.pod("good", "good"), *(b.pod(f"p{index}", f"c{index}") for index in range(12)))
    cards = [b.device(f"gpu-{at}", attributes={INDEX: at, ROOT: f"root-{at % 3}"}) for at in range(8)]
    slices = [b.resource_slice(node.name, *cards) for node in nodes]
    snapshot = b.snapshot(*nodes, *slices, b.gpu_class(), *claims, b.claim("good"))
    return Situation(snapshot, Batch(pods=pods))


IMPOSSIBLE = {
    "one index": ([b.match(INDEX)], (2, 3, 4)),
    "more roots than there are": ([b.distinct(ROOT)], (4, 5, 8)),
    "the same in pairs": ([b.distinct(ROOT, f"r{i}", f"r{j}") for i, j in combinations(range(4), 2)], (4, 6)),
    "one root that differs": (
        [b.match(ROOT, "r0", "r1", "r2"), b.distinct(ROOT, "r0", "r3"), b.match(ROOT, "r3", "r2")],
        (4, 5),
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_pods_that_no_node_can_take_hold_up_no_search(case: str) -> None:
    plan = solve(*crowd(*IMPOSSIBLE[case]), Policy(), PATIENT)
    assert [each.pod.name for each in plan.placements] == ["good"]
    assert (plan.report.status, plan.report.deterministic_seconds < 0.2) == (SearchStatus.OPTIMAL, True)


def test_a_kind_of_node_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve pods of one spec on six equal nodes are one question; the next decision asks none."""
    forms, cache = counted(monkeypatch, cpsat, "maximize"), SolverCache()
    constraints, _ = IMPOSSIBLE["the same in pairs"]
    situation = crowd(constraints, (4,))
    for _ in range(2):
        solve(*situation, Policy(), PATIENT, cache)
        assert len([form for form in forms if any(row.rule == HAS_PLACE for row in form.rows)]) == 1


def may_have_a_node(*snapshots: Snapshot) -> list[bool]:
    """Whether a pod keeps nodes in each of these clusters, with the answers that are kept from those before."""
    cache, batch = SolverCache(), b.batch(b.pod("p", "c"))
    found = []
    for snapshot in snapshots:
        problem = prepare(snapshot, batch, Policy(), cache)
        found.append(bool(without_impossible(problem, NOTHING, PATIENT).classes[0].verdicts.allowed.any()))
    return found


def test_what_was_impossible_before_a_slice_changed_is_asked_again() -> None:
    """Four requests with different roots, and at first three roots: what is left is the same before and after."""
    constraints = [b.distinct(ROOT, f"r{i}", f"r{j}") for i, j in combinations(range(4), 2)]
    claim = b.claim(
        "c", *(b.request(f"r{number}") for number in range(4)), constraints=[*constraints, b.match(INDEX, "r0")]
    )
    nodes = [b.node(name) for name in ("n0", "n1")]

    def published(last: str) -> ResourceSlice:
        kinds = [("a", 0), ("b", 0), ("c", 0), (last, 1)]
        cards = [b.device(f"gpu-{at}", attributes={ROOT: root, INDEX: index}) for at, (root, index) in enumerate(kinds)]
        return b.resource_slice("n0", *cards)

    other = b.gpu_slice("n1", count=1)
    before = b.snapshot(nodes, published("c"), other, b.gpu_class(), claim)
    after = replace(before, slices=(published("d"), other))
    assert may_have_a_node(before, after) == [False, True]


def test_an_answer_by_some_of_the_options_is_not_kept() -> None:
    """Of thousands of ways those are tried that suit what all nodes have left: another decision tries others."""
    alternatives = [[b.alternative(f"a{place}", count=1) for place in range(8)] for _ in range(5)]
    requests = [b.first_available(f"r{number}", *each) for number, each in enumerate(alternatives)]
    cards = [b.device(f"gpu-{at}", attributes={ROOT: f"root-{min(at, 4)}"}) for at in range(8)]
    claim = b.claim("c", *requests, constraints=[b.distinct(ROOT)])
    used = b.held("used", b.result("r", "gpu-0", "n"), node_name="n")
    devices = (b.resource_slice("n", *cards), b.gpu_class(), used)
    problem = s.problem(b.node("n"), devices, claim, pods=[b.pod("p", "c")])
    without_impossible(problem, NOTHING, PATIENT)
    assert not problem.layout.serving


def test_what_was_impossible_before_a_counter_of_several_nodes_came_free_is_asked_again() -> None:
    """Two devices of each node, and units for two of all four."""
    cards = [
        b.device(f"d{at}", attributes={ROOT: f"r{at}"}, consumes={"set": {"units": 1}}, scope=b.scope(f"n{at // 2}"))
        for at in range(4)
    ]
    pool = b.resource_slice("pool", *cards, at=b.scope(per_device=True), slice_count=2)
    counters = {"set": {"units": 2}}
    units = b.resource_slice("pool", name="units", counter_sets=counters, at=b.scope(all_nodes=True), slice_count=2)
    claim = b.claim("c", b.request(count=2), constraints=[b.distinct(ROOT)])
    used = b.held("used", b.result("r", "d2", "pool"), node_name="n1")
    before = b.snapshot(b.node("n0"), b.node("n1"), pool, units, b.gpu_class(), claim, used)
    after = replace(before, claims=tuple(each for each in before.claims if each.id != used.id))
    assert may_have_a_node(before, after) == [False, True]


SITUATIONS = situations(
    frozenset(Feature) - {Feature.SHARED_CLAIMS, Feature.ALLOCATED_CLAIMS, Feature.BROKEN_CLAIMS}, most_pods=2
)


@given(SITUATIONS)
def test_only_pods_that_fit_nowhere_alone_get_no_node(situation: Situation) -> None:
    snapshot, batch = situation
    problem = prepare(snapshot, batch, Policy(), SolverCache())
    left = without_impossible(problem, NOTHING, PATIENT)
    for before, after in zip(problem.classes, left.classes, strict=True):
        if before.verdicts.allowed.any() and not after.verdicts.allowed.any():
            for position in before.members:
                assert not bruteforce.fits_alone(snapshot, problem.pod(position))


def test_what_the_relaxation_knows_is_no_news() -> None:
    """A second bound would cost each decision of a full cluster as much as the first."""
    claim = b.claim("c", b.request(count=2), constraints=[b.match(ROOT)])
    cards = b.resource_slice("n", *(b.device(f"gpu-{at}", attributes={ROOT: "root"}) for at in range(2)))
    used = b.held("used", b.result("r", "gpu-0", "n"), node_name="n")
    problem = s.problem(b.node("n"), cards, b.gpu_class(), claim, used, pods=[b.pod("p", "c")])
    assert without_impossible(problem, NOTHING, PATIENT) is problem


def test_without_effort_every_pod_keeps_its_nodes() -> None:
    constraints, _ = IMPOSSIBLE["the same in pairs"]
    claim = b.claim("c", *(b.request(f"r{number}") for number in range(4)), constraints=constraints)
    cards = [b.device(f"gpu-{at}", attributes={ROOT: f"root-{at % 3}"}) for at in range(8)]
    snapshot = b.snapshot(b.node("n"), b.resource_slice("n", *cards), b.gpu_class(), claim)
    problem = prepare(snapshot, b.batch(b.pod("p", "c")), Policy(), SolverCache())
    assert not without_impossible(problem, NOTHING, PATIENT).classes[0].verdicts.allowed.any()
    problem.layout.serving.clear()
    lazy = s.with_params(problem, SearchParams(impossible_questions=0))
    assert without_impossible(lazy, NOTHING, PATIENT).classes[0].verdicts.allowed.any()


def test_a_pod_of_two_classes_is_placed_by_the_second_one() -> None:
    """Where a plugin offers the resource it takes no device of the node, elsewhere it does: two classes of one pod."""
    nodes = [b.node("n0"), b.node("n1", extended={extended.RESOURCE: 3})]
    slices = [b.gpu_slice(name, count=1) for name in ("n0", "n1")]
    asking = [extended.pod(f"p{count}", extended.container(gpu=count)) for count in (1, 3)]
    snapshot, batch = b.snapshot(nodes, slices, extended.gpu_class(), b.claim("c")), b.batch(b.pod("p0", "c"), *asking)

    plan = solve(snapshot, batch, Policy(allocates_where_plugins_serve=True), PATIENT)

    assert {each.pod.name: each.node for each in plan.placements} == {"p0": "n1", "p1": "n0", "p3": "n1"}

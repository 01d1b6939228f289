"""What many quotas cost a decision: what is counted grows neither with quotas nor with the pods that they keep back."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from solver import SolverCache, decide, solve
from solver.arrays import Mask
from solver.domain import Batch, Budget, Namespace, Plan, Policy, ReasonCode, SearchStage, Snapshot
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.model import build, cells
from solver.problem.prepare import prepare
from solver.problem.problem import Part, PodClass, Problem
from solver.problem.quotas.quota_counts import QuotaCounts
from solver.problem.quotas.surplus import without_surplus
from tests.support import builders as b
from tests.support.quota_cases import devices, quota

NODES, PODS = 12, 96


def case(teams: int, limit: int, *, pods_in_all: int = PODS, large_every: int = 0) -> tuple[Snapshot, Batch]:
    """Pods of several teams, in turns, each with a quota of its own; some take three devices, the others one."""
    names = [f"t{n:02}" for n in range(teams)]
    pods = [b.pod(f"p{n:03}", f"p{n:03}", namespace=names[n % teams], cpu=1) for n in range(pods_in_all)]
    counts = [3 if large_every and (n // teams) % large_every == 0 else 1 for n in range(pods_in_all)]
    claims = [
        b.claim(pod.id.name, b.request("r", count=count), namespace=pod.id.namespace)
        for pod, count in zip(pods, counts, strict=True)
    ]
    nodes = [each for n in range(NODES) for each in (b.node(f"n{n:02}", cpu=64), b.gpu_slice(f"n{n:02}", count=8))]
    spaces = tuple(Namespace(name=name, labels=(("team", name),)) for name in names)
    snapshot = b.snapshot(*nodes, b.gpu_class(), spaces, claims)
    quotas = tuple(quota(name, devices(limit), team=name) for name in names)
    return replace(snapshot, quotas=quotas), Batch(pods=tuple(pods))


def rated(teams: int, limit: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many nodes are rated for one best fit."""
    snapshot, batch = case(teams, limit)
    problem = prepare(snapshot, batch, Policy(), SolverCache())
    assert len(problem.rules.quotas.limits) == teams
    counts: list[int] = []
    rate = Greedy._rated_at  # noqa: SLF001 - how much is rated shows nowhere else

    def counting(greedy: Greedy, pod_class: PodClass, parts: tuple[Part, ...], nodes: Any, mask: Mask) -> Any:
        counts.append(len(mask))
        return rate(greedy, pod_class, parts, nodes, mask)

    with monkeypatch.context() as patched:
        patched.setattr(Greedy, "_rated_at", counting)
        solution = Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT).run()
    assert len(solution.choices) == teams * limit
    return sum(counts)


def attempts(snapshot: Snapshot, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Plan]:
    """How often a decision tries to place a pod, over all orders of the greedy."""
    tried: list[PodClass] = []
    place = Greedy.place

    def placing(greedy: Greedy, family: tuple[PodClass, ...], within: Mapping[int, Mask]) -> bool:
        tried.append(family[0])
        return place(greedy, family, within)

    with monkeypatch.context() as patched:
        patched.setattr(Greedy, "place", placing)
        plan = solve(snapshot, batch, Policy(), Budget(seconds=60.0, deterministic_seconds=4.0))
    return len(tried), plan


def test_pods_that_a_limit_keeps_back_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    few, plan = attempts(*case(4, 20), monkeypatch)
    many, more = attempts(*case(4, 20, pods_in_all=2 * PODS), monkeypatch)
    assert len(plan.placements) == len(more.placements) == 80
    assert few == many == 2 * 80  # first fit and best fit
    assert {each.reasons[0].code for each in more.unplaced} == {ReasonCode.QUOTA_EXCEEDED}
    assert len(more.unplaced) == 2 * PODS - 80


@pytest.mark.parametrize("limit", [0, 20])
def test_nobody_contends_with_pods_that_their_own_quota_keeps_back(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, batch = case(4, 24)
    first, *others = snapshot.quotas
    prepared: list[Batch] = []

    def preparing(there: Snapshot, pods: Batch, *rest: Any, **more: Any) -> Problem:
        prepared.append(pods)
        return prepare(there, pods, *rest, **more)

    monkeypatch.setattr(decide, "prepare", preparing)
    full = replace(snapshot, quotas=(quota(first.name, devices(limit), team=first.name), *others))
    assert len(solve(full, batch, Policy(), Budget(seconds=60.0)).placements) == 3 * 24 + limit
    assert len(prepared) == 1


def test_pods_of_one_size_are_not_taken_in_the_same_order_again(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, batch = case(4, 40, pods_in_all=100)  # 96 devices are there
    tried, plan = attempts(replace(snapshot, quotas=()), batch, monkeypatch)
    assert len(plan.placements) == 96
    assert tried == 2 * 100


def test_limits_that_bind_none_of_the_pods_left_have_no_rows() -> None:
    problem = prepare(*case(4, 20), Policy(), SolverCache())
    assert len(problem.rules.quotas.of_class) == 4
    left = without_surplus(problem)
    assert [each.size for each in left.classes] == [20] * 4
    assert left.rules.quotas.of_class == {}
    assert not any(row.rule == "quota" for row in build.build(left, cells.merged(left)).form.rows)


@pytest.mark.parametrize("teams", [4, 6])
def test_whole_pods_that_limits_let_through_are_proven_by_the_relaxation(teams: int) -> None:
    snapshot, batch = case(teams, 12, pods_in_all=12 * teams, large_every=3)  # eight of one, and of four of three one
    plan = solve(snapshot, batch, Policy(), Budget(seconds=60.0, deterministic_seconds=4.0))
    assert len(plan.placements) == 9 * teams
    assert plan.report.levels[0].proven
    assert plan.report.stages == ("greedy", SearchStage.LP_BOUND)


@pytest.mark.parametrize("left_out", [1, 2])
def test_pods_that_differ_in_their_quotas_alone_are_rated_together(
    left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = rated(2, PODS // 2 - 8 * left_out, monkeypatch)
    many = rated(16, PODS // 16 - left_out, monkeypatch)
    assert many <= few + 2 * NODES


def test_what_classes_count_is_found_once_for_all_quotas(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[PodClass] = []
    find = QuotaCounts._least_of  # noqa: SLF001 - how often it is found shows nowhere else

    def finding(counts: QuotaCounts, pod_class: PodClass) -> Any:
        found.append(pod_class)
        return find(counts, pod_class)

    monkeypatch.setattr(QuotaCounts, "_least_of", finding)
    for teams in (2, 16):
        snapshot, batch = case(teams, PODS // teams - 1)
        assert len(prepare(snapshot, batch, Policy(), SolverCache()).rules.quotas.of_class) == teams
    assert len(found) == 2

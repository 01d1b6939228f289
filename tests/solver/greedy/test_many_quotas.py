"""What quotas cost the greedy: pods that differ in their quotas alone are rated together."""

from typing import Any

import pytest
from msgspec.structs import replace

from solver import SolverCache
from solver.arrays import Mask
from solver.domain import Batch, Namespace, Policy, Snapshot
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.problem.prepare import prepare
from solver.problem.problem import Part, PodClass
from solver.problem.quotas.quota_counts import QuotaCounts
from tests.support import builders as b
from tests.support.quota_cases import devices, quota

NODES, PODS = 12, 96


def case(teams: int, limit: int) -> tuple[Snapshot, Batch]:
    """Pods of several teams, in turns, each with a quota of its own."""
    names = [f"t{n:02}" for n in range(teams)]
    pods = [b.pod(f"p{n:02}", f"p{n:02}", namespace=names[n % teams], cpu=1) for n in range(PODS)]
    claims = [b.claim(pod.id.name, b.request("r"), namespace=pod.id.namespace) for pod in pods]
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

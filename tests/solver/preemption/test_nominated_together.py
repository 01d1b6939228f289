"""Nominated pods of one priority get their devices in one go, each on its node; one by one where that fails."""

from typing import Any

import pytest
from msgspec.structs import replace

from solver.domain import Batch, Budget, NodeSelector, Policy, Snapshot
from solver.preemption.nominated_room import reserve_for_nominated
from solver.problem.prepare import prepare
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b
from tests.support.preemption_cases import holding, running

NODES = 3


def nominated(count: int) -> Snapshot:
    """Each node has two devices, which two pods leave; as many pods are nominated, two to a node."""
    objects: list[Any] = [b.gpu_class()]
    for n in range(NODES):
        node = f"n{n}"
        objects += [b.node(node, cpu=8), b.gpu_slice(node, count=2)]
        objects += (holding(f"{node}-{k}", node, f"gpu-{k}", consumers=(f"{node}-{k}",)) for k in (0, 1))
        leaving = (running(f"{node}-{k}", node, f"{node}-{k}", priority=-1) for k in (0, 1))
        objects += (replace(each, is_deleting=True) for each in leaving)
    pods = [replace(b.pod(f"p{n}", f"c{n}"), nominated_node_name=f"n{n % NODES}") for n in range(count)]
    objects += (b.claim(f"c{n}") for n in range(count))
    return replace(b.snapshot(*objects), nominated=tuple(pods))


def seen_by_others(snapshot: Snapshot) -> tuple[Snapshot, dict[str, set[str]]]:
    """Return the cluster as another pod sees it, and the devices by node that nominated pods have."""
    batch = Batch(pods=(b.pod("other"),))
    seen = reserve_for_nominated(snapshot, batch, Policy(), SolverCache(), Budget(seconds=60.0))
    given: dict[str, set[str]] = {}
    for claim in seen.claims:
        if claim.allocation is not None and claim.id.name.startswith("c"):
            for result in claim.allocation.results:
                given.setdefault(result.device.pool, set()).add(result.device.device)
    return seen, given


def test_all_of_them_are_placed_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[int] = []

    def counting(*given: Any) -> Any:
        problems.append(len(given[1].pods))
        return prepare(*given)

    monkeypatch.setattr("solver.preemption.nominated_room.prepare", counting)
    seen, given = seen_by_others(nominated(2 * NODES))
    assert problems == [2 * NODES]
    assert given == {f"n{n}": {"gpu-0", "gpu-1"} for n in range(NODES)}
    assert {pod.id.name: pod.node_name for pod in seen.pods if pod.id.name.startswith("p")} == {
        f"p{n}": f"n{n % NODES}" for n in range(2 * NODES)
    }


def test_where_one_does_not_fit_the_others_get_theirs_one_by_one() -> None:
    """Three are nominated to the first node."""
    seen, given = seen_by_others(nominated(2 * NODES + 1))
    assert given == {f"n{n}": {"gpu-0", "gpu-1"} for n in range(NODES)}
    assert len([pod for pod in seen.pods if pod.id.name.startswith("p")]) == 2 * NODES + 1


def test_a_node_affinity_that_matches_nothing_stays_so() -> None:
    snapshot = nominated(2)
    odd = replace(snapshot.nominated[0], required_affinity=NodeSelector(terms=()))
    _, given = seen_by_others(replace(snapshot, nominated=(odd, snapshot.nominated[1])))
    assert given == {"n1": {"gpu-0"}}

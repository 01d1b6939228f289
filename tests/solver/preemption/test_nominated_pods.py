"""A claim that is shared with a pod which waits for others to leave is not allocated before that pod is placed."""

import pytest
from msgspec.structs import replace

from solver.domain import Batch, Budget, Pod, Policy, ReasonCode, Snapshot
from solver.preemption.nominated_room import reserve_for_nominated
from solver.problem.solver_cache import SolverCache
from solver.verify import check
from tests.support import builders as b
from tests.support.preemption_cases import DEVICES, decide, holding, running

FIRST = replace(b.pod("first", "shared"), nominated_node_name="n1")
SECOND = b.pod("second", "shared")


def snapshot() -> Snapshot:
    """Both devices of a node are in use, one by a pod that leaves it for the first of two that share a claim."""
    found = b.snapshot(
        b.node("n1"),
        b.gpu_slice("n1", count=2),
        b.gpu_class(),
        holding("one", "n1", "gpu-0", consumers=("leaving",)),
        holding("two", "n1", "gpu-1", consumers=("stays",)),
        replace(running("leaving", "n1", "one", priority=-1), is_deleting=True),
        running("stays", "n1", "two"),
        b.claim("shared"),
    )
    return replace(found, nominated=(FIRST,))


def joined(snapshot: Snapshot, *pods: Pod) -> Snapshot:
    """A second node with one device, which a pod has or none."""
    there = b.snapshot(b.node("n2"), b.gpu_slice("n2", count=1), holding("three", "n2", "gpu-0", consumers=("low",)))
    return replace(
        snapshot,
        nodes=(*snapshot.nodes, *there.nodes),
        slices=(*snapshot.slices, *there.slices),
        claims=(*snapshot.claims, *(there.claims if pods else ())),
        pods=(*snapshot.pods, *pods),
    )


@pytest.mark.parametrize("pods", [(), (running("low", "n2", "three", priority=-1),)], ids=["free", "with a victim"])
def test_the_other_pod_waits_for_it(pods: tuple[Pod, ...]) -> None:
    given = joined(snapshot(), *pods)

    plan = decide(given, SECOND, rules=DEVICES)

    assert check(given, Batch(pods=(SECOND,)), plan) == ()
    assert (plan.placements, plan.preemptions) == ((), ())
    assert [each.code for each in plan.unplaced[0].reasons] == [ReasonCode.PREEMPTING]
    assert "claim shared is shared with pod first, which waits on n1" in plan.unplaced[0].reasons[0].message


def test_a_pod_of_higher_priority_does_not_wait() -> None:
    second = replace(SECOND, priority=1)
    plan = decide(joined(snapshot()), second, rules=DEVICES)

    assert [each.node for each in plan.placements] == ["n2"]


def test_of_two_nominated_pods_the_first_does_not_wait() -> None:
    given = snapshot()
    second = replace(SECOND, nominated_node_name="n1")
    left = replace(
        given,
        nominated=(FIRST, second),
        pods=tuple(each for each in given.pods if each.id.name != "leaving"),
        claims=tuple(each for each in given.claims if each.id.name != "one"),
    )

    assert [each.node for each in decide(left, FIRST, rules=DEVICES).placements] == ["n1"]
    assert decide(left, second, rules=DEVICES).placements == ()


def test_the_devices_are_held_and_the_claim_is_not_allocated() -> None:
    seen = reserve_for_nominated(
        snapshot(), Batch(pods=(SECOND,)), Policy(preemption=DEVICES), SolverCache(), Budget(seconds=60.0)
    )

    allocations = {each.id.name: each.allocation for each in seen.claims if each.id.name not in {"one", "two"}}
    assert allocations.pop("shared") is None
    (kept,) = allocations.values()
    assert kept is not None
    assert [each.device for each in kept.results] == [b.device_id("gpu-0", "n1")]

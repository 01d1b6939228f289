"""A claim that is shared with a pod which waits for others to leave is not allocated before that pod is placed."""

from msgspec.structs import replace

from solver.domain import Batch, Policy, Snapshot
from solver.preemption.holding import held
from solver.problem.memory import Engine
from solver.verify import check
from tests.support import builders as b
from tests.support.preemption_cases import DEVICES, decide, holding, running

FIRST = replace(b.pod("first", "shared"), nominated_node_name="n1")
SECOND = b.pod("second", "shared")


def snapshot() -> Snapshot:
    """Both devices of a node are in use, one of them by a pod that leaves it for the first of two that share a claim."""
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


def test_the_other_pod_waits_with_it() -> None:
    given = snapshot()

    plan = decide(given, SECOND, rules=DEVICES)

    assert check(given, Batch(pods=(SECOND,)), plan) == ()
    assert (plan.placements, plan.preemptions) == ((), ())


def test_the_devices_are_held_and_the_claim_is_not_allocated() -> None:
    seen = held(snapshot(), Batch(pods=(SECOND,)), Policy(preemption=DEVICES), Engine())

    allocations = {each.id.name: each.allocation for each in seen.claims if each.id.name not in {"one", "two"}}
    assert allocations.pop("shared") is None
    (kept,) = allocations.values()
    assert kept is not None
    assert [each.device for each in kept.results] == [b.device_id("gpu-0", "n1")]

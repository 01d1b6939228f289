"""A change that frees devices says where other waiting pods may start first."""

import pytest

from solver.diagnosis import explain_pod
from solver.domain import Pod, Policy
from tests.support import builders as b
from tests.support import solver_problems as s

FIRST = "; other waiting pods may start first"


def changes(*others: Pod, size: int) -> list[str]:
    """What helps a pod of two cards: n1 has three, of which a running pod has two; n2 has some more."""
    running = b.pod("running", "running", cpu=0, node_name="n1", priority=5)
    held = b.held("running", b.result("r", "gpu-1", "n1"), b.result("r", "gpu-2", "n1"), node_name="n1")
    claims = [b.claim("c", b.request(count=2)), b.claim("small", b.request()), b.claim("large", b.request(count=size))]
    slices = [b.gpu_slice("n1", count=3), b.gpu_slice("n2", count=1)]
    snapshot = b.snapshot(b.node("n1"), b.node("n2"), slices, b.gpu_class(), claims, held, running)
    pod = b.pod("p", "c", cpu=0)
    found = explain_pod(snapshot, b.batch(pod, *others), pod, Policy(), s.PATIENT)
    return [each.message for each in found.changes if "running" in each.message]


@pytest.mark.parametrize(("priority", "selector"), [(0, {}), (1, {}), (1, {"kubernetes.io/hostname": "n1"})])
def test_a_pod_of_the_plan_may_make_room_for_a_rival(priority: int, selector: dict[str, str]) -> None:
    """By the plan the small pod has n1's free card: it goes to n2, or gives way, where that places the large one."""
    small = b.pod("small", "small", cpu=0, node_selector=selector)
    found = changes(small, b.pod("large", "large", cpu=0, priority=priority), size=3)
    assert found
    assert all(each.endswith(FIRST) for each in found)


def test_rivals_that_cannot_use_it_are_not_named() -> None:
    found = changes(b.pod("large", "large", cpu=0, priority=1), size=4)
    assert found
    assert not any(each.endswith(FIRST) for each in found)

"""One entry of a PodGroup in reservedFor covers every pod of the group."""

import msgspec
import pytest

from scheduler.cluster.object_store import missing_consumers
from solver.domain import ConsumerReference, Pod
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of, unit

GROUP = ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="uid-g")
CLAIM = b.claim("c", allocation=b.allocation(b.result("r", "g0", "n1"), node_name="n1"), reserved_for=(GROUP,))
MEMBER = msgspec.structs.replace(b.pod("p", b.entry("c")), pod_group="g")


@pytest.mark.parametrize(
    ("pod", "is_missing"),
    [
        pytest.param(MEMBER, False, id="a pod of the group"),
        pytest.param(msgspec.structs.replace(MEMBER, pod_group="h"), True, id="a pod of another group"),
        pytest.param(msgspec.structs.replace(MEMBER, pod_group=""), True, id="a pod of no group"),
        pytest.param(msgspec.structs.replace(MEMBER, uid="other"), True, id="a namesake"),
        pytest.param(None, True, id="a pod that is gone"),
    ],
)
def test_pods_of_the_group_need_no_entry(pod: Pod | None, *, is_missing: bool) -> None:
    consumers = (b.consumer("p"),)

    assert missing_consumers(CLAIM, consumers, lambda _: pod) == (consumers if is_missing else ())


def test_a_group_with_more_pods_than_entries_is_no_objection() -> None:
    others = tuple(b.consumer(f"other{number}") for number in range(255))
    full = msgspec.structs.replace(CLAIM, reserved_for=(GROUP, *others))
    cluster = cluster_of(b.node("n1"), MEMBER, full)

    assert cluster.check(unit(b.placement(MEMBER, "n1"))) == ()


def test_nothing_is_assumed_of_a_claim_that_the_group_has_reserved() -> None:
    cluster = cluster_of(b.node("n1"), MEMBER, CLAIM)
    cluster.assume(unit(b.placement(MEMBER, "n1")))

    assert cluster.assumptions().claims == ()

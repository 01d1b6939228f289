"""One entry of a PodGroup in reservedFor covers every pod of the group."""

import msgspec
import pytest

from scheduler.cluster.object_store import missing_consumers
from solver.domain import ConsumerReference, Pod, PodGroup
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of, unit

GROUP = ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="uid-g")
CLAIM = b.claim("c", allocation=b.allocation(b.result("r", "g0", "n1"), node_name="n1"), reserved_for=(GROUP,))
SOURCE = "scheduling.k8s.io"
MADE = PodGroup(id=b.gang_id("g", source=SOURCE), uid=GROUP.uid, min_count=1)
MEMBER = msgspec.structs.replace(b.pod("p", b.entry("c")), pod_group="g", gang=MADE.id)


@pytest.mark.parametrize(
    ("pod", "group", "is_missing"),
    [
        pytest.param(MEMBER, MADE, False, id="a pod of the group"),
        pytest.param(MEMBER, msgspec.structs.replace(MADE, uid="again"), True, id="a pod of the group made again"),
        pytest.param(MEMBER, None, True, id="a pod of a group that is gone"),
        pytest.param(
            msgspec.structs.replace(MEMBER, gang=b.gang_id("h", source=SOURCE)), MADE, True, id="another group"
        ),
        pytest.param(msgspec.structs.replace(MEMBER, gang=None, pod_group=""), MADE, True, id="a pod of no group"),
        pytest.param(msgspec.structs.replace(MEMBER, uid="other"), MADE, True, id="a namesake"),
        pytest.param(None, MADE, True, id="a pod that is gone"),
    ],
)
def test_pods_of_the_group_need_no_entry(pod: Pod | None, group: PodGroup | None, *, is_missing: bool) -> None:
    consumers, shown = (b.consumer("p"),), [each for each in (pod, group) if each is not None]
    cluster = cluster_of(*shown)

    assert missing_consumers(CLAIM, consumers, cluster.group_uid) == (consumers if is_missing else ())


def test_a_group_with_more_pods_than_entries_is_no_objection() -> None:
    others = tuple(b.consumer(f"other{number}") for number in range(255))
    full = msgspec.structs.replace(CLAIM, reserved_for=(GROUP, *others))
    cluster = cluster_of(b.node("n1"), MADE, MEMBER, full)

    assert cluster.check(unit(b.placement(MEMBER, "n1"))) == ()


def test_nothing_is_assumed_of_a_claim_that_the_group_has_reserved() -> None:
    cluster = cluster_of(b.node("n1"), MADE, MEMBER, CLAIM)
    cluster.assume(unit(b.placement(MEMBER, "n1")))

    assert cluster.assumptions().claims == ()

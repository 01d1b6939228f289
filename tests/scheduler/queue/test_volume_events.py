"""What changes of storage mean for pods that wait."""

import pytest
from msgspec.structs import replace

from scheduler.change import Object
from scheduler.queue import Backoff, ClusterEvent, PodState, SchedulingQueue, events_of
from solver.domain import (
    LabelSelector,
    NodeDrivers,
    Reason,
    ReasonCode,
    StorageCapacity,
    StorageDriver,
    VolumeAttachment,
)
from tests.support import builders as b
from tests.support import volume_builders as v
from tests.support.cluster_builders import became

CLAIM = v.volume_claim("data")
DISK = v.volume("disk")
LIMITED = NodeDrivers(node="n1", limits=(("d", 2),))
ROOM = StorageCapacity(namespace="s", name="c", storage_class="x", topology=LabelSelector(), most=10)
TELLING = StorageDriver(name="d", tracks_capacity=True)
ATTACHED = VolumeAttachment(name="a", attacher="d", node="n1")
USING = v.using(b.pod("p", node_name="n1"), "data")


@pytest.mark.parametrize(
    ("before", "after", "facts"),
    [
        pytest.param(None, CLAIM, {ClusterEvent.VOLUME_CLAIM_CREATED}, id="claim made"),
        pytest.param(CLAIM, None, {ClusterEvent.VOLUME_CLAIM_DELETED}, id="claim gone"),
        pytest.param(
            CLAIM,
            replace(CLAIM, uid="x"),
            {ClusterEvent.VOLUME_CLAIM_CREATED, ClusterEvent.VOLUME_CLAIM_DELETED},
            id="a namesake",
        ),
        pytest.param(CLAIM, replace(CLAIM, volume="disk"), {ClusterEvent.VOLUME_CLAIM_CHANGED}, id="claim bound"),
        pytest.param(CLAIM, replace(CLAIM, resource_version="9"), set(), id="claim touched"),
        pytest.param(None, DISK, {ClusterEvent.VOLUME_OFFERED}, id="volume made"),
        pytest.param(replace(DISK, phase="Pending"), DISK, {ClusterEvent.VOLUME_OFFERED}, id="volume available"),
        pytest.param(
            DISK, replace(DISK, node_affinity=v.on_nodes("n9")), {ClusterEvent.VOLUME_OFFERED}, id="volume elsewhere"
        ),
        pytest.param(DISK, replace(DISK, resource_version="9"), set(), id="volume touched"),
        pytest.param(DISK, None, set(), id="volume gone"),
        pytest.param(
            replace(DISK, claim=CLAIM.id, claim_uid=CLAIM.uid, phase="Bound"),
            replace(DISK, claim=CLAIM.id, claim_uid=CLAIM.uid, phase="Released"),
            set(),
            id="volume released, for nobody",
        ),
        pytest.param(None, v.storage_class(), {ClusterEvent.STORAGE_CLASS_CHANGED}, id="class made"),
        pytest.param(v.storage_class(), None, set(), id="class gone"),
        pytest.param(None, LIMITED, {ClusterEvent.ATTACHMENTS_GREW}, id="drivers known"),
        pytest.param(LIMITED, replace(LIMITED, limits=(("d", 3),)), {ClusterEvent.ATTACHMENTS_GREW}, id="limit raised"),
        pytest.param(
            LIMITED, replace(LIMITED, limits=(("d", None),)), {ClusterEvent.ATTACHMENTS_GREW}, id="limit gone"
        ),
        pytest.param(LIMITED, replace(LIMITED, limits=(("d", 1),)), set(), id="limit lowered"),
        pytest.param(ATTACHED, None, {ClusterEvent.ATTACHMENTS_GREW}, id="detached"),
        pytest.param(None, ATTACHED, set(), id="attached"),
        pytest.param(None, ROOM, {ClusterEvent.STORAGE_GREW}, id="room known"),
        pytest.param(ROOM, replace(ROOM, most=11), {ClusterEvent.STORAGE_GREW}, id="more room"),
        pytest.param(ROOM, replace(ROOM, topology=None), {ClusterEvent.STORAGE_GREW}, id="room elsewhere"),
        pytest.param(ROOM, replace(ROOM, most=9), set(), id="less room"),
        pytest.param(TELLING, replace(TELLING, tracks_capacity=False), {ClusterEvent.STORAGE_GREW}, id="driver silent"),
        pytest.param(replace(TELLING, tracks_capacity=False), TELLING, set(), id="driver telling"),
    ],
)
def test_facts(before: Object | None, after: Object | None, facts: set[ClusterEvent]) -> None:
    assert events_of(became(before, after)) == facts


def test_a_pod_that_leaves_releases_its_volumes() -> None:
    assert ClusterEvent.VOLUMES_RELEASED in events_of(became(USING, None))
    assert ClusterEvent.VOLUMES_RELEASED not in events_of(became(b.pod("p", node_name="n1"), None))


def test_only_pods_that_use_a_claim_are_woken_by_it() -> None:
    pending = SchedulingQueue({"dovetail"}, backoff=Backoff(initial_seconds=0.0, ceiling_seconds=0.0))
    pods = {name: v.using(b.pod(name), claim) for name, claim in (("user", "data"), ("other", "log"))}
    both = v.using(b.pod("both", "data"), "data")  # its claim for devices has the same name
    for pod in (*pods.values(), both):
        pending.offer(pod, 0.0)
    pending.take_batch(0.0, 10)
    reason = Reason(code=ReasonCode.VOLUME_CLAIM_MISSING, message="")
    for pod in (*pods.values(), both):
        pending.put_back(pod.id, pod.uid, (reason,), 0.0)

    pending.wake(became(None, CLAIM))
    assert {pod.id.name for pod in pending.take_batch(1.0, 10).pods} == {"user", "both"}
    assert pending.state(pods["other"].id) is PodState.UNSCHEDULABLE
    for pod in (*pods.values(), both):
        pending.remove(pod.id)
    pending.wake(became(CLAIM, None))

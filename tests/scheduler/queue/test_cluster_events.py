"""Cluster events of changed objects."""

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.change import Kind, Object
from scheduler.cluster import Transition
from scheduler.queue import Backoff, PodState, SchedulingQueue, events_of
from solver.domain import (
    ClusterEvent,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    HostPort,
    LabelSelector,
    Namespace,
    NodeAllocatableOverhead,
    Reason,
    ReasonCode,
    VolumeAttachment,
)
from tests.support import builders as b
from tests.support import volume_builders as v
from tests.support.builders import (
    allocation,
    claim,
    consumer,
    device,
    device_class,
    gpu_slice,
    node,
    pod,
    resource_slice,
    result,
    taint,
    taint_rule,
)
from tests.support.cluster_builders import became
from tests.support.preemption_cases import disruption_budget

NODE, CORDONED = node("n1", cpu=4), node("n1", cpu=4, is_unschedulable=True)
BOUND, WAITING = pod("p", node_name="n1", cpu=2), pod("p", cpu=2)
PORTLY = msgspec.structs.replace(BOUND, host_ports=(HostPort(port=80),))
NOMINATED = msgspec.structs.replace(WAITING, nominated_node_name="n1")
LEFT = {ClusterEvent.NODE_ROOM_FREED, ClusterEvent.ASSIGNED_POD_REMOVED}
CLAIM = claim("c")
GPU = result("gpu", "gpu-0", "n1")
HELD = claim("c", allocation=allocation(GPU), reserved_for=[consumer("a"), consumer("b")])
SHARED = claim("c", allocation=allocation(GPU))
UNREADABLE = claim("c", allocation=allocation(result("gpu", "", "n1")), invalid="no")
ADMIN = claim("c", allocation=allocation(result("gpu", "gpu-0", "n1", is_admin=True)))
SICK = taint("sick")
SLICE = resource_slice("n1", device("d"), name="s")
TAINTED = resource_slice("n1", device("d", taints=[SICK]), name="s")
TAKEN = (NodeAllocatableOverhead(resource="cpu", per_pod=b.quantity(2)),)
TAKING = msgspec.structs.replace(SLICE, devices=(msgspec.structs.replace(device("d"), node_overhead=TAKEN),))
RULE_ENDED = {ClusterEvent.DEVICE_TAINT_REMOVED, ClusterEvent.DEVICE_AMOUNTS_CHANGED}
RULE = taint_rule("r", SICK, pool="n1")


def other(each: Object, **fields: object) -> Object:
    return msgspec.structs.replace(each, **fields)


@pytest.mark.parametrize(
    ("before", "after", "facts"),
    [
        pytest.param(None, NODE, {ClusterEvent.NODE_ADDED}, id="node added"),
        pytest.param(NODE, other(NODE, uid="x"), {ClusterEvent.NODE_ADDED}, id="node remade"),
        pytest.param(NODE, None, {ClusterEvent.NODE_DELETED}, id="node deleted"),
        pytest.param(NODE, node("n1", cpu=5), {ClusterEvent.NODE_ALLOCATABLE_GREW}, id="node with more cpu"),
        pytest.param(
            NODE,
            node("n1", cpu=4, extended={"e.com/x": 1}),
            {ClusterEvent.NODE_ALLOCATABLE_GREW, ClusterEvent.NODE_EXTENDED_RESOURCE_MOVED},
            id="node with a new resource",
        ),
        pytest.param(
            node("n1", cpu=4, extended={"e.com/x": 1}),
            node("n1", cpu=4, extended={"e.com/x": 0}),
            {ClusterEvent.NODE_EXTENDED_RESOURCE_MOVED},
            id="node without a resource",
        ),
        pytest.param(
            node("n1", cpu=4, extended={"e.com/x": 2}),
            node("n1", cpu=4, extended={"e.com/x": 1}),
            set(),
            id="node with less of a resource",
        ),
        pytest.param(NODE, node("n1", cpu=3), set(), id="node with less cpu"),
        pytest.param(
            NODE, node("n1", cpu=3, pods=111), {ClusterEvent.NODE_ALLOCATABLE_GREW}, id="node with less and more"
        ),
        pytest.param(
            NODE, node("n1", cpu=4, labels={"a": "b"}), {ClusterEvent.NODE_LABELS_CHANGED}, id="node relabelled"
        ),
        pytest.param(other(NODE, taints=(SICK,)), NODE, {ClusterEvent.NODE_TAINT_REMOVED}, id="node untainted"),
        pytest.param(
            other(NODE, taints=(SICK,)),
            other(NODE, taints=(taint("sick", "v"),)),
            {ClusterEvent.NODE_TAINT_REMOVED, ClusterEvent.NODE_TAINT_ADDED},
            id="node tainted otherwise",
        ),
        pytest.param(NODE, other(NODE, taints=(SICK,)), {ClusterEvent.NODE_TAINT_ADDED}, id="node tainted"),
        pytest.param(
            other(NODE, taints=(SICK,)),
            other(NODE, taints=(other(SICK, time_added="now"),)),  # type: ignore[arg-type]  # a taint is a Struct too
            set(),
            id="taint with another time",
        ),
        pytest.param(
            other(NODE, taints=(taint("soft", effect="PreferNoSchedule"),)), NODE, set(), id="node without a soft taint"
        ),
        pytest.param(CORDONED, NODE, {ClusterEvent.NODE_UNCORDONED}, id="node uncordoned"),
        pytest.param(NODE, CORDONED, set(), id="node cordoned"),
        pytest.param(NODE, other(NODE, images=(("i", 1),)), set(), id="node with another image"),
        pytest.param(None, WAITING, set(), id="pod created"),
        pytest.param(WAITING, None, set(), id="waiting pod deleted"),
        pytest.param(WAITING, BOUND, {ClusterEvent.ASSIGNED_POD_ADDED}, id="pod bound"),
        pytest.param(None, BOUND, {ClusterEvent.ASSIGNED_POD_ADDED}, id="bound pod created"),
        pytest.param(BOUND, None, LEFT, id="bound pod deleted"),
        pytest.param(BOUND, other(BOUND, is_terminal=True), LEFT, id="pod ended"),
        pytest.param(BOUND, WAITING, LEFT, id="pod no longer assumed"),
        pytest.param(PORTLY, None, LEFT | {ClusterEvent.PORTS_FREED}, id="bound pod with host ports deleted"),
        pytest.param(
            BOUND,
            other(BOUND, node_name="n2"),
            LEFT | {ClusterEvent.ASSIGNED_POD_ADDED},
            id="pod bound elsewhere than assumed",
        ),
        pytest.param(BOUND, other(BOUND, uid="x"), LEFT | {ClusterEvent.ASSIGNED_POD_ADDED}, id="bound pod remade"),
        pytest.param(BOUND, pod("p", node_name="n1", cpu=1), {ClusterEvent.NODE_ROOM_FREED}, id="pod resized to less"),
        pytest.param(BOUND, pod("p", node_name="n1"), {ClusterEvent.NODE_ROOM_FREED}, id="pod resized to nothing"),
        pytest.param(BOUND, pod("p", node_name="n1", cpu=3), set(), id="pod resized to more"),
        pytest.param(
            BOUND,
            other(BOUND, labels=(("a", "b"),)),
            {ClusterEvent.ASSIGNED_POD_LABELS_CHANGED},
            id="bound pod relabelled",
        ),
        pytest.param(
            BOUND, other(BOUND, is_deleting=True), {ClusterEvent.ASSIGNED_POD_TERMINATING}, id="bound pod being deleted"
        ),
        pytest.param(WAITING, other(WAITING, labels=(("a", "b"),)), set(), id="waiting pod relabelled"),
        pytest.param(other(BOUND, is_terminal=True), None, set(), id="ended pod deleted"),
        pytest.param(None, CLAIM, {ClusterEvent.CLAIM_CREATED}, id="claim created"),
        pytest.param(CLAIM, None, {ClusterEvent.CLAIM_DELETED}, id="claim deleted"),
        pytest.param(
            HELD, None, {ClusterEvent.CLAIM_DELETED, ClusterEvent.DEVICES_FREED}, id="allocated claim deleted"
        ),
        pytest.param(ADMIN, None, {ClusterEvent.CLAIM_DELETED}, id="claim with admin access deleted"),
        pytest.param(
            HELD,
            other(CLAIM, uid="x"),
            {ClusterEvent.CLAIM_DELETED, ClusterEvent.DEVICES_FREED, ClusterEvent.CLAIM_CREATED},
            id="allocated claim remade",
        ),
        pytest.param(CLAIM, HELD, {ClusterEvent.CLAIM_ALLOCATED}, id="claim allocated"),
        pytest.param(
            HELD,
            CLAIM,
            {ClusterEvent.CLAIM_DEALLOCATED, ClusterEvent.DEVICES_FREED, ClusterEvent.CLAIM_RESERVATIONS_SHRANK},
            id="claim deallocated",
        ),
        pytest.param(ADMIN, CLAIM, {ClusterEvent.CLAIM_DEALLOCATED}, id="admin access ended"),
        pytest.param(
            HELD,
            other(HELD, allocation=allocation(result("gpu", "gpu-1", "n1"))),
            {ClusterEvent.CLAIM_ALLOCATED, ClusterEvent.CLAIM_DEALLOCATED, ClusterEvent.DEVICES_FREED},
            id="claim allocated otherwise",
        ),
        pytest.param(
            UNREADABLE,
            None,
            {ClusterEvent.CLAIM_DELETED, ClusterEvent.DEVICES_FREED, ClusterEvent.DEVICE_TAINT_REMOVED},
            id="claim with a device that cannot be read deleted",
        ),
        pytest.param(
            UNREADABLE,
            SHARED,
            {
                ClusterEvent.CLAIM_ALLOCATED,
                ClusterEvent.CLAIM_CHANGED,
                ClusterEvent.CLAIM_DEALLOCATED,
                ClusterEvent.DEVICES_FREED,
                ClusterEvent.DEVICE_TAINT_REMOVED,
            },
            id="claim with a device that can be read now",
        ),
        pytest.param(
            SHARED,
            other(SHARED, allocation=allocation(result("gpu", "gpu-0", "n1", share_id=b.share_id(1)))),
            set(),
            id="share with its id",
        ),
        pytest.param(
            HELD,
            other(HELD, reserved_for=(consumer("b"),)),
            {ClusterEvent.CLAIM_RESERVATIONS_SHRANK, ClusterEvent.EVICTION_EASED},
            id="consumer gone",
        ),
        pytest.param(
            HELD,
            other(HELD, reserved_for=(consumer("b"), consumer("c"))),
            {ClusterEvent.CLAIM_RESERVATIONS_SHRANK, ClusterEvent.EVICTION_EASED},
            id="consumer replaced",
        ),
        pytest.param(
            other(ADMIN, reserved_for=(consumer("a"),)),
            ADMIN,
            {ClusterEvent.CLAIM_RESERVATIONS_SHRANK},
            id="consumer of a claim with admin access gone",
        ),
        pytest.param(
            HELD, other(HELD, finalizers=("f",)), {ClusterEvent.EVICTION_EASED}, id="allocated claim with the finalizer"
        ),
        pytest.param(other(HELD, finalizers=("f",)), HELD, set(), id="allocated claim without the finalizer"),
        pytest.param(
            other(BOUND, is_preemptible=False), BOUND, {ClusterEvent.EVICTION_EASED}, id="bound pod unprotected"
        ),
        pytest.param(BOUND, other(BOUND, is_preemptible=False), set(), id="bound pod protected"),
        pytest.param(other(WAITING, is_preemptible=False), WAITING, set(), id="waiting pod unprotected"),
        pytest.param(other(HELD, reserved_for=()), HELD, set(), id="consumers added"),
        pytest.param(other(CLAIM, invalid="no"), CLAIM, {ClusterEvent.CLAIM_CHANGED}, id="claim readable"),
        pytest.param(
            CLAIM, other(CLAIM, owner_pod_uid="u"), {ClusterEvent.CLAIM_CHANGED}, id="claim with another owner"
        ),
        pytest.param(
            CLAIM, other(CLAIM, resource_version="9", finalizers=("f",)), set(), id="claim with the finalizer"
        ),
        pytest.param(CLAIM, other(CLAIM, is_deleting=True), set(), id="claim deleting"),
        pytest.param(None, device_class("gpu"), {ClusterEvent.CLASS_CHANGED}, id="class added"),
        pytest.param(
            device_class("gpu"), device_class("gpu", "true"), {ClusterEvent.CLASS_CHANGED}, id="class selectors"
        ),
        pytest.param(
            device_class("gpu"),
            device_class("gpu", extended_resource_name="e.com/x"),
            {ClusterEvent.CLASS_CHANGED},
            id="class with an extended resource",
        ),
        pytest.param(
            device_class("gpu"), other(device_class("gpu"), creation_timestamp="x"), set(), id="class otherwise"
        ),
        pytest.param(device_class("gpu"), None, set(), id="class deleted"),
        pytest.param(
            device_class("gpu", extended_resource_name="e.com/x"),
            None,
            {ClusterEvent.CLASS_CHANGED},
            id="class with an extended resource deleted",
        ),
        pytest.param(None, SLICE, {ClusterEvent.SLICE_CHANGED}, id="slice added"),
        pytest.param(SLICE, other(SLICE, generation=2), {ClusterEvent.SLICE_CHANGED}, id="slice generation"),
        pytest.param(SLICE, other(TAINTED, generation=2), {ClusterEvent.SLICE_CHANGED}, id="slice changed and tainted"),
        pytest.param(SLICE, TAINTED, set(), id="device tainted"),
        pytest.param(TAINTED, SLICE, {ClusterEvent.DEVICE_TAINT_REMOVED}, id="device untainted"),
        pytest.param(SLICE, None, {ClusterEvent.SLICE_DELETED}, id="slice deleted"),
        pytest.param(
            TAKING,
            other(TAKING, generation=2),
            {ClusterEvent.SLICE_CHANGED, ClusterEvent.DEVICE_AMOUNTS_CHANGED},
            id="slice with amounts of the node",
        ),
        pytest.param(
            TAKING,
            SLICE,
            {ClusterEvent.SLICE_CHANGED, ClusterEvent.DEVICE_AMOUNTS_CHANGED},
            id="devices take less of their node",
        ),
        pytest.param(
            TAKING,
            None,
            {ClusterEvent.SLICE_DELETED, ClusterEvent.DEVICE_AMOUNTS_CHANGED},
            id="devices that take of their node are gone",
        ),
        pytest.param(gpu_slice("n1"), gpu_slice("n1", count=9), {ClusterEvent.SLICE_CHANGED}, id="device added"),
        pytest.param(None, RULE, set(), id="rule added"),
        pytest.param(RULE, None, RULE_ENDED, id="rule deleted"),
        pytest.param(RULE, other(RULE, pool="n2"), RULE_ENDED, id="rule changed"),
        pytest.param(NOMINATED, None, {ClusterEvent.NOMINATION_ENDED}, id="nominated pod deleted"),
        pytest.param(NOMINATED, WAITING, {ClusterEvent.NOMINATION_ENDED}, id="nomination taken back"),
        pytest.param(NOMINATED, other(NOMINATED, uid="x"), {ClusterEvent.NOMINATION_ENDED}, id="nominated pod remade"),
        pytest.param(
            NOMINATED, other(NOMINATED, is_deleting=True), {ClusterEvent.NOMINATION_ENDED}, id="nominated pod leaves"
        ),
        pytest.param(
            NOMINATED,
            other(NOMINATED, nominated_node_name="n2"),
            {ClusterEvent.NOMINATION_ENDED},
            id="another node nominated",
        ),
        pytest.param(NOMINATED, BOUND, {ClusterEvent.ASSIGNED_POD_ADDED}, id="nominated pod bound"),
        pytest.param(
            other(NOMINATED, nominated_node_name="n2"),
            BOUND,
            {ClusterEvent.ASSIGNED_POD_ADDED, ClusterEvent.NOMINATION_ENDED},
            id="nominated pod bound elsewhere",
        ),
        pytest.param(WAITING, NOMINATED, set(), id="node nominated"),
        pytest.param(
            NODE,
            msgspec.structs.replace(NODE, declared_features=("A",)),
            {ClusterEvent.NODE_FEATURES_DECLARED},
            id="node declares a feature",
        ),
        pytest.param(
            msgspec.structs.replace(NODE, declared_features=("A",)), NODE, set(), id="node declares a feature no more"
        ),
        pytest.param(None, Namespace(name="x"), {ClusterEvent.NAMESPACE_CHANGED}, id="namespace added"),
        pytest.param(Namespace(name="x"), None, {ClusterEvent.NAMESPACE_CHANGED}, id="namespace deleted"),
        pytest.param(
            Namespace(name="x"),
            Namespace(name="x", labels=(("a", "b"),)),
            {ClusterEvent.NAMESPACE_CHANGED},
            id="namespace relabelled",
        ),
    ],
)
def test_a_transition_says_what_could_help(
    before: Object | None, after: Object | None, facts: set[ClusterEvent]
) -> None:
    assert events_of(became(before, after)) == facts


@pytest.mark.parametrize(
    ("before", "after", "is_fact"),
    [
        (disruption_budget("b", 1, app="web"), disruption_budget("b", 2, app="web"), True),
        (disruption_budget("b", 2, app="web"), disruption_budget("b", 1, app="web"), False),
        (disruption_budget("b", 1, app="web"), disruption_budget("b", 1, app="db"), True),
        (disruption_budget("b", 0, app="web"), None, True),
        (None, disruption_budget("b", 9, app="web"), False),
        (
            msgspec.structs.replace(disruption_budget("b", 1, app="web"), is_stale=True),
            disruption_budget("b", 1, app="web"),
            True,
        ),
    ],
    ids=["allows more", "allows less", "protects others", "gone", "new", "is up to date again"],
)
def test_a_disruption_budget_says_what_could_help(
    before: Object | None, after: Object | None, *, is_fact: bool
) -> None:
    found = events_of(Transition(kind=Kind.BUDGETS, key="default/b", before=before, after=after))

    assert found == ({ClusterEvent.DISRUPTIONS_ALLOWED} if is_fact else set())


VOLUME_CLAIM = v.volume_claim("data")
DISK = v.volume("disk")
LIMITED = CSINode(node="n1", limits=(("d", 2),))
ROOM = CSIStorageCapacity(namespace="s", name="c", storage_class="x", topology=LabelSelector(), most=10)
TELLING = CSIDriver(name="d", tracks_capacity=True)
REQUIRED = CSIDriver(name="d", is_required=True)
ATTACHED = VolumeAttachment(name="a", attacher="d", node="n1")
USING = v.using(b.pod("p", node_name="n1"), "data")


@pytest.mark.parametrize(
    ("before", "after", "facts"),
    [
        pytest.param(None, VOLUME_CLAIM, {ClusterEvent.VOLUME_CLAIM_CREATED}, id="claim made"),
        pytest.param(VOLUME_CLAIM, None, {ClusterEvent.VOLUME_CLAIM_DELETED}, id="claim gone"),
        pytest.param(
            VOLUME_CLAIM,
            replace(VOLUME_CLAIM, uid="x"),
            {ClusterEvent.VOLUME_CLAIM_CREATED, ClusterEvent.VOLUME_CLAIM_DELETED},
            id="a namesake",
        ),
        pytest.param(
            VOLUME_CLAIM, replace(VOLUME_CLAIM, volume="disk"), {ClusterEvent.VOLUME_CLAIM_CHANGED}, id="claim bound"
        ),
        pytest.param(VOLUME_CLAIM, replace(VOLUME_CLAIM, resource_version="9"), set(), id="claim touched"),
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
            id="volume released, for no claim",
        ),
        pytest.param(None, v.storage_class(), {ClusterEvent.STORAGE_CLASS_CHANGED}, id="class made"),
        pytest.param(v.storage_class(), None, set(), id="class gone"),
        pytest.param(
            None, LIMITED, {ClusterEvent.ATTACHMENTS_GREW, ClusterEvent.CSI_DRIVER_INSTALLED}, id="drivers known"
        ),
        pytest.param(
            LIMITED,
            replace(LIMITED, limits=(*LIMITED.limits, ("e", None))),
            {ClusterEvent.ATTACHMENTS_GREW, ClusterEvent.CSI_DRIVER_INSTALLED},
            id="driver installed",
        ),
        pytest.param(LIMITED, replace(LIMITED, limits=()), set(), id="driver removed"),
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
        pytest.param(
            REQUIRED, replace(REQUIRED, is_required=False), {ClusterEvent.CSI_DRIVER_INSTALLED}, id="not required now"
        ),
        pytest.param(REQUIRED, None, {ClusterEvent.CSI_DRIVER_INSTALLED}, id="required driver gone"),
        pytest.param(replace(REQUIRED, is_required=False), REQUIRED, set(), id="required now"),
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
    for each in (*pods.values(), both):
        pending.offer(each, 0.0)
    pending.take_batch(0.0, 10)
    reason = Reason(code=ReasonCode.VOLUME_CLAIM_MISSING, message="")
    for each in (*pods.values(), both):
        pending.put_back(each.id, each.uid, (reason,), 0.0)

    pending.wake(became(None, VOLUME_CLAIM))
    assert {pod.id.name for pod in pending.take_batch(1.0, 10).pods} == {"user", "both"}
    assert pending.state(pods["other"].id) is PodState.UNSCHEDULABLE
    for each in (*pods.values(), both):
        pending.remove(each.id)
    pending.wake(became(VOLUME_CLAIM, None))

"""The check before the first write: one fact of the cluster changed since the unit was decided."""

import msgspec
import pytest

from scheduler.change import Change, Object
from scheduler.cluster import Cluster, Unit, split_plan
from solver.domain import OPTIONAL_NODE_OPERATIONS, Batch, GangId, NodeAllocatableMapping, PodGroup, ReasonCode
from tests.support.builders import (
    NAMESPACE,
    allocation,
    claim,
    claim_allocation,
    consumer,
    device,
    expressions,
    held,
    node,
    node_selector,
    placement,
    plan,
    pod,
    quantity,
    request,
    requirement,
    resource_slice,
    result,
    scope,
    share_id,
    taint,
    taint_rule,
    toleration,
)
from tests.support.cluster_builders import cluster_of, gone, seen, show, unit

NODE = node("n1", cpu=4, pods=3)
POD = pod("p", "new", "old", cpu=2, node_selector={"kubernetes.io/hostname": "n1"})
NEW = claim("new", request("gpu"), request("part"), request("share", capacity={"memory": "30Gi"}))
OLD = held("old", result("gpu", "old-gpu", "n1"), node_name="n1")
SKIPPED = msgspec.structs.replace(result("gpu", "old-gpu", "n1"), skip_node_operations=("*",))
CARD = {"card": {"memory": "40Gi"}}


def published(*, generation: int = 1, slice_count: int = 2, **changes: object) -> list[Object]:
    part = device("part", consumes={"card": {"memory": "20Gi"}})
    shared = device("shared", is_shareable=True, capacities={"memory": "80Gi"})
    whole = device("whole")
    held_before = device("old-gpu")
    return [
        resource_slice(
            "n1",
            *(msgspec.structs.replace(each, **changes) for each in (part, shared, whole, held_before)),
            name=f"devices-{generation}",
            generation=generation,
            slice_count=slice_count,
        ),
        resource_slice(
            "n1", name=f"counters-{generation}", generation=generation, slice_count=slice_count, counter_sets=CARD
        ),
    ]


RESULTS = (
    result("gpu", "whole", "n1"),
    result("part", "part", "n1"),
    result("share", "shared", "n1", share_id=share_id(1), consumed={"memory": "30Gi"}),
)
UNIT = unit(placement(POD, "n1"), claim_allocation(NEW, *RESULTS, node_name="n1"))
DEVICE = "device gpu.example.com/n1"
UNPUBLISHED = "is not published in the newest generation of its pool"


@pytest.fixture(params=["assumed", "not assumed"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster that the unit was decided on; the check says the same whether the unit is assumed or not."""
    built = cluster_of(NODE, POD, NEW, OLD, published())
    if request.param == "assumed":
        built.assume(UNIT)
    return built


def messages(cluster: Cluster, checked: Unit = UNIT) -> list[str]:
    return [each.message for each in cluster.check(checked)]


def changed(each: Object, **fields: object) -> Change:
    return seen(msgspec.structs.replace(each, **fields))


def test_nothing_speaks_against_a_unit_while_nothing_changes(cluster: Cluster) -> None:
    assert messages(cluster) == []


def test_a_unit_may_be_written_while_half_of_it_is_confirmed(cluster: Cluster) -> None:
    echo = msgspec.structs.replace(NEW, allocation=UNIT.allocations[0].allocation, reserved_for=(consumer("p"),))
    show(cluster, echo)

    assert messages(cluster) == []


def test_reasons_ask_for_another_decision(cluster: Cluster) -> None:
    cluster.apply(gone(NODE))

    assert {each.code for each in cluster.check(UNIT)} == {ReasonCode.CONFLICT}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(changed(POD, uid="x"), "pod default/p was deleted, and another one has its name", id="pod remade"),
        pytest.param(changed(POD, node_name="n2"), "pod default/p is bound to node n2 already", id="pod bound"),
        pytest.param(changed(POD, is_deleting=True), "pod default/p is being deleted", id="pod deleting"),
        pytest.param(changed(POD, is_terminal=True), "pod default/p has ended", id="pod ended"),
        pytest.param(changed(POD, scheduling_gates=("g",)), "pod default/p has the scheduling gate g", id="pod gated"),
        pytest.param(changed(POD, invalid="no"), "pod default/p cannot be read: no", id="pod unreadable"),
        pytest.param(gone(NODE), "node n1 is gone", id="node deleted"),
        pytest.param(changed(NODE, is_unschedulable=True), "node n1 is cordoned", id="node cordoned"),
        pytest.param(
            changed(NODE, taints=(taint("k", "v"),)),
            "node n1 has the taint k=v:NoSchedule, which pod default/p does not tolerate",
            id="node tainted",
        ),
        pytest.param(
            changed(NODE, labels=()),
            "node n1 does not have the label kubernetes.io/hostname=n1, which pod default/p selects",
            id="node relabelled",
        ),
        pytest.param(
            changed(NODE, allocatable=(("cpu", 1000), ("pods", 3))),
            "node n1 has 1 of cpu left, the plan takes 2",
            id="node smaller",
        ),
        pytest.param(
            seen(pod("q", cpu=3, node_name="n1")), "node n1 has 1 of cpu left, the plan takes 2", id="node fuller"
        ),
        pytest.param(gone(NEW), "claim default/new was deleted", id="claim deleted"),
        pytest.param(
            changed(NEW, uid="x"), "claim default/new was deleted, and another one has its name", id="claim remade"
        ),
        pytest.param(
            changed(OLD, uid="x"),
            "claim default/old was deleted, and another one has its name",
            id="joined claim remade",
        ),
        pytest.param(
            changed(NODE, uid="x", allocatable=(("cpu", 1000), ("pods", 3))),
            "node n1 has 1 of cpu left, the plan takes 2",
            id="node remade, and smaller",
        ),
        pytest.param(changed(NEW, is_deleting=True), "claim default/new is being deleted", id="claim deleting"),
        pytest.param(changed(NEW, invalid="no"), "claim default/new cannot be read: no", id="claim unreadable"),
        pytest.param(
            changed(NEW, allocation=allocation(result("gpu", "x", "n9"))),
            "claim default/new is allocated already",
            id="claim allocated",
        ),
        pytest.param(gone(OLD), "claim default/old was deleted", id="joined claim deleted"),
        pytest.param(changed(OLD, is_deleting=True), "claim default/old is being deleted", id="joined claim deleting"),
        pytest.param(
            changed(OLD, allocation=None, reserved_for=()),
            "claim default/old is not allocated",
            id="joined claim deallocated",
        ),
        pytest.param(
            changed(OLD, allocation=allocation(result("gpu", "old-gpu", "n2"), node_name="n2")),
            "claim default/old is allocated where node n1 cannot use it",
            id="joined claim elsewhere",
        ),
        pytest.param(
            changed(OLD, allocation=allocation(SKIPPED, node_name="n1")),
            f"node n1 does not declare {OPTIONAL_NODE_OPERATIONS}, which claim default/old needs",
            id="joined claim of devices that need a feature of the node",
        ),
        pytest.param(
            changed(OLD, reserved_for=tuple(consumer(f"other-{index}") for index in range(256))),
            "claim default/old would have 257 consumers, and a claim can have 256",
            id="joined claim full",
        ),
        pytest.param(
            seen(taint_rule("r", taint("sick"), pool="n1", device_name="whole")),
            f"{DEVICE}/whole has the taint sick:NoSchedule, which its request does not tolerate",
            id="device tainted by a rule",
        ),
        pytest.param(
            seen(held("x", result("gpu", "whole", "n1"))),
            f"{DEVICE}/whole is held by claim default/x",
            id="device taken",
        ),
        pytest.param(
            seen(held("x", result("gpu", "shared", "n1"))),
            f"{DEVICE}/shared is held alone by claim default/x",
            id="shared device taken alone",
        ),
        pytest.param(
            seen(held("x", result("gpu", "shared", "n1", share_id=share_id(2), consumed={"memory": "60Gi"}))),
            f"{DEVICE}/shared has 20Gi of memory left, 30Gi is planned",
            id="shared device fuller",
        ),
    ],
)
def test_a_change_that_matters_is_named(cluster: Cluster, change: Change, message: str) -> None:
    cluster.apply(change)

    assert messages(cluster) == [message]


def test_a_deleted_pod_leaves_its_claim_without_a_user(cluster: Cluster) -> None:
    cluster.apply(gone(POD))

    assert messages(cluster) == [
        "pod default/p was deleted",
        "claim default/new would be allocated, and no pod of the plan uses it",
    ]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        pytest.param([gone(published()[0])], UNPUBLISHED, id="slice deleted"),
        pytest.param(
            [seen(resource_slice("n1", device("other"), name="devices-1", slice_count=2))],
            UNPUBLISHED,
            id="device withdrawn",
        ),
        pytest.param(
            [seen(published(generation=2)[1])],
            UNPUBLISHED,
            id="newer generation begun",
        ),
        pytest.param(
            [gone(published()[1])],
            "is in a pool of which no device may be allocated: its newest generation 1 is not published whole",
            id="pool incomplete",
        ),
        pytest.param(
            [seen(published(taints=(taint("sick"),))[0])],
            "has the taint sick:NoSchedule, which its request does not tolerate",
            id="devices tainted",
        ),
        pytest.param(
            [seen(published(binding_conditions=("attached",))[0])],
            "has bindingConditions ('attached',) now, and () was planned",
            id="devices that have to be attached by now",
        ),
        pytest.param([changed(published()[0], scope=scope("n2"))], "cannot be used on node n1", id="slice moved"),
        pytest.param([changed(published()[0], scope=scope())], "cannot be used on node n1", id="scope unknown"),
    ],
)
def test_a_change_of_slices_that_matters_is_named_for_each_device(
    cluster: Cluster, changes: list[Change], wanted: str
) -> None:
    for change in changes:
        cluster.apply(change)

    for name in ("whole", "part", "shared"):
        assert f"{DEVICE}/{name} {wanted}" in messages(cluster)


@pytest.mark.parametrize(
    ("shareable", "message"),
    [
        pytest.param(
            False, f"{DEVICE}/shared cannot be shared, and a share of it is planned", id="no longer shareable"
        ),
        pytest.param(
            True, f"{DEVICE}/whole can be shared, and is planned for one claim alone", id="has become shareable"
        ),
    ],
)
def test_a_device_whose_sharing_flipped_is_named(
    cluster: Cluster,
    shareable: bool,  # noqa: FBT001 - a column of the table
    message: str,
) -> None:
    show(cluster, published(allow_multiple_allocations=shareable))

    assert message in messages(cluster)


def test_counters_that_others_draw_from_are_named(cluster: Cluster) -> None:
    other = device("other", consumes={"card": {"memory": "30Gi"}})
    devices = published()[0]
    show(cluster, msgspec.structs.replace(devices, devices=(*devices.devices, other)))  # type: ignore[union-attr]  # a slice
    show(cluster, held("x", result("gpu", "other", "n1")))

    assert messages(cluster) == [f"{DEVICE}/part draws 20Gi of card/memory, 10Gi is left"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(seen(taint_rule("r", taint("sick"), selects_nothing=True)), id="rule without a selector"),
        pytest.param(seen(taint_rule("r", taint("sick"), pool="n2")), id="rule for another pool"),
        pytest.param(seen(taint_rule("r", taint("sick", effect="None"))), id="taint without effect"),
        pytest.param(changed(NODE, taints=(taint("k", effect="PreferNoSchedule"),)), id="soft taint"),
        pytest.param(seen(pod("q", cpu=2, node_name="n1")), id="room left to the last millicore"),
        pytest.param(changed(POD, nominated_node_name="n1"), id="nomination written by ourselves"),
        pytest.param(changed(NODE, uid="x"), id="node remade, and the same"),
        pytest.param(seen(held("x", result("gpu", "whole", "n1", is_admin=True))), id="admin access to the device"),
        pytest.param(
            seen(held("x", result("gpu", "shared", "n1", share_id=share_id(2), consumed={"memory": "50Gi"}))),
            id="share that leaves enough",
        ),
    ],
)
def test_a_change_that_does_not_matter_is_no_objection(cluster: Cluster, change: Change) -> None:
    cluster.apply(change)

    assert messages(cluster) == []


GROUP = PodGroup(id=GangId(NAMESPACE, "g", "scheduling.k8s.io"), uid="uid-g")
MEMBER = msgspec.structs.replace(POD, pod_group="g", gang=GROUP.id)


@pytest.mark.parametrize("minimum", [0, 1], ids=["basic", "gang"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(changed(GROUP, generation=2), [], id="changed"),
        pytest.param(
            changed(GROUP, uid="x"),
            ["PodGroup default/g was deleted, and another one has its name"],
            id="made again",
        ),
        pytest.param(gone(GROUP), ["PodGroup default/g was deleted"], id="deleted"),
    ],
)
def test_a_group_that_has_ended_since_the_decision_is_named(change: Change, minimum: int, said: list[str]) -> None:
    group = msgspec.structs.replace(GROUP, min_count=minimum)
    cluster = cluster_of(NODE, MEMBER, NEW, OLD, group, published())
    batch = cluster.with_gangs(Batch(pods=(MEMBER,)))
    (checked,) = split_plan(plan(placement(MEMBER, "n1"), *UNIT.allocations), batch)
    assert checked.pod_groups == ((GROUP.id, "uid-g"),)
    if change.value is not None:
        change = msgspec.structs.replace(change, value=msgspec.structs.replace(change.value, min_count=minimum))
    cluster.apply(change)

    is_absent_gang = minimum and change.value is None
    expected = ["gang g waits for PodGroup default/g, which does not exist"] if is_absent_gang else said
    assert [each.message for each in cluster.check_gangs(checked)] == expected
    assert messages(cluster, checked) == expected


def test_a_batch_has_the_uids_that_groups_have_now() -> None:
    cluster = cluster_of(MEMBER, GROUP)
    first = cluster.with_gangs(Batch(pods=(MEMBER,)))
    show(cluster, msgspec.structs.replace(GROUP, uid="x"))
    again = cluster.with_gangs(first)
    cluster.apply(gone(GROUP))

    found = [[pod.pod_group_uid for pod in batch.pods] for batch in (first, again, cluster.with_gangs(again))]
    assert found == [["uid-g"], ["x"], [""]]
    assert [gang.uid for gang in again.gangs] == ["x"]


def test_room_is_counted_for_all_pods_of_the_unit_together() -> None:
    pods = [pod("a", "new", cpu=3), pod("b", "new", cpu=3)]
    both = unit(*(placement(each, "n1") for each in pods), claim_allocation(NEW, RESULTS[0], node_name="n1"))
    cluster = cluster_of(NODE, pods, NEW, published())

    assert messages(cluster, both) == ["node n1 has 4 of cpu left, the plan takes 6"]


def test_pods_take_room_by_their_number() -> None:
    cluster = cluster_of(node("n1", pods=1), pod("q", node_name="n1"), POD, OLD, NEW, published())

    assert messages(cluster) == ["node n1 has 0 of pods left, the plan takes 1"]


def test_a_resource_that_the_node_does_not_have_has_no_room() -> None:
    asking = pod("p", extended={"example.com/fpga": 1})
    cluster = cluster_of(NODE, asking)

    assert messages(cluster, unit(placement(asking, "n1"))) == [
        "node n1 has 0 of example.com/fpga left, the plan takes 1"
    ]


def test_tolerated_taints_are_no_objection() -> None:
    tolerant = pod("p", "new", tolerations=[toleration()])
    tainted = published(taints=(taint("sick"),))
    results = (result("gpu", "whole", "n1", tolerations=[toleration("sick")]),)
    asking = claim("new", request("gpu", tolerations=[toleration("sick")]))
    cluster = cluster_of(node("n1", taints=[taint("k")], is_unschedulable=True), tolerant, asking, tainted)

    assert messages(cluster, unit(placement(tolerant, "n1"), claim_allocation(asking, *results))) == []


def test_affinity_is_checked_with_the_labels_of_now() -> None:
    picky = pod("p", affinity=node_selector(expressions(requirement("zone", "In", "a"))))
    cluster = cluster_of(node("n1", labels={"zone": "a"}), picky)
    assert messages(cluster, unit(placement(picky, "n1"))) == []
    show(cluster, node("n1", labels={"zone": "b"}))

    assert messages(cluster, unit(placement(picky, "n1"))) == [
        f"node n1 does not match the required node affinity of pod {NAMESPACE}/p"
    ]


@pytest.mark.parametrize(
    ("place", "is_reached"),
    [
        pytest.param(scope(all_nodes=True), True, id="all nodes"),
        pytest.param(scope("n1"), True, id="this node"),
        pytest.param(scope("n2"), False, id="another node"),
        pytest.param(
            scope(selector=node_selector(expressions(requirement("zone", "Exists")))), True, id="selector that holds"
        ),
        pytest.param(
            scope(selector=node_selector(expressions(requirement("zone", "DoesNotExist")))),
            False,
            id="one that does not",
        ),
    ],
)
def test_a_device_s_own_scope_counts_where_its_slice_says_so(
    place: object,
    is_reached: bool,  # noqa: FBT001 - a column of the table
) -> None:
    scoped = resource_slice("fabric", device("d", scope=place), at=scope(per_device=True))  # type: ignore[arg-type]
    waiting = pod("p", "new")
    cluster = cluster_of(node("n1", labels={"zone": "a"}), waiting, NEW, scoped)
    planned = unit(placement(waiting, "n1"), claim_allocation(NEW, result("gpu", "d", "fabric")))

    wanted = [] if is_reached else ["device gpu.example.com/fabric/d cannot be used on node n1"]
    assert messages(cluster, planned) == wanted


def test_a_claim_that_another_unit_is_about_to_allocate_can_be_joined() -> None:
    first, second = pod("a", "new"), pod("b", "new")
    cluster = cluster_of(NODE, first, second, NEW, published())
    cluster.assume(unit(placement(first, "n1"), claim_allocation(NEW, RESULTS[0], node_name="n1")))
    joining = unit(placement(second, "n1"))
    cluster.assume(joining)

    assert messages(cluster, joining) == []


SICK_SLICE = resource_slice("n1", device("gpu-0", taints=[taint("sick")]))
JOINED = held("old", result("gpu", "gpu-0", "n1"))


@pytest.mark.parametrize(
    ("joined", "published_now", "wanted"),
    [
        pytest.param(
            JOINED,
            SICK_SLICE,
            ["claim default/old holds device gpu.example.com/n1/gpu-0, which has the taint sick:NoSchedule now"],
            id="tainted",
        ),
        pytest.param(
            JOINED,
            msgspec.structs.replace(SICK_SLICE, slice_count=2),
            ["claim default/old holds device gpu.example.com/n1/gpu-0, which has the taint sick:NoSchedule now"],
            id="tainted in a pool in flux",
        ),
        pytest.param(
            msgspec.structs.replace(JOINED, reserved_for=(consumer("p"),)), SICK_SLICE, [], id="reserved for it before"
        ),
        pytest.param(
            held("old", result("gpu", "gpu-0", "n1", tolerations=[toleration("sick")])), SICK_SLICE, [], id="tolerated"
        ),
    ],
)
def test_a_claim_on_a_tainted_device_is_not_joined(joined: Object, published_now: Object, wanted: list[str]) -> None:
    waiting = pod("p", "old")
    cluster = cluster_of(NODE, waiting, joined, published_now)
    joining = unit(placement(waiting, "n1"))
    cluster.assume(joining)

    assert messages(cluster, joining) == wanted


def test_devices_that_take_of_their_node_by_now_are_named_by_their_claim() -> None:
    mapping = NodeAllocatableMapping(resource="cpu", allocation_multiplier=quantity(2))
    waiting, taking = pod("p", "new", cpu=1), published(node_allocatable=(mapping,))
    cluster = cluster_of(NODE, waiting, NEW, published())
    planned = unit(placement(waiting, "n1"), claim_allocation(NEW, RESULTS[0], node_name="n1"))
    assert messages(cluster, planned) == []
    show(cluster, taking)

    assert messages(cluster, planned) == ["claim default/new takes 2 of cpu of its node, nothing was planned"]


def test_each_objection_is_said_once() -> None:
    pods = [pod("a"), pod("b")]
    cluster = cluster_of(pods)

    assert messages(cluster, unit(*(placement(each, "n1") for each in pods))) == ["node n1 is gone"]

"""Pods with volumes end where their volumes are or can be, and say why not elsewhere."""

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import (
    Batch,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DiskKind,
    InlineDisk,
    LabelRequirement,
    LabelSelector,
    Plan,
    Pod,
    PodVolume,
    Policy,
    ReasonCode,
    Snapshot,
    VolumeAttachment,
    VolumeClaimId,
)
from solver.rules.volumes import attachments
from solver.verify import check
from solver.verify import volumes as verified
from tests.support.builders import batch, node, pod, snapshot
from tests.support.calls import counted
from tests.support.solver_problems import PATIENT
from tests.support.volume_builders import (
    DYNAMIC,
    HOST,
    on_nodes,
    storage_class,
    using,
    volume,
    volume_claim,
    with_storage,
)

NODES = ("n1", "n2", "n3")
LOCAL_CLASS = storage_class()
MAKING = storage_class(DYNAMIC, "csi.example.com")


def cluster(*objects: object, pods: tuple[Pod, ...] = (), names: tuple[str, ...] = NODES) -> Snapshot:
    """Make a cluster of nodes that know their own names."""
    nodes = (node(name, labels={HOST: name, "topology.kubernetes.io/zone": f"z{name[1:]}"}) for name in names)
    return with_storage(snapshot(*nodes, *pods), *objects)  # type: ignore[arg-type]  # storage alone


def decide(stand: Snapshot, *pods: Pod) -> Plan:
    """Solve, and check the plan."""
    asked: Batch = batch(*pods)
    plan = solve(stand, asked, Policy(), PATIENT)
    assert check(stand, asked, plan) == ()
    return plan


def places(plan: Plan) -> dict[str, str]:
    return {each.pod.name: each.node for each in plan.placements}


def why(plan: Plan, name: str = "p") -> list[tuple[ReasonCode, str, int]]:
    (found,) = [each.reasons for each in plan.unplaced if each.pod.name == name]
    return [(each.code, each.message, each.node_count) for each in found]


def test_a_bound_volume_leads_to_its_node() -> None:
    claim = volume_claim("data", bound="v")
    plan = decide(cluster(LOCAL_CLASS, claim, volume("v", nodes=["n2"], claim=claim)), using(pod("p"), "data"))
    assert places(plan) == {"p": "n2"}
    assert plan.placements[0].volumes == ()


def test_a_bound_volume_of_no_node_refuses_all() -> None:
    claim = volume_claim("data", bound="v")
    plan = decide(cluster(LOCAL_CLASS, claim, volume("v", nodes=["gone"], claim=claim)), using(pod("p"), "data"))
    assert why(plan) == [(ReasonCode.VOLUME_ELSEWHERE, "node(s) didn't match PersistentVolume's node affinity", 3)]


def test_a_claim_bound_to_a_volume_that_is_not_there() -> None:
    plan = decide(cluster(LOCAL_CLASS, volume_claim("data", bound="v")), using(pod("p"), "data"))
    message = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    assert why(plan) == [(ReasonCode.VOLUME_MISSING, message, 3)]


@pytest.mark.parametrize(
    ("value", "allowed"),
    [pytest.param("z1", {"n1"}, id="one"), pytest.param("z1__z3", {"n1", "n3"}, id="several")],
)
def test_a_volume_is_used_in_its_zone(value: str, allowed: set[str]) -> None:
    claim = volume_claim("data", bound="v")
    zoned = volume("v", claim=claim, labels={"failure-domain.beta.kubernetes.io/zone": value})
    asked = using(pod("p"), "data")
    found = {name for name in NODES if places(decide(cluster(LOCAL_CLASS, claim, zoned, names=(name,)), asked))}
    assert found == allowed
    other = decide(cluster(LOCAL_CLASS, claim, zoned, names=("n2",)), asked)
    assert why(other) == [(ReasonCode.VOLUME_ELSEWHERE, "node(s) had no available volume zone", 1)]


def test_a_node_without_zones_takes_every_volume() -> None:
    claim = volume_claim("data", bound="v")
    zoned = volume("v", claim=claim, labels={"topology.kubernetes.io/zone": "z9"})
    plan = decide(with_storage(snapshot(node("bare")), LOCAL_CLASS, claim, zoned), using(pod("p"), "data"))
    assert places(plan) == {"p": "bare"}


def test_equal_local_volumes_are_all_given_out_each_once() -> None:
    volumes = [volume(f"v{name}", nodes=[name]) for name in NODES]
    claims = [volume_claim(f"data-{i}") for i in range(4)]
    asked = [using(pod(f"p{i}"), f"data-{i}") for i in range(4)]
    plan = decide(cluster(LOCAL_CLASS, *volumes, *claims), *asked)
    assert len(places(plan)) == 3
    bound = [each for placement in plan.placements for each in placement.volumes]
    assert sorted(each.volume for each in bound) == ["vn1", "vn2", "vn3"]
    assert all(each.volume == f"v{placement.node}" for placement in plan.placements for each in placement.volumes)
    (loser,) = plan.unplaced
    assert [each.code for each in loser.reasons] == [ReasonCode.OUTRANKED, ReasonCode.VOLUME_NONE]


def test_the_smallest_volume_that_fits_is_taken() -> None:
    volumes = [volume("large", "100Gi"), volume("small", "5Gi"), volume("right", "20Gi"), volume("more", "30Gi")]
    plan = decide(cluster(LOCAL_CLASS, *volumes, volume_claim("data", "15Gi")), using(pod("p"), "data"))
    (binding,) = plan.placements[0].volumes
    assert (binding.claim.name, binding.claim_uid, binding.volume, binding.volume_uid) == (
        "data",
        "uid-data",
        "right",
        "uid-right",
    )


def test_small_claims_leave_large_volumes_to_large_ones() -> None:
    volumes = [volume("a", "10Gi", nodes=["n1"]), volume("b", "50Gi", nodes=["n1"])]
    claims = [volume_claim("small", "1Gi"), volume_claim("large", "50Gi")]
    plan = decide(
        cluster(LOCAL_CLASS, *volumes, *claims), using(pod("p", priority=5), "small"), using(pod("q"), "large")
    )
    assert places(plan) == {"p": "n1", "q": "n1"}


def test_two_claims_of_a_pod_get_two_volumes_of_one_node() -> None:
    volumes = [volume("a", nodes=["n1"]), volume("b", nodes=["n2"]), volume("c", nodes=["n2"])]
    plan = decide(
        cluster(LOCAL_CLASS, *volumes, volume_claim("data"), volume_claim("log")), using(pod("p"), "data", "log")
    )
    assert places(plan) == {"p": "n2"}
    assert {each.volume for each in plan.placements[0].volumes} == {"b", "c"}


def test_network_volumes_are_counted_over_all_nodes_that_reach_them() -> None:
    asked = [using(pod(f"p{i}"), f"data-{i}") for i in range(3)]
    claims = [volume_claim(f"data-{i}") for i in range(3)]
    volumes = [volume("wide"), replace(volume("zonal"), node_affinity=on_nodes("n1", "n2"))]
    plan = decide(cluster(LOCAL_CLASS, *volumes, *claims), *asked)
    assert len(plan.placements) == 2


@pytest.mark.parametrize(
    "unfit",
    [
        pytest.param({"storage_class": "other"}, id="class"),
        pytest.param({"capacity": 1}, id="size"),
        pytest.param({"access_modes": ("ReadOnlyMany",)}, id="access mode"),
        pytest.param({"mode": "Block"}, id="volume mode"),
        pytest.param({"attributes_class": "gold"}, id="attributes class"),
        pytest.param({"labels": ()}, id="selector"),
        pytest.param({"phase": "Released"}, id="phase"),
        pytest.param({"is_deleting": True}, id="deleting"),
        pytest.param({"claim": VolumeClaimId("default", "other")}, id="kept for another claim"),
    ],
)
def test_a_volume_that_does_not_fit_is_not_taken(unfit: dict[str, object]) -> None:
    claim = volume_claim("data", selector={"disk": "fast"})
    fitting = volume("v", labels={"disk": "fast"})
    asked = using(pod("p"), "data")
    assert places(decide(cluster(LOCAL_CLASS, claim, fitting), asked))
    plan = decide(cluster(LOCAL_CLASS, claim, replace(fitting, **unfit)), asked)
    assert why(plan) == [(ReasonCode.VOLUME_NONE, "node(s) didn't find available persistent volumes to bind", 3)]


def test_a_volume_that_is_kept_for_the_claim_is_taken_although_a_smaller_one_fits() -> None:
    claim = volume_claim("data")
    kept = replace(volume("kept", "100Gi", nodes=["n3"], storage="other"), claim=claim.id)
    plan = decide(cluster(LOCAL_CLASS, claim, volume("free"), kept), using(pod("p"), "data"))
    assert places(plan) == {"p": "n3"}
    assert plan.placements[0].volumes[0].volume == "kept"


def test_a_claim_of_a_class_that_makes_volumes_is_made_on_the_node() -> None:
    plan = decide(cluster(MAKING, volume_claim("data", storage=DYNAMIC)), using(pod("p"), "data"))
    (binding,) = plan.placements[0].volumes
    assert (binding.claim.name, binding.volume) == ("data", "")


def test_a_selected_node_is_kept() -> None:
    stand = cluster(MAKING, volume_claim("data", storage=DYNAMIC, selected="n2"))
    assert places(decide(stand, using(pod("p"), "data"))) == {"p": "n2"}


def test_a_class_makes_volumes_where_its_topologies_allow() -> None:
    limited = replace(MAKING, allowed_topologies=(((HOST, ("n3", "n9")),),))
    assert places(decide(cluster(limited, volume_claim("data", storage=DYNAMIC)), using(pod("p"), "data"))) == {
        "p": "n3"
    }
    empty = replace(MAKING, allowed_topologies=((),))
    plan = decide(cluster(empty, volume_claim("data", storage=DYNAMIC)), using(pod("p"), "data"))
    assert [each[0] for each in why(plan)] == [ReasonCode.VOLUME_NONE]


def test_storage_that_tells_its_room_has_to_have_it() -> None:
    driver = CSIDriver(name="csi.example.com", tracks_capacity=True)
    selector = LabelSelector(requirements=(LabelRequirement(key=HOST, operator="In", values=("n2",)),))
    room = CSIStorageCapacity(
        namespace="s", name="c", storage_class=DYNAMIC, topology=selector, most=10 * 2**30 * 10**9
    )
    claim = volume_claim("data", storage=DYNAMIC)
    asked = using(pod("p"), "data")
    assert places(decide(cluster(MAKING, claim, driver, room), asked)) == {"p": "n2"}
    for short in (replace(room, most=room.most - 1 if room.most else None), replace(room, topology=None)):
        plan = decide(cluster(MAKING, claim, driver, short), asked)
        assert why(plan) == [(ReasonCode.VOLUME_CAPACITY, "node(s) did not have enough free storage", 3)]
    silent = CSIDriver(name="csi.example.com")
    assert places(decide(cluster(MAKING, claim, silent), asked))


@pytest.mark.parametrize(
    ("made", "found", "codes"),
    [
        pytest.param(1, 2, {ReasonCode.VOLUME_CAPACITY: 3}, id="the smaller one is to be made"),
        pytest.param(2, 1, {ReasonCode.VOLUME_NONE: 2, ReasonCode.VOLUME_CAPACITY: 1}, id="it has a volume on n1"),
    ],
)
def test_a_node_without_two_volumes_has_the_reason_of_the_first(
    made: int, found: int, codes: dict[ReasonCode, int]
) -> None:
    driver = CSIDriver(name="csi.example.com", tracks_capacity=True)
    claims = [volume_claim("a", storage=DYNAMIC, size=f"{made}Gi"), volume_claim("b", size=f"{found}Gi")]
    small = volume("small", nodes=["n1"], size="1Gi")
    plan = decide(cluster(MAKING, LOCAL_CLASS, driver, small, *claims), using(pod("p"), "a", "b"))
    assert {code: count for code, _, count in why(plan)} == codes


def test_a_claim_with_a_selected_node_comes_first() -> None:
    driver = CSIDriver(name="csi.example.com", tracks_capacity=True)
    selected = volume_claim("a", storage=DYNAMIC, size="2Gi", selected="n2")
    stand = cluster(MAKING, LOCAL_CLASS, driver, selected, volume_claim("b", size="1Gi"))
    codes = {code: count for code, _, count in why(decide(stand, using(pod("p"), "a", "b")))}
    assert codes == {ReasonCode.VOLUME_NONE: 2, ReasonCode.VOLUME_CAPACITY: 1}


def test_the_small_claims_of_a_class_get_the_volumes_that_are_there() -> None:
    """So the reason is that of the claim between the two."""
    driver = CSIDriver(name="csi.example.com", tracks_capacity=True)
    found = [volume_claim("a", size="1Gi"), volume_claim("c", size="3Gi")]
    made = volume_claim("b", storage=DYNAMIC, size="2Gi")
    large = volume("large", nodes=["n1"], size="9Gi")
    plan = decide(cluster(MAKING, LOCAL_CLASS, driver, large, *found, made, names=("n1",)), using(pod("p"), *"abc"))
    assert [each[0] for each in why(plan)] == [ReasonCode.VOLUME_CAPACITY]


@pytest.mark.parametrize(
    ("objects", "code", "message"),
    [
        pytest.param((), ReasonCode.VOLUME_CLAIM_MISSING, 'persistentvolumeclaim "data" not found', id="missing"),
        pytest.param(
            (replace(volume_claim("data"), is_deleting=True),),
            ReasonCode.VOLUME_CLAIM_UNUSABLE,
            'persistentvolumeclaim "data" is being deleted',
            id="deleting",
        ),
        pytest.param(
            (replace(volume_claim("data", bound="v"), is_lost=True),),
            ReasonCode.VOLUME_CLAIM_UNUSABLE,
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
            id="lost",
        ),
        pytest.param(
            (storage_class("now", "csi.example.com", waits=False), volume_claim("data", storage="now")),
            ReasonCode.VOLUME_CLAIM_UNBOUND,
            "pod has unbound immediate PersistentVolumeClaims (data)",
            id="immediate",
        ),
        pytest.param(
            (LOCAL_CLASS, replace(volume_claim("data"), volume="v")),
            ReasonCode.VOLUME_CLAIM_UNBOUND,
            "pod has unbound immediate PersistentVolumeClaims (data)",
            id="half bound",
        ),
        pytest.param(
            (volume_claim("data", storage="gone"),),
            ReasonCode.VOLUME_CLAIM_UNBOUND,
            "pod has unbound immediate PersistentVolumeClaims (data of StorageClass gone, which is not there)",
            id="without its class",
        ),
    ],
)
def test_claims_that_keep_a_pod_from_every_node(objects: tuple[object, ...], code: ReasonCode, message: str) -> None:
    plan = decide(cluster(*objects), using(pod("p"), "data"))
    assert why(plan) == [(code, message, 0)]


def test_the_claim_of_an_ephemeral_volume_is_the_pods_own() -> None:
    entry = PodVolume(name="data", claim=VolumeClaimId("default", "p-data"), is_ephemeral=True)
    asked = replace(pod("p"), volumes=(entry,))
    message = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-data"'
    assert why(decide(cluster(MAKING), asked)) == [(ReasonCode.VOLUME_CLAIM_MISSING, message, 0)]
    claim = volume_claim("p-data", storage=DYNAMIC)
    other = decide(cluster(MAKING, claim), asked)
    assert [each[0] for each in why(other)] == [ReasonCode.VOLUME_CLAIM_UNUSABLE]
    assert places(decide(cluster(MAKING, replace(claim, owner_pod_uid=asked.uid)), asked))


def test_one_pod_at_a_time_has_a_claim_of_one_pod() -> None:
    claim = volume_claim("data", bound="v", modes=["ReadWriteOncePod"])
    objects = (LOCAL_CLASS, claim, volume("v", claim=claim))
    plan = decide(cluster(*objects), using(pod("p"), "data"), using(pod("q"), "data"))
    assert len(plan.placements) == 1
    assert [each.code for each in plan.unplaced[0].reasons] == [ReasonCode.OUTRANKED, ReasonCode.VOLUME_EXCLUSIVE]
    running = using(pod("other", node_name="n1"), "data")
    refused = decide(cluster(*objects, pods=(running,)), using(pod("p"), "data"))
    assert [(code, count) for code, _, count in why(refused)] == [(ReasonCode.VOLUME_EXCLUSIVE, 3)]


@pytest.mark.parametrize(
    ("kind", "first", "second", "together"),
    [
        pytest.param(DiskKind.GCE, True, True, True, id="both read"),
        pytest.param(DiskKind.GCE, True, False, False, id="one writes"),
        pytest.param(DiskKind.AWS, False, False, False, id="EBS"),
        pytest.param(DiskKind.ISCSI, False, True, False, id="iSCSI"),
    ],
)
def test_disks_are_shared_on_a_node_only_for_reading(
    *, kind: DiskKind, first: bool, second: bool, together: bool
) -> None:
    def having(name: str, is_read_only: bool, at: str = "") -> Pod:  # noqa: FBT001 - read in the rows above
        disk = InlineDisk(kind=kind, name="d", is_read_only=is_read_only)
        return replace(pod(name, node_name=at), volumes=(PodVolume(name="v", disk=disk),))

    alone = cluster(names=("n1",))
    assert len(decide(alone, having("p", first), having("q", second)).placements) == 1 + together
    beside = decide(cluster(names=("n1",), pods=(having("p", first, "n1"),)), having("q", second))
    assert bool(beside.placements) == together
    if not together:
        assert why(beside, "q") == [(ReasonCode.VOLUME_IN_USE, "node(s) had no available disk", 1)]
    assert len(decide(cluster(names=("n1", "n2")), having("p", first), having("q", second)).placements) == 2


@pytest.mark.parametrize(
    ("monitors", "is_read_only", "together"), [("bc", False, False), ("c", False, True), ("ab", True, True)]
)
def test_rbd_images_are_the_same_where_they_share_a_monitor(
    monitors: str, *, is_read_only: bool, together: bool
) -> None:
    def having(name: str, monitors: str, at: str = "") -> Pod:
        disk = InlineDisk(kind=DiskKind.RBD, name="p/i", monitors=tuple(monitors), is_read_only=is_read_only)
        return replace(pod(name, node_name=at), volumes=(PodVolume(name="v", disk=disk),))

    beside = decide(cluster(names=("n1",), pods=(having("p", "ab", "n1"),)), having("q", monitors))
    assert bool(beside.placements) == together


def test_disks_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods may name thousands of them, and pods that never start may do so on every node."""

    def having(name: str, first: int, at: str = "") -> Pod:
        disks = (InlineDisk(kind=DiskKind.ISCSI, name=f"d{first + number}") for number in range(50))
        return replace(pod(name, node_name=at), volumes=tuple(PodVolume(name=each.name, disk=each) for each in disks))

    running = tuple(having(f"r{number}", 50 * number, "n1") for number in range(1, 11))
    looked = [counted(monkeypatch, attachments, "_identities"), counted(monkeypatch, verified, "_clash")]

    assert decide(cluster(names=("n1",), pods=running), having("p", 0)).placements
    assert len(looked[0]) <= 11 * 50
    assert looked[1] == []
    assert not decide(cluster(names=("n1",), pods=running), having("p", 549)).placements


def limit(count: int | None, name: str = "n1") -> CSINode:
    return CSINode(node=name, limits=(("csi.example.com", count),))


def bound_by_csi(*names: str) -> tuple[object, ...]:
    claims = [volume_claim(name, bound=f"v-{name}", storage=DYNAMIC) for name in names]
    return (*claims, *(volume(f"v-{each.id.name}", claim=each, driver="csi.example.com") for each in claims))


def test_a_node_takes_as_many_volumes_of_a_driver_as_it_can() -> None:
    asked = [using(pod(f"p{i}"), f"c{i}") for i in range(4)]
    stand = cluster(MAKING, limit(2), *bound_by_csi("c0", "c1", "c2", "c3"), names=("n1",))
    plan = decide(stand, *asked)
    assert len(plan.placements) == 2
    assert {each.code for each in plan.unplaced[0].reasons} == {ReasonCode.OUTRANKED, ReasonCode.VOLUME_ATTACHMENTS}
    assert len(decide(cluster(MAKING, limit(None), *bound_by_csi("c0"), names=("n1",)), asked[0]).placements) == 1


def test_volumes_of_running_pods_and_attachments_count_each_once() -> None:
    held = using(pod("old", node_name="n1"), "c0")
    attached = [
        VolumeAttachment(name=f"a{i}", attacher="csi.example.com", node="n1", volume=f"v-c{i}") for i in range(2)
    ]
    objects = (MAKING, limit(3), *bound_by_csi("c0", "c1", "c2", "c3"), *attached)
    stand = cluster(*objects, pods=(held,), names=("n1",))
    assert places(decide(stand, using(pod("p"), "c2"))) == {"p": "n1"}
    full = decide(stand, using(pod("p"), "c2", "c3"))
    assert why(full) == [(ReasonCode.VOLUME_ATTACHMENTS, "node(s) exceed max volume count", 1)]
    assert places(decide(stand, using(pod("p"), "c2", "c1", "c0"))) == {"p": "n1"}


def test_volumes_that_are_to_be_made_count_for_their_driver() -> None:
    claims = [volume_claim(f"c{i}", storage=DYNAMIC) for i in range(3)]
    asked = [using(pod(f"p{i}"), f"c{i}") for i in range(3)]
    assert len(decide(cluster(MAKING, limit(2), *claims, names=("n1",)), *asked).placements) == 2


def test_pods_that_share_a_volume_attach_it_once() -> None:
    asked = [using(pod(f"p{i}"), "c0") for i in range(3)]
    assert len(decide(cluster(MAKING, limit(1), *bound_by_csi("c0"), names=("n1",)), *asked).placements) == 3


def test_shared_volumes_beyond_the_limit_are_left_for_the_next_batch() -> None:
    asked = [using(pod(f"p{i}"), f"c{i // 2}") for i in range(6)]
    plan = decide(cluster(MAKING, limit(2), *bound_by_csi("c0", "c1", "c2"), names=("n1",)), *asked)
    assert len(plan.placements) == 4
    assert all(each.reasons[0].code is ReasonCode.VOLUME_CONTENDED for each in plan.unplaced)


def test_migrated_volumes_count_where_the_node_has_migrated_them() -> None:
    claim = volume_claim("c0", bound="v", storage=DYNAMIC)
    disk = replace(volume("v", claim=claim, driver="ebs.csi.aws.com"), migrated_from="kubernetes.io/aws-ebs")
    drivers = CSINode(node="n1", limits=(("ebs.csi.aws.com", 0),))
    asked = using(pod("p"), "c0")
    assert places(decide(cluster(MAKING, claim, disk, drivers, names=("n1",)), asked))
    migrated = replace(drivers, migrated=("kubernetes.io/aws-ebs",))
    assert not places(decide(cluster(MAKING, claim, disk, migrated, names=("n1",)), asked))

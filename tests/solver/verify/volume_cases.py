"""A valid plan with volumes of every sort, and ways to break it."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from solver.domain import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DiskKind,
    InlineDisk,
    LabelRequirement,
    LabelSelector,
    Placement,
    PodVolume,
    Snapshot,
    VolumeAttachment,
    VolumeBinding,
    VolumeClaimId,
)
from solver.verify import Rule
from tests.solver.verify import cases as c
from tests.support import builders as b
from tests.support import volume_builders as v

_DISK = InlineDisk(kind=DiskKind.GCE, name="disk", is_read_only=True)
_TI = 2**40 * 10**9


def volumes() -> c.Case:
    """
    A pod with a bound claim of one pod, a claim that gets a volume and one whose volume is made; a disk to read.

    Beside it one that runs and reads the disk too, and one with a claim of its own, made for it.
    """
    bound = v.volume_claim("bound", bound="there", modes=["ReadWriteOncePod"])
    waiting = v.volume_claim("waiting", "5Gi", selector={"disk": "fast"})
    dynamic = v.volume_claim("dynamic", storage=v.DYNAMIC)
    made = v.volume_claim("second-own", storage=v.DYNAMIC, bound="own")
    first = v.using(b.pod("first"), "bound", "waiting", "dynamic")
    first = replace(first, volumes=(*first.volumes, PodVolume(name="disk", disk=_DISK)))
    second = b.pod("second")
    entry = PodVolume(name="own", claim=made.id, is_ephemeral=True)
    second = replace(second, volumes=(entry,))
    running = replace(b.pod("running", node_name="n1"), volumes=(PodVolume(name="disk", disk=_DISK),))
    zone = {"topology.kubernetes.io/zone": "a"}
    topology = LabelSelector(requirements=(LabelRequirement(key=v.HOST, operator="In", values=("n1",)),))
    snapshot = v.with_storage(
        b.snapshot(b.node("n1", labels=zone), b.node("n2", labels={**zone, v.HOST: "n2"}), running),
        v.storage_class(),
        replace(v.storage_class(v.DYNAMIC, "csi.example.com"), allowed_topologies=(((v.HOST, ("n1",)),),)),
        bound,
        waiting,
        dynamic,
        replace(made, owner_pod_uid=second.uid),
        v.volume("there", nodes=["n1"], claim=bound, labels=zone, driver="csi.example.com"),
        v.volume("free", "5Gi", nodes=["n1"], labels={"disk": "fast"}),
        v.volume("other", "50Gi", labels={"disk": "fast"}),
        v.volume("own", claim=made, driver="csi.example.com"),
        v.volume("attached", driver="csi.example.com"),
        CSINode(node="n1", limits=(("csi.example.com", 4),)),
        VolumeAttachment(name="a", attacher="csi.example.com", node="n1", volume="attached"),
        CSIDriver(name="csi.example.com", tracks_capacity=True),
        CSIStorageCapacity(namespace="s", name="c", storage_class=v.DYNAMIC, topology=topology, most=_TI),
    )
    placed = Placement(
        pod=first.id,
        pod_uid=first.uid,
        node="n1",
        volumes=(
            VolumeBinding(claim=waiting.id, claim_uid=waiting.uid, volume="free", volume_uid="uid-free"),
            VolumeBinding(claim=dynamic.id, claim_uid=dynamic.uid),
        ),
    )
    return c.Case(snapshot, b.batch(first, second), b.plan(placed, b.placement(second, "n1")))


def _changed(field: str, key: str, **changes: Any) -> c.Change:
    """Change the objects of a name in one field of the snapshot."""

    def name(each: Any) -> str:
        found = getattr(each, "name", None) or getattr(each, "node", None) or each.id.name
        return str(found)

    def change(case: c.Case) -> c.Case:
        found = tuple(replace(each, **changes) if name(each) == key else each for each in getattr(case.snapshot, field))
        return case._replace(snapshot=replace(case.snapshot, **{field: found}))

    return change


def _without(field: str, key: str) -> c.Change:
    def change(case: c.Case) -> c.Case:
        kept = tuple(
            each
            for each in getattr(case.snapshot, field)
            if (each.id if field == "volume_claims" else each).name != key
        )
        snapshot: Snapshot = replace(case.snapshot, **{field: kept})
        return case._replace(snapshot=snapshot)

    return change


def _claim(name: str, **changes: Any) -> c.Change:
    return _changed("volume_claims", name, **changes)


def _volume(name: str, **changes: Any) -> c.Change:
    return _changed("volumes", name, **changes)


def _binding(index: int, **changes: Any) -> c.Change:
    def change(case: c.Case) -> c.Case:
        found = list(case.plan.placements[0].volumes)
        found[index] = replace(found[index], **changes)
        return c.placement("first", volumes=tuple(found))(case)

    return change


def _bindings(edit: Callable[[tuple[VolumeBinding, ...]], tuple[VolumeBinding, ...]]) -> c.Change:
    return lambda case: c.placement("first", volumes=edit(case.plan.placements[0].volumes))(case)


def _moved_disk(**changes: Any) -> c.Change:
    entry = PodVolume(name="disk", disk=replace(_DISK, **changes))
    return c.running("running", volumes=(entry,))


_required = _changed("storage_drivers", "csi.example.com", is_required=True)


def _installed(*names: str) -> c.Change:
    return _changed("node_drivers", "n1", limits=tuple((name, None) for name in names))


_STRANGER = VolumeBinding(claim=VolumeClaimId("default", "stranger"), claim_uid="uid-stranger")

BROKEN: tuple[tuple[str, Callable[[], c.Case], c.Change, set[Rule]], ...] = tuple(
    (name, volumes, change, rules)
    for name, change, rules in (
        ("a volume claim is missing", _without("volume_claims", "bound"), {Rule.VOLUME_CLAIM}),
        ("a volume claim is being deleted", _claim("bound", is_deleting=True), {Rule.VOLUME_CLAIM}),
        ("a volume claim has lost its volume", _claim("bound", is_lost=True), {Rule.VOLUME_CLAIM}),
        ("a volume claim belongs to another pod", _claim("second-own", owner_pod_uid="x"), {Rule.VOLUME_CLAIM}),
        ("a bound volume is gone", _without("volumes", "there"), {Rule.VOLUME_CLAIM}),
        (
            "a bound volume is elsewhere",
            _volume("there", node_affinity=v.on_nodes("n2")),
            {Rule.VOLUME_ELSEWHERE},
        ),
        (
            "a bound volume is in another zone",
            _volume("there", labels=(("topology.kubernetes.io/zone", "b__c"),)),
            {Rule.VOLUME_ELSEWHERE},
        ),
        ("a claim that waits is forgotten", _bindings(lambda old: old[:1]), {Rule.VOLUME_UNBOUND}),
        (
            "a claim that does not wait is decided",
            _changed("storage_classes", v.DYNAMIC, waits_for_consumer=False),
            {Rule.VOLUME_UNBOUND},
        ),
        ("a claim that is half bound is decided", _claim("waiting", volume="free"), {Rule.VOLUME_UNBOUND}),
        (
            "a bound claim is decided again",
            _claim("waiting", volume="free", is_bind_completed=True),
            {Rule.VOLUME_BINDING},
        ),
        (
            "a claim that the pod does not use is decided",
            _bindings(lambda old: (*old, _STRANGER)),
            {Rule.VOLUME_BINDING},
        ),
        ("a namesake of a claim is decided", _binding(0, claim_uid="x"), {Rule.VOLUME_BINDING}),
        ("a namesake of a volume is given", _binding(0, volume_uid="x"), {Rule.VOLUME_BINDING}),
        ("another node is selected", _claim("dynamic", selected_node="n2"), {Rule.VOLUME_BINDING}),
        ("a volume is too small", _claim("waiting", request=_TI), {Rule.VOLUME_UNFIT}),
        ("a volume is of another class", _volume("free", storage_class="x"), {Rule.VOLUME_UNFIT}),
        ("a volume is of another mode", _volume("free", mode="Block"), {Rule.VOLUME_UNFIT}),
        ("a volume is of other attributes", _volume("free", attributes_class="x"), {Rule.VOLUME_UNFIT}),
        ("a volume lacks an access mode", _volume("free", access_modes=()), {Rule.VOLUME_UNFIT}),
        ("a volume is not selected", _volume("free", labels=()), {Rule.VOLUME_UNFIT}),
        ("a volume is not available", _volume("free", phase="Released"), {Rule.VOLUME_UNFIT}),
        ("a volume is being deleted", _volume("free", is_deleting=True), {Rule.VOLUME_UNFIT}),
        ("a volume is taken", _volume("free", claim=VolumeClaimId("default", "x")), {Rule.VOLUME_UNFIT}),
        ("a volume does not reach the node", _volume("free", node_affinity=v.on_nodes("n2")), {Rule.VOLUME_UNFIT}),
        (
            "a class makes no volumes",
            _changed("storage_classes", v.DYNAMIC, provisioner="kubernetes.io/no-provisioner"),
            {Rule.VOLUME_UNMADE},
        ),
        (
            "a class makes volumes elsewhere",
            _changed("storage_classes", v.DYNAMIC, allowed_topologies=(((v.HOST, ("n2",)),),)),
            {Rule.VOLUME_UNMADE},
        ),
        (
            "the storage has too little room",
            _changed("storage_capacities", "c", most=1),
            {Rule.VOLUME_UNMADE},
        ),
        (
            "a volume is given to two claims",
            c.both(
                _claim("dynamic", storage_class=v.LOCAL),
                _binding(1, volume="free", volume_uid="uid-free"),
                _claim("dynamic", request=1),
            ),
            {Rule.VOLUME_TWICE},
        ),
        (
            "a claim of one pod is used",
            c.running("running", volumes=v.using(b.pod("running"), "bound").volumes),
            {Rule.VOLUME_EXCLUSIVE},
        ),
        ("a disk is written on the node", _moved_disk(is_read_only=False), {Rule.VOLUME_IN_USE}),
        (
            "too many volumes are attached",
            _changed("node_drivers", "n1", limits=(("csi.example.com", 3),)),
            {Rule.VOLUME_ATTACHMENTS},
        ),
        ("a required driver is not on the node", c.both(_required, _installed()), {Rule.VOLUME_DRIVER_MISSING}),
        (
            "a required driver is not known to be on the node",
            c.both(_required, _changed("node_drivers", "n1", node="n2")),
            {Rule.VOLUME_DRIVER_MISSING},
        ),
    )
)

ACCEPTED: tuple[tuple[str, c.Change], ...] = (
    (
        "a volume that is kept for the claim needs no class, label, phase or access mode",
        _volume(
            "free",
            claim=VolumeClaimId("default", "waiting"),
            storage_class="x",
            labels=(),
            phase="Pending",
            access_modes=(),
        ),
    ),
    ("a node that was selected before", _claim("dynamic", selected_node="n1")),
    ("a class for every topology", _changed("storage_classes", v.DYNAMIC, allowed_topologies=())),
    ("a driver that does not tell its room", c.both(
        _changed("storage_drivers", "csi.example.com", tracks_capacity=False),
        _changed("storage_capacities", "c", most=1),
    )),
    ("a claim without a size", c.both(_claim("dynamic", request=None), _changed("storage_capacities", "c", most=1))),
    ("a zone of several", _volume("there", labels=(("failure-domain.beta.kubernetes.io/zone", "a__b"),))),
    ("another disk is written on the node", _moved_disk(is_read_only=False, name="other")),
    ("a limit of another driver", _changed("node_drivers", "n1", limits=(("x", 0), ("csi.example.com", None)))),
    ("a required driver is on the node", c.both(_required, _installed("csi.example.com"))),
    ("a driver that is not required is not on the node", _installed("x")),
    ("what is attached is counted once", c.both(
        _changed("node_drivers", "n1", limits=(("csi.example.com", 3),)),
        _changed("attachments", "a", volume="there"),
    )),
    ("what is not migrated is not counted", c.both(
        _changed("node_drivers", "n1", limits=(("csi.example.com", 3),)), _volume("own", migrated_from="x"))),
)  # fmt: skip

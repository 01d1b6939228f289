"""
Volumes: pods run where their volumes are accessible, and no volume is bound twice.

Implemented from the API documentation (core/v1 PersistentVolume and PersistentVolumeClaim, storage.k8s.io/v1): the node
can access the volume of a bound claim; a claim that waits for its first consumer gets a volume that fits, or one is
provisioned for the node; ReadWriteOncePod, inline disks and attach limits hold for all pods together.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import msgspec

from solver.domain import (
    READ_WRITE_ONCE_POD,
    CSINode,
    DiskKind,
    InlineDisk,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Placement,
    Plan,
    Pod,
    PodId,
    PodVolume,
    StorageClass,
    Violation,
    VolumeAttachment,
    VolumeBinding,
    VolumeClaimId,
)
from solver.verify import matching
from solver.verify.object_index import ObjectGroups
from solver.verify.plan_context import PlanContext
from solver.verify.violations import Rule, broken

_AREAS: Final = ("zone", "region")
_PLUGINS: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
}
_Disks = dict[tuple[str, object], dict[tuple[InlineDisk, PodId], None]]
"""By node and what two disks have in common that are the same: the disks, with the pods that use them."""


@dataclass(slots=True, eq=False)
class _Storage:
    claims: dict[VolumeClaimId, PersistentVolumeClaim]
    volumes: dict[str, PersistentVolume]
    classes: dict[str, StorageClass]
    drivers: dict[str, CSINode]
    """By node."""
    attachments: ObjectGroups[str, VolumeAttachment]
    """By node."""


@dataclass(slots=True, eq=False)
class _Placed:
    placement: Placement
    pod: Pod
    node: Node


def violations(plan: Plan, context: PlanContext) -> Iterator[Violation]:
    """Check all rules about volumes, for the placed pods that have volumes."""
    placed = [
        _Placed(placement, pod, context.nodes[placement.node])
        for placement in plan.placements
        if (pod := context.pods.get(placement.pod)) is not None
        and (pod.volumes or placement.volumes)
        and placement.node in context.nodes
    ]
    if not placed:
        return
    index = context.index.storage
    storage = _Storage(
        claims=index.claims.objects,
        volumes=index.volumes.objects,
        classes={each.name: each for each in context.snapshot.storage_classes},
        drivers=index.drivers.objects,
        attachments=index.attachments.by_node,
    )
    for each in placed:
        yield from _claims(each, storage, context)
    yield from _given_twice(placed)
    yield from _one_pod(placed, storage, context)
    yield from _disks(placed, context)
    yield from _attachments(placed, storage, context)
    yield from _drivers(placed, storage, context)


def _running(pods: Iterable[Pod], placed: Sequence[_Placed]) -> list[Pod]:
    """Return those of a snapshot's pods that the plan does not place too."""
    moved = {each.pod.uid for each in placed}
    return [pod for pod in pods if pod.uid not in moved]


def _claims(placed: _Placed, storage: _Storage, context: PlanContext) -> Iterator[Violation]:
    pod, bindings = placed.pod, {each.claim: each for each in placed.placement.volumes}
    for entry in pod.volumes:
        if entry.claim is None:
            continue
        claim = storage.claims.get(entry.claim)
        yield from _usable(pod, entry, claim)
        if claim is None:
            continue
        binding = bindings.pop(entry.claim, None)
        is_bound = bool(claim.volume) and claim.is_bind_completed
        if is_bound and binding is not None:
            yield broken(Rule.VOLUME_BINDING, claim.id, f"it is bound to {claim.volume} already")
        elif is_bound:
            yield from _reached(placed, claim, storage)
        elif binding is None:
            if not _is_named_twice(pod, entry):
                yield broken(Rule.VOLUME_UNBOUND, claim.id, f"pod {pod.id} is placed and nothing becomes of it")
        else:
            yield from _decided(placed, claim, binding, storage, context)
    for each in bindings:
        yield broken(Rule.VOLUME_BINDING, each, f"pod {pod.id} does not use it")


def _is_named_twice(pod: Pod, entry: PodVolume) -> bool:
    """Whether an earlier entry of the pod is the same claim."""
    return next(each for each in pod.volumes if each.claim == entry.claim) is not entry


def _usable(pod: Pod, entry: PodVolume, claim: PersistentVolumeClaim | None) -> Iterator[Violation]:
    if claim is None:
        yield broken(Rule.VOLUME_CLAIM, pod.id, f"there is no volume claim {entry.claim}")
    elif claim.is_deleting or claim.is_lost or claim.invalid:
        message = f"volume claim {claim.id} is being deleted, has lost its volume or cannot be read"
        yield broken(Rule.VOLUME_CLAIM, pod.id, message)
    elif entry.is_ephemeral and claim.owner_pod_uid != pod.uid:
        yield broken(Rule.VOLUME_CLAIM, pod.id, f"volume claim {claim.id} was not made for it")


def _reached(placed: _Placed, claim: PersistentVolumeClaim, storage: _Storage) -> Iterator[Violation]:
    """A bound volume exists, and its affinity and zone labels allow the node."""
    volume = storage.volumes.get(claim.volume)
    if volume is None:
        yield broken(Rule.VOLUME_CLAIM, placed.pod.id, f"volume {claim.volume} of claim {claim.id} does not exist")
        return
    if not _is_allowed(volume, placed.node):
        message = f"volume {volume.name} cannot be used on node {placed.node.name}"
        yield broken(Rule.VOLUME_ELSEWHERE, placed.pod.id, message)
    if not _is_same_area(volume, placed.node):
        message = f"volume {volume.name} is in another zone or region than node {placed.node.name}"
        yield broken(Rule.VOLUME_ELSEWHERE, placed.pod.id, message)


def _is_allowed(volume: PersistentVolume, node: Node) -> bool:
    """The affinity of a volume is about labels; the name of the node is none (CheckNodeAffinity)."""
    if volume.node_affinity is None:
        return True
    return matching.selects(volume.node_affinity, msgspec.structs.replace(node, name=""))


def _is_same_area(volume: PersistentVolume, node: Node) -> bool:
    stable, beta = "topology.kubernetes.io", "failure-domain.beta.kubernetes.io"
    labels = dict(node.labels)
    if not any(f"{prefix}/{area}" in labels for prefix in (stable, beta) for area in _AREAS):
        return True
    for key, value in volume.labels:
        prefix, _, area = key.partition("/")
        if area not in _AREAS or prefix not in {stable, beta}:
            continue
        there = labels.get(key)
        if there is None:
            there = labels.get(f"{stable}/{area}")
        if there not in value.split("__"):
            return False
    return True


def _decided(
    placed: _Placed, claim: PersistentVolumeClaim, binding: VolumeBinding, storage: _Storage, context: PlanContext
) -> Iterator[Violation]:
    storage_class = storage.classes.get(claim.storage_class)
    if binding.claim_uid != claim.uid:
        yield broken(Rule.VOLUME_BINDING, claim.id, f"the plan means the claim with uid {binding.claim_uid}")
    if claim.volume or storage_class is None or not storage_class.waits_for_consumer:
        yield broken(Rule.VOLUME_UNBOUND, claim.id, "it is bound without waiting for a pod, and is not bound yet")
        return
    selected = binding.made_on(placed.node.name)
    if claim.selected_node not in {None, selected}:
        yield broken(Rule.VOLUME_BINDING, claim.id, f"its volume is made on node {claim.selected_node}")
    if binding.volume:
        yield from _fitting(placed, claim, binding, storage)
    elif selected not in context.nodes:
        yield broken(Rule.VOLUME_UNMADE, claim.id, f"there is no node {selected}")
    else:
        if selected != placed.node.name and not _is_reached_too(
            placed.node, context.nodes[selected], storage_class, storage
        ):
            message = f"pod {placed.pod.id} on node {placed.node.name} may not reach what is made on node {selected}"
            yield broken(Rule.VOLUME_ELSEWHERE, claim.id, message)
        yield from _made(context.nodes[selected], claim, storage_class, context)


def _fitting(
    placed: _Placed, claim: PersistentVolumeClaim, binding: VolumeBinding, storage: _Storage
) -> Iterator[Violation]:
    volume = storage.volumes.get(binding.volume)
    if volume is None or volume.uid != binding.volume_uid:
        yield broken(Rule.VOLUME_BINDING, claim.id, f"there is no volume {binding.volume} of uid {binding.volume_uid}")
        return
    is_kept = volume.claim == claim.id and volume.claim_uid in {"", claim.uid}
    demands = {
        "is taken": volume.claim is None or is_kept,
        "is too small": volume.capacity >= (claim.request or 0),
        "is of another volume mode": volume.mode == claim.mode,
        "is of other attributes": volume.attributes_class == claim.attributes_class,
        "is being deleted": not volume.is_deleting,
        "is not available": is_kept or volume.phase == "Available",
        "is of another class": is_kept or volume.storage_class == claim.storage_class,
        "lacks an access mode": is_kept or not set(claim.access_modes) - set(volume.access_modes),
        "is not selected": is_kept or claim.selector is None or claim.selector.matches(dict(volume.labels)),
        f"cannot be used on node {placed.node.name}": _is_allowed(volume, placed.node),
    }
    for message in (message for message, holds in demands.items() if not holds):
        yield broken(Rule.VOLUME_UNFIT, claim.id, f"volume {volume.name} {message}")


def _is_reached_too(node: Node, selected: Node, storage_class: StorageClass, storage: _Storage) -> bool:
    """
    Whether a node surely reaches a volume that is made on another one.

    What is made on a node is reached from where the driver's topology keys (CSINode) have the same values.
    """
    driver = _PLUGINS.get(storage_class.provisioner, storage_class.provisioner)

    def keys(name: str) -> frozenset[str] | None:
        drivers = storage.drivers.get(name)
        found = dict(drivers.topology_keys).get(driver) if drivers is not None else None
        return None if found is None else frozenset(found)

    here, there = keys(node.name), keys(selected.name)
    if here is None or here != there:
        return False
    values, others = dict(node.labels), dict(selected.labels)
    return all(key in values and values[key] == others.get(key) for key in here)


def _made(
    node: Node, claim: PersistentVolumeClaim, storage_class: StorageClass, context: PlanContext
) -> Iterator[Violation]:
    labels = dict(node.labels)
    terms = storage_class.allowed_topologies
    if storage_class.provisioner in {"", "kubernetes.io/no-provisioner"}:
        yield broken(Rule.VOLUME_UNMADE, claim.id, f"class {storage_class.name} makes no volumes")
    elif terms and not any(term and all(labels.get(key) in values for key, values in term) for term in terms):
        message = f"class {storage_class.name} makes no volumes for node {node.name}"
        yield broken(Rule.VOLUME_UNMADE, claim.id, message)
    tracked = {each.name for each in context.snapshot.storage_drivers if each.tracks_capacity}
    if claim.request is None or storage_class.provisioner not in tracked:
        return
    most = [
        each.most
        for each in context.snapshot.storage_capacities
        if each.storage_class == storage_class.name and each.topology is not None and each.topology.matches(labels)
    ]
    if not any(each is not None and each >= claim.request for each in most):
        message = f"the storage of node {node.name} has too little room"
        yield broken(Rule.VOLUME_UNMADE, claim.id, message)


def _given_twice(placed: Sequence[_Placed]) -> Iterator[Violation]:
    """A volume goes to one claim, and a claim gets one volume or is made on one node."""
    takers: defaultdict[str, set[VolumeClaimId]] = defaultdict(set)
    ends: defaultdict[VolumeClaimId, set[tuple[str, str]]] = defaultdict(set)
    for each in placed:
        for binding in each.placement.volumes:
            if binding.volume:
                takers[binding.volume].add(binding.claim)
            ends[binding.claim].add((binding.volume, binding.made_on(each.node.name)))
    for name, claims in takers.items():
        if len(claims) > 1:
            yield broken(Rule.VOLUME_TWICE, name, f"it is given to {' and '.join(sorted(map(str, claims)))}")
    for claim, found in ends.items():
        if len(found) > 1:
            yield broken(Rule.VOLUME_TWICE, claim, "it gets several volumes, or one on several nodes")


def _one_pod(placed: Sequence[_Placed], storage: _Storage, context: PlanContext) -> Iterator[Violation]:
    """ReadWriteOncePod: claims that pods name themselves; those made for one pod have no other."""
    named = ({volume.claim for volume in each.pod.volumes if not volume.is_ephemeral} for each in placed)
    for claim_id, count in Counter(claim_id for each in named for claim_id in each).items():
        claim = storage.claims.get(claim_id) if claim_id is not None else None
        if claim is None or READ_WRITE_ONCE_POD not in claim.access_modes:
            continue
        there = len(_running(context.index.pods.by_volume_claim.of(claim.id), placed))
        if count + there > 1:
            yield broken(Rule.VOLUME_EXCLUSIVE, claim.id, f"{count + there} pods would use it")


def _disks(placed: Sequence[_Placed], context: PlanContext) -> Iterator[Violation]:
    on_node: _Disks = {}
    for node in {each.node.name for each in placed if any(volume.disk is not None for volume in each.pod.volumes)}:
        for pod in sorted(_running(context.index.pods.by_node.of(node), placed), key=attrgetter("id")):
            for disk in _inline(pod):
                _hold(on_node, node, disk, pod)
    for each in placed:
        own = [((each.node.name, key), disk) for disk in _inline(each.pod) for key in _disk_keys(disk)]
        there = ((disk, used) for place, disk in own for used in on_node.get(place, ()))
        for disk, (_, other) in ((disk, used) for disk, used in there if _clash(disk, used[0])):
            message = f"pod {other} uses {disk.name} on node {each.node.name} too"
            yield broken(Rule.VOLUME_IN_USE, each.pod.id, message)
        for disk in _inline(each.pod):
            _hold(on_node, each.node.name, disk, each.pod)


def _hold(on_node: _Disks, node: str, disk: InlineDisk, pod: Pod) -> None:
    for key in _disk_keys(disk):
        on_node.setdefault((node, key), {})[disk, pod.id] = None


def _inline(pod: Pod) -> dict[InlineDisk, None]:
    return dict.fromkeys(each.disk for each in pod.volumes if each.disk is not None)


def _disk_keys(disk: InlineDisk) -> set[object]:
    """What two disks have in common that are the same one: an image of RBD has to be known to the same monitor."""
    return {(disk.kind, disk.name, each) for each in (disk.monitors if disk.kind is DiskKind.RBD else (None,))}


def _clash(one: InlineDisk, other: InlineDisk) -> bool:
    is_same = one.kind == other.kind and one.name == other.name
    if one.kind is DiskKind.RBD:
        is_same = is_same and not set(one.monitors).isdisjoint(other.monitors)
    only_read = one.is_read_only and other.is_read_only and one.kind is not DiskKind.AWS
    return is_same and not only_read


def _attachments(placed: Sequence[_Placed], storage: _Storage, context: PlanContext) -> Iterator[Violation]:
    """Unique volumes of a driver per node, of the pods and of attachments, where pods arrive that add some."""
    for node in sorted({each.node.name for each in placed}):
        drivers = storage.drivers.get(node, CSINode(node=node))
        limits = {name: limit for name, limit in drivers.limits if limit is not None}
        if not limits:
            continue
        there = _counted(_running(context.index.pods.by_node.of(node), placed), storage, drivers.migrated)
        for each in storage.attachments.of(node):
            volume = storage.volumes.get(each.volume)
            if volume is not None and volume.handle and not volume.migrated_from:
                there.add((each.attacher, volume.handle))
        arriving = (each.pod for each in placed if each.node.name == node)
        added = _counted(arriving, storage, drivers.migrated) - there
        for driver in sorted({driver for driver, _ in added} & limits.keys()):
            count = sum(name == driver for name, _ in there | added)
            if count > limits[driver]:
                message = f"{count} volumes of {driver} would be attached, it can have {limits[driver]}"
                yield broken(Rule.VOLUME_ATTACHMENTS, node, message)


def _drivers(placed: Sequence[_Placed], storage: _Storage, context: PlanContext) -> Iterator[Violation]:
    """A driver with preventPodSchedulingIfMissing is in the CSINode of each node where a pod has its volumes."""
    required = {each.name for each in context.snapshot.storage_drivers if each.is_required}
    if not required:
        return
    for each in placed:
        drivers = storage.drivers.get(each.node.name, CSINode(node=each.node.name))
        used = {driver for driver, _ in _counted((each.pod,), storage, drivers.migrated)}
        for driver in sorted((used & required) - {name for name, _ in drivers.limits}):
            message = f"node {each.node.name} does not have CSI driver {driver}"
            yield broken(Rule.VOLUME_DRIVER_MISSING, each.pod.id, message)


def _counted(pods: Iterable[Pod], storage: _Storage, migrated: Sequence[str]) -> set[tuple[str, str]]:
    """Return (driver, handle) of the volumes that pods use; for one still to be made the claim is the handle."""
    found = set()
    for entry in (each for pod in pods for each in pod.volumes if each.claim is not None):
        claim = storage.claims.get(entry.claim) if entry.claim is not None else None
        if claim is None:
            continue
        driver, handle, plugin = _attached(claim, storage.volumes, storage.classes)
        if driver and handle and (not plugin or plugin in migrated):
            found.add((driver, handle))
    return found


def _attached(
    claim: PersistentVolumeClaim, volumes: Mapping[str, PersistentVolume], classes: Mapping[str, StorageClass]
) -> tuple[str, str, str]:
    volume = volumes.get(claim.volume) if claim.volume else None
    if volume is not None:
        return volume.driver, volume.handle, volume.migrated_from
    provisioner = classes[claim.storage_class].provisioner if claim.storage_class in classes else ""
    if provisioner in _PLUGINS:
        return _PLUGINS[provisioner], f"of claim {claim.id}", provisioner
    return provisioner, f"of claim {claim.id}", ""

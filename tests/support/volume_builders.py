"""Short builders for volumes, claims and what is known of storage; `with_storage` puts them into a snapshot."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from solver.domain import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    LabelRequirement,
    LabelSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodVolume,
    Snapshot,
    StorageClass,
    VolumeAttachment,
    VolumeClaimId,
)
from solver.domain.quantity import parse

NAMESPACE = "default"
LOCAL = "local"
DYNAMIC = "dynamic"
HOST = "kubernetes.io/hostname"

Stored = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIStorageCapacity
    | CSIDriver
    | VolumeAttachment
)

_FIELDS = {
    PersistentVolume: "volumes",
    PersistentVolumeClaim: "volume_claims",
    StorageClass: "storage_classes",
    CSINode: "node_drivers",
    CSIStorageCapacity: "storage_capacities",
    CSIDriver: "storage_drivers",
    VolumeAttachment: "attachments",
}


def with_storage(snapshot: Snapshot, *objects: Stored) -> Snapshot:
    """Add storage to a snapshot."""
    found: dict[str, tuple[Stored, ...]] = {name: getattr(snapshot, name) for name in _FIELDS.values()}
    for each in objects:
        found[_FIELDS[type(each)]] += (each,)
    return replace(snapshot, **found)


def using(pod: Pod, *claims: str) -> Pod:
    """Give a pod volumes of claims."""
    volumes = tuple(PodVolume(name=name, claim=VolumeClaimId(pod.id.namespace, name)) for name in claims)
    return replace(pod, volumes=pod.volumes + volumes)


def storage_class(name: str = LOCAL, provisioner: str = "", *, waits: bool = True) -> StorageClass:
    """Make a class; by default one of local volumes that no provisioner makes."""
    return StorageClass(name=name, provisioner=provisioner or "kubernetes.io/no-provisioner", waits_for_consumer=waits)


def on_nodes(*names: str, key: str = HOST) -> NodeSelector:
    """Make the affinity of a volume that some values of a label reach."""
    requirement = NodeSelectorRequirement(key=key, operator="In", values=names)
    return NodeSelector(terms=(NodeSelectorTerm(match_expressions=(requirement,)),))


def volume(
    name: str,
    size: str = "10Gi",
    *,
    nodes: Sequence[str] = (),
    storage: str = LOCAL,
    claim: PersistentVolumeClaim | None = None,
    labels: Mapping[str, str] | None = None,
    driver: str = "",
    modes: Sequence[str] = ("ReadWriteOnce",),
) -> PersistentVolume:
    """Make a free volume, or one that is bound to a claim."""
    return PersistentVolume(
        name=name,
        uid=f"uid-{name}",
        storage_class=storage,
        capacity=parse(size).nano,
        access_modes=tuple(modes),
        labels=tuple(sorted((labels or {}).items())),
        node_affinity=on_nodes(*nodes) if nodes else None,
        claim=claim.id if claim is not None else None,
        claim_uid=claim.uid if claim is not None else "",
        phase="Bound" if claim is not None else "Available",
        driver=driver,
        handle=name if driver else "",
    )


def volume_claim(
    name: str,
    size: str = "10Gi",
    *,
    storage: str = LOCAL,
    bound: str = "",
    selected: str | None = None,
    modes: Sequence[str] = ("ReadWriteOnce",),
    selector: Mapping[str, str] | None = None,
) -> PersistentVolumeClaim:
    """Make a claim that waits, or one that is bound to a volume."""
    requirements = tuple(
        LabelRequirement(key=key, operator="In", values=(value,)) for key, value in (selector or {}).items()
    )
    return PersistentVolumeClaim(
        id=VolumeClaimId(NAMESPACE, name),
        uid=f"uid-{name}",
        storage_class=storage,
        volume=bound,
        request=parse(size).nano,
        access_modes=tuple(modes),
        selector=LabelSelector(requirements=requirements) if selector else None,
        selected_node=selected,
        is_bind_completed=bool(bound),
    )

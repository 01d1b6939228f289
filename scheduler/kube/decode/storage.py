"""PersistentVolumes, their claims, storage.k8s.io/v1, and the volumes of pods that matter to scheduling."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from scheduler.kube.decode.shared_fields import (
    LabelSelectorWire,
    MalformedError,
    Metadata,
    NodeSelectorWire,
    Wire,
    label_selector,
    labels,
    node_selector,
    quantity,
)
from solver.domain import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DiskKind,
    InlineDisk,
    PersistentVolume,
    PersistentVolumeClaim,
    PodVolume,
    QuantityError,
    StorageClass,
    VolumeAttachment,
    VolumeClaimId,
)

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""The annotation that overrides spec.storageClassName of claims and volumes."""
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_FILESYSTEM: Final = "Filesystem"


class _Csi(Wire, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class _Aws(Wire, frozen=True):
    volume_id: str = msgspec.field(name="volumeID", default="")


class _Azure(Wire, frozen=True):
    disk_uri: str = msgspec.field(name="diskURI", default="")


class _Cinder(Wire, frozen=True):
    volume_id: str = msgspec.field(name="volumeID", default="")


class _Affinity(Wire, frozen=True):
    required: NodeSelectorWire | None = None


class _Reference(Wire, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _VolumeSpec(Wire, frozen=True):
    capacity: dict[str, str] | None = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: _Reference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: _Affinity | None = None
    csi: _Csi | None = None
    aws_elastic_block_store: _Aws | None = None
    azure_disk: _Azure | None = None
    cinder: _Cinder | None = None


class _Phase(Wire, frozen=True):
    phase: str = ""


class _Volume(Wire, frozen=True):
    metadata: Metadata
    spec: _VolumeSpec = _VolumeSpec()
    status: _Phase = _Phase()


class _Resources(Wire, frozen=True):
    requests: dict[str, str] | None = None


class _ClaimSpec(Wire, frozen=True):
    access_modes: tuple[str, ...] | None = None
    selector: LabelSelectorWire | None = None
    resources: _Resources = _Resources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class _VolumeClaim(Wire, frozen=True):
    metadata: Metadata
    spec: _ClaimSpec = _ClaimSpec()
    status: _Phase = _Phase()


class _TopologyLabel(Wire, frozen=True):
    key: str = ""
    values: tuple[str, ...] | None = None


class _TopologyTerm(Wire, frozen=True):
    match_label_expressions: tuple[_TopologyLabel, ...] | None = None


class _StorageClass(Wire, frozen=True):
    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[_TopologyTerm, ...] | None = None


class _Allocatable(Wire, frozen=True):
    count: int | None = None


class _NodeDriver(Wire, frozen=True):
    name: str = ""
    topology_keys: tuple[str, ...] | None = None
    allocatable: _Allocatable | None = None


class _CsiNodeSpec(Wire, frozen=True):
    drivers: tuple[_NodeDriver, ...] | None = None


class _CsiNode(Wire, frozen=True):
    metadata: Metadata
    spec: _CsiNodeSpec = _CsiNodeSpec()


class _Capacity(Wire, frozen=True):
    metadata: Metadata
    node_topology: LabelSelectorWire | None = None
    storage_class_name: str = ""
    capacity: str | None = None
    maximum_volume_size: str | None = None


class _CsiDriverSpec(Wire, frozen=True):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class _CsiDriver(Wire, frozen=True):
    metadata: Metadata
    spec: _CsiDriverSpec = _CsiDriverSpec()


class _Source(Wire, frozen=True):
    persistent_volume_name: str | None = None


class _AttachmentSpec(Wire, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: _Source = _Source()


class _Attachment(Wire, frozen=True):
    metadata: Metadata
    spec: _AttachmentSpec = _AttachmentSpec()


_volume = msgspec.json.Decoder(_Volume)
_volume_claim = msgspec.json.Decoder(_VolumeClaim)
_storage_class = msgspec.json.Decoder(_StorageClass)
_csi_node = msgspec.json.Decoder(_CsiNode)
_capacity = msgspec.json.Decoder(_Capacity)
_csi_driver = msgspec.json.Decoder(_CsiDriver)
_attachment = msgspec.json.Decoder(_Attachment)


def decode_volume(raw: bytes | msgspec.Raw) -> PersistentVolume:
    """Decode a PersistentVolume."""
    wire = _volume.decode(raw)
    metadata, spec, reference = wire.metadata, wire.spec, wire.spec.claim_ref
    driver, handle, plugin = _source(spec)
    return PersistentVolume(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        storage_class=(metadata.annotations or {}).get(_CLASS, spec.storage_class_name),
        capacity=_nano((spec.capacity or {}).get("storage"), "spec.capacity[storage]") or 0,
        access_modes=spec.access_modes or (),
        mode=spec.volume_mode or _FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        labels=labels(metadata.labels),
        node_affinity=node_selector(spec.node_affinity.required) if spec.node_affinity is not None else None,
        claim=VolumeClaimId(reference.namespace, reference.name) if reference is not None else None,
        claim_uid=reference.uid if reference is not None else "",
        phase=wire.status.phase,
        driver=driver,
        handle=handle,
        migrated_from=plugin,
        is_deleting=metadata.deletion_timestamp is not None,
    )


def decode_volume_claim(raw: bytes | msgspec.Raw) -> PersistentVolumeClaim:
    """Decode a PersistentVolumeClaim."""
    wire = _volume_claim.decode(raw)
    metadata, spec, annotations = wire.metadata, wire.spec, wire.metadata.annotations or {}
    owner = metadata.controller
    return PersistentVolumeClaim(
        id=VolumeClaimId(metadata.namespace, metadata.name),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        storage_class=annotations.get(_CLASS, spec.storage_class_name or ""),
        volume=spec.volume_name,
        request=_nano((spec.resources.requests or {}).get("storage"), "spec.resources.requests[storage]"),
        access_modes=spec.access_modes or (),
        mode=spec.volume_mode or _FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        selector=label_selector(spec.selector),
        selected_node=annotations.get(SELECTED_NODE),
        owner_pod_uid=owner.uid if owner is not None and owner.kind == "Pod" else "",
        is_bind_completed=BIND_COMPLETED in annotations,
        is_lost=wire.status.phase == "Lost",
        is_deleting=metadata.deletion_timestamp is not None,
    )


def decode_storage_class(raw: bytes | msgspec.Raw) -> StorageClass:
    """Decode a StorageClass."""
    wire = _storage_class.decode(raw)
    return StorageClass(
        name=wire.metadata.name,
        provisioner=wire.provisioner,
        waits_for_consumer=wire.volume_binding_mode == "WaitForFirstConsumer",
        allowed_topologies=tuple(
            tuple((each.key, each.values or ()) for each in term.match_label_expressions or ())
            for term in wire.allowed_topologies or ()
        ),
        is_default=(wire.metadata.annotations or {}).get(DEFAULT_CLASS) == "true",
    )


def decode_node_drivers(raw: bytes | msgspec.Raw) -> CSINode:
    """Decode a CSINode."""
    wire = _csi_node.decode(raw)
    migrated = (wire.metadata.annotations or {}).get(_MIGRATED, "")
    return CSINode(
        node=wire.metadata.name,
        limits=tuple(
            (each.name, each.allocatable.count if each.allocatable else None)
            for each in sorted(wire.spec.drivers or (), key=lambda driver: driver.name)
        ),
        topology_keys=tuple(
            (each.name, tuple(sorted(each.topology_keys or ())))
            for each in sorted(wire.spec.drivers or (), key=lambda driver: driver.name)
        ),
        migrated=tuple(each for each in migrated.split(",") if each),
    )


def decode_storage_capacity(raw: bytes | msgspec.Raw) -> CSIStorageCapacity:
    """Decode a CSIStorageCapacity; maximumVolumeSize counts where it is set."""
    wire = _capacity.decode(raw)
    most = wire.maximum_volume_size if wire.maximum_volume_size is not None else wire.capacity
    return CSIStorageCapacity(
        namespace=wire.metadata.namespace,
        name=wire.metadata.name,
        storage_class=wire.storage_class_name,
        topology=label_selector(wire.node_topology),
        most=_nano(most, "capacity"),
    )


def decode_storage_driver(raw: bytes | msgspec.Raw) -> CSIDriver:
    """Decode a CSIDriver."""
    wire = _csi_driver.decode(raw)
    return CSIDriver(
        name=wire.metadata.name,
        tracks_capacity=bool(wire.spec.storage_capacity),
        is_required=bool(wire.spec.prevent_pod_scheduling_if_missing),
    )


def decode_attachment(raw: bytes | msgspec.Raw) -> VolumeAttachment:
    """Decode a VolumeAttachment."""
    wire = _attachment.decode(raw)
    spec = wire.spec
    return VolumeAttachment(
        name=wire.metadata.name,
        attacher=spec.attacher,
        node=spec.node_name,
        volume=spec.source.persistent_volume_name or "",
    )


def _source(spec: _VolumeSpec) -> tuple[str, str, str]:
    """Return driver and handle, and the in-tree plugin that is migrated to the driver."""
    if spec.csi is not None:
        return spec.csi.driver, spec.csi.volume_handle, ""
    if spec.aws_elastic_block_store is not None:
        handle = spec.aws_elastic_block_store.volume_id.rpartition("/")[2]
        return "ebs.csi.aws.com", handle, "kubernetes.io/aws-ebs"
    if spec.azure_disk is not None:
        return "disk.csi.azure.com", spec.azure_disk.disk_uri, "kubernetes.io/azure-disk"
    if spec.cinder is not None:
        return "cinder.csi.openstack.org", spec.cinder.volume_id, "kubernetes.io/cinder"
    return "", "", ""


def _nano(text: str | None, field: str) -> int | None:
    """Parse a size to nano-units of bytes."""
    if text is None:
        return None
    try:
        return quantity(text).nano
    except QuantityError as error:
        raise MalformedError(field, str(error)) from error


class _ClaimSource(Wire, frozen=True):
    claim_name: str = ""


class _Ephemeral(Wire, frozen=True):
    """A generic ephemeral volume; only its presence matters."""


class _Gce(Wire, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class _Iscsi(Wire, frozen=True):
    iqn: str = ""
    read_only: bool = False


class _Rbd(Wire, frozen=True):
    monitors: tuple[str, ...] | None = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class VolumeWire(Wire, frozen=True):
    """core/v1 Volume."""

    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None
    ephemeral: _Ephemeral | None = None
    gce_persistent_disk: _Gce | None = None
    aws_elastic_block_store: _Aws | None = None
    iscsi: _Iscsi | None = None
    rbd: _Rbd | None = None


def pod_volumes(wires: Iterable[VolumeWire], namespace: str, pod_name: str) -> tuple[PodVolume, ...]:
    """Return the claims and disks; the claim of an ephemeral volume is named POD-VOLUME."""
    return tuple(_entries(wires, namespace, pod_name))


def _entries(wires: Iterable[VolumeWire], namespace: str, pod_name: str) -> Iterator[PodVolume]:
    for each in wires:
        if each.persistent_volume_claim is not None:
            claim = VolumeClaimId(namespace, each.persistent_volume_claim.claim_name)
            yield PodVolume(name=each.name, claim=claim)
        elif each.ephemeral is not None:
            claim = VolumeClaimId(namespace, f"{pod_name}-{each.name}")
            yield PodVolume(name=each.name, claim=claim, is_ephemeral=True)
        elif (disk := _disk(each)) is not None:
            yield PodVolume(name=each.name, disk=disk)


def _disk(wire: VolumeWire) -> InlineDisk | None:
    if wire.gce_persistent_disk is not None:
        gce = wire.gce_persistent_disk
        return InlineDisk(kind=DiskKind.GCE, name=gce.pd_name, is_read_only=gce.read_only)
    if wire.aws_elastic_block_store is not None:
        return InlineDisk(kind=DiskKind.AWS, name=wire.aws_elastic_block_store.volume_id)
    if wire.iscsi is not None:
        return InlineDisk(kind=DiskKind.ISCSI, name=wire.iscsi.iqn, is_read_only=wire.iscsi.read_only)
    if wire.rbd is not None:
        rbd = wire.rbd
        name = f"{rbd.pool}/{rbd.image}"
        return InlineDisk(kind=DiskKind.RBD, name=name, is_read_only=rbd.read_only, monitors=rbd.monitors or ())
    return None

"""Volumes (core/v1 and storage.k8s.io/v1): the fields that decide where a pod may run."""

from enum import StrEnum
from typing import Final

import msgspec

from solver.domain.ids import VolumeClaimId
from solver.domain.label_selectors import LabelSelector, NodeSelector

READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
"""The access mode of a volume that one pod at a time may use."""


class DiskKind(StrEnum):
    """Inline volume sources that pods of one node cannot share freely (plugin VolumeRestrictions)."""

    GCE = "gcePersistentDisk"
    AWS = "awsElasticBlockStore"
    ISCSI = "iscsi"
    RBD = "rbd"


class InlineDisk(msgspec.Struct, frozen=True, kw_only=True):
    """An inline disk of a pod: `name` identifies it within its kind, for RBD together with `monitors`."""

    kind: DiskKind
    name: str
    is_read_only: bool = False
    monitors: tuple[str, ...] = ()


class PodVolume(msgspec.Struct, frozen=True, kw_only=True):
    """
    An entry of spec.volumes that matters for scheduling: a PersistentVolumeClaim or an inline disk.

    `is_ephemeral` marks a generic ephemeral volume; its claim is named `<pod>-<volume>`.
    """

    name: str
    claim: VolumeClaimId | None = None
    is_ephemeral: bool = False
    disk: InlineDisk | None = None


class PersistentVolume(msgspec.Struct, frozen=True, kw_only=True):
    """
    A PersistentVolume.

    `capacity` is in nano-units of bytes. `claim` is spec.claimRef; `claim_uid` is empty if a user has written it.
    `driver` and `handle` identify a CSI volume for attach limits. For a migrated in-tree source they are those of the
    CSI driver, and `migrated_from` is the in-tree plugin.
    """

    name: str
    uid: str = ""
    resource_version: str = ""
    storage_class: str = ""
    capacity: int = 0
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes_class: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    node_affinity: NodeSelector | None = None
    claim: VolumeClaimId | None = None
    claim_uid: str = ""
    phase: str = ""
    driver: str = ""
    handle: str = ""
    migrated_from: str = ""
    is_deleting: bool = False

    def is_bound_to(self, claim: "PersistentVolumeClaim") -> bool:
        """Whether the volume is bound to a claim or reserved for it."""
        return self.claim == claim.id and self.claim_uid in {"", claim.uid}


class PersistentVolumeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """
    A PersistentVolumeClaim.

    `request` is in nano-units of bytes, None if it requests no size. `selected_node` is the annotation
    `volume.kubernetes.io/selected-node`, None if it is missing. `owner_pod_uid` is the uid of the pod that controls the
    claim. `invalid` is the decoding error of a claim that cannot be decoded: pods that use it are not placed.
    """

    id: VolumeClaimId
    uid: str = ""
    resource_version: str = ""
    storage_class: str = ""
    volume: str = ""
    request: int | None = None
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes_class: str = ""
    selector: LabelSelector | None = None
    selected_node: str | None = None
    owner_pod_uid: str = ""
    is_bind_completed: bool = False
    is_lost: bool = False
    is_deleting: bool = False
    invalid: str = ""

    @property
    def is_bound(self) -> bool:
        """Whether the volume controller has completed the binding."""
        return bool(self.volume) and self.is_bind_completed


class StorageClass(msgspec.Struct, frozen=True, kw_only=True):
    """StorageClass; `allowed_topologies` are ORed terms of ANDed (label, values); no term allows every node."""

    name: str
    provisioner: str = ""
    waits_for_consumer: bool = False
    allowed_topologies: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()
    is_default: bool = False

    @property
    def provisions(self) -> bool:
        """Whether the class provisions volumes dynamically."""
        return self.provisioner not in {"", "kubernetes.io/no-provisioner"}


class CSINode(msgspec.Struct, frozen=True, kw_only=True):
    """
    CSINode: by driver of the node the limit of volumes that can be attached to the node, None for no limit.

    `topology_keys` are, by driver, the node labels that decide which of its volumes the node can access; without keys
    the node can access all. `migrated` are the in-tree plugins that the node has migrated to CSI.
    """

    node: str
    limits: tuple[tuple[str, int | None], ...] = ()
    topology_keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    migrated: tuple[str, ...] = ()


class CSIStorageCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """
    CSIStorageCapacity: `most` is the largest volume (nano-units of bytes) of a class for the nodes of a topology.

    Without a `topology` no node can access the storage. If `most` is None, the capacity is unknown and no volume fits.
    """

    namespace: str
    name: str
    storage_class: str
    topology: LabelSelector | None = None
    most: int | None = None


class CSIDriver(msgspec.Struct, frozen=True, kw_only=True):
    """
    CSIDriver; `tracks_capacity` is spec.storageCapacity, `is_required` spec.preventPodSchedulingIfMissing.

    Pods with volumes of a required driver run only on nodes whose CSINode lists the driver.
    """

    name: str
    tracks_capacity: bool = False
    is_required: bool = False


class VolumeAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """VolumeAttachment; `volume` is the PersistentVolume, empty for inline volumes."""

    name: str
    attacher: str
    node: str
    volume: str = ""


class VolumeBinding(msgspec.Struct, frozen=True, kw_only=True):
    """
    The plan's decision about a claim that waits for its first consumer (WaitForFirstConsumer).

    `volume` is the PersistentVolume to bind; if it is empty, a volume is provisioned for `node`, or for the pod's own
    node if that is empty too. Pods that share the claim on other nodes have the selected node in `node`. The uids tell
    objects from later ones of the same name.
    """

    claim: VolumeClaimId
    claim_uid: str
    volume: str = ""
    volume_uid: str = ""
    node: str = ""

    def made_on(self, own: str) -> str:
        """Return the node for which a volume is provisioned (`own`: the pod's node); empty if one exists."""
        return "" if self.volume else self.node or own

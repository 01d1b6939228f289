"""Volumes of pods, as far as they decide where a pod may run (core/v1 and storage.k8s.io/v1)."""

from enum import StrEnum

import msgspec

from solver.domain.ids import VolumeClaimId
from solver.domain.label_selectors import LabelSelector, NodeSelector


class DiskKind(StrEnum):
    """Sources written into the pod itself that pods on one node cannot share freely (VolumeRestrictions)."""

    GCE = "gcePersistentDisk"
    AWS = "awsElasticBlockStore"
    ISCSI = "iscsi"
    RBD = "rbd"


class InlineDisk(msgspec.Struct, frozen=True, kw_only=True):
    """A disk named in the pod: `name` is its identity within its kind; `monitors` (RBD) belong to that identity."""

    kind: DiskKind
    name: str
    is_read_only: bool = False
    monitors: tuple[str, ...] = ()


class PodVolume(msgspec.Struct, frozen=True, kw_only=True):
    """
    An entry of spec.volumes that decides something: a claim of its own or of the namespace, or an inline disk.

    `is_ephemeral` marks a claim that is made for the pod and named after both (`<pod>-<volume>`).
    """

    name: str
    claim: VolumeClaimId | None = None
    is_ephemeral: bool = False
    disk: InlineDisk | None = None


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """
    A PersistentVolume.

    `capacity` is in nano-units of bytes. `claim` is spec.claimRef, `claim_uid` empty where a person has written it.
    `driver` and `handle` identify a CSI volume for attach limits; for an in-tree source that nodes may have migrated
    they are those of its CSI driver, and `migrated_from` is the plugin.
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

    def is_bound_to(self, claim: "VolumeClaim") -> bool:
        """Whether it is bound, or kept, for a claim."""
        return self.claim == claim.id and self.claim_uid in {"", claim.uid}


class VolumeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """
    A PersistentVolumeClaim.

    `request` is in nano-units of bytes, None where it asks for no size. `selected_node` is the annotation
    `volume.kubernetes.io/selected-node`, None where there is none. `owner_pod_uid` is the uid of the pod that controls
    it. `invalid` says what is wrong with one that cannot be read: pods that use it are not placed.
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
        """Whether the volume controller has bound it to its end."""
        return bool(self.volume) and self.is_bind_completed


class StorageClass(msgspec.Struct, frozen=True, kw_only=True):
    """StorageClass; `allowed_topologies` are ORed terms of ANDed (label, values), none allows every node."""

    name: str
    provisioner: str = ""
    waits_for_consumer: bool = False
    allowed_topologies: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()
    is_default: bool = False

    @property
    def provisions(self) -> bool:
        """Whether volumes are made on demand."""
        return self.provisioner not in {"", "kubernetes.io/no-provisioner"}


class NodeDrivers(msgspec.Struct, frozen=True, kw_only=True):
    """
    CSINode: per driver how many volumes can be attached to the node, None where there is no limit.

    `topology_keys` are, per driver, the node labels whose values say which volumes of it the node reaches; a driver
    without any reaches all of them. `migrated` are the in-tree plugins whose volumes the node gives to CSI drivers.
    """

    node: str
    limits: tuple[tuple[str, int | None], ...] = ()
    topology_keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    migrated: tuple[str, ...] = ()


class StorageCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """
    CSIStorageCapacity: the largest volume (nano-units of bytes) of a class that nodes of a topology can get.

    Without a `topology` no node can reach it; a `most` of None is not known, and allows none.
    """

    namespace: str
    name: str
    storage_class: str
    topology: LabelSelector | None = None
    most: int | None = None


class StorageDriver(msgspec.Struct, frozen=True, kw_only=True):
    """CSIDriver: whether it publishes capacities that count."""

    name: str
    tracks_capacity: bool = False


class VolumeAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """VolumeAttachment of a PersistentVolume (of others `volume` is empty)."""

    name: str
    attacher: str
    node: str
    volume: str = ""


class VolumeBinding(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a plan decides about a claim that waits for its first consumer; the uids guard against namesakes.

    `volume` is the PersistentVolume that it gets; where it is empty one is made for it: on `node`, or on the pod's own
    node where that is empty too. Of pods that share a claim those on other nodes name the one that is selected.
    """

    claim: VolumeClaimId
    claim_uid: str
    volume: str = ""
    volume_uid: str = ""
    node: str = ""

    def made_on(self, own: str) -> str:
        """Give the node on which a volume is made, for a pod on its `own` node; empty where the claim gets another."""
        return "" if self.volume else self.node or own

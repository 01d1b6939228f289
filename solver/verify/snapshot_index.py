"""
What checks look up in a snapshot, and the cache that keeps it from one check to the next.

A check asks for the objects that its plan touches: a node with its pods, a claim, the claims with devices of a pool,
the slices of a pool. What only some plans ask for (pods by labels, volumes) follows the snapshot when it is asked for.
"""

from operator import attrgetter

from solver.domain import (
    Claim,
    ClaimId,
    CSINode,
    GangId,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    Snapshot,
    VolumeAttachment,
    VolumeClaimId,
)
from solver.verify.label_groups import LabelGroups
from solver.verify.object_index import ObjectGroups, ObjectIndex, ObjectsByKey
from solver.verify.pools import Pools


class ClaimIndex(ObjectIndex[Claim]):
    """Claims by id, and by driver and name of the pools that have their devices."""

    def __init__(self) -> None:
        super().__init__()
        self.by_id: dict[ClaimId, Claim] = {}
        self.by_pool: ObjectGroups[tuple[str, str], Claim] = ObjectGroups()

    def _set(self, each: Claim, *, present: bool) -> None:
        if present:
            self.by_id[each.id] = each
        else:
            del self.by_id[each.id]
        if each.allocation is not None:
            for pool in {(result.device.driver, result.device.pool) for result in each.allocation.results}:
                self.by_pool.set(pool, each, present=present)


class BoundPods(ObjectIndex[Pod]):
    """The pods of a snapshot by what the rules about other pods ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.by_node: ObjectGroups[str, Pod] = ObjectGroups()
        self.by_gang: ObjectGroups[GangId, Pod] = ObjectGroups()
        self.by_anti_affinity: ObjectGroups[PodAffinityTerm, Pod] = ObjectGroups()
        self.by_volume_claim: ObjectGroups[VolumeClaimId, Pod] = ObjectGroups()
        """By the volume claims that they name themselves, without ephemeral volumes."""

    def _set(self, each: Pod, *, present: bool) -> None:
        self.by_node.set(each.node_name, each, present=present)
        if each.gang is not None:
            self.by_gang.set(each.gang, each, present=present)
        if each.anti_affinity:
            for term in set(each.anti_affinity):
                self.by_anti_affinity.set(term, each, present=present)
        if each.volumes:
            for claim in {volume.claim for volume in each.volumes if volume.claim and not volume.is_ephemeral}:
                self.by_volume_claim.set(claim, each, present=present)


class AttachedVolumes(ObjectIndex[VolumeAttachment]):
    """The attachments by node."""

    def __init__(self) -> None:
        super().__init__()
        self.by_node: ObjectGroups[str, VolumeAttachment] = ObjectGroups()

    def _set(self, each: VolumeAttachment, *, present: bool) -> None:
        self.by_node.set(each.node, each, present=present)


class StorageIndex:
    """Volume claims, volumes, the drivers of nodes and attachments."""

    def __init__(self) -> None:
        self.claims: ObjectsByKey[VolumeClaimId, PersistentVolumeClaim] = ObjectsByKey(attrgetter("id"))
        self.volumes: ObjectsByKey[str, PersistentVolume] = ObjectsByKey(attrgetter("name"))
        self.drivers: ObjectsByKey[str, CSINode] = ObjectsByKey(attrgetter("node"))
        self.attachments = AttachedVolumes()

    def follow(self, snapshot: Snapshot) -> None:
        """Make this the index of a snapshot."""
        self.claims.follow(snapshot.volume_claims)
        self.volumes.follow(snapshot.volumes)
        self.drivers.follow(snapshot.node_drivers)
        self.attachments.follow(snapshot.attachments)


class SnapshotIndex:
    """
    The objects of a snapshot by key. It changes in place: a caller is done with it before it follows another snapshot.

    If `follow` raises, the index is of no snapshot and must be dropped.
    """

    def __init__(self, pools: Pools | None = None) -> None:
        """Use pools that the caller keeps up to date, for snapshots without slices."""
        self._snapshot = Snapshot()
        self.nodes: ObjectsByKey[str, Node] = ObjectsByKey(attrgetter("name"))
        self.claims = ClaimIndex()
        self.pods = BoundPods()
        self.pools = Pools() if pools is None else pools
        self._labels: LabelGroups | None = None
        self._storage: StorageIndex | None = None

    def follow(self, snapshot: Snapshot) -> None:
        """Make this the index of a snapshot."""
        self._snapshot = snapshot
        self.nodes.follow(snapshot.nodes)
        self.claims.follow(snapshot.claims)
        self.pods.follow(snapshot.pods)
        self.pools.follow(snapshot.slices)
        self.pools.obey(snapshot.taint_rules)

    @property
    def labels(self) -> LabelGroups:
        """The pods by namespace and labels."""
        self._labels = self._labels or LabelGroups()
        self._labels.follow(self._snapshot.pods)
        return self._labels

    @property
    def storage(self) -> StorageIndex:
        """The index of what volumes are about."""
        self._storage = self._storage or StorageIndex()
        self._storage.follow(self._snapshot)
        return self._storage


class VerifierCache:
    """The index of the last snapshot that a caller has checked a plan on; never shared between threads."""

    def __init__(self) -> None:
        self._index: SnapshotIndex | None = None

    def take(self) -> SnapshotIndex:
        """Hand the index over, or an empty one. A check that raises gives none back, so the next one starts anew."""
        index, self._index = self._index, None
        return index or SnapshotIndex()

    def keep(self, index: SnapshotIndex) -> None:
        """Keep the index of a check that has ended."""
        self._index = index

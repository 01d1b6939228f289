"""Storage objects of a snapshot, indexed for one batch; gives what the volumes of each pod refuse and ask."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from solver.arrays import Mask
from solver.domain import (
    READ_WRITE_ONCE_POD,
    Batch,
    InlineDisk,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodVolume,
    Reason,
    Snapshot,
    StorageClass,
    VolumeClaimId,
)
from solver.rules.node_fit.label_index import Bits, LabelIndex, mask_of
from solver.rules.verdicts import ExcludedNodes
from solver.rules.volumes import values as volumes
from solver.rules.volumes.attachments import Attachable, Attachments, Disks
from solver.rules.volumes.topology import PodVolumes, ReachableNodes, TopologySegments, VolumeKey
from solver.rules.volumes.unbound_volumes import UnboundVolumes, VolumeSupplies


@dataclass(slots=True, eq=False)
class VolumeIndex:
    """
    Storage objects of a snapshot, indexed for one batch.

    `users` counts the pods of the batch by claim. `holders` are claims that running pods use.
    """

    claims: Mapping[VolumeClaimId, PersistentVolumeClaim]
    volumes: Mapping[str, PersistentVolume]
    classes: Mapping[str, StorageClass]
    reach: ReachableNodes
    supply: VolumeSupplies
    attached: Attachments
    users: Counter[VolumeClaimId]
    holders: frozenset[VolumeClaimId]
    disks: Disks
    contested: frozenset[tuple[str, str]]
    _zone_masks: dict[object, Mask] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, batch: Batch, labels: LabelIndex) -> "VolumeIndex | None":
        """Index a snapshot, and its nodes by their labels; None where no pod of the batch has a volume."""
        if not any(pod.volumes for pod in batch.pods):
            return None
        node_index = {name: node for node, name in enumerate(labels.names)}
        found = {each.name: each for each in snapshot.volumes}
        reach = ReachableNodes(labels)
        users = Counter(claim for pod in batch.pods for claim in pod.volume_claims)
        claims = {each.id: each for each in snapshot.volume_claims}
        joint = frozenset(key for key, count in users.items() if count > 1 and not _is_exclusive(claims.get(key)))
        classes = {each.name: each for each in snapshot.storage_classes}
        is_any_waiting = any(volumes.waits(claims[key], classes) for key in users if key in claims)
        free, reserved = _unbound(snapshot.volumes if is_any_waiting else ())
        supply = VolumeSupplies(
            reach=reach,
            unbound=UnboundVolumes.of(free, chain.from_iterable(reserved.values()), reach),
            reserved=reserved,
            classes=classes,
            drivers={each.name: each for each in snapshot.storage_drivers},
            capacities=snapshot.storage_capacities,
            node_index=node_index,
            access=TopologySegments.of(snapshot.node_drivers, node_index, labels.labels),
            joint=joint,
        )
        running = [pod for pod in snapshot.pods if pod.volumes]
        volume_index = cls(
            claims=claims,
            volumes=found,
            classes=classes,
            reach=reach,
            supply=supply,
            attached=Attachments.of_drivers(snapshot.node_drivers, snapshot.storage_drivers, node_index),
            users=users,
            holders=frozenset(each.claim for pod in running for each in pod.volumes if each.claim and _is_plain(each)),
            disks=Disks.of(running, node_index),
            contested=_contested(batch),
        )
        if volume_index.attached.limits:
            volume_index.attached.count(running, node_index, volume_index.attachable)
            volume_index.attached.count_attached(snapshot.attachments, node_index, found)
        return volume_index

    def objections(self, pod: Pod) -> tuple[Reason, ...]:
        """Return the reasons that keep a pod from every node."""
        return volumes.objections(pod, self.claims, self.classes) if pod.volumes else ()

    def volumes_of(self, pod: Pod) -> PodVolumes | None:
        """Return what a pod asks of volumes; None where it has no volume. All of its claims have to exist."""
        if not pod.volumes:
            return None
        claims = [self.claims[each] for each in pod.volume_claims]
        waiting = self.waiting(pod)
        shapes = tuple(self.supply.shape_of(each) for each in waiting)
        attachable = {claim.id: each for claim in claims if (each := self._limited(claim)) is not None}
        unbound = {each.id: shape for each, shape in zip(waiting, shapes, strict=True)}
        refusals = tuple(each for each in self._refusals(pod, claims, unbound, attachable.values()) if each.nodes.any())
        named = {claim for claim, each in attachable.items() if self.users[claim] > 1 or self.attached.is_there(each)}
        rest = Counter((each.driver, each.plugin) for claim, each in attachable.items() if claim not in named)
        terms = VolumeKey(
            refused=tuple((each.nodes.tobytes(), each.reason.message) for each in refusals),
            shapes=shapes,
            joint=tuple(each.id if each.id in self.supply.joint else None for each in waiting),
            alone=tuple(each.id for each in claims if self.users[each.id] > 1 and _is_exclusive(each)),
            disks=tuple(each.disk for each in pod.volumes if each.disk and disk_key(each.disk) in self.contested),
            named=tuple(attachable[claim] for claim in attachable if claim in named),
            drivers=tuple((driver, plugin, count) for (driver, plugin), count in sorted(rest.items())),
        )
        return PodVolumes(refusals, terms)

    def waiting(self, pod: Pod) -> tuple[PersistentVolumeClaim, ...]:
        """Return the unbound claims of a pod, smaller ones first; equal pods give theirs in the same order."""
        claims = (self.claims[each] for each in pod.volume_claims)
        found = (each for each in claims if volumes.waits(each, self.classes))
        return tuple(sorted(found, key=self._place_of))

    def _place_of(self, claim: PersistentVolumeClaim) -> tuple[object, ...]:
        return (claim.request or 0, self.supply.shape_of(claim), claim.id not in self.supply.joint, claim.id)

    def attachable(self, claim_id: VolumeClaimId) -> Attachable | None:
        """Return what the volume of a claim counts as for attach limits; None where it counts on no node."""
        claim = self.claims.get(claim_id)
        if claim is None:
            return None
        found = volumes.attached_as(claim, self.volumes.get(claim.volume), self.classes)
        return Attachable(*found) if found is not None else None

    def _limited(self, claim: PersistentVolumeClaim) -> Attachable | None:
        if not self.attached.limits:
            return None
        found = self.attachable(claim.id)
        return found if found is not None and found.driver in self.attached.limits else None

    def _refusals(
        self,
        pod: Pod,
        claims: Iterable[PersistentVolumeClaim],
        unbound: Mapping[VolumeClaimId, int],
        attachable: Iterable[Attachable],
    ) -> Iterator[ExcludedNodes]:
        """Return the refused nodes in the order of kube-scheduler's plugins: restrictions, limits, binding, zones."""
        disks = [each.disk for each in pod.volumes if each.disk is not None]
        if disks:
            yield ExcludedNodes(self.reach.mask(sorted(self.disks.excluding(disks))), volumes.DISK_IN_USE)
        claims = tuple(claims)
        plain = {each.claim for each in pod.volumes if not each.is_ephemeral}
        if any(
            READ_WRITE_ONCE_POD in each.access_modes and each.id in self.holders and each.id in plain for each in claims
        ):
            yield ExcludedNodes(self._all(), volumes.EXCLUSIVE_IN_USE)
        yield from self._without_driver(claims)
        yield ExcludedNodes(self.attached.refused(attachable), volumes.TOO_MANY)
        bound = [self.volumes.get(each.volume) for each in claims if each.is_bound]
        if None in bound:
            yield ExcludedNodes(self._all(), volumes.MISSING)
        for volume in bound:
            if volume is not None and volume.node_affinity is not None:
                yield ExcludedNodes(~self.reach.mask(self.reach.of(volume.node_affinity)), volumes.ELSEWHERE)
        yield from self._unbindable([each for each in claims if each.id in unbound], unbound)
        for volume in bound:
            if volume is not None and (wanted := volumes.zones(volume)):
                yield ExcludedNodes(~self._in_zones(wanted), volumes.OTHER_ZONE)

    def _without_driver(self, claims: Iterable[PersistentVolumeClaim]) -> Iterator[ExcludedNodes]:
        """Return the nodes without a driver of the volumes that must be there."""
        missing = self.attached.missing
        found = (self.attachable(claim.id) for claim in (claims if missing else ()))
        required = {(each.driver, each.plugin): each for each in found if each is not None and each.driver in missing}
        for each in required.values():
            yield ExcludedNodes(self.attached.without_driver(each), volumes.driver_missing(each.driver))

    def _unbindable(
        self, claims: Sequence[PersistentVolumeClaim], shapes: Mapping[VolumeClaimId, int]
    ) -> Iterator[ExcludedNodes]:
        """
        Return the nodes where unbound claims get no volume: too few are free, and none can be provisioned.

        VolumeBinding gives the reason of the first such claim: those with a selected node first, then small ones.
        """
        counts, tried = Counter(shapes.values()), Counter[int]()
        short = {shape: self._short(shape, counts) for shape in counts}
        refused: dict[Reason, Mask] = {volumes.NONE_TO_BIND: ~self._all(), volumes.TOO_LITTLE: ~self._all()}
        open_nodes = self._all()
        for shape in (shapes[each.id] for each in sorted(claims, key=_binding_order)):
            supply, tried[shape] = self.supply.supplies[shape], tried[shape] + 1
            fails = open_nodes & short[shape]
            if tried[shape] < counts[shape]:  # the first ones of a shape get the volumes that are there
                fails &= supply.counts < tried[shape]
            refused[volumes.NONE_TO_BIND] |= fails & ~supply.can_make
            refused[volumes.TOO_LITTLE] |= fails & supply.can_make
            open_nodes &= ~fails
        yield from (ExcludedNodes(nodes, reason) for reason, nodes in refused.items())

    def _short(self, shape: int, counts: Mapping[int, int]) -> Mask:
        """Mark the nodes with too few volumes for the claims of a shape, and of those that compete for them."""
        supply, makers = self.supply.supplies[shape], Counter[Bits]()
        for other, count in counts.items():
            if self.is_below(other, shape):
                makers[self.supply.supplies[other].made_on] += count
        needed = np.zeros(len(supply.counts), dtype=np.int64)
        for made_on, count in makers.items():
            needed += count * ~mask_of(made_on, len(needed))
        short: Mask = ~supply.makes & (supply.counts < needed)
        return short

    def is_below(self, one: int, other: int) -> bool:
        """Whether every volume that fits claims of one shape fits claims of the other."""
        below, above = self.supply.supplies[one].members, self.supply.supplies[other].members
        return one == other or (below != 0 and not below & ~above)

    def _all(self) -> Mask:
        return np.ones(len(self.reach.labels), dtype=np.bool_)

    def _in_zones(self, wanted: tuple[tuple[str, tuple[str, ...]], ...]) -> Mask:
        if wanted not in self._zone_masks:
            found = [node for node, labels in enumerate(self.reach.labels) if volumes.is_in_zones(wanted, labels)]
            self._zone_masks[wanted] = self.reach.mask(found)
        return self._zone_masks[wanted]


def _unbound(every: Iterable[PersistentVolume]) -> tuple[list[PersistentVolume], dict[object, list[PersistentVolume]]]:
    """Return the volumes that any claim may get, and those with a claimRef, by claim."""
    free, reserved = list[PersistentVolume](), dict[object, list[PersistentVolume]]()
    for each in every:
        if each.claim is None and each.phase == "Available":
            free.append(each)
        elif each.claim is not None and each.phase != "Bound":
            reserved.setdefault(each.claim, []).append(each)
    return free, reserved


def _binding_order(claim: PersistentVolumeClaim) -> tuple[bool, int]:
    is_open = claim.selected_node is None
    return is_open, (claim.request or 0) * is_open


def _is_exclusive(claim: PersistentVolumeClaim | None) -> bool:
    return claim is not None and READ_WRITE_ONCE_POD in claim.access_modes


def _is_plain(each: PodVolume) -> bool:
    """Whether a volume is a claim of the namespace and not an ephemeral one."""
    return each.claim is not None and not each.is_ephemeral


def _contested(batch: Batch) -> frozenset[tuple[str, str]]:
    """Disks, by kind and name, that several pods of a batch use."""
    used = Counter(key for pod in batch.pods for key in {disk_key(each.disk) for each in pod.volumes if each.disk})
    return frozenset(key for key, count in used.items() if count > 1)


def disk_key(disk: InlineDisk) -> tuple[str, str]:
    """Identify a disk, however it is used."""
    return disk.kind, disk.name

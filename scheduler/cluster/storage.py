"""Volumes, volume claims and other storage objects: as observed, and with assumed bindings applied."""

from collections.abc import Container, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from scheduler.change import Kind, Object, StorageObject, Transition
from scheduler.cluster.table import Table
from solver.domain import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Placement,
    Snapshot,
    StorageClass,
    VolumeAttachment,
    VolumeBinding,
    VolumeClaimId,
    wording,
)

S = TypeVar(
    "S", PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode, CSIStorageCapacity, CSIDriver, VolumeAttachment
)


class VolumeAssumption(msgspec.Struct, frozen=True, kw_only=True):
    """The binding of a volume claim that a pod on `node` assumes; pods that share the claim may assume it too."""

    pod_uid: str
    node: str
    binding: VolumeBinding


class Storage:
    """
    One table per kind. An assumption applies until its pod is forgotten or bound, or the watch contradicts it.

    An assumed volume has its claimRef set; a claim whose volume will be provisioned has its selected node set.
    """

    def __init__(self) -> None:
        self.volumes: Table[str, PersistentVolume] = Table()
        self.claims: Table[str, PersistentVolumeClaim] = Table()
        self._assumed_volumes: Table[str, PersistentVolume] = Table()
        self._assumed_claims: Table[str, PersistentVolumeClaim] = Table()
        self._classes: Table[str, StorageClass] = Table()
        self._drivers: Table[str, CSINode] = Table()
        self._capacities: Table[str, CSIStorageCapacity] = Table()
        self._storage_drivers: Table[str, CSIDriver] = Table()
        self._attachments: Table[str, VolumeAttachment] = Table()
        self._assumed: dict[tuple[str, VolumeClaimId], VolumeAssumption] = {}
        self._claims_of: dict[str, dict[VolumeClaimId, None]] = {}
        """The claims in `_assumed` by the pod's uid."""
        self._assumed_of: dict[tuple[Kind, str], dict[str, VolumeAssumption]] = {}
        """The assumptions by kind and key of the volume or claim, then by the pod's uid."""

    def apply(self, kind: Kind, key: str, after: Object | None) -> tuple[Transition, ...]:
        """Apply a change; return its transition, if any. Raise `TypeError` for a value of another kind."""
        match kind, after:
            case Kind.VOLUMES, PersistentVolume() | None:
                changed = _swap(kind, self.volumes, key, after) and (self._refresh_volume(key),)
            case Kind.VOLUME_CLAIMS, PersistentVolumeClaim() | None:
                changed = _swap(kind, self.claims, key, after) and (self._refresh_claim(key),)
            case Kind.STORAGE_CLASSES, StorageClass() | None:
                changed = _swap(kind, self._classes, key, after)
            case Kind.NODE_DRIVERS, CSINode() | None:
                changed = _swap(kind, self._drivers, key, after)
            case Kind.STORAGE_CAPACITIES, CSIStorageCapacity() | None:
                changed = _swap(kind, self._capacities, key, after)
            case Kind.STORAGE_DRIVERS, CSIDriver() | None:
                changed = _swap(kind, self._storage_drivers, key, after)
            case Kind.ATTACHMENTS, VolumeAttachment() | None:
                changed = _swap(kind, self._attachments, key, after)
            case _:
                raise TypeError(f"a change of {kind} carries a {type(after).__name__}: decode it as its own kind")
        return changed

    def seen(self, kind: Kind, key: str) -> StorageObject | None:
        """Return an object as the watch last gave it."""
        return self._tables()[kind].get(key)

    def restore(self, kind: Kind, key: str, value: Object | None) -> None:
        """Restore an object, or remove it."""
        self._tables()[kind].replace(key, value)
        if kind is Kind.VOLUMES:
            self._refresh_volume(key)
        elif kind is Kind.VOLUME_CLAIMS:
            self._refresh_claim(key)

    def _tables(self) -> dict[Kind, Table[str, Any]]:
        return {
            Kind.VOLUMES: self.volumes,
            Kind.VOLUME_CLAIMS: self.claims,
            Kind.STORAGE_CLASSES: self._classes,
            Kind.NODE_DRIVERS: self._drivers,
            Kind.STORAGE_CAPACITIES: self._capacities,
            Kind.STORAGE_DRIVERS: self._storage_drivers,
            Kind.ATTACHMENTS: self._attachments,
        }

    def assume(self, placement: Placement) -> tuple[Transition, ...]:
        """Assume the volume bindings of a placement."""
        if not placement.volumes:
            return ()
        for binding in placement.volumes:
            self._note(VolumeAssumption(pod_uid=placement.pod_uid, node=placement.node, binding=binding))
        return self._refresh(placement.volumes)

    def forget(self, pod_uid: str) -> tuple[Transition, ...]:
        """Forget the assumptions of a pod: its placement failed, or the API shows it."""
        forgotten = [self._assumed[pod_uid, claim] for claim in self._claims_of.get(pod_uid, ())]
        for each in forgotten:
            self._drop(each)
        return self._refresh([each.binding for each in forgotten])

    def export(self) -> tuple[VolumeAssumption, ...]:
        """Return all assumptions, sorted, for a replica."""
        return tuple(self._assumed[key] for key in sorted(self._assumed))

    def replace(self, assumed: Iterable[VolumeAssumption]) -> None:
        """Replace all assumptions."""
        wanted = {(each.pod_uid, each.binding.claim): each for each in assumed}
        if wanted == self._assumed:
            return
        touched = [each for key, each in self._assumed.items() if wanted.get(key) != each]
        for each in touched:
            self._drop(each)
        touched += [each for key, each in wanted.items() if key not in self._assumed]
        for each in wanted.values():
            self._note(each)
        self._refresh([each.binding for each in touched])

    def overlay(self, snapshot: Snapshot) -> Snapshot:
        """Add the storage objects to a snapshot; return the same snapshot if there are none."""
        if not (self._assumed_claims or self._assumed_volumes or self._drivers or self._classes):
            return snapshot
        return msgspec.structs.replace(
            snapshot,
            volumes=self._assumed_volumes.values(),
            volume_claims=self._assumed_claims.values(),
            storage_classes=self._classes.values(),
            node_drivers=self._drivers.values(),
            storage_capacities=self._capacities.values(),
            storage_drivers=self._storage_drivers.values(),
            attachments=self._attachments.values(),
        )

    def objections(self, placement: Placement) -> Iterator[str]:
        """Return the changes since the decision that forbid the volume bindings of a placement."""
        for binding in placement.volumes:
            claim = self.claims.get(str(binding.claim))
            if claim is None or claim.uid != binding.claim_uid:
                yield f"volume claim {binding.claim} was deleted"
            elif claim.is_deleting:
                yield f"volume claim {binding.claim} is being deleted"
            elif claim.volume and claim.volume != binding.volume:
                yield f"volume claim {binding.claim} was bound to volume {claim.volume}"
            elif claim.selected_node not in {None, binding.made_on(placement.node) or placement.node}:
                yield f"the volume of claim {binding.claim} is made on node {claim.selected_node}"
            elif binding.volume:
                yield from self._about_volume(claim, binding)

    def is_assumed_by_others(self, binding: VolumeBinding, pod_uids: Container[str]) -> bool:
        """Whether pods other than `pod_uids` assume the same binding of a claim."""
        about = self._about(Kind.VOLUME_CLAIMS, str(binding.claim))
        return any(each.pod_uid not in pod_uids and each.binding.claim_uid == binding.claim_uid for each in about)

    def _about_volume(self, claim: PersistentVolumeClaim, binding: VolumeBinding) -> Iterator[str]:
        volume = self.volumes.get(binding.volume)
        if volume is None or volume.uid != binding.volume_uid:
            yield f"volume {binding.volume} was deleted"
        elif volume.is_deleting:
            yield f"volume {binding.volume} is being deleted"
        elif volume.claim is not None and not volume.is_bound_to(claim):
            yield f"volume {binding.volume} was taken for {wording.seen(volume.claim, binding.claim.namespace)}"

    def _note(self, assumption: VolumeAssumption) -> None:
        self._assumed[assumption.pod_uid, assumption.binding.claim] = assumption
        self._claims_of.setdefault(assumption.pod_uid, {})[assumption.binding.claim] = None
        for subject in _subjects(assumption.binding):
            self._assumed_of.setdefault(subject, {})[assumption.pod_uid] = assumption

    def _drop(self, assumption: VolumeAssumption) -> None:
        self._assumed.pop((assumption.pod_uid, assumption.binding.claim), None)
        claims = self._claims_of.get(assumption.pod_uid, {})
        claims.pop(assumption.binding.claim, None)
        if not claims:
            self._claims_of.pop(assumption.pod_uid, None)
        for subject in _subjects(assumption.binding):
            about = self._assumed_of.get(subject, {})
            about.pop(assumption.pod_uid, None)
            if not about:
                self._assumed_of.pop(subject, None)

    def _about(self, kind: Kind, key: str) -> Iterable[VolumeAssumption]:
        return self._assumed_of.get((kind, key), {}).values()

    def _refresh(self, bindings: Iterable[VolumeBinding]) -> tuple[Transition, ...]:
        found = []
        for binding in bindings:
            found.append(self._refresh_claim(str(binding.claim)))
            if binding.volume:
                found.append(self._refresh_volume(binding.volume))
        return tuple(each for each in found if each.before != each.after)

    def _refresh_volume(self, name: str) -> Transition:
        shown = self.volumes.get(name)
        for each in self._about(Kind.VOLUMES, name):
            binding = each.binding
            if shown is not None and binding.volume_uid == shown.uid and not shown.claim_uid:
                shown = msgspec.structs.replace(shown, claim=binding.claim, claim_uid=binding.claim_uid)
        return _put(Kind.VOLUMES, self._assumed_volumes, name, shown)

    def _refresh_claim(self, key: str) -> Transition:
        shown = self.claims.get(key)
        for each in self._about(Kind.VOLUME_CLAIMS, key):
            is_open = shown is not None and not shown.volume and shown.selected_node is None
            if shown is not None and is_open and each.binding.claim_uid == shown.uid and not each.binding.volume:
                shown = msgspec.structs.replace(shown, selected_node=each.binding.made_on(each.node))
        return _put(Kind.VOLUME_CLAIMS, self._assumed_claims, key, shown)


def _put(kind: Kind, table: Table[str, S], key: str, after: S | None) -> Transition:
    before = table.get(key)
    if before != after:
        table.replace(key, after)
    return Transition(kind=kind, key=key, before=before, after=after)


def _swap(kind: Kind, table: Table[str, S], key: str, after: S | None) -> tuple[Transition, ...]:
    transition = _put(kind, table, key, after)
    return () if transition.before == transition.after else (transition,)


def _subjects(binding: VolumeBinding) -> tuple[tuple[Kind, str], ...]:
    claim = (Kind.VOLUME_CLAIMS, str(binding.claim))
    return (claim, (Kind.VOLUMES, binding.volume)) if binding.volume else (claim,)

"""The door of the cache: changes in, snapshots and checks out, assumptions in between."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator

import msgspec

from scheduler.change import STORAGE_KINDS, Change, Kind, Object, Transition, split_key
from scheduler.cluster import commit_check as checks
from scheduler.cluster import contention, gangs, nominations, object_store
from scheduler.cluster.assume_cache import AssumeCache, Assumptions
from scheduler.cluster.devices import Duplicate
from scheduler.cluster.gang_members import GangMembers
from scheduler.cluster.gangs import GangIndex, GangProgress
from scheduler.cluster.holds.hold_cache import HoldCache
from scheduler.cluster.interning import Interner
from scheduler.cluster.nominations import NominationAges, Nominations
from scheduler.cluster.object_store import TABLES, ObjectStore
from scheduler.cluster.quota_usage import QuotaUsage
from scheduler.cluster.storage import Storage
from scheduler.cluster.table import expect
from scheduler.cluster.told import told
from scheduler.cluster.unit import Unit
from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    DeviceId,
    Gang,
    GangId,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Placement,
    Pod,
    PodGroup,
    PodId,
    Preemption,
    Reason,
    Snapshot,
    VolumeBinding,
    VolumeClaimId,
)


class Cluster:
    """
    The assumed state of the cluster: objects from the watches, with unconfirmed writes applied.

    Not thread-safe; no call blocks. `clock` gives monotonic seconds; without one, nominations never become stale.
    """

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.store = ObjectStore()
        self._assume_cache = AssumeCache()
        self._nominations = Nominations()
        self._nomination_ages = NominationAges(clock)
        self._storage = Storage()
        self.holds = HoldCache()
        self.interner = Interner()  # shares equal parts of the objects

    def apply(self, change: Change) -> tuple[Transition, ...]:
        """
        Apply a change from a watch and return its transitions; none if the object is unchanged.

        The first is the object's own; the end of a pod may add those of claims that it was assumed to hold. A change
        that shows an assumed write confirms it: a pod's binding, and a claim's allocation independently. Raise
        `TypeError` if the value is not of the change's kind, which is a bug of the caller.
        """
        self.interner.share(change.value)
        match change.kind:
            case Kind.PODS:
                pod, pod_id = expect(change.value, Pod), PodId(*split_key(change.key))
                return self._apply_pod(pod.id if pod is not None and pod.id == pod_id else pod_id, pod)
            case Kind.CLAIMS:
                claim, claim_id = expect(change.value, Claim), ClaimId(*split_key(change.key))
                return self._apply_claim(claim.id if claim is not None and claim.id == claim_id else claim_id, claim)
            case kind if (part := self._part(kind)) is not None:
                return part.apply(kind, change.key, change.value)
            case _:
                return self._apply_other(change)

    def _part(self, kind: Kind) -> GangIndex | Storage | HoldCache | None:
        """Return what keeps the objects of a kind by itself, and not in the store."""
        if kind in gangs.KINDS:
            return self.store.gangs
        return self._storage if kind in STORAGE_KINDS else self.holds if kind is Kind.HOLDS else None

    def seen(self, kind: Kind, key: str) -> Object | None:
        """Return an object as the watch last gave it, without assumptions."""
        part = self._part(kind)
        return self.store.seen(kind, key) if part is None else part.seen(kind, key)

    def reindex(self, kind: Kind, key: str, value: Object | None) -> None:
        """Restore an object on which `apply` raised, and rebuild every index. The cost grows with all objects."""
        if (part := self._part(kind)) is not None:
            part.restore(kind, key, value)
        else:
            self.store = self.store.reindexed(kind, key, value)
            self._refresh(tuple(self.store.pods), (*self.store.claims, *self._assume_cache.special_ids()))
            self.store.allocated_devices.inherit(None)

    def snapshot(self, assumptions: Assumptions | None = None) -> Snapshot:
        """
        Return an immutable snapshot. A kind that has not changed since the last snapshot has the same tuple.

        A replica passes the assumptions of the original, which replace its own.
        """
        if assumptions is not None:
            pods, claims = self._assume_cache.replace(assumptions)
            pods |= self._nominations.replace(assumptions.nominations, assumptions.leaving)
            self._refresh(pods, claims)
            self._storage.replace(assumptions.volumes)
            self.holds.replace(assumptions.holds)
        store = self.store
        snapshot = Snapshot(
            nodes=store.nodes.values(),
            slices=store.slices.values(),
            classes=store.classes.values(),
            taint_rules=store.taint_rules_in_force(),
            claims=store.assumed_claims.values(),
            pods=store.placed_pods.values(),
            namespaces=store.namespaces.values(),
            draws=store.allocated_devices.altered() if assumptions is None else assumptions.draws,
            budgets=store.budgets.values(),
            nominated=self._fresh(self._stale() if assumptions is None else assumptions.stale),
            gangs=store.gangs.in_use(),
            leaving=self._nominations.export()[1],
            holds=self.holds.values(),
            quotas=store.quotas.values(),
            withdrawn=store.withdrawn() if assumptions is None else assumptions.withdrawn,
        )
        return self._storage.overlay(snapshot)

    def assumptions(self) -> Assumptions:
        """Return all unconfirmed assumptions, for the `snapshot` of a replica."""
        nominations, leaving = self._nominations.export()
        draws, withdrawn = self.store.allocated_devices.altered(), self.store.withdrawn()
        volumes, holds, stale = self._storage.export(), self.holds.export(), self._stale()
        own = msgspec.structs.replace(self._assume_cache.export(), draws=draws, volumes=volumes, withdrawn=withdrawn)
        return msgspec.structs.replace(own, nominations=nominations, leaving=leaving, stale=stale, holds=holds)

    def quota_usage(self) -> QuotaUsage:
        """Return what namespaces hold of what quotas count, with the present tree of quotas."""
        return self.store.present_quota_usage()

    def preempt(self, preemption: Preemption) -> tuple[Transition, ...]:
        """Assume that its pods are nominated and its victims are leaving, until the watch shows it."""
        touched = self._nominations.assume(preemption)
        for key in (*touched, *(victim.pod for victim in preemption.victims)):
            self._nominations.confirm(key, self.store.pods.get(key))  # it may have been deleted since the decision
        return self._refresh(touched, ())

    def withdraw(self, preemption: Preemption) -> tuple[Transition, ...]:
        """Forget the parts of a preemption that no watch has shown."""
        return self._refresh(self._nominations.forget(preemption), ())

    def keep_victim(self, pod: PodId, uid: str) -> None:
        """Note that a victim is not evicted after all."""
        self._nominations.keep_victim(pod, uid)

    def told(self, transition: Transition) -> Transition | None:
        """Return what a transition tells pods that wait; None where it tells nothing."""
        return told(self.store, transition)

    def nominated(self) -> tuple[Pod, ...]:
        """Return the pods, of any scheduler, that have a fresh nominated node and are not bound, sorted by key."""
        return self._fresh(self._stale())

    def _stale(self) -> tuple[PodId, ...]:
        return self._nomination_ages.stale(self.store, self._nominations)

    def _fresh(self, stale: Iterable[PodId]) -> tuple[Pod, ...]:
        every, left_out = self.store.nominated.values(), frozenset(stale)
        return tuple(pod for pod in every if pod.id not in left_out) if left_out else every

    def unblocked(self, transition: Transition) -> tuple[PodId, ...]:
        """Return the nominated pods for which a transition may have freed the last of the room that they wait for."""
        return tuple(nominations.unblocked(self.store, self._nominations, transition))

    def assume(self, unit: Unit) -> tuple[Transition, ...]:
        """
        Assume that a unit is allocated, reserved and bound, until the watch confirms it or `forget` is called.

        Nothing is assumed about deleted or replaced pods and claims; `check` reports them.
        """
        allocations = {each.claim: each for each in unit.allocations}
        reservations = unit.reservations()
        for key, consumers in reservations.items():
            claim, own = self.store.claims.get(key), allocations.get(key)
            if claim is not None and (own is None or own.claim_uid == claim.uid):
                added = object_store.missing_consumers(claim, consumers, self.store.group_uid)
                self._assume_cache.assume_claim(key, claim.uid, own.allocation if own is not None else None, added)
                self._assume_cache.confirm_claim(key, claim)
        volumes: list[Transition] = []
        for placement in unit.placements:
            pod = self.store.pods.get(placement.pod)
            if pod is not None and pod.uid == placement.pod_uid:
                volumes += self._storage.assume(placement)
                if placement.extended_resource_claim is not None:
                    self._assume_cache.assume_special(
                        object_store.planned_special_claim(placement, placement.extended_resource_claim, allocations)
                    )
                self._assume_cache.assume_pod(placement)
                self._assume_cache.confirm_pod(placement.pod, pod)
        return (*self._refresh([each.pod for each in unit.placements], reservations), *volumes)

    def acknowledge(self, claim: Claim) -> tuple[Transition, ...]:
        """
        Take a claim as the API server returned it for a write; the assumption stays until the watch confirms it.

        `forget` keeps an acknowledged allocation, unless its end has been acknowledged too. The resourceVersion shows
        which was later, as a relist may skip states.
        """
        self._assume_cache.acknowledge(claim)
        self._assume_cache.confirm_claim(claim.id, self.store.claims.get(claim.id))
        return self._refresh((), (claim.id,))

    def forget(self, unit: Unit, uncertain: Collection[ClaimId] = ()) -> tuple[Transition, ...]:
        """Roll back unconfirmed assumptions, but for acknowledged and `uncertain` ones: see `AssumeCache.forget`."""
        self._assume_cache.forget(unit, [each for each in uncertain if each in self.store.claims])
        volumes: list[Transition] = []
        for placement in unit.placements:
            self._assume_cache.forget_special(placement.pod_uid)
            volumes += self._storage.forget(placement.pod_uid)
        pods, claims = [each.pod for each in unit.placements], dict.fromkeys((*unit.claims, *unit.stand_ins))
        return (*self._refresh(pods, claims), *volumes)

    def settled(self, placement: Placement) -> tuple[Transition, ...]:
        """Note that the commit of a pod that was bound has ended."""
        pod, uid = self.store.pods.get(placement.pod), placement.pod_uid
        return self._refresh((), self._assume_cache.settle(uid, is_gone=pod is None or pod.uid != uid))

    def uncertain_claims(self) -> tuple[Claim, ...]:
        """Return the claims, as observed, whose allocation may be stored though no commit writes it any more."""
        return tuple(filter(None, map(self.store.claims.get, self._assume_cache.uncertain_claims())))

    def check(self, unit: Unit) -> tuple[Reason, ...]:
        """Return the changes since its decision that forbid a unit, by the present state without its assumptions."""
        return checks.objections(self.store, self._storage, self.holds, unit)

    def check_gangs(self, unit: Unit) -> tuple[Reason, ...]:
        """Return what forbids the first binding of a unit with written claims: members or PodGroups were deleted."""
        return checks.group_conflicts(self.store, unit)

    def namespace(self, name: str) -> Namespace | None:
        """Return a namespace."""
        return self.store.namespaces.get(name)

    def observed_pods_on(self, node: str) -> Iterator[Pod]:
        """Return the pods that the watch shows on a node, and that have not ended."""
        found = (self.store.pods.get(key) for key in self.store.pod_index.on(node))
        return (pod for pod in found if pod is not None and pod.node_name)

    def compare_after_write(self, unit: Unit) -> tuple[Duplicate, ...]:
        """
        Return the devices that claims of a unit cannot hold beside those of other claims.

        Called between the status write and the binding: another scheduler may allocate from the same pools.
        """
        return tuple(each for each in contention.duplicates(self.store, unit) if each.claims)

    def claim_conflicts(self, key: ClaimId, without: Collection[ClaimId] = ()) -> tuple[Duplicate, ...]:
        """Return the devices that an allocated claim cannot hold beside all other claims but `without`."""
        return contention.claim_conflicts(self.store, key, without)

    def contested_devices(self) -> tuple[tuple[DeviceId, tuple[ClaimId, ...]], ...]:
        """Return every device that one claim holds exclusively and other claims hold too."""
        return self.store.allocated_devices.contested()

    def pod(self, key: PodId) -> Pod | None:
        """Return a pod with assumptions applied."""
        return self.store.assumed_pods.get(key)

    def claim(self, key: ClaimId) -> Claim | None:
        """Return a claim with assumptions applied."""
        return self.store.assumed_claims.get(key)

    def observed_claim(self, key: ClaimId) -> Claim | None:
        """Return a claim as the watch gave it, without assumptions; a write starts from it and is guarded by it."""
        return self.store.claims.get(key)

    def observed_claims(self) -> Collection[Claim]:
        """Return all claims as the watch last gave them."""
        return self.store.claims.values()

    def observed_pod(self, key: PodId) -> Pod | None:
        """Return a pod as the watch last gave it, without assumptions."""
        return self.store.pods.get(key)

    def node(self, name: str) -> Node | None:
        """Return a node."""
        return self.store.nodes.get(name)

    def observed_volume(self, name: str) -> PersistentVolume | None:
        """Return a PersistentVolume as the watch last gave it, without assumptions."""
        return self._storage.volumes.get(name)

    def observed_volume_claim(self, key: VolumeClaimId) -> PersistentVolumeClaim | None:
        """Return a PersistentVolumeClaim as the watch last gave it, without assumptions."""
        return self._storage.claims.get(str(key))

    def is_volume_assumed_by_others(self, binding: VolumeBinding, pod_uids: Container[str]) -> bool:
        """Whether other pods assume the same binding of a volume claim that they share."""
        return self._storage.is_assumed_by_others(binding, pod_uids)

    def with_gangs(self, batch: Batch) -> Batch:
        """Add to a batch the gangs of its pods, and to its pods the uids of their PodGroups, in their present state."""
        return self.store.gangs.with_gangs(batch)

    def group_uid(self, pod: PodId, uid: str) -> str:
        """Return the uid of the PodGroup that has the name which a pod gives, as it is now; empty where none is."""
        return self.store.group_uid(pod, uid)

    def gang(self, gang: GangId) -> Gang:
        """Return a gang in its present state."""
        return self.store.gangs.gang(gang)

    def gang_progress(self, gang: GangId, scheduler_names: Collection[str]) -> GangProgress:
        """Return how many members a gang lacks before these schedulers can decide it."""
        return self.store.gangs.progress(gang, scheduler_names)

    def pod_group(self, gang: GangId) -> PodGroup | None:
        """Return the PodGroup of a gang."""
        return self.store.gangs.group(gang)

    def gang_members(self, gang: GangId) -> tuple[Pod, ...]:
        """Return the pods that name a gang, with assumptions applied, sorted by key."""
        return self.store.gangs.members(gang)

    def gang_counts(self, gang: GangId) -> GangMembers:
        """Return the counts over the pods that name a gang, with assumptions applied."""
        return self.store.gangs.member_index(gang)

    def pods_using(self, claim: ClaimId) -> tuple[Pod, ...]:
        """Return the pods that reference a claim, with assumptions applied, sorted by key."""
        return tuple(self.store.assumed_pods[key] for key in sorted(self.store.pods_by_claim.get(claim, ())))

    def special_claims(self, pod: PodId, uid: str) -> tuple[Claim, ...]:
        """Return the special claims (extended resources) of a pod, as the watch last gave them."""
        return object_store.special_claims_of(self.store, pod, uid)

    def orphaned_special_claims(self) -> tuple[tuple[Claim, Pod], ...]:
        """Return the special claims (extended resources) that no attempt uses, with their pods."""
        return object_store.orphaned_special_claims(self.store)

    def _apply_pod(self, key: PodId, after: Pod | None) -> tuple[Transition, ...]:
        before = self.store.pods.get(key)
        if before == after:
            return ()
        if after is None:
            del self.store.pods[key]
        else:
            self.store.pods[key] = after
        conflict = self._assume_cache.confirm_pod(key, after)
        if before is not None and (after is None or after.uid != before.uid or after.node_name):
            self._storage.forget(before.uid)  # its volumes are bound, or are not bound any more
        self._nominations.confirm(key, after)
        if before is None or (after is not None and after.uid == before.uid):
            return (self._refresh_pod(key, conflict),)
        self._assume_cache.forget_consumer(before.uid, before.claim_ids)
        claims = (*before.claim_ids, *self._assume_cache.pod_gone(before.uid))
        return (self._refresh_pod(key, conflict), *self._refresh((), claims))

    def _apply_claim(self, key: ClaimId, after: Claim | None) -> tuple[Transition, ...]:
        if self.store.claims.get(key) == after:
            return ()
        self.store.set_claim(key, after)
        conflict = self._assume_cache.confirm_claim(key, after)
        stand_in = self._assume_cache.confirm_special(after) if after is not None else None
        if stand_in is not None:
            self._refresh_claim(stand_in)  # the same devices move to the real claim: nothing becomes free
        return (self._refresh_claim(key, conflict),)

    def _apply_other(self, change: Change) -> tuple[Transition, ...]:
        after = expect(change.value, TABLES[change.kind])
        before = self.store.swap(change.kind, change.key, after)
        return () if before == after else (Transition(kind=change.kind, key=change.key, before=before, after=after),)

    def _refresh(self, pods: Iterable[PodId], claims: Iterable[ClaimId]) -> tuple[Transition, ...]:
        """Apply the assumptions to these objects again; return a transition for each that changed."""
        transitions = [self._refresh_claim(key) for key in claims]
        transitions += map(self._refresh_pod, pods)
        return tuple(each for each in transitions if each.closed or each.before != each.after)

    def _refresh_pod(self, key: PodId, conflict: Reason | None = None) -> Transition:
        """Apply the assumptions to a pod again."""
        pod = self.store.pods.get(key)
        shown = self._nominations.overlay(self._assume_cache.overlay_pod(pod)) if pod is not None else None
        before = self.store.set_assumed_pod(key, shown)
        closed = self.holds.pod_changed(key, shown, is_seen=pod is not None and bool(pod.node_name))
        return Transition(kind=Kind.PODS, key=str(key), before=before, after=shown, conflict=conflict, closed=closed)

    def _refresh_claim(self, key: ClaimId, conflict: Reason | None = None) -> Transition:
        claim = self.store.claims.get(key)
        shown = self._assume_cache.overlay_claim(claim) if claim is not None else self._assume_cache.special(key)
        before = self.store.set_assumed_claim(key, shown)
        return Transition(kind=Kind.CLAIMS, key=str(key), before=before, after=shown, conflict=conflict)

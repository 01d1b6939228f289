"""The public door of the mirror: changes in, snapshots and checks out, assumptions in between."""

from collections.abc import Callable, Collection, Container, Iterable
from typing import TypeVar

import msgspec

from scheduler.change import Change, Kind, Object, Transition
from scheduler.cluster import commit_check as checks
from scheduler.cluster import contention, gangs, mirror, nominations, pod_index
from scheduler.cluster.devices import Duplicate
from scheduler.cluster.gang_members import Roster
from scheduler.cluster.gangs import GangProgress
from scheduler.cluster.interning import Interner
from scheduler.cluster.ledger import Assumptions, Ledger
from scheduler.cluster.mirror import TABLES, Mirror, split_key
from scheduler.cluster.nominations import Nominations, Staleness, holds_nothing
from scheduler.cluster.storage import KINDS, Storage
from scheduler.cluster.unit import Unit
from solver.domain import (
    Claim,
    ClaimId,
    DeviceId,
    Gang,
    GangId,
    Namespace,
    Node,
    Pod,
    PodGroup,
    PodId,
    Preemption,
    Reason,
    Snapshot,
    Volume,
    VolumeBinding,
    VolumeClaim,
    VolumeClaimId,
)

T = TypeVar("T")


class Cluster:
    """
    The cluster as it is believed to be: what the watches gave, with unconfirmed writes laid over.

    Not safe for threads; every call ends quickly and touches nothing outside. `clock` gives monotonic seconds, for how
    long nominations stand; without one they never grow stale.
    """

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._mirror = Mirror()
        self._ledger = Ledger()
        self._nominations = Nominations()
        self._staleness = Staleness(clock)
        self._storage = Storage()
        self.interner = Interner()
        """Keeps equal parts of the objects once."""

    def apply(self, change: Change) -> tuple[Transition, ...]:
        """
        Take what a watch told; give what it changed, nothing where the object was known to be like that.

        The first transition is the object's own; a pod's end may add those of claims that it was assumed to hold.

        Echoes of assumed writes confirm them here: a pod's binding and a claim's allocation each on its own.
        Raises `TypeError` where the value is not of the change's kind, which is a bug of the caller.
        """
        self.interner.share(change.value)
        match change.kind:
            case Kind.PODS:
                return self._apply_pod(PodId(*split_key(change.key)), _expect(change.value, Pod))
            case Kind.CLAIMS:
                return self._apply_claim(ClaimId(*split_key(change.key)), _expect(change.value, Claim))
            case kind if kind in gangs.KINDS:
                return self._mirror.gangs.apply(kind, change.key, change.value)
            case kind if kind in KINDS:
                return self._storage.apply(kind, change.key, change.value)
            case _:
                return self._apply_other(change)

    def seen(self, kind: Kind, key: str) -> Object | None:
        """Give an object as the watch last gave it, without assumptions."""
        if kind in gangs.KINDS:
            return self._mirror.gangs.seen(kind, key)
        return self._storage.seen(kind, key) if kind in KINDS else self._mirror.seen(kind, key)

    def mend(self, kind: Kind, key: str, value: Object | None) -> None:
        """Have an object as it was, with every index made again: `apply` has raised on it. Costs all objects' work."""
        if kind in gangs.KINDS:
            self._mirror.gangs.put_back(kind, key, value)
        elif kind in KINDS:
            self._storage.put_back(kind, key, value)
        else:
            self._mirror = self._mirror.anew(kind, key, value)
            self._believe(tuple(self._mirror.pods), (*self._mirror.claims, *self._ledger.special_ids()))
            self._mirror.holdings.recall(None)

    def snapshot(self, assumptions: Assumptions | None = None) -> Snapshot:
        """
        Give a frozen picture; tuples of kinds that did not change since the last one are the same objects.

        A replica passes the assumptions of the original, which replace its own.
        """
        if assumptions is not None:
            pods, claims = self._ledger.replace(assumptions)
            pods |= self._nominations.replace(assumptions.nominations, assumptions.leaving)
            self._believe(pods, claims)
            self._storage.replace(assumptions.volumes)
        mirror = self._mirror
        snapshot = Snapshot(
            nodes=mirror.nodes.values(),
            slices=mirror.slices.values(),
            classes=mirror.classes.values(),
            taint_rules=mirror.taint_rules_in_force(),
            claims=mirror.believed_claims.values(),
            pods=mirror.seated.values(),
            namespaces=mirror.namespaces.values(),
            draws=mirror.holdings.altered() if assumptions is None else assumptions.draws,
            budgets=mirror.budgets.values(),
            nominated=self._fresh(self._stale() if assumptions is None else assumptions.stale),
            gangs=mirror.gangs.in_use(),
            leaving=self._nominations.export()[1],
        )
        return self._storage.laid_over(snapshot)

    def assumptions(self) -> Assumptions:
        """Give what is assumed and not confirmed, for a replica's `snapshot`."""
        nominations, leaving = self._nominations.export()
        draws, volumes = self._mirror.holdings.altered(), self._storage.export()
        exported = msgspec.structs.replace(self._ledger.export(), draws=draws, volumes=volumes)
        return msgspec.structs.replace(exported, nominations=nominations, leaving=leaving, stale=self._stale())

    def preempt(self, preemption: Preemption) -> tuple[Transition, ...]:
        """Believe that its pods are nominated and its victims about to leave, until the watch shows it."""
        touched = self._nominations.begin(preemption)
        for key in (*touched, *(victim.pod for victim in preemption.victims)):
            self._nominations.settle(key, self._mirror.pods.get(key))  # one may be gone since it was decided
        return self._believe(touched, ())

    def withdraw(self, preemption: Preemption) -> tuple[Transition, ...]:
        """Stop believing in what of a preemption no watch has shown."""
        return self._believe(self._nominations.withdraw(preemption), ())

    def stays(self, pod: PodId, uid: str) -> None:
        """Note that a victim is not evicted after all."""
        self._nominations.stays(pod, uid)

    def without_idle(self, transition: Transition) -> Transition:
        """Give a transition in which a nomination that held nothing never was: nothing becomes free when it ends."""
        pod = transition.before
        if not isinstance(pod, Pod) or not pod.nominated_node_name:
            return transition
        if not holds_nothing(pod, self._mirror.nodes.get(pod.nominated_node_name)):
            return transition
        return msgspec.structs.replace(transition, before=msgspec.structs.replace(pod, nominated_node_name=""))

    def nominated(self) -> tuple[Pod, ...]:
        """Give the pods of any scheduler that have a node nominated, not for too long, and none yet, sorted by key."""
        return self._fresh(self._stale())

    def _stale(self) -> tuple[PodId, ...]:
        return self._staleness.stale(self._mirror, self._nominations)

    def _fresh(self, stale: Collection[PodId]) -> tuple[Pod, ...]:
        every = self._mirror.nominated.values()
        return tuple(pod for pod in every if pod.id not in stale) if stale else every

    def awaited(self, transition: Transition) -> tuple[PodId, ...]:
        """Give the pods with a node nominated that a transition may let in: nobody is to leave there any more."""
        return tuple(nominations.awaited(self._mirror, self._nominations, transition))

    def assume(self, unit: Unit) -> tuple[Transition, ...]:
        """
        Believe that a unit is allocated, reserved and bound, until the watch confirms it or `forget` is called.

        Of pods and claims that are gone, or whose names others have, nothing is believed; `check` names them.
        """
        allocations = {each.claim: each for each in unit.allocations}
        reservations = unit.reservations()
        for key, consumers in reservations.items():
            claim, own = self._mirror.claims.get(key), allocations.get(key)
            if claim is not None and (own is None or own.claim_uid == claim.uid):
                added = mirror.missing_consumers(claim, consumers, self._mirror.pods.get)
                self._ledger.assume_claim(key, claim.uid, own.allocation if own is not None else None, added)
                self._ledger.settle_claim(key, claim)
        volumes: list[Transition] = []
        for placement in unit.placements:
            pod = self._mirror.pods.get(placement.pod)
            if pod is not None and pod.uid == placement.pod_uid:
                volumes += self._storage.assume(placement)
                if placement.extended_resource_claim is not None:
                    self._ledger.assume_special(
                        mirror.planned(placement, placement.extended_resource_claim, allocations)
                    )
                self._ledger.assume_pod(placement)
                self._ledger.settle_pod(placement.pod, pod)
        return (*self._believe([each.pod for each in unit.placements], reservations), *volumes)

    def acknowledge(self, claim: Claim) -> None:
        """
        Take a claim as the server answered a write of it.

        What is assumed stays until the echo. An allocation that was answered for is not rolled back by `forget`
        unless the answer to its withdrawal follows; and the answer's resourceVersion tells a withdrawn allocation
        from one that is not there yet where the watch skips the states in between (a relist).
        """
        self._ledger.acknowledge(claim)
        self._ledger.settle_claim(claim.id, self._mirror.claims.get(claim.id))
        self._believe((), (claim.id,))

    def forget(self, unit: Unit) -> tuple[Transition, ...]:
        """
        Roll back what a unit assumed and no watch has confirmed; a later echo counts as anybody's write.

        An allocation that the server has acknowledged stays until the watch shows what became of it.
        """
        self._ledger.forget(unit)
        volumes: list[Transition] = []
        for placement in unit.placements:
            self._ledger.forget_special(placement.pod_uid)
            volumes += self._storage.forget(placement.pod_uid)
        claims = dict.fromkeys((*unit.claims, *unit.stand_ins))
        return (*self._believe([each.pod for each in unit.placements], claims), *volumes)

    def check(self, unit: Unit) -> tuple[Reason, ...]:
        """
        Give what has changed since a unit was decided so that it must not be written; empty where it may be.

        Judged by the mirror as it is now, without the unit's own assumptions: its pods still wait, its nodes are
        there with room, its claims are as planned, its devices are published, free and untainted.
        """
        return checks.objections(self._mirror, self._storage, unit)

    def check_gangs(self, unit: Unit) -> tuple[Reason, ...]:
        """Give what speaks against the first binding of a unit although its claims are written: members are gone."""
        return checks.about_gangs(self._mirror, unit)

    def accompanies(self, key: PodId, pod: Pod, node: str) -> bool:
        """Whether a pod, where it is believed to be, does for the required affinity of another that goes to `node`."""
        other, mirror = self.pod(key), self._mirror
        there, here = (mirror.nodes.get(other.node_name) if other is not None else None), mirror.nodes.get(node)
        if other is None or there is None or here is None:
            return False
        return pod_index.accompanies(other, there, pod, here, mirror.namespaces)

    def is_accompanied(self, pod: Pod, node: str, own: Collection[PodId]) -> bool:
        """Whether a pod that the watch shows on `node` does for the required affinity of another that goes there."""
        on_node = (key for key in self._mirror.company.on(node) if key not in own)
        seen = (key for key in on_node if (found := self.seen_pod(key)) is not None and found.node_name)
        return any(self.accompanies(key, pod, node) for key in seen)

    def compare_after_write(self, unit: Unit) -> tuple[Duplicate, ...]:
        """
        Give the devices of a unit that other claims hold too, by every allocation seen up to now.

        Asked between the status write and the binding: a device held alone by one of the two, a capacity or a
        counter that all of them together overdraw. Another scheduler may be at work in the same pools.
        """
        return tuple(each for each in contention.duplicates(self._mirror, unit) if each.claims)

    def held_twice(self) -> tuple[tuple[DeviceId, tuple[ClaimId, ...]], ...]:
        """Give every device that one claim holds alone while others hold it too, over all allocations seen."""
        holdings = self._mirror.holdings
        return tuple((device, tuple(sorted(holdings.holders(device)))) for device in holdings.contested())

    def pod(self, key: PodId) -> Pod | None:
        """Give a pod as it is believed to be."""
        return self._mirror.believed_pods.get(key)

    def claim(self, key: ClaimId) -> Claim | None:
        """Give a claim as it is believed to be."""
        return self._mirror.believed_claims.get(key)

    def seen_claim(self, key: ClaimId) -> Claim | None:
        """Give a claim as the watch last gave it, without assumptions: what a write starts from and is guarded by."""
        return self._mirror.claims.get(key)

    def seen_pod(self, key: PodId) -> Pod | None:
        """Give a pod as the watch last gave it, without assumptions."""
        return self._mirror.pods.get(key)

    def node(self, name: str) -> Node | None:
        """Give a node."""
        return self._mirror.nodes.get(name)

    def namespace(self, name: str) -> Namespace | None:
        """Give a namespace."""
        return self._mirror.namespaces.get(name)

    def seen_volume(self, name: str) -> Volume | None:
        """Give a PersistentVolume as the watch last gave it, without assumptions."""
        return self._storage.volumes.get(name)

    def seen_volume_claim(self, key: VolumeClaimId) -> VolumeClaim | None:
        """Give a PersistentVolumeClaim as the watch last gave it, without assumptions."""
        return self._storage.claims.get(str(key))

    def is_volume_assumed_by_others(self, binding: VolumeBinding, pod_uids: Container[str]) -> bool:
        """Whether pods besides some count on what a placement makes of a volume claim that they share."""
        return self._storage.is_assumed_by_others(binding, pod_uids)

    def gangs(self, pods: Iterable[Pod]) -> tuple[Gang, ...]:
        """Give the gangs that pods name, as they are now."""
        return self._mirror.gangs.gangs(pods)

    def gang(self, gang: GangId) -> Gang:
        """Give a gang as it is now."""
        return self._mirror.gangs.gang(gang)

    def gang_standing(self, gang: GangId, scheduler_names: Collection[str]) -> GangProgress:
        """Say how far a gang is from being decidable by these schedulers."""
        return self._mirror.gangs.standing(gang, scheduler_names)

    def pod_group(self, gang: GangId) -> PodGroup | None:
        """Give the PodGroup of a gang."""
        return self._mirror.gangs.group(gang)

    def gang_members(self, gang: GangId) -> tuple[Pod, ...]:
        """Give the pods that name a gang, as they are believed to be, sorted by key."""
        return self._mirror.gangs.members(gang)

    def gang_roster(self, gang: GangId) -> Roster:
        """Give what is counted among the pods that name a gang, as they are believed to be."""
        return self._mirror.gangs.roster(gang)

    def pods_using(self, claim: ClaimId) -> tuple[Pod, ...]:
        """Give the pods that reference a claim, as they are believed to be, sorted by key."""
        pods = self._mirror.believed_pods
        return tuple(pods[key] for key in sorted(self._mirror.users.get(claim, ())))

    def special_claims(self, pod: PodId, uid: str) -> tuple[Claim, ...]:
        """Give the claims that are there for the extended resources of a pod, as the watch last gave them."""
        return mirror.of_pod(self._mirror, pod, uid)

    def left_behind(self) -> tuple[tuple[Claim, Pod], ...]:
        """Give the claims for extended resources of pods that are not believed to be bound, with their pods."""
        return mirror.left_behind(self._mirror)

    def _apply_pod(self, key: PodId, after: Pod | None) -> tuple[Transition, ...]:
        before = self._mirror.pods.get(key)
        if before == after:
            return ()
        if after is None:
            del self._mirror.pods[key]
        else:
            self._mirror.pods[key] = after
        conflict = self._ledger.settle_pod(key, after)
        if before is not None and (after is None or after.uid != before.uid or after.node_name):
            self._storage.forget(before.uid)  # its volumes are bound by now, or nobody binds them any more
        self._nominations.settle(key, after)
        if before is None or (after is not None and after.uid == before.uid):
            return (self._believe_pod(key, conflict),)
        self._ledger.forget_consumer(before.uid, before.claim_ids)
        claims = (*before.claim_ids, *self._ledger.forget_special(before.uid))
        return (self._believe_pod(key, conflict), *self._believe((), claims))

    def _apply_claim(self, key: ClaimId, after: Claim | None) -> tuple[Transition, ...]:
        if self._mirror.claims.get(key) == after:
            return ()
        self._mirror.see_claim(key, after)
        conflict = self._ledger.settle_claim(key, after)
        stand_in = self._ledger.settle_special(after) if after is not None else None
        if stand_in is not None:
            self._believe_claim(stand_in)  # its devices change hands: nothing that anybody could wait for
        return (self._believe_claim(key, conflict),)

    def _apply_other(self, change: Change) -> tuple[Transition, ...]:
        after = _expect(change.value, TABLES[change.kind])
        before = self._mirror.swap(change.kind, change.key, after)
        if before == after:
            return ()
        return (Transition(kind=change.kind, key=change.key, before=before, after=after),)

    def _believe(self, pods: Iterable[PodId], claims: Iterable[ClaimId]) -> tuple[Transition, ...]:
        """Lay assumptions over these objects again; give those that look different now."""
        transitions = [self._believe_claim(key) for key in claims] + [self._believe_pod(key) for key in pods]
        return tuple(each for each in transitions if each.before != each.after)

    def _believe_pod(self, key: PodId, conflict: Reason | None = None) -> Transition:
        pod = self._mirror.pods.get(key)
        shown = self._nominations.lay_over(self._ledger.lay_over_pod(pod)) if pod is not None else None
        before = self._mirror.believe_pod(key, shown)
        return Transition(kind=Kind.PODS, key=str(key), before=before, after=shown, conflict=conflict)

    def _believe_claim(self, key: ClaimId, conflict: Reason | None = None) -> Transition:
        claim = self._mirror.claims.get(key)
        shown = self._ledger.lay_over_claim(claim) if claim is not None else self._ledger.special(key)
        before = self._mirror.believe_claim(key, shown)
        return Transition(kind=Kind.CLAIMS, key=str(key), before=before, after=shown, conflict=conflict)


def _expect(value: Object | None, kind: type[T]) -> T | None:
    if value is None or isinstance(value, kind):
        return value
    raise TypeError(f"a change of a {kind.__name__} carries a {type(value).__name__}: decode it as its own kind")

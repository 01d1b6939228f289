"""
Assumed writes: bindings, allocations and reservations that are being written and that no watch has shown yet.

The same idea as the AssumeCache of kube-scheduler: the watch confirms an assumption, or contradicts it, which gives a
`Conflict`; `forget` rolls it back.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from scheduler.change import Kind, Transition, is_at_least
from scheduler.cluster.holds.hold_cache import AssumedHolds
from scheduler.cluster.nominations import Nomination
from scheduler.cluster.storage import VolumeAssumption
from scheduler.cluster.table import changed_keys
from scheduler.cluster.unit import Unit
from solver.domain import (
    Allocation,
    Claim,
    ClaimAllocation,
    ClaimId,
    ConsumerReference,
    CounterId,
    DeviceId,
    NodeAllocatableClaimStatus,
    Placement,
    Pod,
    PodId,
    Reason,
    ReasonCode,
    WithdrawnDevice,
    with_node_allocatable,
)


class PodAssumption(msgspec.Struct, frozen=True, kw_only=True):
    """The pod with this uid is assumed to be bound to `node`."""

    pod: PodId
    uid: str
    node: str
    node_allocatable: tuple[NodeAllocatableClaimStatus, ...] = ()
    """Node allocatable resources that its claims consume (KEP-5517); not in its status yet."""
    place: str = ""
    """The place of a hold that it uses up (`Placement.place`)."""


class ClaimAssumption(msgspec.Struct, frozen=True, kw_only=True):
    """
    The claim with this uid is assumed to be allocated and reserved.

    `allocation` is None if the claim was allocated before, or the watch has confirmed it. `consumers` are unconfirmed
    reservations. `written_version` is the resourceVersion in the server's last answer to a status write, empty before;
    `is_written` says whether the claim was allocated in that answer. `is_uncertain`: the commit has ended, and a write
    of the allocation may have acted, or may act yet.
    """

    claim: ClaimId
    uid: str
    allocation: Allocation | None = None
    consumers: tuple[ConsumerReference, ...] = ()
    written_version: str = ""
    is_written: bool = False
    is_uncertain: bool = False


class Assumptions(msgspec.Struct, frozen=True, kw_only=True):
    """
    All assumptions as a value, each tuple sorted by key: the shell sends it to the worker's replica.

    `draws` is part of it, because the slice of a device may change after its allocation. A replica that started later
    cannot know which counters the device consumed at its allocation (see `Snapshot.draws`).
    """

    pods: tuple[PodAssumption, ...] = ()
    claims: tuple[ClaimAssumption, ...] = ()
    specials: tuple[Claim, ...] = ()
    """Special claims (extended resources) that are being created, under their stand-in ids."""
    draws: tuple[tuple[DeviceId, tuple[tuple[CounterId, int], ...]], ...] = ()
    nominations: tuple[Nomination, ...] = ()
    leaving: tuple[PodId, ...] = ()
    stale: tuple[PodId, ...] = ()
    """Pods whose nomination is stale and does not count."""
    volumes: tuple[VolumeAssumption, ...] = ()
    holds: AssumedHolds = AssumedHolds()
    withdrawn: tuple[WithdrawnDevice, ...] = ()
    """What a replica that started later cannot know (`Snapshot.withdrawn`)."""


class AssumeCache:
    """
    Assumptions by pod and by claim. It does not know the store; it gets objects as the watch gave them.

    A pod's binding and a claim's allocation are confirmed separately, because they come on separate watches.
    """

    __slots__ = ("_claims", "_committing", "_pods", "_specials", "_specials_of")

    def __init__(self) -> None:
        self._pods: dict[PodId, PodAssumption] = {}
        self._claims: dict[ClaimId, ClaimAssumption] = {}
        self._specials: dict[ClaimId, Claim] = {}
        self._specials_of: dict[str, dict[ClaimId, None]] = {}
        """The keys of `_specials` by the uid of the pod."""
        self._committing: set[str] = set()
        """Uids of pods with special claims that a commit may be writing."""

    def export(self) -> Assumptions:
        """Return all unconfirmed assumptions."""
        return Assumptions(
            pods=tuple(self._pods[key] for key in sorted(self._pods)),
            claims=tuple(self._claims[key] for key in sorted(self._claims)),
            specials=tuple(self._specials[key] for key in sorted(self._specials)),
        )

    def replace(self, assumptions: Assumptions) -> tuple[set[PodId], set[ClaimId]]:
        """Replace all assumptions; return the keys whose assumptions changed."""
        pods = {assumption.pod: assumption for assumption in assumptions.pods}
        claims = {assumption.claim: assumption for assumption in assumptions.claims}
        specials = {claim.id: claim for claim in assumptions.specials}
        touched_pods = changed_keys(self._pods, pods)
        touched_claims = changed_keys(self._claims, claims) | changed_keys(self._specials, specials)
        self._pods, self._claims = pods, claims
        self._specials.clear()
        self._specials_of.clear()
        for claim in specials.values():
            self.assume_special(claim)
        return touched_pods, touched_claims

    def assume_special(self, claim: Claim) -> None:
        """Assume that a special claim exists, allocated and reserved, under its stand-in id."""
        self._specials[claim.id] = claim
        self._specials_of.setdefault(claim.owner_pod_uid, {})[claim.id] = None

    def special(self, key: ClaimId) -> Claim | None:
        """Return the special claim that is assumed under a stand-in id."""
        return self._specials.get(key)

    def special_ids(self) -> tuple[ClaimId, ...]:
        """Return the stand-in ids of all assumed special claims."""
        return tuple(self._specials)

    def confirm_special(self, claim: Claim) -> ClaimId | None:
        """Drop the stand-in of a claim that the watch shows allocated as assumed; return the stand-in's id."""
        for key in self._specials_of.get(claim.owner_pod_uid, ()) if claim.is_extended_resource_claim else ():
            known = self._specials[key]
            if known.id.namespace != claim.id.namespace or known.allocation is None or claim.allocation is None:
                continue
            if is_same(known.allocation, claim.allocation):
                self._drop_special(key)
                return key
        return None

    def pod_gone(self, pod_uid: str) -> tuple[ClaimId, ...]:
        """
        Forget the special claims of a deleted pod; return their stand-in ids.

        Where a commit may be writing them they stay until it ends: their devices may be allocated.
        """
        return () if pod_uid in self._committing else self.forget_special(pod_uid)

    def settle(self, pod_uid: str, *, is_gone: bool) -> tuple[ClaimId, ...]:
        """Note that no commit writes the special claims of a pod any more; forget those of a pod that is gone."""
        self._committing.discard(pod_uid)
        return self.forget_special(pod_uid) if is_gone else ()

    def forget_special(self, pod_uid: str) -> tuple[ClaimId, ...]:
        """Forget the special claims of a pod; return their stand-in ids."""
        self._committing.discard(pod_uid)
        stand_ins = tuple(self._specials_of.get(pod_uid, ()))
        for key in stand_ins:
            self._drop_special(key)
        return stand_ins

    def _drop_special(self, key: ClaimId) -> None:
        known = self._specials.pop(key)
        of_pod = self._specials_of[known.owner_pod_uid]
        del of_pod[key]
        if not of_pod:
            del self._specials_of[known.owner_pod_uid]

    def assume_pod(self, placement: Placement) -> None:
        """Assume that a pod is bound to its node, by a commit that begins."""
        if placement.extended_resource_claim is not None:
            self._committing.add(placement.pod_uid)
        self._pods[placement.pod] = PodAssumption(
            pod=placement.pod,
            uid=placement.pod_uid,
            node=placement.node,
            node_allocatable=placement.node_allocatable,
            place=placement.place,
        )

    def assume_claim(
        self, claim: ClaimId, uid: str, allocation: Allocation | None, consumers: tuple[ConsumerReference, ...]
    ) -> None:
        """Assume that a claim is allocated (unless None) and reserved, in addition to earlier assumptions."""
        known = self._claims.get(claim) or ClaimAssumption(claim=claim, uid=uid)
        self._claims[claim] = msgspec.structs.replace(
            known,
            allocation=known.allocation if allocation is None else allocation,
            consumers=tuple(dict.fromkeys(known.consumers + consumers)),
            written_version=known.written_version if allocation is None else "",
            is_written=known.is_written and allocation is None,
            is_uncertain=known.is_uncertain and allocation is None,
        )

    def forget(self, unit: Unit, uncertain: Collection[ClaimId] = ()) -> None:
        """
        Forget the unconfirmed assumptions of a unit; assumptions of other units stay.

        An allocation that the server has acknowledged is a fact and stays until the watch shows it. Those of
        `uncertain` claims may be stored: they stay until the watch or an answer shows what the server has.
        """
        allocations = {each.claim: each for each in unit.allocations}
        for placement in unit.placements:
            lost = (each for each in unit.allocations if each.claim in uncertain and each.claim in placement.claims)
            self._keep_special(placement, lost)
            pod = self._pods.get(placement.pod)
            if pod is not None and (pod.uid, pod.node) == (placement.pod_uid, placement.node):
                del self._pods[placement.pod]
        for claim, consumers in unit.reservations().items():
            known = self._claims.get(claim)
            if known is None:
                continue
            own = allocations.get(claim)
            if own is not None and own.claim_uid == known.uid and not known.is_written:
                if claim in uncertain and known.allocation is not None:
                    known = msgspec.structs.replace(known, is_uncertain=True)
                else:
                    known = msgspec.structs.replace(known, allocation=None, written_version="")
            self._keep(known, without={each.uid for each in consumers})

    def _keep_special(self, placement: Placement, uncertain: Iterable[ClaimAllocation]) -> None:
        """Move the uncertain allocation of a special claim from its stand-in, which is forgotten, to the claim."""
        special = placement.extended_resource_claim
        stand_in = self._specials.get(special.id) if special is not None else None
        for each in uncertain:
            if stand_in is not None and stand_in.allocation == each.allocation and each.claim not in self._claims:
                self._claims[each.claim] = ClaimAssumption(
                    claim=each.claim, uid=each.claim_uid, allocation=each.allocation
                )

    def forget_consumer(self, pod_uid: str, claims: Iterable[ClaimId]) -> None:
        """Forget the reservations of a deleted pod; an allocation in flight stays until the watch shows it."""
        for claim in claims:
            known = self._claims.get(claim)
            if known is not None:
                self._keep(known, without={pod_uid})

    def acknowledge(self, claim: Claim) -> None:
        """
        Note the server's answer to an allocation or deallocation; an earlier answer (finalizer) has no effect.

        Where the allocation is uncertain any answer counts: it makes writes that arrive later fail.
        """
        known = self._claims.get(claim.id)
        is_written = claim.allocation is not None
        if known is not None and known.uid == claim.uid and (is_written or known.is_written or known.is_uncertain):
            self._claims[claim.id] = msgspec.structs.replace(
                known, written_version=claim.resource_version, is_written=is_written, is_uncertain=False
            )

    def uncertain_claims(self) -> tuple[ClaimId, ...]:
        """Return the claims whose allocation may be stored, and that no commit writes any more."""
        return tuple(key for key, known in self._claims.items() if known.is_uncertain)

    def overlay_pod(self, pod: Pod) -> Pod:
        """Apply the assumption about a pod to it."""
        known = self._pods.get(pod.id)
        if known is None or known.uid != pod.uid or pod.node_name:
            return pod
        bound = msgspec.structs.replace(pod, node_name=known.node, place=known.place)
        return with_node_allocatable(bound, known.node_allocatable)

    def overlay_claim(self, claim: Claim) -> Claim:
        """Apply the assumption about a claim to it; an unallocated claim has no consumers."""
        known = self._claims.get(claim.id)
        if known is None or known.uid != claim.uid:
            return claim
        allocation = known.allocation if claim.allocation is None else claim.allocation
        if allocation is None:
            return claim
        present = {each.uid for each in claim.reserved_for}
        added = tuple(each for each in known.consumers if each.uid not in present)
        if allocation is claim.allocation and not added:
            return claim
        return msgspec.structs.replace(claim, allocation=allocation, reserved_for=claim.reserved_for + added)

    def confirm_pod(self, key: PodId, pod: Pod | None) -> Reason | None:
        """Drop assumptions about a pod that the watch confirms or contradicts; return the reason of a contradiction."""
        known = self._pods.get(key)
        if known is None:
            return None
        if pod is None or pod.uid != known.uid:
            del self._pods[key]
            return None
        if not pod.node_name:
            return None
        del self._pods[key]
        if pod.node_name == known.node:
            return None
        return Reason(
            code=ReasonCode.CONFLICT,
            message=f"pod {key} was bound to node {pod.node_name} by another client; node {known.node} was planned",
        )

    def confirm_claim(self, key: ClaimId, claim: Claim | None) -> Reason | None:
        """Drop assumptions about a claim that the watch confirms or contradicts; return why it contradicts them."""
        known = self._claims.get(key)
        if known is None:
            return None
        if claim is None or claim.uid != known.uid:
            del self._claims[key]
            return None
        if claim.allocation is None:
            if known.written_version and is_at_least(claim.resource_version, known.written_version):
                del self._claims[key]  # allocated and deallocated again; a relist skipped the states between
            return None
        conflict = None
        if known.allocation is not None:
            if not is_same(known.allocation, claim.allocation):
                conflict = _allocated_otherwise(key, known.allocation, claim.allocation)
            known = msgspec.structs.replace(known, allocation=None)
        self._keep(known, without={each.uid for each in claim.reserved_for})
        return conflict

    def _keep(self, known: ClaimAssumption, *, without: set[str]) -> None:
        consumers = tuple(each for each in known.consumers if each.uid not in without)
        if known.allocation is None and not consumers:
            self._claims.pop(known.claim, None)
        else:
            self._claims[known.claim] = msgspec.structs.replace(known, consumers=consumers)


def not_taken(
    unit: Unit,
    pods: Mapping[PodId, Pod],
    find_pod: Callable[[PodId], Pod | None],
    find_claim: Callable[[ClaimId], Claim | None],
) -> Iterator[Transition]:
    """
    Return what a plan takes for a unit and the assumed unit does not, as if it came free.

    Pods or claims of the unit have gone or changed during the decision. Other pods of the batch have lost to them.
    """
    for placement in unit.placements:
        pod = find_pod(placement.pod)
        if pod is None or pod.uid != placement.pod_uid or pod.node_name != placement.node:
            placed = msgspec.structs.replace(pods[placement.pod], node_name=placement.node)
            yield Transition(kind=Kind.PODS, key=str(placement.pod), before=placed, after=None)
    for each in unit.allocations:
        claim = find_claim(each.claim)
        held = claim.allocation if claim is not None and claim.uid == each.claim_uid else None
        if held is None or not is_same(each.allocation, held):
            free = Claim(id=each.claim, uid=each.claim_uid)
            taken = msgspec.structs.replace(free, allocation=each.allocation)
            yield Transition(kind=Kind.CLAIMS, key=str(each.claim), before=taken, after=free)


def is_same(assumed: Allocation, seen: Allocation) -> bool:
    """
    Whether an observed allocation is the assumed one.

    Devices, requests, shares and amounts are compared. The write adds the timestamp and may add share ids, and the
    server may format a quantity differently.
    """
    if assumed is seen:
        return True
    left, right = _essence(assumed), _essence(seen)
    return len(left) == len(right) and all(
        one[:-1] == other[:-1] and one[-1] in {"", other[-1]} for one, other in zip(left, right, strict=True)
    )


def _essence(allocation: Allocation) -> list[tuple[DeviceId, str, bool, tuple[tuple[str, int], ...], str]]:
    """Return (device, request, admin access, nano-units by capacity, share id) per result; three are the key."""
    return sorted(
        (
            result.device,
            result.request,
            result.admin_access,
            tuple(sorted((name, amount.nano) for name, amount in result.consumed_capacity)),
            result.share_id,
        )
        for result in allocation.results
    )


def _allocated_otherwise(claim: ClaimId, assumed: Allocation, seen: Allocation) -> Reason:
    wanted, got = (
        ", ".join(str(result.device) for result in allocation.results) or "no device" for allocation in (assumed, seen)
    )
    return Reason(
        code=ReasonCode.CONFLICT, message=f"claim {claim} was allocated {got} by another client; {wanted} was planned"
    )

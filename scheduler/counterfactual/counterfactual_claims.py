"""
The claims of the counterfactual cluster: which of them exist, and which pods hold their devices.

Specs are those of the real claims. Allocations and reservations are Dovetail's own, except for claims that were
allocated when the observation began. As the claim controller does, a claim is deallocated when its last holder leaves.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from scheduler.change import Change, Kind
from scheduler.cluster import Unit
from solver.domain import FINALIZER, Allocation, Claim, ClaimId, ConsumerReference, Placement, Pod

_OUTSIDE: Final = "outside"
"""The holder of a claim that was allocated at the start and that no running pod holds."""

Apply = Callable[[Change], None]
"""Applies a change to the counterfactual cluster."""


class CounterfactualClaims:
    """
    Follows the real claims and overrides their consumers.

    `is_needed` says whether a pod of the counterfactual cluster needs a claim that is really gone: one that has really
    run, and still runs or waits there.
    """

    def __init__(self, apply: Apply, is_needed: Callable[[ClaimId], bool]) -> None:
        self._apply: Final = apply
        self._is_needed: Final = is_needed
        self._real: Final[dict[ClaimId, Claim]] = {}
        self._shown: Final[dict[ClaimId, Claim]] = {}
        self._holders: Final[defaultdict[ClaimId, set[str]]] = defaultdict(set)

    def see(self, key: ClaimId, claim: Claim | None) -> None:
        """Take a claim as the watch shows it; None where it is gone."""
        if claim is None:
            self._real.pop(key, None)
        else:
            self._real[key] = claim
        shown = self._shown.get(key)
        is_same = shown is not None and claim is not None and claim.uid == shown.uid
        if _OUTSIDE in self._holders.get(key, ()) and not (is_same and claim is not None and claim.allocation):
            self.release(_OUTSIDE, (key,))
        self.refresh(key)

    def begin(self, pods: Iterable[Pod]) -> dict[str, list[ClaimId]]:
        """Keep the allocations that exist; `pods` are those that run. Return the claims that each holds, by uid."""
        users: defaultdict[ClaimId, set[str]] = defaultdict(set)
        uids = set[str]()
        for pod in pods:
            uids.add(pod.uid)
            for key in pod.claim_ids:
                users[key].add(pod.uid)
        held: defaultdict[str, list[ClaimId]] = defaultdict(list)
        for key, claim in self._real.items():
            if claim.allocation is None:
                continue
            reserved = {each.uid for each in claim.reserved_for} & uids
            self._holders[key] |= (reserved | users[key]) or {_OUTSIDE}
            self._show(key, claim)
            for uid in self._holders[key]:
                held[uid].append(key)
        return held

    def allocate(self, unit: Unit) -> None:
        """Allocate and reserve the claims of a unit, and create those for extended resources."""
        made = {each.claim: each.allocation for each in unit.allocations}
        special = {
            each.extended_resource_claim.id: each.extended_resource_claim.as_claim(each.pod_uid)
            for each in unit.placements
            if each.extended_resource_claim is not None
        }
        for key, consumers in unit.reservations().items():
            claim = self._shown.get(key) or special.get(key)
            if claim is not None:
                self._show(key, _allocated(claim, made.get(key), consumers))
        for placement in unit.placements:
            for key in placement.claims:
                self._holders[key].add(placement.pod_uid)

    def can_allocate(self, unit: Unit) -> bool:
        """Whether the claims of a unit are still as they were when it was decided."""
        made = {each.claim: each.claim_uid for each in unit.allocations}
        return all(self._is_as_planned(key, each, made) for each in unit.placements for key in each.claims)

    def _is_as_planned(self, key: ClaimId, placement: Placement, made: dict[ClaimId, str]) -> bool:
        special = placement.extended_resource_claim
        if special is not None and special.id == key:
            return True
        shown = self._shown.get(key)
        if shown is None:
            return False
        return shown.allocation is not None if key not in made else (shown.allocation, shown.uid) == (None, made[key])

    def release(self, uid: str, keys: Iterable[ClaimId]) -> None:
        """Let a pod give up claims; those without another holder are deallocated."""
        for key in keys:
            holders = self._holders[key]
            holders.discard(uid)
            shown = self._shown.get(key)
            if holders and shown is not None:
                left = tuple(each for each in shown.reserved_for if each.uid != uid)
                self._show(key, msgspec.structs.replace(shown, reserved_for=left))
            if not holders:
                del self._holders[key]
                self.refresh(key)

    def refresh(self, key: ClaimId) -> None:
        """Show a claim as it really is, without an allocation, unless it is held or still needed."""
        if self._holders.get(key):
            return
        real, shown = self._real.get(key), self._shown.get(key)
        is_gone = real is None or (shown is not None and real.uid != shown.uid) or real.is_deleting
        if shown is not None and is_gone and self._is_needed(key):
            self._show(key, _free(shown))
        elif real is not None and not real.is_extended_resource_claim:
            self._show(key, _free(real))
        else:
            self._show(key, None)

    def _show(self, key: ClaimId, claim: Claim | None) -> None:
        before = self._shown.get(key)
        if claim == before:
            return
        if claim is None:
            del self._shown[key]
        else:
            self._shown[key] = claim
        self._apply(Change(kind=Kind.CLAIMS, key=str(key), value=claim))


def _free(claim: Claim) -> Claim:
    return msgspec.structs.replace(
        claim, resource_version="", allocation=None, reserved_for=(), device_status=(), finalizers=()
    )


def _allocated(claim: Claim, allocation: Allocation | None, consumers: tuple[ConsumerReference, ...]) -> Claim:
    """Return a claim with an allocation, its own where none is given, and further consumers."""
    return msgspec.structs.replace(
        claim,
        allocation=claim.allocation if allocation is None else allocation,
        reserved_for=tuple(dict.fromkeys((*claim.reserved_for, *consumers))),
        finalizers=tuple(dict.fromkeys((*claim.finalizers, FINALIZER))),
        is_deleting=False,
    )

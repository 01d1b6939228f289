"""
A unit as ordered writes. Pure.

First the claims, in any order among themselves: those that the plan allocates (allocation and all the unit's
consumers in one status write), and those that were allocated before (consumers added). Then the bindings. Until the
first binding everything can be taken back; a binding cannot.
"""

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.cluster import Unit
from scheduler.cluster.assume_cache import is_same
from scheduler.cluster.object_store import missing_consumers
from solver.domain import (
    MOST_CONSUMERS,
    Allocation,
    Claim,
    ClaimId,
    ConsumerReference,
    Placement,
    Pod,
    PodId,
    Reason,
    ReasonCode,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocate:
    """Allocate a claim and reserve it, in one status write behind its finalizer."""

    claim: Claim
    allocation: Allocation
    consumers: tuple[ConsumerReference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Reserve a claim that is allocated as `claim.allocation` says."""

    claim: Claim
    consumers: tuple[ConsumerReference, ...]


ClaimWrite = Allocate | Reserve


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """All claim writes before any binding."""

    claims: tuple[ClaimWrite, ...]
    bindings: tuple[Placement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The claim is as the write wants it, whoever's answer was lost."""

    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """The write still makes sense on this newer state of the claim."""

    claim: Claim


Judgement = Done | Again | Reason


def operations(
    unit: Unit, find_claim: Callable[[ClaimId], Claim | None], find_pod: Callable[[PodId], Pod | None]
) -> Operations | Reason:
    """
    Order a unit's writes; claims and pods are found as the watch last gave them, without assumptions.

    Give the reason where a claim of the unit is not there any more.
    """
    allocations = {each.claim: each for each in unit.allocations}
    writes: list[ClaimWrite] = []
    for key in unit.claims:
        claim, new = find_claim(key), allocations.get(key)
        if claim is None:
            return Reason(code=ReasonCode.CLAIM_MISSING, message=f"claim {key} was deleted meanwhile")
        if new is not None:
            writes.append(Allocate(claim=claim, allocation=new.allocation, consumers=unit.consumers(key)))
        else:
            writes.append(Reserve(claim=claim, consumers=missing_consumers(claim, unit.consumers(key), find_pod)))
    return Operations(claims=tuple(writes), bindings=unit.placements)


def judge(write: ClaimWrite, live: Claim | None) -> Judgement:
    """
    Say what a live read means for a write that met a conflict or lost its answer.

    The claim must be the same object, not being deleted, and allocated by nobody else: the API server
    guards the resourceVersion, not the sense of a retry.
    """
    key = write.claim.id
    if live is None:
        return Reason(code=ReasonCode.CLAIM_MISSING, message=f"claim {key} was deleted meanwhile")
    if live.uid != write.claim.uid:
        return _conflict(f"claim {key} was deleted and made anew meanwhile")
    if live.is_deleting:
        return Reason(code=ReasonCode.CLAIM_DELETING, message=f"claim {key} is being deleted")
    return _judge_allocate(write, live) if isinstance(write, Allocate) else _judge_reserve(write, live)


def _judge_allocate(write: Allocate, live: Claim) -> Judgement:
    if live.allocation is None:
        return Again(claim=live)
    if is_same(write.allocation, live.allocation) and _uids(write) <= _reserved(live):
        return Done(claim=live)
    return _conflict(f"claim {live.id} was allocated by another client meanwhile")


def _judge_reserve(write: Reserve, live: Claim) -> Judgement:
    if live.allocation is None:
        return _conflict(f"claim {live.id} was deallocated meanwhile")
    if write.claim.allocation is not None and not is_same(write.claim.allocation, live.allocation):
        return _conflict(f"claim {live.id} was allocated anew meanwhile")
    reserved, wanted = _reserved(live), _uids(write)
    if wanted <= reserved:
        return Done(claim=live)
    if len(reserved | wanted) > MOST_CONSUMERS:
        message = f"claim {live.id} has {len(reserved)} consumers, and the API allows {MOST_CONSUMERS}"
        return Reason(code=ReasonCode.CLAIM_FULL, message=message)
    return Again(claim=live)


def _reserved(claim: Claim) -> set[str]:
    return {each.uid for each in claim.reserved_for}


def _uids(write: ClaimWrite) -> set[str]:
    return {each.uid for each in write.consumers}


def _conflict(message: str) -> Reason:
    return Reason(code=ReasonCode.CONFLICT, message=message)

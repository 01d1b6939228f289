"""
The claim writes of a unit, and what a live read says about one that failed. Pure.

A claim that the plan allocates gets allocation and reservedFor in one status write. A claim that was allocated before
gets the unit's consumers added. The claims of a unit are written in any order, the bindings after all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.cluster import Unit
from scheduler.cluster.ledger import is_same
from scheduler.cluster.mirror import missing_consumers
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
    """Allocate and reserve a claim in one status write, after its finalizer."""

    claim: Claim
    allocation: Allocation
    consumers: tuple[ConsumerReference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Add consumers to a claim that is allocated already."""

    claim: Claim
    consumers: tuple[ConsumerReference, ...]


ClaimWrite = Allocate | Reserve


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The writes of a unit: all claims before any binding."""

    claims: tuple[ClaimWrite, ...]
    bindings: tuple[Placement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The claim is as the write wants it: the write whose answer was lost has acted."""

    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The write has not acted and is still valid on this newer version of the claim."""

    claim: Claim


Judgement = Done | Retry | Reason


def operations(
    unit: Unit, find_claim: Callable[[ClaimId], Claim | None], find_pod: Callable[[PodId], Pod | None]
) -> Operations | Reason:
    """
    Give a unit's writes, or the reason where one of its claims no longer exists.

    Claims and pods are looked up as the watch last showed them, without assumptions.
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
    Decide by a live read about a write that met a conflict or lost its answer.

    The claim must be the same object (uid), not being deleted, and not allocated otherwise. The API server checks the
    resourceVersion only: a retry on a newer version needs this check.
    """
    key = write.claim.id
    if live is None:
        return Reason(code=ReasonCode.CLAIM_MISSING, message=f"claim {key} was deleted meanwhile")
    if live.uid != write.claim.uid:
        return _conflict(f"claim {key} was deleted and created again meanwhile")
    if live.is_deleting:
        return Reason(code=ReasonCode.CLAIM_DELETING, message=f"claim {key} is being deleted")
    return _judge_allocate(write, live) if isinstance(write, Allocate) else _judge_reserve(write, live)


def _judge_allocate(write: Allocate, live: Claim) -> Judgement:
    if live.allocation is None:
        return Retry(claim=live)
    if is_same(write.allocation, live.allocation) and _uids(write) <= _reserved(live):
        return Done(claim=live)
    return _conflict(f"claim {live.id} was allocated by another client meanwhile")


def _judge_reserve(write: Reserve, live: Claim) -> Judgement:
    if live.allocation is None:
        return _conflict(f"claim {live.id} was deallocated meanwhile")
    if write.claim.allocation is not None and not is_same(write.claim.allocation, live.allocation):
        return _conflict(f"claim {live.id} was allocated again meanwhile")
    reserved, wanted = _reserved(live), _uids(write)
    if wanted <= reserved:
        return Done(claim=live)
    if len(reserved | wanted) > MOST_CONSUMERS:
        message = f"claim {live.id} has {len(reserved)} consumers, and the API allows {MOST_CONSUMERS}"
        return Reason(code=ReasonCode.CLAIM_FULL, message=message)
    return Retry(claim=live)


def _reserved(claim: Claim) -> set[str]:
    return {each.uid for each in claim.reserved_for}


def _uids(write: ClaimWrite) -> set[str]:
    return {each.uid for each in write.consumers}


def _conflict(message: str) -> Reason:
    return Reason(code=ReasonCode.CONFLICT, message=message)

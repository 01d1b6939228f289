"""
Decisions, bindings and evictions as frozen values.

The encoded fields (camelCase, empty ones left out) are the items of the API's `History`; docs/reference/documents.md.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from solver.domain import (
    Allocation,
    Claim,
    ClaimAllocation,
    ClaimId,
    LevelReport,
    Placement,
    Plan,
    PodId,
    Preemption,
    Reason,
)

_LONGEST_MESSAGE: Final = 400
"""Characters of a message; the condition of the pod has all of it."""

FindClaim = Callable[[ClaimId], Claim | None]


class PodPlaced(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A pod that a decision places; `devices` are `driver/pool/device`."""

    namespace: str
    name: str
    node: str
    devices: tuple[str, ...] = ()


class PodWaiting(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A pod that a decision does not place, and why; `reason` is a `ReasonCode`."""

    namespace: str
    name: str
    reason: str
    message: str = ""


class PodNominated(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A waiting pod for which a decision evicts `victims` other pods on a node."""

    namespace: str
    name: str
    node: str
    victims: int = 0


class DecisionRecord(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type", tag="Decision"
):
    """
    One decision about a batch. `seconds` is wall time.

    `levels` has the objective's value, its proven bound, and whether they meet, by level. `isolated` says that the
    batch was decided beside the others, because it is costly. `file` is what `dovetail replay` takes.
    """

    decision: int
    time: datetime
    profile: str
    pods: int
    seconds: float
    status: str
    levels: tuple[LevelReport, ...] = ()
    placed: tuple[PodPlaced, ...] = ()
    waiting: tuple[PodWaiting, ...] = ()
    nominated: tuple[PodNominated, ...] = ()
    isolated: bool = False
    file: str = ""


class PodResult(StrEnum):
    """What happened to a pod."""

    BOUND = "Bound"
    NOT_BOUND = "NotBound"
    """A decision placed it, and a conflict or a failed write took that back."""
    EVICTED = "Evicted"


class PodRecord(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type", tag="Pod"
):
    """
    What happened to one pod. `decision` is the number of the decision that placed it (0: it was evicted).

    `seconds` are those from the time when it could first be scheduled until it was bound. `preemptor` is the pod for
    which it was evicted (`NAMESPACE/NAME`).
    """

    decision: int = 0
    time: datetime
    result: PodResult
    namespace: str
    name: str
    node: str = ""
    devices: tuple[str, ...] = ()
    seconds: float = 0.0
    message: str = ""
    preemptor: str = ""


HistoryRecord = DecisionRecord | PodRecord
PodEntry = PodPlaced | PodWaiting | PodNominated


def pods_of(record: HistoryRecord) -> Iterator[PodEntry | PodRecord]:
    """Iterate over the pods that a record is about."""
    if isinstance(record, PodRecord):
        yield record
    else:
        yield from record.placed
        yield from record.waiting
        yield from record.nominated


def with_plan(record: DecisionRecord, plan: Plan, find: FindClaim) -> DecisionRecord:
    """Add the pods of a plan to the record of its decision; `find` gives the claims that were allocated before."""
    allocated = {each.claim: each.allocation for each in plan.allocations}
    return msgspec.structs.replace(
        record,
        placed=tuple(
            PodPlaced(
                namespace=each.pod.namespace,
                name=each.pod.name,
                node=each.node,
                devices=_device_names(each, allocated, find),
            )
            for each in plan.placements
        ),
        waiting=tuple(_waiting(each.pod, each.reasons) for each in plan.unplaced),
        nominated=tuple(nominated for each in plan.preemptions for nominated in _nominated(each)),
    )


def device_names(placement: Placement, allocations: Iterable[ClaimAllocation], find: FindClaim) -> tuple[str, ...]:
    """Name the devices of a placed pod, of new allocations and of claims that were allocated before."""
    return _device_names(placement, {each.claim: each.allocation for each in allocations}, find)


def joined(reasons: Sequence[Reason]) -> str:
    """Join the messages of reasons, shortened."""
    text = "; ".join(each.message for each in reasons)
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 1]}…"


def _device_names(placement: Placement, allocated: Mapping[ClaimId, Allocation], find: FindClaim) -> tuple[str, ...]:
    found: list[str] = []
    for key in placement.claims:
        allocation = allocated.get(key)
        if allocation is None and (claim := find(key)) is not None:
            allocation = claim.allocation
        if allocation is not None:
            found += ["/".join(each.device) for each in allocation.results]
    return tuple(found)


def _waiting(pod: PodId, reasons: Sequence[Reason]) -> PodWaiting:
    return PodWaiting(namespace=pod.namespace, name=pod.name, reason=reasons[0].code, message=joined(reasons))


def _nominated(preemption: Preemption) -> Iterable[PodNominated]:
    for each in preemption.placements:
        yield PodNominated(
            namespace=each.pod.namespace, name=each.pod.name, node=each.node, victims=len(preemption.victims)
        )

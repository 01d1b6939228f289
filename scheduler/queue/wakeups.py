"""
Which facts wake which reasons: a table, and nothing else.

A fact wakes a reason where it could make the reason go away, or where it makes what the reason says untrue. A pod
has a reason for each kind of obstacle it met, so a cell asks about its own obstacle only. Device reasons are the
exception: they name the first thing that ran short, and a device gained by any way at all can be the one that
was missing.
"""

from typing import Final

from scheduler.queue.facts import Fact
from solver.domain import ReasonCode

_DEVICES_SHORT: Final = frozenset(
    {
        ReasonCode.DEVICES_IN_USE,
        ReasonCode.DEVICES_TAINTED,
        ReasonCode.DEVICES_CAPACITY,
        ReasonCode.DEVICES_COUNTERS,
        ReasonCode.DEVICES_CONSTRAINT,
        ReasonCode.DEVICES_NOT_OWNED,
        ReasonCode.DEVICES_OFFERED_TWICE,
        ReasonCode.POOL_INCOMPLETE,
        ReasonCode.POOL_INVALID,
        ReasonCode.SELECTOR_FAILED,
    }
)
"""There may be devices that match, and they cannot be had: one more that can be had helps."""

_DEVICES_MATCHING: Final = _DEVICES_SHORT | {ReasonCode.DEVICES_NONE, ReasonCode.CLAIM_TOO_LARGE}
"""What depends on which devices there are and which of them match."""

_DEMANDS: Final = _DEVICES_MATCHING | {ReasonCode.CLASS_MISSING, ReasonCode.SELECTOR_INVALID, ReasonCode.OUTRANKED}
"""What a claim that still has to be allocated can fail at; with an allocation it cannot."""

_CLAIM_STATE: Final = frozenset(
    {
        ReasonCode.CLAIM_NOT_OWNED,
        ReasonCode.CLAIM_DELETING,
        ReasonCode.CLAIM_INVALID,
        ReasonCode.CLAIM_FULL,
        ReasonCode.CLAIM_ELSEWHERE,
        ReasonCode.CLAIM_TOO_LARGE,
    }
)
"""What is said about the claim object itself, and is untrue when it is gone or another has its name."""

_ANY_NODE: Final = frozenset(
    {
        ReasonCode.NO_NODES,
        ReasonCode.NODE_UNSCHEDULABLE,
        ReasonCode.NODE_TAINT,
        ReasonCode.NODE_AFFINITY,
        ReasonCode.NODE_RESOURCES,
        ReasonCode.CLAIM_ELSEWHERE,
    }
)
"""What the nodes that exist fail at, and a new one may not."""

WAKES: Final[dict[Fact, frozenset[ReasonCode]]] = {
    Fact.NODE_ADDED: _ANY_NODE | _DEVICES_MATCHING | {ReasonCode.OUTRANKED},
    Fact.NODE_ALLOCATABLE_GREW: frozenset({ReasonCode.NODE_RESOURCES, ReasonCode.OUTRANKED}),
    Fact.NODE_RESOURCE_CHANGED_HANDS: _DEVICES_MATCHING | {ReasonCode.NODE_RESOURCES, ReasonCode.OUTRANKED},
    # Labels decide which devices a node reaches, and whether the configuration gives them to us.
    Fact.NODE_LABELS_CHANGED: _DEVICES_MATCHING
    | {ReasonCode.NODE_AFFINITY, ReasonCode.CLAIM_ELSEWHERE, ReasonCode.OUTRANKED},
    Fact.NODE_TAINT_REMOVED: frozenset({ReasonCode.NODE_TAINT, ReasonCode.OUTRANKED}),
    Fact.NODE_UNCORDONED: frozenset({ReasonCode.NODE_UNSCHEDULABLE, ReasonCode.OUTRANKED}),
    Fact.NODE_ROOM_FREED: frozenset({ReasonCode.NODE_RESOURCES, ReasonCode.OUTRANKED}),
    Fact.DEVICES_FREED: _DEVICES_SHORT | {ReasonCode.OUTRANKED},
    # A class may stand for an extended resource that the nodes do not have.
    Fact.CLASS_CHANGED: _DEMANDS | {ReasonCode.NODE_RESOURCES},
    Fact.SLICE_CHANGED: _DEVICES_MATCHING | {ReasonCode.OUTRANKED},
    # Fewer slices can help: an older generation is whole again, `All` asks for less, a duplicate is gone.
    Fact.SLICE_DELETED: _DEVICES_MATCHING | {ReasonCode.OUTRANKED},
    Fact.DEVICE_TAINT_REMOVED: _DEVICES_SHORT | {ReasonCode.OUTRANKED},
    Fact.CLAIM_CREATED: _DEMANDS | _CLAIM_STATE | {ReasonCode.CLAIM_MISSING},
    Fact.CLAIM_ALLOCATED: _DEMANDS | {ReasonCode.CLAIM_INVALID},
    Fact.CLAIM_DEALLOCATED: frozenset({ReasonCode.CLAIM_ELSEWHERE, ReasonCode.CLAIM_FULL}),
    Fact.CLAIM_RESERVATIONS_SHRANK: frozenset({ReasonCode.CLAIM_FULL}),
    Fact.CLAIM_CHANGED: frozenset({ReasonCode.CLAIM_INVALID, ReasonCode.CLAIM_NOT_OWNED}),
    Fact.CLAIM_DELETED: _CLAIM_STATE,
}
"""The reasons that each fact wakes. A change of the pod itself wakes every reason and is not in it."""

OF_ONE_CLAIM: Final = frozenset(
    {
        Fact.CLAIM_CREATED,
        Fact.CLAIM_ALLOCATED,
        Fact.CLAIM_DEALLOCATED,
        Fact.CLAIM_RESERVATIONS_SHRANK,
        Fact.CLAIM_CHANGED,
        Fact.CLAIM_DELETED,
    }
)
"""Facts that concern only the pods that reference the claim."""

RETRIED: Final = frozenset(
    {
        ReasonCode.BUDGET,
        ReasonCode.SOLVER_FAILED,
        ReasonCode.BINDING_FAILED,
        ReasonCode.CONFLICT,
        ReasonCode.API_ERROR,
    }
)
"""Reasons that no change has to remove: another attempt after the backoff may do better."""


def wakes(fact: Fact, code: ReasonCode) -> bool:
    """Whether a fact wakes a pod that waits for this reason (and references the claim, for facts of one claim)."""
    return code in WAKES[fact]

"""
Queueing hints: which cluster events may remove which reasons. It is one table, a line per reason.

An event hints a reason where it could remove it, or make untrue what it says. A pod has a reason for each kind of
obstacle that it met, so a line of the table is about one obstacle only. Device reasons are the exception: they name the
first thing that ran short, and a device that is gained in any way can be the one that was missing.

Rules that have a folder bring their own lines (`solver.rules`).
"""

from collections.abc import Mapping
from typing import Final

from solver import OWN_REASONS, RULE_HINTS
from solver.domain import ALLOCATED_ELSEWHERE, ClusterEvent, Pod, ReasonCode

Hints = Mapping[ReasonCode, frozenset[ClusterEvent]]

_DEVICES_OFFERED: Final = frozenset(
    {
        ClusterEvent.NODE_ADDED,
        ClusterEvent.NODE_EXTENDED_RESOURCE_MOVED,
        # Labels decide which devices a node reaches, and whether the configuration gives them to this scheduler.
        ClusterEvent.NODE_LABELS_CHANGED,
        # Devices of slices with skipNodeOperations can only be used on nodes that declare the feature for it.
        ClusterEvent.NODE_FEATURES_DECLARED,
        ClusterEvent.CLASS_CHANGED,
        ClusterEvent.SLICE_CHANGED,
        # Fewer slices can help: an older generation is whole again, `All` asks for less, a duplicate is gone.
        ClusterEvent.SLICE_DELETED,
        ClusterEvent.CLAIM_CREATED,
        ClusterEvent.CLAIM_ALLOCATED,
    }
)
"""What changes which devices exist, where they are, or which of them match."""
_DEVICES_USABLE: Final = _DEVICES_OFFERED | {ClusterEvent.DEVICE_TAINT_REMOVED}
"""Devices may match and cannot be allocated: one more that can be allocated helps."""
_DEVICES_FREE: Final = _DEVICES_USABLE | {
    ClusterEvent.DEVICES_FREED,
    # The nominated pod counted as running there: with its requests, ports, devices and anti-affinity.
    ClusterEvent.NOMINATION_ENDED,
}
"""Devices match and are allocated to other pods: one that becomes free helps."""

_DEMAND: Final = frozenset({ClusterEvent.CLASS_CHANGED, ClusterEvent.CLAIM_CREATED, ClusterEvent.CLAIM_ALLOCATED})
"""What changes what a claim asks for."""
_OTHER_CLAIM: Final = frozenset({ClusterEvent.CLAIM_CREATED, ClusterEvent.CLAIM_DELETED})
"""What is wrong with the claim object itself is untrue when it is deleted or another one has its name."""
_ELSEWHERE: Final = _OTHER_CLAIM | {
    ClusterEvent.NODE_ADDED,
    ClusterEvent.NODE_LABELS_CHANGED,
    ClusterEvent.CLAIM_DEALLOCATED,
}

_NODE_GREW: Final = frozenset(
    {
        ClusterEvent.NODE_ADDED,
        ClusterEvent.NODE_ALLOCATABLE_GREW,
        ClusterEvent.NODE_EXTENDED_RESOURCE_MOVED,
        # A class may serve an extended resource that the nodes do not have.
        ClusterEvent.CLASS_CHANGED,
        # Devices of another claim may take less of their node.
        ClusterEvent.CLAIM_CREATED,
        ClusterEvent.CLAIM_ALLOCATED,
    }
)
"""What gives a node more resources, or serves an extended resource by devices."""

_ROOM: Final = _DEVICES_FREE | frozenset(
    {
        ClusterEvent.NODE_ALLOCATABLE_GREW,
        ClusterEvent.NODE_TAINT_REMOVED,
        ClusterEvent.NODE_UNCORDONED,
        ClusterEvent.NODE_ROOM_FREED,
        ClusterEvent.RESERVATION_RELEASED,
        ClusterEvent.VOLUMES_RELEASED,
        ClusterEvent.VOLUME_CLAIM_CHANGED,
        ClusterEvent.VOLUME_OFFERED,
        ClusterEvent.ATTACHMENTS_GREW,
        ClusterEvent.CSI_DRIVER_INSTALLED,
    }
)
"""What may let a pod in that others were placed before."""

_GANG_PLACE: Final = frozenset(
    {
        ClusterEvent.NODE_ADDED,
        ClusterEvent.NODE_LABELS_CHANGED,
        ClusterEvent.NODE_FEATURES_DECLARED,
        ClusterEvent.NODE_EXTENDED_RESOURCE_MOVED,
        ClusterEvent.NODE_ROOM_FREED,
        ClusterEvent.DEVICES_FREED,
        ClusterEvent.CLASS_CHANGED,
        ClusterEvent.SLICE_CHANGED,
        ClusterEvent.SLICE_DELETED,
        ClusterEvent.GANG_CHANGED,
    }
)
"""What can change the topology domains of a gang, or free it from the domain where its members ran."""

DEVICES_TAKEN: Final = frozenset(
    {
        ReasonCode.DEVICES_IN_USE,
        ReasonCode.DEVICES_CAPACITY,
        ReasonCode.DEVICES_COUNTERS,
        ReasonCode.DEVICES_INCOMPATIBLE,
        ReasonCode.DEVICES_CONSTRAINT,
    }
)
"""Devices match and are allocated to other pods."""

_OWN_HINTS: Final[Hints] = {
    **dict.fromkeys(DEVICES_TAKEN, _DEVICES_FREE),
    ReasonCode.DEVICES_TAINTED: _DEVICES_USABLE,
    ReasonCode.DEVICES_AVOIDED: _DEVICES_USABLE,
    ReasonCode.DEVICES_NOT_OWNED: _DEVICES_USABLE,
    ReasonCode.DEVICES_OFFERED_TWICE: _DEVICES_USABLE,
    ReasonCode.POOL_INCOMPLETE: _DEVICES_USABLE,
    ReasonCode.POOL_INVALID: _DEVICES_USABLE,
    ReasonCode.SELECTOR_FAILED: _DEVICES_USABLE,
    ReasonCode.DEVICES_NONE: _DEVICES_OFFERED,
    ReasonCode.CLASS_MISSING: _DEMAND,
    ReasonCode.SELECTOR_INVALID: _DEMAND,
    ReasonCode.CLAIM_MISSING: frozenset({ClusterEvent.CLAIM_CREATED}),
    ReasonCode.CLAIM_TOO_LARGE: _DEVICES_OFFERED | _OTHER_CLAIM,
    ReasonCode.CLAIM_NOT_OWNED: _OTHER_CLAIM | {ClusterEvent.CLAIM_CHANGED},
    ReasonCode.CLAIM_DELETING: _OTHER_CLAIM,
    ReasonCode.CLAIM_INVALID: _OTHER_CLAIM | {ClusterEvent.CLAIM_CHANGED, ClusterEvent.CLAIM_ALLOCATED},
    ReasonCode.CLAIM_FULL: _OTHER_CLAIM | {ClusterEvent.CLAIM_DEALLOCATED, ClusterEvent.CLAIM_RESERVATIONS_SHRANK},
    ReasonCode.CLAIM_TAINTED: _OTHER_CLAIM
    | {
        ClusterEvent.CLAIM_DEALLOCATED,
        ClusterEvent.SLICE_CHANGED,
        ClusterEvent.SLICE_DELETED,
        ClusterEvent.DEVICE_TAINT_REMOVED,
    },
    **dict.fromkeys(ALLOCATED_ELSEWHERE, _ELSEWHERE),
    ReasonCode.NO_NODES: frozenset({ClusterEvent.NODE_ADDED}),
    ReasonCode.NODE_RESERVED: frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.RESERVATION_RELEASED}),
    ReasonCode.NODE_TOO_SMALL: _NODE_GREW,
    ReasonCode.NODE_RESOURCES: _NODE_GREW
    | {
        ClusterEvent.NODE_LABELS_CHANGED,
        ClusterEvent.NODE_FEATURES_DECLARED,
        ClusterEvent.NODE_ROOM_FREED,
        ClusterEvent.NOMINATION_ENDED,
        # The device may take less of its node than those that were free.
        ClusterEvent.DEVICES_FREED,
        ClusterEvent.DEVICE_AMOUNTS_CHANGED,
    },
    # The hold ends, or there is room beside it.
    ReasonCode.ROOM_HELD: _DEVICES_FREE
    | _NODE_GREW
    | {
        ClusterEvent.NODE_ADDED,
        ClusterEvent.NODE_ROOM_FREED,
        ClusterEvent.NOMINATION_ENDED,
        ClusterEvent.PORTS_FREED,
        ClusterEvent.DEVICE_AMOUNTS_CHANGED,
    },
    ReasonCode.RESERVATION_PENDING: frozenset({ClusterEvent.NODE_DELETED}),
    ReasonCode.NO_VICTIMS: frozenset(
        {
            ClusterEvent.NOMINATION_ENDED,
            ClusterEvent.DISRUPTIONS_ALLOWED,
            ClusterEvent.EVICTION_EASED,
            ClusterEvent.VICTIM_AVAILABLE,
        }
    ),
    # When the delay is over, the scheduler expects a victim.
    ReasonCode.PREEMPTION_DELAYED: frozenset({ClusterEvent.VICTIM_AVAILABLE}),
    ReasonCode.OUTRANKED: _ROOM,
    ReasonCode.GANG_UNPLACED: _ROOM | {ClusterEvent.GANG_CHANGED},
    ReasonCode.GANG_TOPOLOGY: _GANG_PLACE,
    ReasonCode.GANG_INCOMPLETE: frozenset({ClusterEvent.GANG_CHANGED}),
    ReasonCode.GANG_INVALID: frozenset({ClusterEvent.GANG_CHANGED}),
    # The member that holds the gang up has reasons of its own, and a gang is taken whole.
    ReasonCode.GANG_BLOCKED: frozenset({ClusterEvent.GANG_CHANGED}),
    ReasonCode.NO_SHAPE: _NODE_GREW | _DEVICES_OFFERED | {ClusterEvent.NODE_TAINT_REMOVED},
}
HINTS: Final[Hints] = {**_OWN_HINTS, **RULE_HINTS}
"""The events that may remove each reason. An update of the pod itself hints every reason, and is not in the table."""

QUEUEING_HINTS: Final[Mapping[ClusterEvent, frozenset[ReasonCode]]] = {
    event: frozenset(reason for reason, events in HINTS.items() if event in events) for event in ClusterEvent
}
"""The same by event."""

HELD_EVENTS: Final = frozenset({ClusterEvent.DEVICES_FREED, ClusterEvent.NODE_ROOM_FREED})
"""What comes free so may be held for others."""
HINTED_BY_HELD: Final = frozenset().union(*(QUEUEING_HINTS[event] for event in HELD_EVENTS))

CLAIM_EVENTS: Final = frozenset(
    {
        ClusterEvent.CLAIM_CREATED,
        ClusterEvent.CLAIM_ALLOCATED,
        ClusterEvent.CLAIM_DEALLOCATED,
        ClusterEvent.CLAIM_RESERVATIONS_SHRANK,
        ClusterEvent.CLAIM_CHANGED,
        ClusterEvent.CLAIM_DELETED,
        ClusterEvent.VOLUME_CLAIM_CREATED,
        ClusterEvent.VOLUME_CLAIM_CHANGED,
        ClusterEvent.VOLUME_CLAIM_DELETED,
    }
)
"""Events that concern only the pods that reference the claim."""


def obstacles(pod: Pod, reasons: frozenset[ReasonCode]) -> frozenset[ReasonCode]:
    """
    Return the reasons that a pod waits for.

    A pod that lost to others waits for what it lacks now that they have their places, where reasons say what that is.
    They do not where none is hinted when the others give their devices back: of several obstacles to the same request,
    as of its alternatives, one is named.
    """
    lacks = reasons - {ReasonCode.OUTRANKED}
    return lacks if pod.gang is None and lacks & QUEUEING_HINTS[ClusterEvent.DEVICES_FREED] else reasons


RETRIED: Final = frozenset(
    {
        ReasonCode.PREEMPTING,
        ReasonCode.BUDGET,
        ReasonCode.TOO_COSTLY,
        ReasonCode.SOLVER_FAILED,
        ReasonCode.BINDING_FAILED,
        ReasonCode.VOLUME_BINDING_FAILED,
        ReasonCode.VOLUME_CONTENDED,
        ReasonCode.CONFLICT,
        ReasonCode.API_ERROR,
    }
)
"""Reasons that need no event: another attempt after the backoff may do better."""

POD_SPECIFIC: Final = (
    OWN_REASONS
    | ALLOCATED_ELSEWHERE
    | QUEUEING_HINTS[ClusterEvent.GANG_CHANGED]
    | {
        ReasonCode.POD_INVALID,
        ReasonCode.CLAIM_MISSING,
        ReasonCode.CLAIM_NOT_OWNED,
        ReasonCode.CLAIM_DELETING,
        ReasonCode.CLAIM_INVALID,
        ReasonCode.CLAIM_FULL,
        ReasonCode.CLAIM_TAINTED,
        ReasonCode.CLAIM_TOO_LARGE,
    }
)
"""Reasons in a pod's own labels, claims, volumes or gang: a pod that asks for the same may still fit."""

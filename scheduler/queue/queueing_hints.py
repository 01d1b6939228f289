"""
Queueing hints: which cluster events may remove which reasons. It is one table.

An event hints a reason where it could remove it, or make untrue what it says. A pod has a reason for each kind of
obstacle that it met, so a cell of the table is about one obstacle only. Device reasons are the exception: they name the
first thing that ran short, and a device that is gained in any way can be the one that was missing.
"""

from typing import Final

from scheduler.queue.cluster_events import ClusterEvent
from solver.domain import ALLOCATED_ELSEWHERE, Pod, ReasonCode

DEVICES_TAKEN: Final = frozenset(
    {
        ReasonCode.DEVICES_IN_USE,
        ReasonCode.DEVICES_CAPACITY,
        ReasonCode.DEVICES_COUNTERS,
        ReasonCode.DEVICES_INCOMPATIBLE,
        ReasonCode.DEVICES_CONSTRAINT,
    }
)
"""Devices match and are allocated to other pods: one that becomes free helps."""

_DEVICES_SHORT: Final = DEVICES_TAKEN | frozenset(
    {
        ReasonCode.DEVICES_TAINTED,
        ReasonCode.DEVICES_AVOIDED,
        ReasonCode.DEVICES_NOT_OWNED,
        ReasonCode.DEVICES_OFFERED_TWICE,
        ReasonCode.POOL_INCOMPLETE,
        ReasonCode.POOL_INVALID,
        ReasonCode.SELECTOR_FAILED,
    }
)
"""Devices may match and cannot be allocated: one more that can be allocated helps."""

_DEVICES_MATCHING: Final = _DEVICES_SHORT | {ReasonCode.DEVICES_NONE, ReasonCode.CLAIM_TOO_LARGE}
"""What depends on the devices that exist, and on which of them match."""

_DEMANDS: Final = _DEVICES_MATCHING | {ReasonCode.CLASS_MISSING, ReasonCode.SELECTOR_INVALID, ReasonCode.OUTRANKED}
"""What a claim without an allocation can fail at."""

_CLAIM_STATE: Final = frozenset(
    {
        ReasonCode.CLAIM_NOT_OWNED,
        ReasonCode.CLAIM_DELETING,
        ReasonCode.CLAIM_INVALID,
        ReasonCode.CLAIM_FULL,
        ReasonCode.CLAIM_ELSEWHERE,
        ReasonCode.CLAIM_OUT_OF_REACH,
        ReasonCode.CLAIM_TAINTED,
        ReasonCode.CLAIM_TOO_LARGE,
    }
)
"""What is wrong with the claim object itself; untrue when it is deleted or another one has its name."""


_ANY_NODE: Final = (
    frozenset(
        {
            ReasonCode.NO_NODES,
            ReasonCode.NODE_UNSCHEDULABLE,
            ReasonCode.NODE_TAINT,
            ReasonCode.NODE_AFFINITY,
            ReasonCode.NODE_FEATURES,
            ReasonCode.NODE_RESOURCES,
            ReasonCode.NODE_TOO_SMALL,
            ReasonCode.NODE_RESERVED,
        }
    )
    | ALLOCATED_ELSEWHERE
)
"""What no existing node can offer; a new one could."""

_NODE_SIZE: Final = frozenset({ReasonCode.NODE_RESOURCES, ReasonCode.NODE_TOO_SMALL})
"""What a node with more resources helps with, or one whose extended resource is served by devices now."""

_VOLUME_PLACE: Final = frozenset(
    {
        ReasonCode.VOLUME_ELSEWHERE,
        ReasonCode.VOLUME_NONE,
        ReasonCode.VOLUME_CAPACITY,
        ReasonCode.VOLUME_MISSING,
        ReasonCode.VOLUME_DRIVER_MISSING,
    }
)
"""What depends on the volumes that exist or can be provisioned, by which driver, and where."""

_VOLUME_USE: Final = frozenset({ReasonCode.VOLUME_IN_USE, ReasonCode.VOLUME_EXCLUSIVE, ReasonCode.VOLUME_ATTACHMENTS})
"""What depends on the pods that use volumes."""

_VOLUME_CLAIM: Final = frozenset(
    {ReasonCode.VOLUME_CLAIM_MISSING, ReasonCode.VOLUME_CLAIM_UNUSABLE, ReasonCode.VOLUME_CLAIM_UNBOUND}
)
"""What is wrong with a PersistentVolumeClaim itself."""

_NEIGHBOURS: Final = frozenset({ReasonCode.POD_AFFINITY, ReasonCode.POD_ANTI_AFFINITY, ReasonCode.TOPOLOGY_SPREAD})
"""What depends on which pods run where; without any, required affinity lets the first pod of a kind go anywhere."""

_NEIGHBOURS_NODE: Final = _NEIGHBOURS | {ReasonCode.TOPOLOGY_LABEL}
"""What depends on the labels of nodes as well."""

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
    }
)
"""What can change the topology domains of a gang, or free it from the domain where its members ran."""

_SINGLE: Final[dict[ClusterEvent, frozenset[ReasonCode]]] = {
    ClusterEvent.NODE_ADDED: _ANY_NODE
    | _NEIGHBOURS_NODE
    | {ReasonCode.NODE_PORTS}
    | _VOLUME_PLACE
    | _VOLUME_USE
    | _DEVICES_MATCHING
    | {ReasonCode.OUTRANKED},
    ClusterEvent.NODE_ALLOCATABLE_GREW: _NODE_SIZE | {ReasonCode.OUTRANKED},
    ClusterEvent.NODE_EXTENDED_RESOURCE_MOVED: _DEVICES_MATCHING | _NODE_SIZE | {ReasonCode.OUTRANKED},
    # Labels decide which devices a node reaches, and whether the configuration gives them to this scheduler.
    ClusterEvent.NODE_LABELS_CHANGED: _DEVICES_MATCHING
    | _VOLUME_PLACE
    | {ReasonCode.NODE_AFFINITY, ReasonCode.NODE_RESOURCES, ReasonCode.OUTRANKED}
    | _NEIGHBOURS_NODE
    | ALLOCATED_ELSEWHERE,
    # Devices of slices with skipNodeOperations can only be used on nodes that declare the feature for it.
    ClusterEvent.NODE_FEATURES_DECLARED: _DEVICES_MATCHING
    | {ReasonCode.NODE_FEATURES, ReasonCode.NODE_RESOURCES, ReasonCode.OUTRANKED},
    # With one more domain there may be minDomains of them.
    ClusterEvent.NODE_TAINT_REMOVED: frozenset(
        {ReasonCode.NODE_TAINT, ReasonCode.TOPOLOGY_SPREAD, ReasonCode.OUTRANKED}
    ),
    ClusterEvent.NODE_TAINT_ADDED: frozenset({ReasonCode.TOPOLOGY_SPREAD}),
    ClusterEvent.NODE_DELETED: _NEIGHBOURS | {ReasonCode.RESERVATION_PENDING},
    ClusterEvent.NODE_UNCORDONED: frozenset({ReasonCode.NODE_UNSCHEDULABLE, ReasonCode.OUTRANKED}),
    ClusterEvent.NODE_ROOM_FREED: frozenset({ReasonCode.NODE_RESOURCES, ReasonCode.OUTRANKED}),
    ClusterEvent.PORTS_FREED: frozenset({ReasonCode.NODE_PORTS}),
    ClusterEvent.ASSIGNED_POD_ADDED: frozenset({ReasonCode.POD_AFFINITY, ReasonCode.TOPOLOGY_SPREAD}),
    ClusterEvent.ASSIGNED_POD_REMOVED: _NEIGHBOURS,
    ClusterEvent.ASSIGNED_POD_TERMINATING: frozenset({ReasonCode.TOPOLOGY_SPREAD}),
    ClusterEvent.ASSIGNED_POD_LABELS_CHANGED: _NEIGHBOURS,
    ClusterEvent.NAMESPACE_CHANGED: frozenset({ReasonCode.POD_AFFINITY, ReasonCode.POD_ANTI_AFFINITY}),
    # The nominated pod counted as running there: with its requests, ports, devices and anti-affinity.
    ClusterEvent.NOMINATION_ENDED: DEVICES_TAKEN
    | {
        ReasonCode.NODE_RESOURCES,
        ReasonCode.NODE_PORTS,
        ReasonCode.POD_ANTI_AFFINITY,
        ReasonCode.NO_VICTIMS,
        ReasonCode.OUTRANKED,
    },
    ClusterEvent.RESERVATION_RELEASED: frozenset({ReasonCode.NODE_RESERVED, ReasonCode.OUTRANKED}),
    # The device may take less of its node than those that were free.
    ClusterEvent.DEVICES_FREED: DEVICES_TAKEN | {ReasonCode.NODE_RESOURCES, ReasonCode.OUTRANKED},
    # A class may serve an extended resource that the nodes do not have.
    ClusterEvent.CLASS_CHANGED: _DEMANDS | _NODE_SIZE,
    ClusterEvent.SLICE_CHANGED: _DEVICES_MATCHING | {ReasonCode.OUTRANKED, ReasonCode.CLAIM_TAINTED},
    # Fewer slices can help: an older generation is whole again, `All` asks for less, a duplicate is gone.
    ClusterEvent.SLICE_DELETED: _DEVICES_MATCHING | {ReasonCode.OUTRANKED, ReasonCode.CLAIM_TAINTED},
    ClusterEvent.DEVICE_AMOUNTS_CHANGED: frozenset({ReasonCode.NODE_RESOURCES}),
    ClusterEvent.DEVICE_TAINT_REMOVED: _DEVICES_SHORT | {ReasonCode.OUTRANKED, ReasonCode.CLAIM_TAINTED},
    # Devices of another claim may take less of their node.
    ClusterEvent.CLAIM_CREATED: _DEMANDS | _CLAIM_STATE | _NODE_SIZE | {ReasonCode.CLAIM_MISSING},
    ClusterEvent.CLAIM_ALLOCATED: _DEMANDS | _NODE_SIZE | {ReasonCode.CLAIM_INVALID},
    ClusterEvent.CLAIM_DEALLOCATED: ALLOCATED_ELSEWHERE | {ReasonCode.CLAIM_FULL, ReasonCode.CLAIM_TAINTED},
    ClusterEvent.CLAIM_RESERVATIONS_SHRANK: frozenset({ReasonCode.CLAIM_FULL}),
    ClusterEvent.CLAIM_CHANGED: frozenset({ReasonCode.CLAIM_INVALID, ReasonCode.CLAIM_NOT_OWNED}),
    ClusterEvent.CLAIM_DELETED: _CLAIM_STATE,
    ClusterEvent.GANG_CHANGED: frozenset(
        {
            ReasonCode.GANG_INCOMPLETE,
            ReasonCode.GANG_INVALID,
            ReasonCode.GANG_UNPLACED,
            ReasonCode.GANG_TOPOLOGY,
        }
    ),
    ClusterEvent.DISRUPTIONS_ALLOWED: frozenset({ReasonCode.NO_VICTIMS}),
    ClusterEvent.EVICTION_EASED: frozenset({ReasonCode.NO_VICTIMS}),
    ClusterEvent.VICTIM_AVAILABLE: frozenset({ReasonCode.NO_VICTIMS}),
    ClusterEvent.VOLUMES_RELEASED: _VOLUME_USE | {ReasonCode.OUTRANKED},
    ClusterEvent.VOLUME_CLAIM_CREATED: _VOLUME_CLAIM | _VOLUME_PLACE | _VOLUME_USE,
    ClusterEvent.VOLUME_CLAIM_CHANGED: _VOLUME_CLAIM | _VOLUME_PLACE | {ReasonCode.OUTRANKED},
    ClusterEvent.VOLUME_CLAIM_DELETED: _VOLUME_CLAIM | _VOLUME_PLACE | _VOLUME_USE,
    ClusterEvent.VOLUME_OFFERED: _VOLUME_PLACE | {ReasonCode.OUTRANKED},
    # The class may have WaitForFirstConsumer; claims of a class that does not exist count as bound at once.
    ClusterEvent.STORAGE_CLASS_CHANGED: frozenset(
        {
            ReasonCode.VOLUME_CLAIM_UNBOUND,
            ReasonCode.VOLUME_NONE,
            ReasonCode.VOLUME_CAPACITY,
            ReasonCode.VOLUME_DRIVER_MISSING,
        }
    ),
    ClusterEvent.STORAGE_GREW: frozenset({ReasonCode.VOLUME_CAPACITY}),
    ClusterEvent.ATTACHMENTS_GREW: frozenset({ReasonCode.VOLUME_ATTACHMENTS, ReasonCode.OUTRANKED}),
    ClusterEvent.CSI_DRIVER_INSTALLED: frozenset({ReasonCode.VOLUME_DRIVER_MISSING, ReasonCode.OUTRANKED}),
}
"""The reasons of a pod without a gang, by event."""


def _of_gangs(event: ClusterEvent, single: frozenset[ReasonCode]) -> frozenset[ReasonCode]:
    """Return the reasons for the sake of a gang: what helps an outranked pod helps an outranked gang."""
    unplaced = {ReasonCode.GANG_UNPLACED} if ReasonCode.OUTRANKED in single else set()
    topology = {ReasonCode.GANG_TOPOLOGY} if event in _GANG_PLACE else set()
    return frozenset(unplaced | topology)


QUEUEING_HINTS: Final[dict[ClusterEvent, frozenset[ReasonCode]]] = {
    event: codes | _of_gangs(event, codes) for event, codes in _SINGLE.items()
}
"""The reasons that each event hints. An update of the pod itself hints every reason, and is not in the table."""

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
    _CLAIM_STATE
    | _VOLUME_CLAIM
    | _VOLUME_PLACE
    | _VOLUME_USE
    | _NEIGHBOURS_NODE
    | QUEUEING_HINTS[ClusterEvent.GANG_CHANGED]
    | {ReasonCode.POD_INVALID, ReasonCode.CLAIM_MISSING}
)
"""Reasons in a pod's own labels, claims, volumes or gang: a pod that asks for the same may still fit."""

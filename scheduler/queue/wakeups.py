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

_DEVICES_TAKEN: Final = frozenset(
    {
        ReasonCode.DEVICES_IN_USE,
        ReasonCode.DEVICES_CAPACITY,
        ReasonCode.DEVICES_COUNTERS,
        ReasonCode.DEVICES_CONSTRAINT,
    }
)
"""There are devices that match, and others have them: one that becomes free helps."""

_DEVICES_SHORT: Final = _DEVICES_TAKEN | frozenset(
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
        ReasonCode.CLAIM_OUT_OF_REACH,
        ReasonCode.CLAIM_TAINTED,
        ReasonCode.CLAIM_TOO_LARGE,
    }
)
"""What is said about the claim object itself, and is untrue when it is gone or another has its name."""

_ALLOCATED_AWAY: Final = frozenset({ReasonCode.CLAIM_ELSEWHERE, ReasonCode.CLAIM_OUT_OF_REACH})
"""An allocation keeps the pod from nodes that might do."""

_ANY_NODE: Final = (
    frozenset(
        {
            ReasonCode.NO_NODES,
            ReasonCode.NODE_UNSCHEDULABLE,
            ReasonCode.NODE_TAINT,
            ReasonCode.NODE_AFFINITY,
            ReasonCode.NODE_RESOURCES,
            ReasonCode.NODE_TOO_SMALL,
            ReasonCode.NODE_HELD,
        }
    )
    | _ALLOCATED_AWAY
)
"""What the nodes that exist fail at, and a new one may not."""

_NODE_SIZE: Final = frozenset({ReasonCode.NODE_RESOURCES, ReasonCode.NODE_TOO_SMALL})
"""What a node that has more helps with, or one whose extended resource is served by devices now."""

_VOLUME_PLACE: Final = frozenset(
    {ReasonCode.VOLUME_ELSEWHERE, ReasonCode.VOLUME_NONE, ReasonCode.VOLUME_CAPACITY, ReasonCode.VOLUME_MISSING}
)
"""What depends on which volumes there are, or can be made, and where."""

_VOLUME_USE: Final = frozenset({ReasonCode.VOLUME_IN_USE, ReasonCode.VOLUME_EXCLUSIVE, ReasonCode.VOLUME_ATTACHMENTS})
"""What depends on the pods that use volumes."""

_VOLUME_CLAIM: Final = frozenset(
    {ReasonCode.VOLUME_CLAIM_MISSING, ReasonCode.VOLUME_CLAIM_UNUSABLE, ReasonCode.VOLUME_CLAIM_UNBOUND}
)
"""What is said about a PersistentVolumeClaim itself."""

_NEIGHBOURS: Final = frozenset({ReasonCode.POD_AFFINITY, ReasonCode.POD_ANTI_AFFINITY, ReasonCode.TOPOLOGY_SPREAD})
"""What depends on which pods run where: company that leaves also frees the place of the first of a kind."""

_NEIGHBOURS_NODE: Final = _NEIGHBOURS | {ReasonCode.TOPOLOGY_LABEL}
"""What depends on the labels of nodes as well."""

_GANG_PLACE: Final = frozenset(
    {
        Fact.NODE_ADDED,
        Fact.NODE_LABELS_CHANGED,
        Fact.NODE_RESOURCE_CHANGED_HANDS,
        Fact.NODE_ROOM_FREED,
        Fact.DEVICES_FREED,
        Fact.CLASS_CHANGED,
        Fact.SLICE_CHANGED,
        Fact.SLICE_DELETED,
    }
)
"""What can change the domains of a gang's topology, or free it from the one where members of it ran."""

_SINGLE: Final[dict[Fact, frozenset[ReasonCode]]] = {
    Fact.NODE_ADDED: _ANY_NODE
    | _NEIGHBOURS_NODE
    | {ReasonCode.NODE_PORTS}
    | _VOLUME_PLACE
    | _VOLUME_USE
    | _DEVICES_MATCHING
    | {ReasonCode.OUTRANKED},
    Fact.NODE_ALLOCATABLE_GREW: _NODE_SIZE | {ReasonCode.OUTRANKED},
    Fact.NODE_RESOURCE_CHANGED_HANDS: _DEVICES_MATCHING | _NODE_SIZE | {ReasonCode.OUTRANKED},
    # Labels decide which devices a node reaches, and whether the configuration gives them to us.
    Fact.NODE_LABELS_CHANGED: _DEVICES_MATCHING
    | _VOLUME_PLACE
    | {ReasonCode.NODE_AFFINITY, ReasonCode.OUTRANKED}
    | _NEIGHBOURS_NODE
    | _ALLOCATED_AWAY,
    # One domain more may be as many as a constraint wants before it looks at the least of them.
    Fact.NODE_TAINT_REMOVED: frozenset({ReasonCode.NODE_TAINT, ReasonCode.TOPOLOGY_SPREAD, ReasonCode.OUTRANKED}),
    Fact.NODE_TAINT_ADDED: frozenset({ReasonCode.TOPOLOGY_SPREAD}),
    Fact.NODE_GONE: _NEIGHBOURS | {ReasonCode.HOLDING},
    Fact.NODE_UNCORDONED: frozenset({ReasonCode.NODE_UNSCHEDULABLE, ReasonCode.OUTRANKED}),
    Fact.NODE_ROOM_FREED: frozenset({ReasonCode.NODE_RESOURCES, ReasonCode.OUTRANKED}),
    Fact.PORTS_FREED: frozenset({ReasonCode.NODE_PORTS}),
    Fact.NEIGHBOUR_ARRIVED: frozenset({ReasonCode.POD_AFFINITY, ReasonCode.TOPOLOGY_SPREAD}),
    Fact.NEIGHBOUR_LEFT: _NEIGHBOURS,
    Fact.NEIGHBOUR_LEAVING: frozenset({ReasonCode.TOPOLOGY_SPREAD}),
    Fact.NEIGHBOUR_CHANGED: _NEIGHBOURS,
    Fact.NAMESPACE_CHANGED: frozenset({ReasonCode.POD_AFFINITY, ReasonCode.POD_ANTI_AFFINITY}),
    # It counted as running there: with its room, its ports, its devices, and with whom it does not want beside it.
    Fact.NOMINATION_ENDED: _DEVICES_TAKEN
    | {
        ReasonCode.NODE_RESOURCES,
        ReasonCode.NODE_PORTS,
        ReasonCode.POD_ANTI_AFFINITY,
        ReasonCode.NO_VICTIMS,
        ReasonCode.OUTRANKED,
    },
    Fact.HOLD_RELEASED: frozenset({ReasonCode.NODE_HELD, ReasonCode.OUTRANKED}),
    Fact.DEVICES_FREED: _DEVICES_TAKEN | {ReasonCode.OUTRANKED},
    # A class may stand for an extended resource that the nodes do not have.
    Fact.CLASS_CHANGED: _DEMANDS | _NODE_SIZE,
    Fact.SLICE_CHANGED: _DEVICES_MATCHING | {ReasonCode.OUTRANKED, ReasonCode.CLAIM_TAINTED},
    # Fewer slices can help: an older generation is whole again, `All` asks for less, a duplicate is gone.
    Fact.SLICE_DELETED: _DEVICES_MATCHING | {ReasonCode.OUTRANKED, ReasonCode.CLAIM_TAINTED},
    Fact.DEVICE_TAINT_REMOVED: _DEVICES_SHORT | {ReasonCode.OUTRANKED, ReasonCode.CLAIM_TAINTED},
    Fact.CLAIM_CREATED: _DEMANDS | _CLAIM_STATE | {ReasonCode.CLAIM_MISSING},
    Fact.CLAIM_ALLOCATED: _DEMANDS | {ReasonCode.CLAIM_INVALID},
    Fact.CLAIM_DEALLOCATED: _ALLOCATED_AWAY | {ReasonCode.CLAIM_FULL, ReasonCode.CLAIM_TAINTED},
    Fact.CLAIM_RESERVATIONS_SHRANK: frozenset({ReasonCode.CLAIM_FULL}),
    Fact.CLAIM_CHANGED: frozenset({ReasonCode.CLAIM_INVALID, ReasonCode.CLAIM_NOT_OWNED}),
    Fact.CLAIM_DELETED: _CLAIM_STATE,
    Fact.GANG_CHANGED: frozenset(
        {
            ReasonCode.GANG_INCOMPLETE,
            ReasonCode.GANG_INVALID,
            ReasonCode.GANG_UNPLACED,
            ReasonCode.GANG_TOPOLOGY,
        }
    ),
    Fact.DISRUPTIONS_ALLOWED: frozenset({ReasonCode.NO_VICTIMS}),
    Fact.EVICTION_EASED: frozenset({ReasonCode.NO_VICTIMS}),
    Fact.VOLUMES_RELEASED: _VOLUME_USE | {ReasonCode.OUTRANKED},
    Fact.VOLUME_CLAIM_CREATED: _VOLUME_CLAIM | _VOLUME_PLACE | _VOLUME_USE,
    Fact.VOLUME_CLAIM_CHANGED: _VOLUME_CLAIM | _VOLUME_PLACE | {ReasonCode.OUTRANKED},
    Fact.VOLUME_CLAIM_DELETED: _VOLUME_CLAIM | _VOLUME_PLACE | _VOLUME_USE,
    Fact.VOLUME_OFFERED: _VOLUME_PLACE | {ReasonCode.OUTRANKED},
    # A class that is there now may wait for the pod, where claims of a class that is not are taken to be bound at once.
    Fact.STORAGE_CLASS_CHANGED: frozenset(
        {ReasonCode.VOLUME_CLAIM_UNBOUND, ReasonCode.VOLUME_NONE, ReasonCode.VOLUME_CAPACITY}
    ),
    Fact.STORAGE_GREW: frozenset({ReasonCode.VOLUME_CAPACITY}),
    Fact.ATTACHMENTS_GREW: frozenset({ReasonCode.VOLUME_ATTACHMENTS, ReasonCode.OUTRANKED}),
}
"""The reasons of a pod that stands for itself, by fact."""


def _of_gangs(fact: Fact, single: frozenset[ReasonCode]) -> frozenset[ReasonCode]:
    """Reasons that pods have for their gang's sake: what would help a pod that lost would help a gang that does."""
    unplaced = {ReasonCode.GANG_UNPLACED} if ReasonCode.OUTRANKED in single else set()
    topology = {ReasonCode.GANG_TOPOLOGY} if fact in _GANG_PLACE else set()
    return frozenset(unplaced | topology)


WAKES: Final[dict[Fact, frozenset[ReasonCode]]] = {
    fact: codes | _of_gangs(fact, codes) for fact, codes in _SINGLE.items()
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
        Fact.VOLUME_CLAIM_CREATED,
        Fact.VOLUME_CLAIM_CHANGED,
        Fact.VOLUME_CLAIM_DELETED,
    }
)
"""Facts that concern only the pods that reference the claim."""

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
"""Reasons that no change has to remove: another attempt after the backoff may do better."""

OF_ITS_OWN: Final = (
    _CLAIM_STATE
    | _VOLUME_CLAIM
    | _VOLUME_PLACE
    | _VOLUME_USE
    | _NEIGHBOURS_NODE
    | WAKES[Fact.GANG_CHANGED]
    | {ReasonCode.POD_INVALID, ReasonCode.CLAIM_MISSING}
)
"""Reasons that lie in a pod's own labels, claims, volumes or gang: what is asked for alike may well fit elsewhere."""


def wakes(fact: Fact, code: ReasonCode) -> bool:
    """Whether a fact wakes a pod that waits for this reason (and references the claim, for facts of one claim)."""
    return code in WAKES[fact]

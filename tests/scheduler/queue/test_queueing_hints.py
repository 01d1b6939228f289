"""The table cell by cell, written out a second time: a line per reason, the facts that wake it."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.change import Kind, Transition
from scheduler.queue import queueing_hints
from scheduler.queue.cluster_events import events_of
from scheduler.queue.queueing_hints import CLAIM_EVENTS, QUEUEING_HINTS, RETRIED
from solver import solve
from solver.domain import AllocationMode, ClusterEvent, Device, NodeAllocatableMapping, Policy, ReasonCode
from solver.domain.quantity import parse
from solver.rules.queueing import RULE_HINTS, RULES
from tests.solver.test_node_allocatable import using
from tests.support import builders as b
from tests.support import solver_problems as s

OPENED = {
    ClusterEvent.NODE_ADDED,
    ClusterEvent.NODE_LABELS_CHANGED,
    ClusterEvent.NODE_EXTENDED_RESOURCE_MOVED,
    ClusterEvent.NODE_FEATURES_DECLARED,
    ClusterEvent.CLASS_CHANGED,
    ClusterEvent.SLICE_CHANGED,
    ClusterEvent.SLICE_DELETED,
}
FREED = {ClusterEvent.DEVICES_FREED, ClusterEvent.DEVICE_TAINT_REMOVED, ClusterEvent.NOMINATION_ENDED}
CLAIM = {ClusterEvent.CLAIM_CREATED, ClusterEvent.CLAIM_ALLOCATED}
REMADE = {ClusterEvent.CLAIM_CREATED, ClusterEvent.CLAIM_DELETED}

VOLUME_CLAIM = {ClusterEvent.VOLUME_CLAIM_CREATED, ClusterEvent.VOLUME_CLAIM_CHANGED, ClusterEvent.VOLUME_CLAIM_DELETED}
VOLUME_PLACE = {ClusterEvent.VOLUME_OFFERED, ClusterEvent.NODE_ADDED, ClusterEvent.NODE_LABELS_CHANGED}
VOLUME_USE = {
    ClusterEvent.VOLUMES_RELEASED,
    ClusterEvent.NODE_ADDED,
    ClusterEvent.VOLUME_CLAIM_CREATED,
    ClusterEvent.VOLUME_CLAIM_DELETED,
}

EASED = {ClusterEvent.DEVICE_TAINT_REMOVED}
LABELS = {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_LABELS_CHANGED}
LEFT = {ClusterEvent.ASSIGNED_POD_REMOVED, ClusterEvent.NODE_DELETED, ClusterEvent.ASSIGNED_POD_LABELS_CHANGED}

ROOM = (
    OPENED
    | FREED
    | CLAIM
    | {ClusterEvent.RESERVATION_RELEASED}
    | {
        ClusterEvent.NODE_ALLOCATABLE_GREW,
        ClusterEvent.NODE_TAINT_REMOVED,
        ClusterEvent.NODE_UNCORDONED,
        ClusterEvent.NODE_ROOM_FREED,
    }
    | {
        ClusterEvent.VOLUMES_RELEASED,
        ClusterEvent.VOLUME_CLAIM_CHANGED,
        ClusterEvent.VOLUME_OFFERED,
        ClusterEvent.ATTACHMENTS_GREW,
        ClusterEvent.CSI_DRIVER_INSTALLED,
    }
)
"""What makes room for a pod that would fit alone."""

WOKEN_BY: dict[ReasonCode, set[ClusterEvent]] = {
    ReasonCode.POD_INVALID: set(),
    ReasonCode.POD_NOT_CREATED: set(),
    ReasonCode.NODE_LIMIT: set(),
    ReasonCode.CLAIM_MISSING: {ClusterEvent.CLAIM_CREATED},
    ReasonCode.CLAIM_NOT_OWNED: REMADE | {ClusterEvent.CLAIM_CHANGED},
    ReasonCode.CLAIM_DELETING: REMADE,
    ReasonCode.CLAIM_INVALID: REMADE | {ClusterEvent.CLAIM_CHANGED, ClusterEvent.CLAIM_ALLOCATED},
    ReasonCode.CLAIM_FULL: REMADE | {ClusterEvent.CLAIM_RESERVATIONS_SHRANK, ClusterEvent.CLAIM_DEALLOCATED},
    ReasonCode.CLAIM_ELSEWHERE: REMADE
    | {ClusterEvent.CLAIM_DEALLOCATED, ClusterEvent.NODE_ADDED, ClusterEvent.NODE_LABELS_CHANGED},
    ReasonCode.CLAIM_OUT_OF_REACH: REMADE
    | {ClusterEvent.CLAIM_DEALLOCATED, ClusterEvent.NODE_ADDED, ClusterEvent.NODE_LABELS_CHANGED},
    ReasonCode.CLAIM_TAINTED: REMADE
    | {
        ClusterEvent.CLAIM_DEALLOCATED,
        ClusterEvent.SLICE_CHANGED,
        ClusterEvent.SLICE_DELETED,
        ClusterEvent.DEVICE_TAINT_REMOVED,
    },
    ReasonCode.CLAIM_TOO_LARGE: OPENED | REMADE | CLAIM,
    ReasonCode.CLASS_MISSING: {ClusterEvent.CLASS_CHANGED} | CLAIM,
    ReasonCode.SELECTOR_INVALID: {ClusterEvent.CLASS_CHANGED} | CLAIM,
    ReasonCode.SELECTOR_FAILED: OPENED | EASED | CLAIM,
    ReasonCode.NO_NODES: {ClusterEvent.NODE_ADDED},
    ReasonCode.NODE_UNSCHEDULABLE: {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_UNCORDONED},
    ReasonCode.NODE_TAINT: {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_TAINT_REMOVED},
    ReasonCode.NODE_AFFINITY: {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_LABELS_CHANGED},
    ReasonCode.NODE_FEATURES: {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_FEATURES_DECLARED},
    ReasonCode.NODE_RESOURCES: {
        ClusterEvent.NODE_ADDED,
        ClusterEvent.NODE_LABELS_CHANGED,
        ClusterEvent.NODE_FEATURES_DECLARED,
        ClusterEvent.DEVICE_AMOUNTS_CHANGED,
        ClusterEvent.DEVICES_FREED,
        ClusterEvent.NODE_ALLOCATABLE_GREW,
        ClusterEvent.NODE_EXTENDED_RESOURCE_MOVED,
        ClusterEvent.NODE_ROOM_FREED,
        ClusterEvent.NOMINATION_ENDED,
        ClusterEvent.CLASS_CHANGED,
        *CLAIM,
    },
    ReasonCode.NODE_TOO_SMALL: {
        *CLAIM,
        ClusterEvent.NODE_ADDED,
        ClusterEvent.NODE_ALLOCATABLE_GREW,
        ClusterEvent.NODE_EXTENDED_RESOURCE_MOVED,
        ClusterEvent.CLASS_CHANGED,
    },
    ReasonCode.NODE_RESERVED: {ClusterEvent.NODE_ADDED, ClusterEvent.RESERVATION_RELEASED},
    ReasonCode.ROOM_HELD: OPENED
    | FREED
    | CLAIM
    | {
        ClusterEvent.NODE_ALLOCATABLE_GREW,
        ClusterEvent.NODE_ROOM_FREED,
        ClusterEvent.DEVICE_AMOUNTS_CHANGED,
        ClusterEvent.PORTS_FREED,
    },
    ReasonCode.QUOTA_EXCEEDED: CLAIM
    | {
        ClusterEvent.QUOTA_CHANGED,
        ClusterEvent.NAMESPACE_CHANGED,
        ClusterEvent.NOMINATION_ENDED,
        ClusterEvent.CLASS_CHANGED,
    },
    ReasonCode.RESERVATION_PENDING: {ClusterEvent.NODE_DELETED},
    ReasonCode.NODE_PORTS: {ClusterEvent.NODE_ADDED, ClusterEvent.PORTS_FREED, ClusterEvent.NOMINATION_ENDED},
    ReasonCode.POD_AFFINITY: LABELS | LEFT | {ClusterEvent.ASSIGNED_POD_ADDED, ClusterEvent.NAMESPACE_CHANGED},
    ReasonCode.POD_ANTI_AFFINITY: LABELS | LEFT | {ClusterEvent.NAMESPACE_CHANGED, ClusterEvent.NOMINATION_ENDED},
    ReasonCode.TOPOLOGY_SPREAD: LABELS
    | LEFT
    | {
        ClusterEvent.ASSIGNED_POD_ADDED,
        ClusterEvent.ASSIGNED_POD_TERMINATING,
        ClusterEvent.NODE_TAINT_ADDED,
        ClusterEvent.NODE_TAINT_REMOVED,
    },
    ReasonCode.TOPOLOGY_LABEL: LABELS,
    ReasonCode.DEVICES_NONE: OPENED | CLAIM,
    ReasonCode.DEVICES_IN_USE: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_TAINTED: OPENED | EASED | CLAIM,
    ReasonCode.DEVICES_AVOIDED: OPENED | EASED | CLAIM,
    ReasonCode.DEVICES_CAPACITY: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_COUNTERS: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_INCOMPATIBLE: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_CONSTRAINT: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_NOT_OWNED: OPENED | EASED | CLAIM,
    ReasonCode.DEVICES_OFFERED_TWICE: OPENED | EASED | CLAIM,
    ReasonCode.POOL_INCOMPLETE: OPENED | EASED | CLAIM,
    ReasonCode.POOL_INVALID: OPENED | EASED | CLAIM,
    ReasonCode.PREEMPTING: set(),
    ReasonCode.NO_VICTIMS: {
        ClusterEvent.DISRUPTIONS_ALLOWED,
        ClusterEvent.EVICTION_EASED,
        ClusterEvent.VICTIM_AVAILABLE,
        ClusterEvent.NOMINATION_ENDED,
    },
    ReasonCode.PREEMPTION_DELAYED: {ClusterEvent.VICTIM_AVAILABLE},
    ReasonCode.OUTRANKED: ROOM,
    ReasonCode.GANG_INCOMPLETE: {ClusterEvent.GANG_CHANGED},
    ReasonCode.GANG_INVALID: {ClusterEvent.GANG_CHANGED},
    ReasonCode.GANG_BLOCKED: {ClusterEvent.GANG_CHANGED},
    ReasonCode.NO_SHAPE: OPENED | CLAIM | {ClusterEvent.NODE_ALLOCATABLE_GREW, ClusterEvent.NODE_TAINT_REMOVED},
    ReasonCode.GANG_UNPLACED: ROOM | {ClusterEvent.GANG_CHANGED},
    ReasonCode.GANG_TOPOLOGY: OPENED
    | {ClusterEvent.NODE_ROOM_FREED, ClusterEvent.DEVICES_FREED, ClusterEvent.GANG_CHANGED},
    ReasonCode.VOLUME_CLAIM_MISSING: VOLUME_CLAIM,
    ReasonCode.VOLUME_CLAIM_UNUSABLE: VOLUME_CLAIM,
    ReasonCode.VOLUME_CLAIM_UNBOUND: VOLUME_CLAIM | {ClusterEvent.STORAGE_CLASS_CHANGED},
    ReasonCode.VOLUME_MISSING: VOLUME_CLAIM | VOLUME_PLACE,
    ReasonCode.VOLUME_ELSEWHERE: VOLUME_CLAIM | VOLUME_PLACE,
    ReasonCode.VOLUME_NONE: VOLUME_CLAIM | VOLUME_PLACE | {ClusterEvent.STORAGE_CLASS_CHANGED},
    ReasonCode.VOLUME_CAPACITY: VOLUME_CLAIM
    | VOLUME_PLACE
    | {ClusterEvent.STORAGE_CLASS_CHANGED, ClusterEvent.STORAGE_GREW},
    ReasonCode.VOLUME_EXCLUSIVE: VOLUME_USE,
    ReasonCode.VOLUME_IN_USE: VOLUME_USE,
    ReasonCode.VOLUME_ATTACHMENTS: VOLUME_USE | {ClusterEvent.ATTACHMENTS_GREW},
    ReasonCode.VOLUME_DRIVER_MISSING: VOLUME_CLAIM
    | VOLUME_PLACE
    | {ClusterEvent.STORAGE_CLASS_CHANGED, ClusterEvent.CSI_DRIVER_INSTALLED},
    ReasonCode.VOLUME_BINDING_FAILED: set(),
    ReasonCode.VOLUME_CONTENDED: set(),
    ReasonCode.BUDGET: set(),
    ReasonCode.TOO_COSTLY: set(),
    ReasonCode.SOLVER_FAILED: set(),
    ReasonCode.BINDING_FAILED: set(),
    ReasonCode.CONFLICT: set(),
    ReasonCode.API_ERROR: set(),
}


@pytest.mark.parametrize("code", ReasonCode)
@pytest.mark.parametrize("fact", ClusterEvent)
def test_cell(fact: ClusterEvent, code: ReasonCode) -> None:
    assert (code in QUEUEING_HINTS[fact]) == (fact in WOKEN_BY[code])


def test_every_fact_has_a_row() -> None:
    assert set(QUEUEING_HINTS) == set(ClusterEvent)


@pytest.mark.parametrize("code", ReasonCode)
def test_every_reason_ends_by_a_fact_or_by_itself_or_by_the_pod(code: ReasonCode) -> None:
    is_woken = any(code in woken for woken in QUEUEING_HINTS.values())

    never = {ReasonCode.POD_INVALID, ReasonCode.POD_NOT_CREATED, ReasonCode.NODE_LIMIT}
    assert is_woken + (code in RETRIED) + (code in never) == 1


@pytest.mark.parametrize("fact", ClusterEvent)
def test_facts_of_one_claim_are_those_named_after_it(fact: ClusterEvent) -> None:
    assert (fact in CLAIM_EVENTS) == fact.startswith(("Claim", "VolumeClaim"))


def _waits_for(*objects: s.Objects) -> set[ReasonCode]:
    """Return the codes of the reasons of a pod that asks for a device."""
    pod, claim = using(b.pod("p", "c")), b.claim("c", b.request("r"))
    plan = solve(b.snapshot(*objects, b.gpu_class(), claim), b.batch(pod), Policy(), s.PATIENT)
    return {reason.code for each in plan.unplaced for reason in each.reasons}


def _device(name: str, cpu: str, **others: Any) -> Device:
    mapping = NodeAllocatableMapping(resource="cpu", allocation_multiplier=parse(cpu))
    return replace(b.device(name, **others), node_allocatable=(mapping,))


def test_a_small_device_that_becomes_free_wakes_a_pod_whose_node_has_no_room_for_the_large_one() -> None:
    pool = b.resource_slice("n1", _device("large", "6"), _device("small", "2"))
    held = b.claim("held", b.request("r"), allocation=b.allocation(b.result("r", "small", "n1"), node_name="n1"))
    world = b.node("n1", cpu=8), b.pod("running", cpu=5, node_name="n1"), pool

    codes = _waits_for(*world, held)
    assert codes
    assert not _waits_for(*world)
    gone = Transition(kind=Kind.CLAIMS, key=str(held.id), before=held, after=None)
    assert any(codes & QUEUEING_HINTS[event] for event in events_of(gone) - CLAIM_EVENTS)


def test_a_small_device_that_loses_its_taint_wakes_a_pod_whose_node_has_no_room_for_the_large_one() -> None:
    pools = [
        b.resource_slice("n1", _device("large", "3"), _device("small", "2", taints=taints))
        for taints in ((b.taint("hot"),), ())
    ]
    world = b.node("n1", cpu=4), b.pod("running", cpu=2, node_name="n1")

    codes = _waits_for(*world, pools[0])
    assert codes
    assert not _waits_for(*world, pools[1])
    mended = Transition(kind=Kind.SLICES, key=pools[0].name, before=pools[0], after=pools[1])
    assert any(codes & QUEUEING_HINTS[event] for event in events_of(mended))


def test_a_freed_device_hints_a_pod_for_all_devices_while_the_pool_of_another_node_is_not_whole() -> None:
    every = b.claim("c", b.request("r", mode=AllocationMode.ALL))
    whole = (b.gpu_slice("n2", count=2), b.held("h", b.result("gpu", "gpu-0", "n2")))
    partial = b.resource_slice("n1", b.device("d"), slice_count=2)
    found = s.plan(b.node("n1"), b.node("n2"), partial, *whole, b.gpu_class(), every, pods=[b.pod("p", "c")])
    codes = {reason.code for reason in s.unplaced(found, "p").reasons}
    assert codes & QUEUEING_HINTS[ClusterEvent.DEVICES_FREED]
    assert ReasonCode.POOL_INCOMPLETE in codes


def test_no_two_rules_have_a_reason_in_common() -> None:
    """Else one would overwrite what the other says of it."""
    assert sum(len(rule) for rule in RULES) == len(RULE_HINTS)
    assert not RULE_HINTS.keys() & queueing_hints._OWN_HINTS.keys()  # noqa: SLF001 - the lines without a folder

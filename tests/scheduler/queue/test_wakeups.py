"""The table cell by cell, written out a second time: a line per reason, the facts that wake it."""

import pytest

from scheduler.queue.facts import Fact
from scheduler.queue.wakeups import OF_ONE_CLAIM, RETRIED, WAKES, wakes
from solver.domain import ReasonCode

OPENED = {
    Fact.NODE_ADDED,
    Fact.NODE_LABELS_CHANGED,
    Fact.NODE_RESOURCE_CHANGED_HANDS,
    Fact.CLASS_CHANGED,
    Fact.SLICE_CHANGED,
    Fact.SLICE_DELETED,
}
FREED = {Fact.DEVICES_FREED, Fact.DEVICE_TAINT_REMOVED, Fact.NOMINATION_ENDED}
CLAIM = {Fact.CLAIM_CREATED, Fact.CLAIM_ALLOCATED}
REMADE = {Fact.CLAIM_CREATED, Fact.CLAIM_DELETED}

VOLUME_CLAIM = {Fact.VOLUME_CLAIM_CREATED, Fact.VOLUME_CLAIM_CHANGED, Fact.VOLUME_CLAIM_DELETED}
VOLUME_PLACE = {Fact.VOLUME_OFFERED, Fact.NODE_ADDED, Fact.NODE_LABELS_CHANGED}
VOLUME_USE = {Fact.VOLUMES_RELEASED, Fact.NODE_ADDED, Fact.VOLUME_CLAIM_CREATED, Fact.VOLUME_CLAIM_DELETED}

EASED = {Fact.DEVICE_TAINT_REMOVED}
LABELS = {Fact.NODE_ADDED, Fact.NODE_LABELS_CHANGED}
LEFT = {Fact.NEIGHBOUR_LEFT, Fact.NODE_GONE, Fact.NEIGHBOUR_CHANGED}

WOKEN_BY: dict[ReasonCode, set[Fact]] = {
    ReasonCode.POD_INVALID: set(),
    ReasonCode.CLAIM_MISSING: {Fact.CLAIM_CREATED},
    ReasonCode.CLAIM_NOT_OWNED: REMADE | {Fact.CLAIM_CHANGED},
    ReasonCode.CLAIM_DELETING: REMADE,
    ReasonCode.CLAIM_INVALID: REMADE | {Fact.CLAIM_CHANGED, Fact.CLAIM_ALLOCATED},
    ReasonCode.CLAIM_FULL: REMADE | {Fact.CLAIM_RESERVATIONS_SHRANK, Fact.CLAIM_DEALLOCATED},
    ReasonCode.CLAIM_ELSEWHERE: REMADE | {Fact.CLAIM_DEALLOCATED, Fact.NODE_ADDED, Fact.NODE_LABELS_CHANGED},
    ReasonCode.CLAIM_OUT_OF_REACH: REMADE | {Fact.CLAIM_DEALLOCATED, Fact.NODE_ADDED, Fact.NODE_LABELS_CHANGED},
    ReasonCode.CLAIM_TAINTED: REMADE
    | {Fact.CLAIM_DEALLOCATED, Fact.SLICE_CHANGED, Fact.SLICE_DELETED, Fact.DEVICE_TAINT_REMOVED},
    ReasonCode.CLAIM_TOO_LARGE: OPENED | REMADE | CLAIM,
    ReasonCode.CLASS_MISSING: {Fact.CLASS_CHANGED} | CLAIM,
    ReasonCode.SELECTOR_INVALID: {Fact.CLASS_CHANGED} | CLAIM,
    ReasonCode.SELECTOR_FAILED: OPENED | EASED | CLAIM,
    ReasonCode.NO_NODES: {Fact.NODE_ADDED},
    ReasonCode.NODE_UNSCHEDULABLE: {Fact.NODE_ADDED, Fact.NODE_UNCORDONED},
    ReasonCode.NODE_TAINT: {Fact.NODE_ADDED, Fact.NODE_TAINT_REMOVED},
    ReasonCode.NODE_AFFINITY: {Fact.NODE_ADDED, Fact.NODE_LABELS_CHANGED},
    ReasonCode.NODE_RESOURCES: {
        Fact.NODE_ADDED,
        Fact.NODE_ALLOCATABLE_GREW,
        Fact.NODE_RESOURCE_CHANGED_HANDS,
        Fact.NODE_ROOM_FREED,
        Fact.NOMINATION_ENDED,
        Fact.CLASS_CHANGED,
    },
    ReasonCode.NODE_TOO_SMALL: {
        Fact.NODE_ADDED,
        Fact.NODE_ALLOCATABLE_GREW,
        Fact.NODE_RESOURCE_CHANGED_HANDS,
        Fact.CLASS_CHANGED,
    },
    ReasonCode.NODE_HELD: {Fact.NODE_ADDED, Fact.HOLD_RELEASED},
    ReasonCode.HOLDING: {Fact.NODE_GONE},
    ReasonCode.NODE_PORTS: {Fact.NODE_ADDED, Fact.PORTS_FREED, Fact.NOMINATION_ENDED},
    ReasonCode.POD_AFFINITY: LABELS | LEFT | {Fact.NEIGHBOUR_ARRIVED, Fact.NAMESPACE_CHANGED},
    ReasonCode.POD_ANTI_AFFINITY: LABELS | LEFT | {Fact.NAMESPACE_CHANGED, Fact.NOMINATION_ENDED},
    ReasonCode.TOPOLOGY_SPREAD: LABELS
    | LEFT
    | {Fact.NEIGHBOUR_ARRIVED, Fact.NEIGHBOUR_LEAVING, Fact.NODE_TAINT_ADDED, Fact.NODE_TAINT_REMOVED},
    ReasonCode.TOPOLOGY_LABEL: LABELS,
    ReasonCode.DEVICES_NONE: OPENED | CLAIM,
    ReasonCode.DEVICES_IN_USE: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_TAINTED: OPENED | EASED | CLAIM,
    ReasonCode.DEVICES_AVOIDED: OPENED | EASED | CLAIM,
    ReasonCode.DEVICES_CAPACITY: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_COUNTERS: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_CONSTRAINT: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_NOT_OWNED: OPENED | EASED | CLAIM,
    ReasonCode.DEVICES_OFFERED_TWICE: OPENED | EASED | CLAIM,
    ReasonCode.POOL_INCOMPLETE: OPENED | EASED | CLAIM,
    ReasonCode.POOL_INVALID: OPENED | EASED | CLAIM,
    ReasonCode.PREEMPTING: set(),
    ReasonCode.NO_VICTIMS: {Fact.DISRUPTIONS_ALLOWED, Fact.EVICTION_EASED, Fact.NOMINATION_ENDED},
    ReasonCode.OUTRANKED: OPENED
    | FREED
    | CLAIM
    | {Fact.HOLD_RELEASED}
    | {Fact.NODE_ALLOCATABLE_GREW, Fact.NODE_TAINT_REMOVED, Fact.NODE_UNCORDONED, Fact.NODE_ROOM_FREED}
    | {Fact.VOLUMES_RELEASED, Fact.VOLUME_CLAIM_CHANGED, Fact.VOLUME_OFFERED, Fact.ATTACHMENTS_GREW},
    ReasonCode.GANG_INCOMPLETE: {Fact.GANG_CHANGED},
    ReasonCode.GANG_INVALID: {Fact.GANG_CHANGED},
    ReasonCode.GANG_UNPLACED: OPENED
    | FREED
    | CLAIM
    | {Fact.HOLD_RELEASED}
    | {Fact.NODE_ALLOCATABLE_GREW, Fact.NODE_TAINT_REMOVED, Fact.NODE_UNCORDONED, Fact.NODE_ROOM_FREED}
    | {Fact.VOLUMES_RELEASED, Fact.VOLUME_CLAIM_CHANGED, Fact.VOLUME_OFFERED, Fact.ATTACHMENTS_GREW}
    | {Fact.GANG_CHANGED},
    ReasonCode.GANG_TOPOLOGY: OPENED | {Fact.NODE_ROOM_FREED, Fact.DEVICES_FREED, Fact.GANG_CHANGED},
    ReasonCode.VOLUME_CLAIM_MISSING: VOLUME_CLAIM,
    ReasonCode.VOLUME_CLAIM_UNUSABLE: VOLUME_CLAIM,
    ReasonCode.VOLUME_CLAIM_UNBOUND: VOLUME_CLAIM | {Fact.STORAGE_CLASS_CHANGED},
    ReasonCode.VOLUME_MISSING: VOLUME_CLAIM | VOLUME_PLACE,
    ReasonCode.VOLUME_ELSEWHERE: VOLUME_CLAIM | VOLUME_PLACE,
    ReasonCode.VOLUME_NONE: VOLUME_CLAIM | VOLUME_PLACE | {Fact.STORAGE_CLASS_CHANGED},
    ReasonCode.VOLUME_CAPACITY: VOLUME_CLAIM | VOLUME_PLACE | {Fact.STORAGE_CLASS_CHANGED, Fact.STORAGE_GREW},
    ReasonCode.VOLUME_EXCLUSIVE: VOLUME_USE,
    ReasonCode.VOLUME_IN_USE: VOLUME_USE,
    ReasonCode.VOLUME_ATTACHMENTS: VOLUME_USE | {Fact.ATTACHMENTS_GREW},
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
@pytest.mark.parametrize("fact", Fact)
def test_cell(fact: Fact, code: ReasonCode) -> None:
    assert wakes(fact, code) == (fact in WOKEN_BY[code])


def test_every_fact_has_a_row() -> None:
    assert set(WAKES) == set(Fact)


@pytest.mark.parametrize("code", ReasonCode)
def test_every_reason_ends_by_a_fact_or_by_itself_or_by_the_pod(code: ReasonCode) -> None:
    is_woken = any(code in woken for woken in WAKES.values())

    assert is_woken + (code in RETRIED) + (code == ReasonCode.POD_INVALID) == 1


@pytest.mark.parametrize("fact", Fact)
def test_facts_of_one_claim_are_those_named_after_it(fact: Fact) -> None:
    assert (fact in OF_ONE_CLAIM) == fact.startswith(("Claim", "VolumeClaim"))

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
FREED = {Fact.DEVICES_FREED, Fact.DEVICE_TAINT_REMOVED}
CLAIM = {Fact.CLAIM_CREATED, Fact.CLAIM_ALLOCATED}
REMADE = {Fact.CLAIM_CREATED, Fact.CLAIM_DELETED}

WOKEN_BY: dict[ReasonCode, set[Fact]] = {
    ReasonCode.POD_INVALID: set(),
    ReasonCode.CLAIM_MISSING: {Fact.CLAIM_CREATED},
    ReasonCode.CLAIM_NOT_OWNED: REMADE | {Fact.CLAIM_CHANGED},
    ReasonCode.CLAIM_DELETING: REMADE,
    ReasonCode.CLAIM_INVALID: REMADE | {Fact.CLAIM_CHANGED, Fact.CLAIM_ALLOCATED},
    ReasonCode.CLAIM_FULL: REMADE | {Fact.CLAIM_RESERVATIONS_SHRANK, Fact.CLAIM_DEALLOCATED},
    ReasonCode.CLAIM_ELSEWHERE: REMADE | {Fact.CLAIM_DEALLOCATED, Fact.NODE_ADDED, Fact.NODE_LABELS_CHANGED},
    ReasonCode.CLAIM_TOO_LARGE: OPENED | REMADE | CLAIM,
    ReasonCode.CLASS_MISSING: {Fact.CLASS_CHANGED} | CLAIM,
    ReasonCode.SELECTOR_INVALID: {Fact.CLASS_CHANGED} | CLAIM,
    ReasonCode.SELECTOR_FAILED: OPENED | FREED | CLAIM,
    ReasonCode.NO_NODES: {Fact.NODE_ADDED},
    ReasonCode.NODE_UNSCHEDULABLE: {Fact.NODE_ADDED, Fact.NODE_UNCORDONED},
    ReasonCode.NODE_TAINT: {Fact.NODE_ADDED, Fact.NODE_TAINT_REMOVED},
    ReasonCode.NODE_AFFINITY: {Fact.NODE_ADDED, Fact.NODE_LABELS_CHANGED},
    ReasonCode.NODE_RESOURCES: {
        Fact.NODE_ADDED,
        Fact.NODE_ALLOCATABLE_GREW,
        Fact.NODE_RESOURCE_CHANGED_HANDS,
        Fact.NODE_ROOM_FREED,
        Fact.CLASS_CHANGED,
    },
    ReasonCode.DEVICES_NONE: OPENED | CLAIM,
    ReasonCode.DEVICES_IN_USE: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_TAINTED: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_CAPACITY: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_COUNTERS: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_CONSTRAINT: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_NOT_OWNED: OPENED | FREED | CLAIM,
    ReasonCode.DEVICES_OFFERED_TWICE: OPENED | FREED | CLAIM,
    ReasonCode.POOL_INCOMPLETE: OPENED | FREED | CLAIM,
    ReasonCode.POOL_INVALID: OPENED | FREED | CLAIM,
    ReasonCode.OUTRANKED: OPENED
    | FREED
    | CLAIM
    | {Fact.NODE_ALLOCATABLE_GREW, Fact.NODE_TAINT_REMOVED, Fact.NODE_UNCORDONED, Fact.NODE_ROOM_FREED},
    ReasonCode.BUDGET: set(),
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
    assert (fact in OF_ONE_CLAIM) == fact.startswith("Claim")

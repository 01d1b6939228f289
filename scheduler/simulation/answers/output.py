"""
The answer as JSON or YAML, in the shape that docs/simulate.md documents: fields are added to it and never change.

Allocations are those of the API (AllocationResult), as a write of them would hold them.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec

from scheduler.kube import encode
from scheduler.simulation.answer import Answer, named
from solver.domain import Allocation, ClaimId, Placement, Preemption, SearchReport, Unplaced

Json = dict[str, Any]


def document(answer: Answer) -> Json:
    """Put the answer into plain values."""
    plan = answer.plan
    return {
        "placements": [_placement(each, answer) for each in plan.placements],
        "unplaced": [_unplaced(each) for each in plan.unplaced],
        "preemptions": [
            _preemption(each, freed, answer) for each, freed in zip(plan.preemptions, answer.freed, strict=True)
        ],
        "report": _report(plan.report),
    }


def _preemption(preemption: Preemption, freed: Sequence[ClaimId], answer: Answer) -> Json:
    made = {each.claim: each.allocation for each in preemption.allocations}
    reached = dataclasses.replace(answer, allocations=answer.allocations | made)
    return {
        "pods": [_placement(each, reached) for each in preemption.placements],
        "victims": [{"pod": str(each.pod), "node": each.node, "message": each.message} for each in preemption.victims],
        "freed": [
            {"claim": str(claim), "driver": each.device.driver, "pool": each.device.pool, "device": each.device.device}
            for claim in freed
            for each in answer.allocations[claim].results
        ],
        "proven": preemption.is_proven,
    }


def _placement(placement: Placement, answer: Answer) -> Json:
    claims = [
        {
            "claim": str(named(claim, placement)),
            "allocation": encode.allocation_result(_complete(answer.allocations[claim])),
        }
        for claim in placement.claims
        if claim in answer.allocations
    ]
    found: Json = {"pod": str(placement.pod), "node": placement.node, "claims": claims}
    if placement.volumes:
        found["volumes"] = [
            {"claim": str(each.claim), "volume": each.volume, **({"node": each.node} if each.node else {})}
            for each in placement.volumes
        ]
    return found


def _complete(allocation: Allocation) -> Allocation:
    """Give parameters that were left out of a saved case as an empty object."""
    config = tuple(
        each if each.parameters else msgspec.structs.replace(each, parameters="{}") for each in allocation.config
    )
    return msgspec.structs.replace(allocation, config=config)


def _unplaced(unplaced: Unplaced) -> Json:
    reasons = [{"code": reason.code.value, "message": reason.message} for reason in unplaced.reasons]
    return {"pod": str(unplaced.pod), "reasons": reasons}


def _report(report: SearchReport) -> Json:
    levels = [
        {"name": level.name, "value": level.value, "bound": level.bound, "proven": level.proven}
        for level in report.levels
    ]
    return {"status": report.status.value, "levels": levels, "seconds": report.seconds}

"""
Pods that a decision leaves out because of what it may use: their reasons, gangs whole.

A replay leaves out those that were left out before, for the reasons that were recorded.
"""

from collections.abc import Mapping
from typing import Final

from solver.domain import Batch, Budget, LeftOut, PodId, Reason, ReasonCode

NOT_REACHED: Final = Reason(
    code=ReasonCode.BUDGET, message="the time for the decision ended before the pod was reached; it is tried again soon"
)

CODES: Final = frozenset({ReasonCode.BUDGET, ReasonCode.TOO_COSTLY})
"""Codes of pods that want a solve of their own."""

Reasons = dict[PodId, Reason]


def recorded(budget: Budget, stage: str) -> Reasons | None:
    """Give the pods that a stage left out in the decision that is repeated; None where none is."""
    before = budget.work.recorded
    if before is None:
        return None
    return {each.pod: each.reason for stop in before if stop.stage == stage for each in stop.left}


def whole(batch: Batch, found: Mapping[PodId, Reason]) -> Reasons:
    """Add the other members of gangs one of which is left out, for the same reason, and bring all into batch order."""
    if not found:
        return {}
    of_gang = {pod.gang: found[pod.id] for pod in batch.pods if pod.gang is not None and pod.id in found}
    reasons: Reasons = {}
    for pod in batch.pods:
        reason = found.get(pod.id) or (of_gang.get(pod.gang) if pod.gang is not None else None)
        reasons.update({} if reason is None else {pod.id: reason})
    return reasons


def noted(budget: Budget, stage: str, found: Mapping[PodId, Reason]) -> None:
    """Record what a stage leaves out."""
    if found:
        budget.work.leave(stage, tuple(LeftOut(pod=key, reason=reason) for key, reason in found.items()))

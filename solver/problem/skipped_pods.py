"""
Pods that a decision leaves out: because time or allowance does not reach them, or because the solver raises on them.

Gangs are left out whole. An error on one pod or object goes into the report and rejects only that pod; the rest of the
batch is decided.
"""

import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Final

from solver.domain import Batch, Budget, Pod, PodId, QuarantinedObject, Reason, ReasonCode

NOT_REACHED: Final = Reason(
    code=ReasonCode.BUDGET, message="the time limit ended before the scheduler reached the pod; it tries again soon"
)

CODES: Final = frozenset({ReasonCode.BUDGET, ReasonCode.TOO_COSTLY})
"""Codes of pods that need a decision of their own."""

Reasons = dict[PodId, Reason]


def with_whole_gangs(batch: Batch, found: Mapping[PodId, Reason]) -> Reasons:
    """Add the other members of gangs with a member that is left out, for the same reason; in batch order."""
    if not found:
        return {}
    of_gang = {pod.gang: found[pod.id] for pod in batch.pods if pod.gang is not None and pod.id in found}
    reasons: Reasons = {}
    for pod in batch.pods:
        reason = found.get(pod.id) or (of_gang.get(pod.gang) if pod.gang is not None else None)
        reasons.update({} if reason is None else {pod.id: reason})
    return reasons


_LONGEST: Final = 500


class quarantining:  # noqa: N801 - reads as the verb that it is: with guarded(...)
    """Reports an error of its block as one of an object, and suppresses it; a MemoryError is raised."""

    def __init__(self, budget: Budget, subject: str) -> None:
        """Name the object that errors of the block belong to."""
        self._budget = budget
        self._subject = subject

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Suppress and report the error."""
        if not isinstance(error, Exception) or isinstance(error, MemoryError):
            return False
        note(self._budget, self._subject, error)
        return True


def note(budget: Budget, subject: str, error: Exception) -> None:
    """Report an error of an object; the first one counts."""
    budget.work.quarantined.setdefault(subject, QuarantinedObject(subject=subject, error=error_text(error)))


def error_text(error: Exception) -> str:
    """Write an error, with file and line."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}"[:_LONGEST] + at


def subject_of(pod: Pod) -> str:
    """Name a pod in a report."""
    return f"pod {pod.id}"


def is_in(budget: Budget, pod: Pod) -> bool:
    """Whether the solver raised on a pod."""
    return subject_of(pod) in budget.work.quarantined


def failed(pod: Pod) -> Reason:
    """Return the reason of a pod on which the solver raised."""
    message = f"the solver failed on pod {pod.id.name}, which is left out; the error is in the scheduler's log"
    return Reason(code=ReasonCode.SOLVER_FAILED, message=message)

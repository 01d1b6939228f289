"""Our own words for how an engine ended."""

from dataclasses import dataclass
from enum import StrEnum


class EngineStatus(StrEnum):
    """What is known after a run."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class EngineResult:
    """
    What a run found.

    `values` is None without a solution. `bound` is an upper bound on the maximised expression, or None.
    """

    status: EngineStatus
    values: list[int] | None
    bound: int | None
    deterministic_seconds: float = 0.0


class EngineError(Exception):
    """An engine refused a model: a bug in ours, never a property of the cluster."""

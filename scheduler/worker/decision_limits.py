"""Limits of decisions, from the settings: of batches, and of isolated decisions about costly pods."""

from dataclasses import dataclass, replace

from scheduler.settings.schema import SolverLimits

_UNITS_PER_MILLISECOND = 1000
"""A unit of `Budget.cost_units` is about a microsecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    What one solve may use: seconds of wall time and of deterministic time, threads, and MiB of address space.

    `cost_units` limits the evaluation of what is not cached yet (`Budget.cost_units`).
    """

    seconds: float
    deterministic_seconds: float
    workers: int
    memory_limit_mib: int
    cost_units: int = 100_000
    seed: int = 0


def of_batches(solver: SolverLimits) -> Limits:
    """Return the limits of a batch."""
    return Limits(
        seconds=solver.budget_seconds,
        deterministic_seconds=solver.deterministic_seconds,
        workers=solver.workers,
        memory_limit_mib=solver.memory_limit_mib,
        cost_units=solver.evaluation_milliseconds * _UNITS_PER_MILLISECOND,
    )


def of_costly(solver: SolverLimits) -> Limits:
    """Return the limits of an isolated decision; its deterministic time grows in proportion to its wall time."""
    return replace(
        of_batches(solver),
        seconds=solver.costly_pod_seconds,
        deterministic_seconds=solver.deterministic_seconds * solver.costly_pod_seconds / solver.budget_seconds,
        memory_limit_mib=solver.costly_pod_memory_limit_mib,
        cost_units=round(solver.costly_pod_seconds * 1000) * _UNITS_PER_MILLISECOND,
    )

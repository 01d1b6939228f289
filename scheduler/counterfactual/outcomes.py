"""Which cluster placed a pod, or started a gang, first."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

RecordedCount = Annotated[int, Meta(ge=0, le=2**53)]
RecordedTime = Annotated[float, Meta(ge=0, le=253_402_300_799)]
"""Seconds since the epoch, until the year 9999."""
RecordedSeconds = Annotated[float, Meta(ge=-1e15, le=1e15)]
"""A record's line with other numbers is unreadable: no report could show their sums."""


class PlacementOutcome(StrEnum):
    """What the counterfactual cluster did with a pod or gang, beside the real one."""

    SOONER = "sooner"
    """It placed it sooner than the real cluster, by more than the tolerance."""
    SAME = "same"
    LATER = "later"
    ONLY_COUNTERFACTUAL = "onlyCounterfactual"
    """It placed it, and the real cluster has not, or never did."""
    ONLY_REAL = "onlyReal"
    """The real cluster placed it, and the counterfactual one has not, or never did."""
    NEITHER = "neither"


def outcome_of(counterfactual: float | None, real: float | None, *, now: float, tolerance: float) -> PlacementOutcome:
    """
    Compare two times of placement in seconds; None where it is not placed by `now`.

    A placement that the other cluster may still make within the tolerance counts as the same.
    """
    if counterfactual is None and real is None:
        return PlacementOutcome.NEITHER
    ahead = seconds_ahead(counterfactual, real, now=now)
    if abs(ahead) <= tolerance:
        return PlacementOutcome.SAME
    if real is None:
        return PlacementOutcome.ONLY_COUNTERFACTUAL
    if counterfactual is None:
        return PlacementOutcome.ONLY_REAL
    return PlacementOutcome.SOONER if ahead > 0 else PlacementOutcome.LATER


def seconds_ahead(counterfactual: float | None, real: float | None, *, now: float) -> float:
    """Return by how many seconds the counterfactual cluster is ahead so far; negative where it is behind."""
    return (now if real is None else real) - (now if counterfactual is None else counterfactual)


class OutcomeCounts(msgspec.Struct, kw_only=True, rename="camel"):
    """
    How many pods or gangs had each outcome, and the seconds by which they were placed sooner and later in all.

    The count of an outcome has its name.
    """

    sooner: RecordedCount = 0
    same: RecordedCount = 0
    later: RecordedCount = 0
    only_counterfactual: RecordedCount = 0
    only_real: RecordedCount = 0
    neither: RecordedCount = 0
    seconds_sooner: RecordedSeconds = 0.0
    seconds_later: RecordedSeconds = 0.0

    def of(self, outcome: PlacementOutcome) -> int:
        """Return the count of an outcome."""
        count: int = getattr(self, outcome.name.lower())
        return count

    def add(self, outcome: PlacementOutcome, ahead: float) -> None:
        """Count one."""
        setattr(self, outcome.name.lower(), self.of(outcome) + 1)
        if outcome is not PlacementOutcome.SAME:
            self.seconds_sooner += max(0.0, ahead)
            self.seconds_later += max(0.0, -ahead)

    def plus(self, other: "OutcomeCounts") -> "OutcomeCounts":
        """Return the sums."""
        return OutcomeCounts(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    @property
    def total(self) -> int:
        """All of them."""
        return sum(map(self.of, PlacementOutcome))


class ComparedPlacement(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    A pod or a gang, when it was first seen, and when each cluster placed it (seconds since the epoch).

    `left` is when it was deleted or ended, where the outcome is final because of that.
    """

    kind: str
    namespace: str
    name: str
    seen: RecordedTime
    counterfactual: RecordedTime | None = None
    real: RecordedTime | None = None
    left: RecordedTime | None = None
    outcome: PlacementOutcome
    seconds_ahead: RecordedSeconds = 0.0

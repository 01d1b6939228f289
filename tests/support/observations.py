"""Builders for the lines of an observation's record, and the report of a record."""

from pathlib import Path

from scheduler.counterfactual import observation_report
from scheduler.counterfactual.comparison import ComparisonTotals
from scheduler.counterfactual.fleet_measure import FleetMeasure
from scheduler.counterfactual.observation_record import (
    ObservationRecord,
    ObservationSample,
    ObservationStart,
    RecordLine,
    RecordReader,
)
from scheduler.counterfactual.observation_report import ObservationReport
from scheduler.counterfactual.outcomes import ComparedPlacement, OutcomeCounts, PlacementOutcome

NONE = OutcomeCounts()
BETTER = OutcomeCounts(sooner=2, same=5, seconds_sooner=90.0)
WORSE = OutcomeCounts(later=1, only_real=1, seconds_later=30.0)


def start(at: float, *schedulers: str) -> ObservationStart:
    return ObservationStart(started=at, schedulers=schedulers or ("default-scheduler",), tolerance_seconds=10.0)


def outcome(
    name: str, ahead: float = 60.0, kind: str = "pod", word: PlacementOutcome = PlacementOutcome.SOONER
) -> ComparedPlacement:
    """A pod that was seen at 1000, and that Dovetail would have placed a second later."""
    return ComparedPlacement(
        kind=kind,
        namespace="team",
        name=name,
        seen=1000.0,
        counterfactual=1001.0,
        real=1001.0 + ahead,
        outcome=word,
        seconds_ahead=ahead,
    )


def sample(
    at: float,
    *,
    pods: OutcomeCounts = NONE,
    gangs: OutcomeCounts = NONE,
    real: tuple[int, int, int] = (4, 4, 0),
    counterfactual: tuple[int, int, int] = (4, 4, 1),
    waiting: tuple[int, int] = (0, 0),
    evictions: tuple[int, int] = (0, 0),
    still_open: tuple[ComparedPlacement, ...] = (),
    failed_decisions: int = 0,
) -> ObservationSample:
    """Fleets as (devices in use, devices free, whole free nodes); pairs are of the real cluster, then of the other."""
    fleets = [
        FleetMeasure(devices_in_use=in_use, devices_free=free, whole_free_nodes=whole)
        for in_use, free, whole in (real, counterfactual)
    ]
    totals = ComparisonTotals(
        pods=pods,
        gangs=gangs,
        real_evictions=evictions[0],
        counterfactual_evictions=evictions[1],
        real_waiting=waiting[0],
        counterfactual_waiting=waiting[1],
    )
    return ObservationSample(
        at=at,
        totals=totals,
        real=fleets[0],
        counterfactual=fleets[1],
        still_open=still_open,
        failed_decisions=failed_decisions,
    )


def report(path: Path, *lines: RecordLine) -> ObservationReport:
    """Write a record with these lines, and read its report."""
    with ObservationRecord(path) as record:
        for each in lines:
            record.add(each)
    return observation_report.report_of(RecordReader(path))

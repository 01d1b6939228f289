"""Sums a record up: `dovetail report -o json`, and what the page shows (docs/observe.md)."""

import heapq
from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.counterfactual.comparison import ComparisonTotals
from scheduler.counterfactual.fleet_measure import FleetMeasure
from scheduler.counterfactual.observation_record import (
    ObservationSample,
    ObservationStart,
    OutcomeLine,
    RecordError,
    RecordLine,
    RecordReader,
)
from scheduler.counterfactual.outcomes import ComparedPlacement, OutcomeCounts

KIND: Final = "ObservationReport"
MOST_POINTS: Final = 240
"""Points of a series; samples between them are averaged."""
MOST_NAMED: Final = 20
"""Pods and gangs that are named on either side."""


class ClusterFigures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Figures of one cluster: at a moment, or their averages over the samples."""

    devices_in_use: float
    devices_free: float
    whole_free_nodes: float
    waiting: float


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The figures of both clusters at a time, in seconds since the epoch."""

    at: float
    real: ClusterFigures
    counterfactual: ClusterFigures


class ObservedTime(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One observation without a gap, in seconds since the epoch."""

    started: float
    ended: float


class ObservationReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The document. `real` is what the observed schedulers did, `counterfactual` what Dovetail would have done.

    Counts are the sums of all observations. `sooner` are the pods and gangs of which Dovetail would have been ahead
    most, `later` those of which it would have been behind most. `unreadable_lines` are lines of the record.
    `tolerance_seconds` is the longest of all samples.
    """

    schedulers: tuple[str, ...]
    version: str
    tolerance_seconds: float
    observations: tuple[ObservedTime, ...]
    totals: ComparisonTotals
    failed_decisions: int
    unreadable_lines: int
    real: ClusterFigures
    counterfactual: ClusterFigures
    series: tuple[SeriesPoint, ...]
    sooner: tuple[ComparedPlacement, ...]
    later: tuple[ComparedPlacement, ...]

    @property
    def observed_seconds(self) -> float:
        """The length of all observations."""
        return sum(each.ended - each.started for each in self.observations)


def report_of(reader: RecordReader) -> ObservationReport:
    """Sum up a record. Raise `RecordError` where there is none, or no sample in it yet."""
    summary = _Summary()
    for line in reader.lines():
        summary.add(line)
    if not summary.has_sample:
        why = "the record has no sample yet: `dovetail observe` writes the first one when it has begun"
        raise RecordError(f"{reader.path}: {why}")
    return msgspec.structs.replace(summary.report(), unreadable_lines=reader.unreadable)


class _Summary:
    """What is kept of the lines read so far: bounded but for the points of the series."""

    def __init__(self) -> None:
        self._starts: Final[dict[float, ObservationStart]] = {}
        self._last: Final[dict[float, ObservationSample]] = {}
        self._points: Final[list[SeriesPoint]] = []
        self._most: Final[list[ComparedPlacement]] = []
        self._since_sample: Final[list[ComparedPlacement]] = []
        """Outcomes that no sample counts yet: they are not named either."""
        self._now: float | None = None
        self._tolerance = 0.0

    def add(self, line: RecordLine) -> None:
        match line:
            case ObservationStart():
                self._now = line.started
                self._starts[line.started] = line
                self._since_sample.clear()
                self._tolerance = max(self._tolerance, line.tolerance_seconds)
            case OutcomeLine(of=found):
                self._since_sample.append(found)
            case ObservationSample() if self._now is not None:
                self._last[self._now] = line
                counted = [*self._most, *self._since_sample]
                self._most[:] = [*_first(counted, sooner=True), *_first(counted, sooner=False)]
                self._since_sample.clear()
                self._points.append(_point(line))
                self._tolerance = max(self._tolerance, line.tolerance_seconds)

    @property
    def has_sample(self) -> bool:
        """Whether there is something to report."""
        return bool(self._last)

    def report(self) -> ObservationReport:
        named = [*self._most, *(each for sample in self._last.values() for each in sample.still_open)]
        mean = _mean(self._points)
        newest = self._starts[max(self._last)]
        return ObservationReport(
            schedulers=tuple(sorted({name for each in self._starts.values() for name in each.schedulers})),
            version=newest.version,
            tolerance_seconds=self._tolerance,
            observations=tuple(
                ObservedTime(started=started, ended=max(started, sample.at))
                for started, sample in sorted(self._last.items())
            ),
            totals=_sum([each.totals for each in self._last.values()]),
            failed_decisions=sum(each.failed_decisions for each in self._last.values()),
            unreadable_lines=0,
            real=mean.real,
            counterfactual=mean.counterfactual,
            series=_thinned(self._points),
            sooner=tuple(_first(named, sooner=True)),
            later=tuple(_first(named, sooner=False)),
        )


def _first(found: Sequence[ComparedPlacement], *, sooner: bool) -> list[ComparedPlacement]:
    sign = 1 if sooner else -1
    ours = [each for each in found if sign * each.seconds_ahead > 0]
    return heapq.nlargest(MOST_NAMED, ours, key=lambda each: sign * each.seconds_ahead)


def _point(sample: ObservationSample) -> SeriesPoint:
    return SeriesPoint(
        at=sample.at,
        real=_figures(sample.real, sample.totals.real_waiting),
        counterfactual=_figures(sample.counterfactual, sample.totals.counterfactual_waiting),
    )


def _figures(measure: FleetMeasure, waiting: int) -> ClusterFigures:
    return ClusterFigures(
        devices_in_use=measure.devices_in_use,
        devices_free=measure.devices_free,
        whole_free_nodes=measure.whole_free_nodes,
        waiting=waiting,
    )


def _thinned(points: Sequence[SeriesPoint]) -> tuple[SeriesPoint, ...]:
    size = -(-len(points) // MOST_POINTS)
    return tuple(_mean(points[first : first + size]) for first in range(0, len(points), size))


def _mean(points: Sequence[SeriesPoint]) -> SeriesPoint:
    """Average points; the time is that of the last one."""
    return SeriesPoint(
        at=points[-1].at,
        real=_mean_figures([each.real for each in points]),
        counterfactual=_mean_figures([each.counterfactual for each in points]),
    )


def _mean_figures(figures: Sequence[ClusterFigures]) -> ClusterFigures:
    names = ClusterFigures.__struct_fields__
    return ClusterFigures(
        **{name: round(sum(getattr(each, name) for each in figures) / len(figures), 3) for name in names}
    )


def _sum(totals: Sequence[ComparisonTotals]) -> ComparisonTotals:
    """Sum the counts of observations; pods that wait are those of the last one."""
    pods, gangs = OutcomeCounts(), OutcomeCounts()
    for each in totals:
        pods, gangs = pods.plus(each.pods), gangs.plus(each.gangs)
    return ComparisonTotals(
        pods=pods,
        gangs=gangs,
        real_evictions=sum(each.real_evictions for each in totals),
        counterfactual_evictions=sum(each.counterfactual_evictions for each in totals),
        real_waiting=totals[-1].real_waiting,
        counterfactual_waiting=totals[-1].counterfactual_waiting,
        given_up=sum(each.given_up for each in totals),
    )

"""What was measured of good pods, whether it is within the target, and the table. Pure."""

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from rich import box
from rich.table import Table
from rich.text import Text

MOST_RATIO = 2.0
"""The good pods' median during a case, by the idle median."""
MOST_P99_SECONDS = 2.0
MOST_BARE_RATIO = 2.0
"""Median and p99 of good pods, by those of the bare writer's pods where the API server alone misses the target."""
DETAILED = 5
COLUMNS = ("CASE", "PODS", "IDLE", "DURING", "RATIO", "P99", "WRITER", "P99", "LEFT", "RESTARTS", "SOLVER", "VERDICT")
CAPTION = (
    "PODS: good pods that were created during the case. IDLE, DURING: the median from creation to binding. WRITER: of "
    "pods that are bound beside them without a decision, so by the API server alone; where they wait longer than the "
    "target, good pods may wait twice as long as they. LEFT: not bound at the end. RESTARTS of the scheduler, SOLVER: "
    "of its worker process."
)


class Wait(msgspec.Struct, frozen=True):
    """How long a good pod waited, until it was bound or, where it never was, until the measurement ended."""

    seconds: float
    is_bound: bool = True


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One case: how the good pods fared before and during it, and what else was seen."""

    case: str
    about: str
    before: tuple[Wait, ...]
    during: tuple[Wait, ...]
    bare: tuple[Wait, ...] = ()
    """How pods fared meanwhile that are bound without a decision."""
    restarts: int = 0
    solver_restarts: int = 0
    created: int = 0
    changed: int = 0
    refused: int = 0
    refusal: str = ""
    needs_objects: bool = True
    findings: tuple[str, ...] = ()
    peak_mib: tuple[int, int] = (0, 0)
    """Of the scheduler and of its worker process."""
    log: tuple[tuple[str, int], ...] = ()
    """Warnings and errors of the scheduler's log, by event."""

    @property
    def median_before(self) -> float:
        """Seconds."""
        return median(self.before)

    @property
    def median_during(self) -> float:
        """Seconds."""
        return median(self.during)

    @property
    def ratio(self) -> float:
        """How much longer good pods waited than before."""
        return self.median_during / self.median_before if self.median_before else math.inf

    @property
    def p99(self) -> float:
        """Seconds within which 99 of 100 were bound; of one that never was, at least."""
        return percentile(self.during, 0.99)

    @property
    def left(self) -> int:
        """Good pods that were not bound."""
        return sum(not each.is_bound for each in self.during)

    @property
    def failures(self) -> tuple[str, ...]:
        """Say what misses the target; empty where nothing does."""
        return tuple(self._failures())

    def _failures(self) -> Iterator[str]:
        if not self.during:
            yield "no good pod was created: nothing is shown"
            return
        if self.needs_objects and not self.created:
            yield f"no hostile object was admitted: nothing is shown ({self.refusal or 'none was sent'})"
        bound = [each for each in self.bare if each.is_bound]
        if 2 * len(bound) < len(self.bare):
            yield f"of {len(self.bare)} pods without a decision only {len(bound)} were bound: there is no comparison"
            bound = []
        bare_median, bare_p99 = median(bound), percentile(bound, 0.99)
        beside = [f"; without a decision it is {duration(each)}" if bound else "" for each in (bare_median, bare_p99)]
        if self.ratio > MOST_RATIO and self.median_during > MOST_BARE_RATIO * bare_median:
            yield f"the median is {self.ratio:.1f} times the idle one{beside[0]}"
        if self.p99 > max(MOST_P99_SECONDS, MOST_BARE_RATIO * bare_p99):
            yield f"p99 is {self.p99:.1f} s{beside[1]}"
        if self.left:
            yield f"{self.left} good pods were left behind"
        yield from self.findings


def median(waits: Sequence[Wait]) -> float:
    """Give the median in seconds; 0 of nothing."""
    return statistics.median(each.seconds for each in waits) if waits else 0.0


def percentile(waits: Sequence[Wait], share: float) -> float:
    """Give the nearest rank: the least value that a share of all does not exceed; 0 of nothing."""
    ordered = sorted(each.seconds for each in waits)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def worst(outcomes: Sequence[Outcome], count: int = DETAILED) -> list[Outcome]:
    """Give the worst: those that fail first, by what they leave behind and how long pods wait."""
    return sorted(outcomes, key=lambda each: (bool(each.failures), each.left, each.p99, each.ratio), reverse=True)[
        :count
    ]


def render(outcomes: Sequence[Outcome]) -> Table:
    """Lay out the table."""
    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False, caption=CAPTION, caption_justify="left")
    for column in table.columns[1:-1]:
        column.justify = "right"
    for each in outcomes:
        table.add_row(
            each.case,
            str(len(each.during)),
            duration(each.median_before),
            duration(each.median_during),
            f"{each.ratio:.1f}",
            duration(each.p99) if each.p99 <= MOST_P99_SECONDS else Text(duration(each.p99), "red"),
            duration(median(each.bare)),
            duration(percentile(each.bare, 0.99)),
            str(each.left),
            str(each.restarts),
            str(each.solver_restarts),
            Text("FAILS", "red") if each.failures else Text("holds", "green"),
        )
    return table


def details(outcome: Outcome) -> Iterator[str]:
    """Tell of one case in lines."""
    yield f"{outcome.case}: {outcome.about}"
    for failure in outcome.failures:
        yield f"  FAILS: {failure}"
    shares = ((0.9, "p90"), (0.99, "p99"), (1.0, "max"))
    yield f"  good pods: median {duration(outcome.median_during)}, " + ", ".join(
        f"{name} {duration(percentile(outcome.during, share))}" for share, name in shares
    )
    yield f"  hostile objects: {outcome.created} created, {outcome.changed} changes, {outcome.refused} refused"
    if outcome.refusal:
        yield f"  last refusal: {outcome.refusal}"
    yield f"  peak memory: scheduler {outcome.peak_mib[0]} MiB, its solver {outcome.peak_mib[1]} MiB"
    if outcome.log:
        yield "  log: " + ", ".join(f"{event} × {count}" for event, count in outcome.log)


def duration(seconds: float) -> str:
    """Write a duration."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def write(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Record outcomes as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes)))


def read(path: Path) -> tuple[Outcome, ...]:
    """Read recorded outcomes. Raises msgspec.ValidationError where the file holds something else."""
    return msgspec.json.decode(path.read_bytes(), type=tuple[Outcome, ...])

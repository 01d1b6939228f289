"""What was measured, and the table made of it. Pure: recorded runs give the same table again."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich import box
from rich.table import Table

from e2e.plots import Panel, Series
from e2e.spread import spread, turn_ratios

COLUMNS: Final = ("WORKLOAD", "SCHEDULER", "BOUND", "FIRST", "P50", "P99", "P50 RATIO", "P99 RATIO")
CAPTION: Final = (
    "Milliseconds from the API server's answer to the pod's creation until a watch shows its binding; of start-… from "
    "the start of the process, for which the pods wait. FIRST: the least of all pods. Of several turns the median "
    "(least–most); a ratio compares the two runs of a turn, and below 1 Dovetail is faster. The client of "
    "kube-scheduler has no limit."
)
_MILLISECONDS: Final = 1000.0
_SHARES: Final = (*range(5, 100, 5), 99)


class LatencyRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one workload with one scheduler; `seconds` has one value for each bound pod."""

    workload: str
    scheduler: str
    turn: int
    pods: int
    seconds: tuple[float, ...]

    def quantile(self, share: float) -> float:
        """Return the seconds within which this share of the bound pods was bound; nan where none was."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def render(runs: Sequence[LatencyRun], ours: str) -> Table:
    """Lay out the table; `ours` is the scheduler whose ratios to the others are shown."""
    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False, caption=CAPTION, caption_justify="left")
    table.columns[1].min_width = len("kube-scheduler")
    for column in table.columns[2:]:
        column.justify = "right"
    for workload in dict.fromkeys(run.workload for run in runs):
        of_workload = [run for run in runs if run.workload == workload]
        for index, scheduler in enumerate(dict.fromkeys(run.scheduler for run in of_workload)):
            own = [run for run in of_workload if run.scheduler == scheduler]
            ratios = ("", "") if scheduler != ours else _ratios(own, [each for each in of_workload if each not in own])
            table.add_row("" if index else workload, scheduler, *_measured(own), *ratios)
        table.add_section()
    return table


def panels(runs: Sequence[LatencyRun]) -> tuple[Panel, ...]:
    """Draw, for each workload, within how many milliseconds which share of the pods was bound; all turns together."""
    return tuple(
        _panel(workload, [run for run in runs if run.workload == workload])
        for workload in dict.fromkeys(run.workload for run in runs)
    )


def _panel(workload: str, runs: Sequence[LatencyRun]) -> Panel:
    series = []
    for scheduler in dict.fromkeys(run.scheduler for run in runs):
        own = [run for run in runs if run.scheduler == scheduler]
        quantiles = [[run.quantile(share / 100) * _MILLISECONDS for run in own] for share in _SHARES]
        spreads = tuple((min(each), max(each)) for each in quantiles)
        series.append(Series(scheduler, tuple(statistics.median(each) for each in quantiles), spreads))
    return Panel(f"Time to a pod's binding, {workload}", "ms", tuple(map(float, _SHARES)), tuple(series), "% of pods")


def _measured(runs: Sequence[LatencyRun]) -> tuple[str, ...]:
    bound, pods = sum(len(run.seconds) for run in runs), sum(run.pods for run in runs)
    shares = (0.0, 0.5, 0.99)
    return (
        f"{bound} of {pods}",
        *(spread([run.quantile(share) * _MILLISECONDS for run in runs], "{:.0f}") for share in shares),
    )


def _ratios(ours: Sequence[LatencyRun], peers: Sequence[LatencyRun]) -> tuple[str, str]:
    """Compare the runs of each turn."""

    def compared(quantile: Callable[[LatencyRun], float]) -> str:
        mine, theirs = ({run.turn: quantile(run) for run in runs} for runs in (ours, peers))
        ratios = turn_ratios(mine, theirs)
        return spread(ratios, "{:.2f}") if ratios else ""

    return compared(lambda run: run.quantile(0.5)), compared(lambda run: run.quantile(0.99))


def write(path: Path, runs: Sequence[LatencyRun]) -> None:
    """Record runs as JSON."""
    path.write_bytes(msgspec.json.encode(runs))


def read(path: Path) -> tuple[LatencyRun, ...]:
    """Read recorded runs. Raises msgspec.ValidationError where the file holds something else."""
    return msgspec.json.decode(path.read_bytes(), type=tuple[LatencyRun, ...])

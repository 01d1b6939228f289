"""Runs over queues of jobs as one table and as pictures."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from rich import box
from rich.table import Table

from e2e.plots import Panel, Series
from e2e.traces.queues.job_figures import SIZES, QueueRun

CAPTION: Final = (
    "WAIT: hours, mean and 95th percentile, by the GPUs of a job. IN USE: share of all GPU-seconds in which jobs ran, "
    "from the first arrival to the last. MAKESPAN: hours from the first arrival to the last end. dovetail-N: starving "
    "after N seconds; +M: at most M moves an hour, each of which costs its job 60 s. CPU: seconds of the run."
)
_HOUR: Final = 3600.0


def render(runs: Sequence[QueueRun]) -> Table:
    """Lay out a section for each trace with a line for each policy."""
    columns = ("JOBS", "POLICY", *(f"WAIT {name}" for name in SIZES), "IN USE", "MAKESPAN", "CPU")
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, caption=CAPTION, caption_justify="left")
    for column in table.columns[2:]:
        column.justify = "right"
    for _, group in groupby(runs, key=lambda run: run.trace):
        own = tuple(group)
        titles = _titles(own[0])
        for number in range(max(len(own), len(titles))):
            title = titles[number] if number < len(titles) else ""
            table.add_row(title, *(_cells(own[number]) if number < len(own) else ()))
        table.add_section()
    return table


def _titles(run: QueueRun) -> tuple[str, ...]:
    """Name a trace and its cluster."""
    load = "all at once" if run.load is None else f"load {100 * run.load:.0f} %"
    named: tuple[str, ...] = (run.trace, f"{run.machines} × {run.gpus} GPUs, {load}")
    if run.most_used is not None:
        named = (*named, f"in use at most {100 * run.most_used:.1f} %")
    return (*named, f"{run.too_large} of {run.jobs} jobs too large") if run.too_large else named


def _cells(run: QueueRun) -> tuple[str, ...]:
    waits = [run.waits.get(name) for name in SIZES]
    return (
        run.policy + (f", {run.stuck} stuck" if run.stuck else "") + (f", {run.moves} moved" if run.moves else ""),
        *(f"{each.mean / _HOUR:.2f} {each.p95 / _HOUR:.2f}" if each else "" for each in waits),
        "" if run.used is None else f"{100 * run.used:.1f} %",
        f"{run.makespan / _HOUR:.2f}",
        f"{run.seconds:.0f}",
    )


def panels(runs: Sequence[QueueRun]) -> tuple[Panel, ...]:
    """Draw a panel for each trace: bars of mean waits, by size and policy."""
    found = []
    for trace, group in groupby(runs, key=lambda run: run.trace):
        own = tuple(group)
        sizes = tuple(name for name in SIZES if any(name in run.waits for run in own))
        series = tuple(
            Series(run.policy, tuple(run.waits[name].mean / _HOUR if name in run.waits else 0.0 for name in sizes))
            for run in own
        )
        found.append(Panel(f"Mean wait by GPUs of a job: {trace}", "hours", sizes, series))
    return tuple(found)

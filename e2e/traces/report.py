"""What was measured, as one table and as pictures."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from rich import box
from rich.table import Table

from e2e.plots import Panel, Series
from e2e.spread import spread
from e2e.traces.published import Means
from e2e.traces.replay import DOVETAIL, Curve

COLUMNS: Final = (
    "TASKS",
    "POLICY",
    "SEEDS",
    "ALLOCATED",
    "AT 100 %",
    "PUBLISHED",
    "BOUND",
    "FRAGMENTED",
    "FAILED",
    "CPU",
)
CAPTION: Final = (
    "Per cent of all GPUs, mean (least–most) of the seeds. ALLOCATED when tasks for 130 % of the GPUs had arrived; "
    "PUBLISHED is that of ten seeds by FGD's authors, with other orders of arrival. BOUND: no choice of the tasks "
    "that arrived could have more. FRAGMENTED: GPUs that are left and that typical tasks cannot use, when 80 % had "
    "arrived. FAILED: of the tasks. CPU: milliseconds a task."
)
_LAST, _ALL, _FRAGMENTED_AT = 130, 100, 80
_DRAWN_FROM: Final = 60
Bounds = Mapping[tuple[str, int], tuple[float, ...]]


def render(curves: Sequence[Curve], bounds: Bounds, published: Means) -> Table:
    """Lay out a line for each list of tasks and policy."""
    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False, caption=CAPTION, caption_justify="left")
    for column in table.columns[2:]:
        column.justify = "right"
    shown = ""
    for (tasks, policy), runs in grouped(curves).items():
        if shown and tasks != shown:
            table.add_section()
        known = published.get((tasks, policy))
        limits = [bounds[tasks, run.seed][_LAST] for run in runs]
        table.add_row(
            "" if tasks == shown else tasks,
            policy,
            str(len(runs)),
            _of([run.allocated[_LAST] for run in runs]),
            f"{fmean(run.allocated[_ALL] for run in runs):.2f}",
            f"{known[_LAST]:.2f}" if known else "",
            f"{fmean(limits):.2f}",
            f"{fmean(run.fragmented[_FRAGMENTED_AT] for run in runs):.2f}",
            f"{100 * fmean(run.failed / run.tasks for run in runs):.1f} %",
            spread([1000 * run.seconds / run.tasks for run in runs]),
        )
        shown = tasks
    return table


def _of(values: Sequence[float]) -> str:
    mean = f"{fmean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f}–{max(values):.2f})"


def grouped(curves: Sequence[Curve]) -> dict[tuple[str, str], list[Curve]]:
    """Return the runs by list of tasks and policy, in the order of the runs."""
    found: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        found.setdefault((curve.tasks_of, curve.policy), []).append(curve)
    return found


def panels(curves: Sequence[Curve], bounds: Bounds, published: Means) -> tuple[Panel, ...]:
    """Draw one panel for each list of tasks: what is allocated by what has arrived, from where policies differ."""
    loads = tuple(float(load) for load in range(_DRAWN_FROM, _LAST + 1))
    found = []
    for tasks in dict.fromkeys(curve.tasks_of for curve in curves):
        own = {policy: runs for (of, policy), runs in grouped(curves).items() if of == tasks}
        series = [_mean(policy, [run.allocated for run in runs]) for policy, runs in own.items()]
        if (tasks, "fgd") in published:
            series.append(_mean("FGD, published", [published[tasks, "fgd"]]))
        some = next(iter(own.values()))
        series.append(_mean("bound", [bounds[tasks, run.seed] for run in some]))
        found.append(
            Panel(f"GPUs allocated: {tasks}", "% of all GPUs", loads, tuple(series), "arrived load, % of all GPUs")
        )
    return tuple(found)


def _mean(name: str, curves: Sequence[Sequence[float]]) -> Series:
    columns = [[curve[load] for curve in curves] for load in range(_DRAWN_FROM, _LAST + 1)]
    return Series("Dovetail" if name == DOVETAIL else name, tuple(map(fmean, columns)))

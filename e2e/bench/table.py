"""The table of what was measured, for a terminal of 100 columns, or more where numbers are long. Pure."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from e2e.bench.measure import LevelMeasure, Measure, worse_levels
from e2e.plots import Panel, Series

COLUMNS = ("WORKLOAD", "LEVEL", "FIRST FIT", "GREEDY", "PLAN", "BOUND", "GAP", "SECONDS")
_WIDEST = 1000
CAPTION = (
    "Per level, the most important first: pods placed by priority, then costs (negative). No plan is above the bound; "
    "after a level that is not proven, nothing is known of later ones. CPU seconds: median of warm runs, spread, cold."
)


def render(measures: Sequence[Measure]) -> Table:
    """Lay out one block of lines for each workload and seed; levels that are 0 in every column are left out."""
    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False, caption=CAPTION, caption_justify="left")
    for column in table.columns[2:7]:
        column.justify = "right"
    for column in table.columns:
        column.no_wrap = True
    for measured in measures:
        for index, (left, level, right) in enumerate(_lines(measured)):
            table.add_row(left, *(level or ("",) * 6), right, end_section=index == len(_lines(measured)) - 1)
    return table


def width(table: Table) -> int:
    """Say how many columns of a terminal a table takes when no cell of it is cut."""
    console = Console(width=_WIDEST)
    return console.measure(table, options=console.options).maximum


def panels(measures: Sequence[Measure]) -> tuple[Panel, ...]:
    """Draw the seconds of warm and cold runs."""
    names = tuple(f"{each.workload}, seed {each.seed}" for each in measures)
    spreads = tuple((min(each.seconds), max(each.seconds)) for each in measures)
    warm = Series("warm", tuple(each.median for each in measures), spreads)
    return (
        Panel("CPU seconds of a decision", "s", names, (warm, Series("cold", tuple(each.cold for each in measures)))),
    )


def problems(measures: Sequence[Measure]) -> tuple[str, ...]:
    """Say what must not be, one line each."""
    return tuple(
        f"{measured.workload} (seed {measured.seed}): {finding}"
        for measured in measures
        for finding in (*worse_levels(measured), *measured.findings)
    )


def _lines(measured: Measure) -> list[tuple[str, tuple[str | Text, ...] | None, str]]:
    """Three columns of text beside each other: what it is, its levels, what it took."""
    first_open = next((index for index, level in enumerate(measured.levels) if not level.proven), len(measured.levels))
    levels = [
        _level(level, is_bounded=index <= first_open)
        for index, level in enumerate(measured.levels)
        if not _is_idle(level)
    ]
    about = [
        f"{measured.workload}, seed {measured.seed}",
        f"{measured.nodes} × {measured.pods}",
        f"{measured.placed} placed",
    ]
    low, high = min(measured.seconds), max(measured.seconds)
    took = [
        f"{measured.median:.2f}",
        *([f"{low:.2f}–{high:.2f}"] if len(measured.seconds) > 1 else []),
        f"cold {measured.cold:.2f}",
        f"work {measured.work:.2f}",
        *measured.stages[1:],
    ]
    count = max(len(levels), len(about), len(took))
    return [
        (_at(about, index), levels[index] if index < len(levels) else None, _at(took, index)) for index in range(count)
    ]


def _at(lines: Sequence[str], index: int) -> str:
    return lines[index] if index < len(lines) else ""


def _is_idle(level: LevelMeasure) -> bool:
    return not (level.first_fit or level.greedy or level.final or level.bound)


def _level(level: LevelMeasure, *, is_bounded: bool) -> tuple[str | Text, ...]:
    gap = Text("proven", style="green") if level.proven else Text(_gap(level) if is_bounded else "open", style="yellow")
    bound = str(level.bound) if is_bounded else "–"
    return (level.name, *(str(each) for each in (level.first_fit, level.greedy, level.final)), bound, gap)


def _gap(level: LevelMeasure) -> str:
    """How far below the bound a level is, and how much of the larger of both that is."""
    gap, whole = level.bound - level.final, max(abs(level.bound), abs(level.final))
    return f"{gap} ({100 * gap / whole:.1f}%)" if whole else str(gap)

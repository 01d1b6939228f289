"""Measurements as pictures (SVG): a column of panels, each with lines over a number or bars over names."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from e2e.controlplane.plane import REPOSITORY

RESULTS: Final = REPOSITORY / "results"
"""Where tools leave what they measured; git ignores it."""
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's colours, which colour-blind people can tell apart."""
_LINES: Final = ("-", "--", ":")
_HATCHES: Final = ("", "///", "...")
"""Further series have the colours again, with these lines or hatches."""
_DARK: Final = """@media (prefers-color-scheme: dark) {
svg { fill: #c9d1d9 }
[style*="fill: #ffffff"] { fill: #0d1117 !important }
[style*="fill: #000000"] { fill: #c9d1d9 !important }
[style*="stroke: #000000"] { stroke: #8b949e !important }
}
"""
"""
What a reader with dark pages sees: the page and what is black have the colours of docs/pictures.py. Those of series
stay: their contrast to the dark page is 3.6 and more. Letters have no fill of their own.
"""
_STYLE_END: Final = "</style>"
_WIDTH, _HEIGHT, _BAR = 9.0, 3.2, 0.26
_LOGARITHMIC_FROM: Final = 10.0
"""How many times the least value the most has to be."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line or one colour of bars: a value for each x; `spreads` are the least and the most of each."""

    name: str
    values: tuple[float, ...]
    spreads: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram: lines where `x` are numbers, horizontal bars where they are names."""

    title: str
    unit: str
    x: tuple[float, ...] | tuple[str, ...]
    series: tuple[Series, ...]
    x_unit: str = ""
    x_scale: Literal["linear", "log"] = "linear"

    @property
    def has_bars(self) -> bool:
        """Whether x are names."""
        return any(isinstance(each, str) for each in self.x)


def record_path(tool: str) -> Path:
    """Return the file that a run of a tool begun now records, in the folder of results, which is made."""
    RESULTS.mkdir(exist_ok=True)
    return RESULTS / f"{tool}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"


def draw(path: Path, panels: Sequence[Panel]) -> None:
    """Write an SVG. Values that differ by more than a decade are drawn on a logarithmic scale."""
    heights = [max(_HEIGHT, 1 + _BAR * len(each.x) * len(each.series)) if each.has_bars else _HEIGHT for each in panels]
    figure = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
    axes = figure.subplots(len(panels), squeeze=False, height_ratios=heights)
    for (each,), panel in zip(axes, panels, strict=True):
        (_bars if panel.has_bars else _lines)(each, panel)
        each.set_title(panel.title, loc="left")
        each.spines[["top", "right"]].set_visible(False)
        each.grid(alpha=0.3)
        if len(panel.series) > 1:
            each.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    with rc_context({"svg.hashsalt": "the same identifiers in every run"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
    add_dark_scheme(path)


def add_dark_scheme(path: Path) -> None:
    """Give a picture that matplotlib wrote the colours of dark pages too; one that has them stays as it is."""
    text = path.read_text(encoding="utf-8")
    if _DARK not in text:
        path.write_text(text.replace(_STYLE_END, f"\n{_DARK}{_STYLE_END}", 1), encoding="utf-8")


def _styles(panel: Panel, marks: Sequence[str]) -> list[tuple[str, str]]:
    """Return a colour and a mark for each series. Raise ValueError where there are more than can be told apart."""
    styles = [(colour, mark) for mark in marks for colour in COLOURS]
    if len(panel.series) > len(styles):
        raise ValueError(f"{panel.title} has {len(panel.series)} series, and {len(styles)} can be told apart")
    return styles[: len(panel.series)]


def _lines(axes: Axes, panel: Panel) -> None:
    numbers = [float(each) for each in panel.x]
    for (colour, line), series in zip(_styles(panel, _LINES), panel.series, strict=True):
        axes.plot(numbers, series.values, marker="o", markersize=3, color=colour, linestyle=line, label=series.name)
        if series.spreads:
            low, high = zip(*series.spreads, strict=True)
            axes.fill_between(numbers, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel(panel.x_unit)
    axes.set_ylabel(panel.unit)
    if panel.x_scale == "log":
        _make_log(axes, "x")
        axes.set_xticks(numbers)
    if _spans_decades(panel):
        _make_log(axes, "y")


def _bars(axes: Axes, panel: Panel) -> None:
    thickness = 0.8 / len(panel.series)
    for index, ((colour, hatch), series) in enumerate(zip(_styles(panel, _HATCHES), panel.series, strict=True)):
        places = [place + index * thickness for place in range(len(panel.x))]
        pairs = list(zip(series.values, series.spreads, strict=True)) if series.spreads else []
        errors = [[value - low for value, (low, _) in pairs], [high - value for value, (_, high) in pairs]]
        axes.barh(
            places,
            series.values,
            height=thickness,
            color=colour,
            hatch=hatch,
            label=series.name,
            xerr=errors if pairs else None,
            error_kw={"linewidth": 0.8},
        )
    axes.set_yticks([place + 0.4 - thickness / 2 for place in range(len(panel.x))], [str(each) for each in panel.x])
    axes.invert_yaxis()
    axes.set_xlabel(panel.unit)
    if _spans_decades(panel):
        _make_log(axes, "x")


def _spans_decades(panel: Panel) -> bool:
    values = [value for series in panel.series for value in series.values]
    return bool(values) and min(values) > 0 and max(values) / min(values) > _LOGARITHMIC_FROM


def _make_log(axes: Axes, direction: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with plain numbers at its ticks."""
    axes.set(**{f"{direction}scale": "log"})
    axis = {"x": axes.xaxis, "y": axes.yaxis}[direction]
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")

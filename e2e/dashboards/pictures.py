"""
What the panels show, drawn by matplotlib from the answers of Prometheus: Grafana itself is not run here.

Kinds, places, units, legends and names of lines are read from the dashboards' JSON, as Grafana reads them.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from e2e.dashboards import grafana
from e2e.dashboards.panels import Board

_COLUMNS: Final = 24
_WIDTH, _ROW = 18.0, 0.42
"""Inches of a dashboard, and of a row of Grafana's grid."""
_MOST_NAMES: Final = 12
"""Names in a legend; Grafana lets the reader scroll."""

Answers = Mapping[tuple[str, bool], Sequence[Any]]
"""Series of Prometheus, by the expression as the dashboard has it and whether it is asked for one moment."""
Named = list[tuple[str, Any]]
"""Series with their names."""


def draw(board: Board, answers: Answers, path: Path) -> None:
    """Write a PNG of a dashboard."""
    panels = json.loads(grafana.written(board))["panels"]
    rows = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in panels)
    figure = Figure(figsize=(_WIDTH, rows * _ROW))
    figure.suptitle(board.title, x=0.01, y=1 - 0.2 / rows, ha="left", va="top")
    for panel in panels:
        at = panel["gridPos"]
        left, top = at["x"] / _COLUMNS, 1 - at["y"] / rows
        width, height = at["w"] / _COLUMNS, at["h"] / rows
        axes = figure.add_axes((left + 0.045, top - height + 0.9 / rows, width - 0.055, height - 2.4 / rows))
        axes.set_title(panel["title"], loc="left", fontsize=9)
        axes.tick_params(labelsize=7)
        if named := _named(panel, answers):
            _DRAWN[panel["type"]](axes, panel, named)
        else:
            axes.text(0.5, 0.5, "No data", ha="center")
    figure.savefig(path, dpi=80)


def _stat(axes: Axes, panel: Any, named: Named) -> None:
    axes.set_axis_off()
    value = float(named[0][1]["value"][1])
    axes.text(0, 0.3, _written(value, panel["fieldConfig"]["defaults"]["unit"]), fontsize=18)


def _table(axes: Axes, _: Any, named: Named) -> None:
    axes.set_axis_off()
    for row, (_, series) in enumerate(named):
        cells = [f"{name}={value}" for name, value in series["metric"].items() if name != "__name__"]
        axes.text(0, 0.95 - row / 10, "\n".join([*cells, f"Value={series['value'][1]}"]), fontsize=7, va="top")


def _lines(axes: Axes, panel: Any, named: Named) -> None:
    is_stacked = panel["fieldConfig"]["defaults"]["custom"].get("stacking", {}).get("mode") == "normal"
    if is_stacked:
        moments = sorted({at for _, series in named for at, _ in series["values"]})
        values = [dict(_points(series)) for _, series in named]
        layers = [[each.get(at, 0.0) for at in moments] for each in values]
        axes.stackplot(moments, layers, labels=[name for name, _ in named], alpha=0.6)
    for name, series in () if is_stacked else named:
        points = _points(series)
        axes.plot([at for at, _ in points], [value for _, value in points], label=name, linewidth=1)
    _finish(axes, panel["fieldConfig"]["defaults"]["unit"])
    if panel["options"]["legend"]["showLegend"]:
        _add_legend(axes, named)


def _add_legend(axes: Axes, named: Named) -> None:
    """Name the lines to the right, the highest first."""
    most = {name: max((value for _, value in _points(series)), default=0.0) for name, series in named}
    found = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    names = sorted(found, key=lambda name: -most[name])[:_MOST_NAMES]
    left, bottom, width, height = axes.get_position().bounds
    axes.set_position((left, bottom, width * 0.72, height))
    axes.legend(
        [found[name] for name in names], names, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1), frameon=False
    )


def _heatmap(axes: Axes, panel: Any, named: Named) -> None:
    named = sorted(named, key=lambda each: float(each[0].replace("+Inf", "inf")))
    moments = sorted({at for _, series in named for at, _ in series["values"]})
    values = [dict(_points(series)) for _, series in named]
    counts = [[each.get(at, 0.0) for at in moments] for each in values]
    own = [
        [most - less for most, less in zip(row, below, strict=True)]
        for row, below in zip(counts[1:], counts, strict=False)
    ]
    axes.pcolormesh(moments, list(range(len(counts))), [counts[0], *own], cmap="Blues", shading="nearest")
    unit = panel["options"]["yAxis"]["unit"]
    shown = range(0, len(named), 3)
    axes.set_yticks(list(shown), [_written(float(named[at][0].replace("+Inf", "inf")), unit) for at in shown])
    axes.xaxis.set_major_formatter(lambda at, _: _time(at))


def _finish(axes: Axes, unit: str) -> None:
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.yaxis.set_major_formatter(lambda value, _: _written(value, unit))
    axes.xaxis.set_major_formatter(lambda at, _: _time(at))


_DRAWN: Final = {"stat": _stat, "table": _table, "timeseries": _lines, "heatmap": _heatmap}


def _named(panel: Any, answers: Answers) -> Named:
    """Return each series with the name that the legend format gives it, or its labels where there is none."""
    found: Named = []
    for target in panel["targets"]:
        for series in answers[target["expr"], target["instant"]]:
            labels = {name: value for name, value in series["metric"].items() if name != "__name__"}
            text = target["legendFormat"]
            for label in re.findall(r"\{\{(\w+)\}\}", text):
                text = text.replace(f"{{{{{label}}}}}", labels.get(label, ""))
            found.append((text or ", ".join(f"{name}={value}" for name, value in labels.items()), series))
    return found


def _points(series: Any) -> list[tuple[float, float]]:
    return [(at, float(value)) for at, value in series["values"] if math.isfinite(float(value))]


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def _written(value: float, unit: str) -> str:
    """Write a number in one of Grafana's units."""
    if unit == "percentunit":
        return f"{100 * value:.3g}%"
    if unit == "bytes":
        return f"{value / 2**20:.4g} MiB"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if 0 < value < 1 else f"{value:.4g} s"
    return f"{value:.4g}" + {"ops": " ops/s"}.get(unit, "")

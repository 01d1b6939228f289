"""A dashboard in Grafana's JSON, made by Grafana's own library of builders."""

import json
from typing import Any, Final

from grafana_foundation_sdk.builders import common as parts
from grafana_foundation_sdk.builders import dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    DataSourceRef,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataTransformerConfig,
    VariableRefresh,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from e2e.dashboards.panels import Board, Look, Panel, Query

TAG: Final = "dovetail"
_SOURCE: Final = DataSourceRef("prometheus", "$datasource")
_WIDTH: Final = 24
"""Columns of Grafana's grid."""


def written(board: Board) -> str:
    """Return the text of a dashboard's file: JSON with a line for each panel, so that a change is easy to see."""
    made: dict[str, Any] = json.loads(JSONEncoder().encode(_dashboard(board).build()))
    panels = ",\n".join(json.dumps(each, sort_keys=True) for each in made.pop("panels"))
    rest = ",\n".join(f"{json.dumps(key)}: {json.dumps(made[key], sort_keys=True)}" for key in sorted(made))
    return f'{{\n{rest},\n"panels": [\n{panels}\n]}}\n'


def _dashboard(board: Board) -> dashboard.Dashboard:
    made = (
        dashboard.Dashboard(board.title)
        .uid(f"dovetail-{board.name}")
        .tags([TAG])
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .time("now-6h", "now")
        .refresh("1m")
        .link(_link_to_the_others())
    )
    for variable in _variables(board):
        made.with_variable(variable)
    for number, panel in enumerate(board.panels, start=1):
        made.with_panel(_panel(panel, _WIDTH // max(1, board.numbers)).id(number))
    return made


def _link_to_the_others() -> dashboard.DashboardLink:
    link = dashboard.DashboardLink("Dovetail").type(DashboardLinkType.DASHBOARDS).tags([TAG])
    return link.include_vars(include_vars=True).keep_time(keep_time=True)


def _variables(board: Board) -> list[Any]:
    made: list[Any] = [
        dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"),
        _values("namespace", "Namespace", "label_values(dovetail_build_info, namespace)"),
    ]
    if board.asks_for_a_class:
        classes = 'label_values(dovetail_devices{namespace="$namespace"}, device_class)'
        made.append(_values("device_class", "Device class", classes).include_all(include_all=True).all_value(".*"))
    return made


def _values(name: str, label: str, query: str) -> dashboard.QueryVariable:
    variable = dashboard.QueryVariable(name).label(label).query(query).datasource(_SOURCE)
    return variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)


def _panel(panel: Panel, width_of_numbers: int) -> Any:
    drawn = _drawn(panel)
    if panel.look is Look.NUMBER:
        drawn.span(width_of_numbers)
    drawn.title(panel.title).unit(panel.unit).datasource(_SOURCE)
    if panel.about:
        drawn.description(panel.about)
    for query, name in zip(panel.queries, "ABCDEFGH", strict=False):
        drawn.with_target(_target(query, panel.look).ref_id(name))
    return drawn


def _target(query: Query, look: Look) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend)
    match look:
        case Look.NUMBER:
            return target.instant()
        case Look.TABLE:
            return target.instant().format(PromQueryFormat.TABLE)
        case Look.HEATMAP:
            return target.range().format(PromQueryFormat.HEATMAP)
        case Look.LINES | Look.STACK:
            return target.range()


def _drawn(panel: Panel) -> Any:
    match panel.look:
        case Look.NUMBER:
            last = parts.ReduceDataOptions().calcs(["lastNotNull"])
            return stat.Panel().reduce_options(last).color_mode(BigValueColorMode.NONE).height(4)
        case Look.TABLE:
            labels_only = DataTransformerConfig("organize", options={"excludeByName": {"Time": True, "Value": True}})
            return table.Panel().height(8).span(_WIDTH // 2).with_transformation(labels_only)
        case Look.HEATMAP:
            colors = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Blues").steps(64)
            axis = heatmap.YAxisConfig().unit(panel.unit)
            return heatmap.Panel().color(colors).y_axis(axis).height(8).span(_WIDTH // 2)
        case Look.LINES:
            return _over_time(panel)
        case Look.STACK:
            stacked = parts.StackingConfig().mode(StackingMode.NORMAL)
            return _over_time(panel).stacking(stacked).fill_opacity(30)


def _over_time(panel: Panel) -> timeseries.Panel:
    """Make a panel that names its lines, the highest first, and shows all values at the pointer."""
    legend = parts.VizLegendOptions().show_legend(show_legend=panel.has_many_lines)
    legend.display_mode(LegendDisplayMode.TABLE).placement(LegendPlacement.RIGHT).calcs(["max"])
    legend.sort_by("Max").sort_desc(sort_desc=True)
    tooltip = parts.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)
    return timeseries.Panel().height(8).span(_WIDTH // 2).min(0).legend(legend).tooltip(tooltip)

"""Dashboards and rules are what the code generates, and ask for nothing that Dovetail does not serve."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.dashboards import files
from e2e.dashboards.panels import BOARDS, Query
from tests.support import house

TARGET = {"namespace", "pod", "exported_namespace"}
"""Labels that a scrape gives; a series' own label `namespace` becomes `exported_namespace`."""
PROCESS: dict[str, set[str]] = {
    "process_start_time_seconds": set(),
    "process_cpu_seconds_total": set(),
    "process_open_fds": set(),
    "python_gc_collections_total": {"generation"},
}
QUERIES = [
    pytest.param(query, id=f"{board.name} {panel.title} {query.legend}")
    for board in BOARDS
    for panel in board.panels
    for query in panel.queries
]


def _series() -> dict[str, set[str]]:
    """Labels of each series by the names that queries have for it, as docs/reference/series.md has them."""
    text = (house.ROOT / "docs" / "reference" / "series.md").read_text(encoding="utf-8")
    found = {**PROCESS}
    for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", text, re.MULTILINE):
        own = set(re.findall(r"`(\w+)`", labels))
        found[name] = own
        if kind == "histogram":
            found |= {f"{name}_bucket": own | {"le"}, f"{name}_count": own}
    return found


SERIES = _series()


def _selectors(expr: str) -> list[tuple[str, set[str]]]:
    """The series of a query, each with the labels by which it is selected."""
    found = re.findall(r"\b([a-z]+(?:_[a-z]+)+)\{([^}]*)\}", expr)
    return [(name, set(re.findall(r"(\w+)(?:=|!)", inner))) for name, inner in found]


@pytest.mark.parametrize(("path", "text"), files.texts().items(), ids=lambda each: getattr(each, "name", ""))
def test_the_files_are_what_the_code_generates(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, "run: make monitoring"


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_names_series_and_labels_that_are_served(query: Query) -> None:
    selectors = _selectors(query.expr)
    assert selectors
    assert [name for name, _ in selectors if name not in SERIES] == []
    labels = set[str]().union(*(SERIES[name] for name, _ in selectors)) | TARGET
    used = [word for inner in re.findall(r"by \(([^)]*)\)", query.expr) for word in inner.split(", ")]
    used += re.findall(r"\{\{(\w+)\}\}", query.legend)
    assert [each for each in used if each not in labels] == []
    for name, selected in selectors:
        assert selected <= SERIES[name] | TARGET
        assert "namespace" in selected, "kube-scheduler has series of the same names"


def test_every_series_is_in_a_panel() -> None:
    queries = " ".join(query.expr for board in BOARDS for panel in board.panels for query in panel.queries)
    families = {re.sub("_(bucket|count)$", "", name) for name in SERIES}
    assert [name for name in sorted(families) if name not in queries] == []


def test_lines_have_names_and_heatmaps_have_colours() -> None:
    panels = [each for path in (files.MONITORING / "dashboards").glob("*.json") for each in _panels(path)]
    lines = [each for each in panels if each["type"] == "timeseries"]
    assert lines
    for each in lines:
        has_many = len(each["targets"]) > 1 or "{{" in each["targets"][0]["legendFormat"]
        assert each["options"]["legend"]["showLegend"] == has_many, each["title"]
        assert each["options"]["tooltip"]["mode"] == "multi"
    heatmaps = [each["options"] for each in panels if each["type"] == "heatmap"]
    assert heatmaps
    for each in heatmaps:
        assert 2 <= each["color"]["steps"] <= 128  # as Grafana's schema has it
        assert each["yAxis"]["unit"]


def _panels(path: Path) -> list[Any]:
    found: list[Any] = json.loads(path.read_text(encoding="utf-8"))["panels"]
    return found


def test_what_has_no_class_has_a_name() -> None:
    by_class = [
        query
        for board in BOARDS
        for panel in board.panels
        for query in panel.queries
        if "{{device_class}}" in query.legend
    ]
    assert by_class
    assert [query for query in by_class if '"no class"' not in query.expr] == []


def test_panels_of_numbers_fill_their_row() -> None:
    for path in (files.MONITORING / "dashboards").glob("*.json"):
        widths = [each["gridPos"]["w"] for each in _panels(path) if each["type"] == "stat"]
        assert sum(widths) in {0, 24}, path.name


def test_every_dashboard_is_in_the_config_map() -> None:
    folder = files.MONITORING / "dashboards"
    (made,) = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["configMapGenerator"]
    assert made["files"] == sorted(path.name for path in folder.glob("*.json"))


def test_without_the_operator_prometheus_finds_the_port_of_the_pods() -> None:
    (job,) = _document("prometheus/scrape.yaml")["scrape_configs"]
    (found,) = job["kubernetes_sd_configs"]
    monitor = _document("podmonitor.yaml")
    assert found["namespaces"]["names"] == [monitor["metadata"]["namespace"]]
    labels = monitor["spec"]["selector"]["matchLabels"]
    assert [each["label"] for each in found["selectors"]] == [f"{key}={value}" for key, value in labels.items()]
    (port,) = [each["regex"] for each in job["relabel_configs"] if each.get("action") == "keep"]
    assert [port] == [each["port"] for each in monitor["spec"]["podMetricsEndpoints"]]


def _document(name: str) -> Any:
    return yaml.safe_load((files.MONITORING / name).read_text(encoding="utf-8"))

"""Measurements as pictures: an SVG shows what was measured, on a logarithmic scale where values differ much."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from e2e import plots
from e2e.bench import growth, table
from e2e.bench.measure import Measure
from e2e.compare import samples
from e2e.compare.samples import Sample
from e2e.controlplane.plane import REPOSITORY
from e2e.latency import latencies
from e2e.latency.latencies import LatencyRun
from e2e.plots import Panel, Series

POINT = growth.Point(
    varied="nodes",
    size="500",
    pods=10,
    placed=9,
    proven=False,
    one_pod=(0.001, 0.002, 0.006),
    all_pods=(0.01,),
    after_device=(0.003,),
    cold=1.5,
)
MEASURE = Measure(
    workload="W1",
    seed=0,
    nodes=1,
    pods=9,
    placed=7,
    levels=(),
    stages=(),
    cold=0.5,
    seconds=(0.1, 0.2, 0.4),
    work=0.0,
)


def sample(scheduler: str, scenario: str, bound: int, turn: int = 0) -> Sample:
    return Sample(scenario=scenario, scheduler=scheduler, turn=turn, pods=10, bound=bound, seconds=2.0)


@pytest.mark.parametrize(
    "panel",
    [
        Panel(
            "lines", "ms", (1.0, 2.0), (Series("a", (1.0, 2.0)), Series("b", (3.0, 400.0), ((1.0, 3.0), (2.0, 500.0))))
        ),
        Panel("log", "ms", (1.0, 200.0), (Series("a", (1.0, 2.0)),), x_scale="log"),
        Panel("bars", "%", ("x", "y"), (Series("a", (0.0, 2.0)), Series("b", (3.0, 4.0), ((1.0, 3.0), (2.0, 5.0))))),
    ],
)
def test_a_panel_is_drawn(panel: Panel, tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"

    plots.draw(path, [panel])

    assert path.read_text().endswith("</svg>\n")
    assert f"<!-- {panel.title} -->" in path.read_text()
    for series in panel.series if len(panel.series) > 1 else ():
        assert f"<!-- {series.name} -->" in path.read_text()


def test_pictures_follow_the_colours_of_the_reader(tmp_path: Path) -> None:
    """All that is black or white on a light page has a rule for a dark one, also in the picture of the pages."""
    path = tmp_path / "plot.svg"
    plots.draw(path, table.panels([MEASURE]))
    drawn = path.read_text(encoding="utf-8")
    published = (REPOSITORY / "docs" / "traces.svg").read_text(encoding="utf-8")
    for text in (drawn, published):
        style = re.search(r"@media \(prefers-color-scheme: dark\) \{(.*?)\}\n</style>", text, re.DOTALL)
        assert style is not None
        plain = set(re.findall(r'style="[^"]*?((?:fill|stroke): #(?:000000|ffffff))', text))
        assert plain
        assert {each for each in plain if f'[style*="{each}"]' not in style[1]} == set()
    plots.add_dark_scheme(path)
    assert path.read_text(encoding="utf-8") == drawn, "a picture gets the rules once"


def test_the_same_measurements_give_the_same_picture(tmp_path: Path) -> None:
    for name in ("one", "two"):
        plots.draw(tmp_path / name, table.panels([MEASURE]))

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_run_leaves_its_record_in_the_folder_of_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plots, "RESULTS", tmp_path / "results")

    path = plots.record_path("bench")

    assert path.parent.is_dir()
    assert path.name.startswith("bench-")


def test_a_bench_shows_warm_and_cold_seconds() -> None:
    (panel,) = table.panels([MEASURE])

    assert panel.x == ("W1, seed 0",)
    assert panel.series == (Series("warm", (0.2,), ((0.1, 0.4),)), Series("cold", (0.5,)))


def test_a_comparison_shows_medians_and_spread_of_each_scheduler() -> None:
    runs = [sample("a", "s", 8), sample("a", "s", 10, 1), sample("b", "s", 5), sample("b", "t", 4)]

    shares, rates = samples.panels(runs)

    assert shares.x == ("s", "t")
    assert shares.series == (
        Series("a", (90.0, 0.0), ((80.0, 100.0), (0.0, 0.0))),
        Series("b", (50.0, 40.0), ((50.0, 50.0), (40.0, 40.0))),
    )
    assert rates.series[0].values == (4.5, 0.0)


def test_latencies_are_shown_by_share_of_pods() -> None:
    runs = [
        LatencyRun(workload="one-200", scheduler="a", turn=turn, pods=100, seconds=tuple(i * 0.001 for i in range(100)))
        for turn in range(2)
    ]

    (panel,) = latencies.panels(runs)

    assert dict(zip(panel.x, panel.series[0].values, strict=True))[50.0] == pytest.approx(50)


def test_growth_is_drawn_over_numbers_and_over_names() -> None:
    larger = replace(POINT, size="5000")
    kinds = [replace(POINT, varied="what a pod asks for", size=name) for name in ("x", "y")]
    alone = replace(POINT, varied="nodes and pods")

    over_nodes, over_kinds = growth.panels([POINT, larger, *kinds, alone])

    assert over_nodes.x == (500.0, 5000.0)
    assert over_nodes.series[0] == Series("one pod", (2.0, 2.0), ((1.0, 6.0), (1.0, 6.0)))
    assert over_kinds.x == ("x", "y")


def drawn(path: Path, count: int, *, has_bars: bool) -> str:
    x: tuple[float, ...] | tuple[str, ...] = ("a", "b") if has_bars else (1.0, 2.0)
    series = tuple(Series(f"series {at}", (1.0 + at, 2.0 + at)) for at in range(count))
    plots.draw(path, (Panel("many", "s", x, series),))
    return path.read_text()


@pytest.mark.parametrize("has_bars", [False, True])
def test_each_of_many_series_is_drawn(tmp_path: Path, *, has_bars: bool) -> None:
    text = drawn(tmp_path / "many.svg", 18, has_bars=has_bars)
    assert all(f"series {at}" in text for at in range(18))
    with pytest.raises(ValueError, match="many has 19 series, and 18 can be told apart"):
        drawn(tmp_path / "more.svg", 19, has_bars=has_bars)

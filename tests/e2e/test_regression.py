"""`measure regression`: figures are read from what tools record, and a figure is worse only beyond the spread."""

from pathlib import Path

import pytest
from rich.console import Console

from e2e.bench import measure
from e2e.bench.measure import LevelMeasure, Measure
from e2e.compare import samples
from e2e.compare.samples import Sample
from e2e.controlplane.plane import REPOSITORY
from e2e.latency import latencies
from e2e.latency.latencies import LatencyRun
from e2e.regression import __main__ as command
from e2e.regression.comparison import Comparison, comparisons, render
from e2e.regression.figures import TOOLS, Figure


def milliseconds(value: float) -> Figure:
    return Figure("W1, seed 0", "warm, ms", (value,))


def placed(*levels: float) -> Figure:
    return Figure("W1, seed 0", "plan", levels, larger_is_better=True)


def compared(before: list[Figure], after: list[Figure]) -> Comparison:
    (found,) = comparisons([((one,), (other,)) for one, other in zip(before, after, strict=True)])
    return found


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([milliseconds(10), milliseconds(11)], [milliseconds(12), milliseconds(13)], "worse"),
        ([milliseconds(12), milliseconds(13)], [milliseconds(10), milliseconds(11)], "better"),
        ([milliseconds(10), milliseconds(12)], [milliseconds(12), milliseconds(13)], ""),
        ([milliseconds(10), milliseconds(13)], [milliseconds(11), milliseconds(12)], ""),
        ([placed(7, -3)], [placed(7, -4)], "worse"),
        ([placed(7, -3)], [placed(8, -9)], "better"),
        ([placed(7, -3)], [placed(7, -3)], ""),
    ],
)
def test_a_figure_is_worse_where_all_its_values_are(before: list[Figure], after: list[Figure], verdict: str) -> None:
    assert compared(before, after).verdict == verdict


def test_figures_that_one_commit_lacks_in_a_turn_are_left_out() -> None:
    new = Figure("W13, seed 0", "warm, ms", (1,))
    turns = [((milliseconds(1),), (milliseconds(2), new)), ((milliseconds(1), new), (milliseconds(2), new))]

    assert [each.before[0].subject for each in comparisons(turns)] == ["W1, seed 0"]


def test_the_table_has_medians_spread_and_the_ratios_of_turns() -> None:
    times = compared([milliseconds(10), milliseconds(20)], [milliseconds(40), milliseconds(50)])
    plans = compared([placed(7, -3)] * 2, [placed(7, -3)] * 2)
    console = Console(width=120, color_system=None)

    with console.capture() as capture:
        console.print(render([times, plans], "abc1234"))

    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    assert "W1, seed 0 warm, ms 15 (10–20) 45 (40–50) 3.25 (2.50–4.00) worse" in lines
    assert "plan 7 -3 7 -3" in lines


def test_every_tool_s_record_is_read(tmp_path: Path) -> None:
    level = LevelMeasure(name="placed:0", first_fit=5, greedy=6, final=7, bound=7, proven=True)
    solved = Measure(
        workload="W1",
        seed=0,
        nodes=1,
        pods=9,
        placed=7,
        levels=(level,),
        stages=(),
        cold=0.5,
        seconds=(0.1, 0.2, 0.4),
        work=0.0,
    )
    measure.write(tmp_path / "bench", (solved,))
    samples.write(
        tmp_path / "compare",
        [Sample(scenario="mixed", scheduler="dovetail", turn=0, pods=9, bound=8, seconds=2.0)],
    )
    latencies.write(
        tmp_path / "latency",
        [LatencyRun(workload="one-200", scheduler="dovetail", turn=0, pods=3, seconds=(0.01, 0.02, 0.03))],
    )

    read = {name: {each.name: each.value for each in tool.figures(tmp_path / name)} for name, tool in TOOLS.items()}

    assert read["bench"] == {"plan": (7,), "levels proven": (1,), "warm, ms": (200,), "cold, ms": (500,)}
    assert read["compare"] == {"pods bound": (8,), "last binding, ms": (2000,)}
    assert read["latency"] == {"pods bound": (3,), "p50, ms": (20,), "p99, ms": (30,)}


def test_turns_change_the_order(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    order: list[str] = []

    def fake(home: Path, *_: object) -> tuple[Figure, ...]:
        order.append(home.name)
        return (milliseconds(20 if home.name == REPOSITORY.name else 10),)

    monkeypatch.setattr(command, "_measured", fake)
    monkeypatch.setattr(command, "checkout", lambda _: Path("before"))

    assert command.main(["abc1234", "--turns=3"]) == 1

    this = REPOSITORY.name
    assert order == ["before", this, this, "before", "before", this]
    assert "1 of 1 figures got worse" in capsys.readouterr().out


def test_an_unknown_commit_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["no-such-commit"]) == 1
    assert "this repository has no commit 'no-such-commit'" in capsys.readouterr().err


def test_a_tool_that_records_nothing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "checkout", lambda _: REPOSITORY)

    assert command.main(["HEAD", "--turns=1", "--only=W99"]) == 1
    assert "e2e.bench of" in capsys.readouterr().err

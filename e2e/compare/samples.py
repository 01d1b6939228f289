"""What was measured, and the table made of it. Pure: recorded samples give the same table again."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from rich import box
from rich.table import Table

from e2e.plots import Panel, Series
from e2e.spread import spread, turn_ratios

COLUMNS = ("SCENARIO", "SCHEDULER", "BOUND", "WAITING", "LAST BIND", "PODS/S", "DOVETAIL", "WHOLE", "AUDIT")

CAPTION = (
    "LAST BIND: since the scheduler was ready, with all pods waiting. PODS/S: from the first binding to the last. "
    "DOVETAIL: how many times as many Dovetail binds a second, in the same turn. Of several runs the median "
    "(least–most). WHOLE: nodes none of whose devices is in use afterwards."
)
_NAMES = 2
"""The first columns, of names; the others have numbers."""
_OWN = "dovetail"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """
    One run of one scenario with one scheduler.

    `first` and `seconds` are from the moment that the scheduler was ready to begin, with all pods waiting, to the first
    and the last binding (`first` is 0 where it was not recorded);
    `whole` counts the nodes none of whose devices was in use afterwards (None where it was not recorded), `findings`
    is what the audit found wrong with what was in the API server then.
    """

    scenario: str
    scheduler: str
    turn: int
    pods: int
    bound: int
    seconds: float
    first: float = 0.0
    whole: int | None = None
    findings: tuple[str, ...] = ()

    @property
    def unplaced(self) -> int:
        """Pods that waited in vain."""
        return self.pods - self.bound

    @property
    def rate(self) -> float:
        """Pods bound per second, from the first binding to the last."""
        between = self.seconds - self.first
        return (self.bound - bool(self.first)) / between if between > 0 else 0.0


class Line(msgspec.Struct, frozen=True):
    """One line of the table, each value as it is shown."""

    scenario: str
    scheduler: str
    bound: str
    unplaced: str
    last_bind: str
    rate: str
    dovetail: str
    whole: str
    audit: str


def lines(samples: Sequence[Sample]) -> tuple[Line, ...]:
    """Sum up the samples of each scenario and scheduler, in the order in which they first came."""
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.scenario, sample.scheduler), []).append(sample)
    scenarios = list(dict.fromkeys(scenario for scenario, _ in groups))
    schedulers = list(dict.fromkeys(scheduler for _, scheduler in groups))
    keys = [(scenario, scheduler) for scenario in scenarios for scheduler in schedulers]
    return tuple(_line(groups[key], groups.get((key[0], _OWN), [])) for key in keys if key in groups)


def render(samples: Sequence[Sample]) -> Table:
    """Lay out the table; a rule between scenarios."""
    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False, caption=CAPTION, caption_justify="left")
    for index, column in enumerate(table.columns):
        column.no_wrap, column.justify = index < _NAMES, "left" if index < _NAMES else "right"
    shown = ""
    for line in lines(samples):
        if shown and line.scenario != shown:
            table.add_section()
        name = "" if line.scenario == shown else line.scenario
        shown = line.scenario
        table.add_row(
            name,
            line.scheduler,
            line.bound,
            line.unplaced,
            line.last_bind,
            line.rate,
            line.dovetail,
            line.whole,
            line.audit,
        )
    return table


def panels(samples: Sequence[Sample]) -> tuple[Panel, ...]:
    """Draw which share of the pods each scheduler bound, and how many a second."""
    return (
        _panel("Pods bound", "% of all", samples, lambda sample: 100 * sample.bound / sample.pods),
        _panel("Pods bound a second", "pods/s", samples, lambda sample: sample.rate),
    )


def _panel(title: str, unit: str, samples: Sequence[Sample], value: Callable[[Sample], float]) -> Panel:
    scenarios = tuple(dict.fromkeys(sample.scenario for sample in samples))
    series = []
    for scheduler in dict.fromkeys(sample.scheduler for sample in samples):
        own = [sample for sample in samples if sample.scheduler == scheduler]
        found = [[value(sample) for sample in own if sample.scenario == scenario] or [0.0] for scenario in scenarios]
        spreads = tuple((min(each), max(each)) for each in found)
        series.append(Series(scheduler, tuple(statistics.median(each) for each in found), spreads))
    return Panel(title, unit, scenarios, tuple(series))


def write(path: Path, samples: Sequence[Sample]) -> None:
    """Record samples as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(samples)))


def read(path: Path) -> tuple[Sample, ...]:
    """Read recorded samples. Raises msgspec.ValidationError where the file holds something else."""
    return msgspec.json.decode(path.read_bytes(), type=tuple[Sample, ...])


def _ratios(samples: Sequence[Sample], own: Sequence[Sample]) -> list[float]:
    """Compare Dovetail's rates with those of another scheduler, turn by turn."""
    rates = {each.turn: each.rate for each in own if each.scheduler != samples[0].scheduler}
    return turn_ratios(rates, {each.turn: each.rate for each in samples})


def _line(samples: Sequence[Sample], own: Sequence[Sample]) -> Line:
    first = samples[0]
    ratios = _ratios(samples, own)
    findings = sum(len(sample.findings) for sample in samples)
    whole = [sample.whole for sample in samples if sample.whole is not None]
    return Line(
        first.scenario,
        first.scheduler,
        spread([sample.bound for sample in samples], "{:.0f}"),
        spread([sample.unplaced for sample in samples], "{:.0f}"),
        spread([sample.seconds for sample in samples], "{:.1f}") + " s",
        spread([sample.rate for sample in samples], "{:.0f}" if first.rate >= 10 else "{:.1f}"),
        "× " + spread(ratios, "{:.2f}") if ratios else "",
        spread(whole, "{:.0f}") if whole else "",
        f"{findings} wrong" if findings else "clean",
    )

"""What was measured, and the table of it: workload, pods a second of each scheduler, ratio (pure)."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich import box
from rich.table import Table
from rich.text import Text

from e2e.spread import spread, turn_ratios
from e2e.upstream.results import SchedulerName

CAPTION = (
    "Pods bound per second, from the first pod that waits to the last binding: the median of the turns (least–most). "
    "RATIO: Dovetail's to kube-scheduler's, of each turn."
)
NONE = "–"


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """
    One run of one workload with one scheduler.

    `seconds` is from the first pod that waits to the last binding; `because` says why the run did not end.
    """

    workload: str
    scheduler: SchedulerName
    turn: int
    created: int = 0
    bound: int = 0
    seconds: float = 0.0
    because: str = ""

    @property
    def rate(self) -> float:
        """Pods bound per second; 0 where the run did not end."""
        return self.bound / self.seconds if self.seconds and not self.because else 0.0


class ThroughputLine(msgspec.Struct, frozen=True):
    """One workload, each value as it is shown."""

    workload: str
    bound: str
    kube_scheduler: str
    dovetail: str
    ratio: str


def lines(measured: Sequence[Throughput]) -> list[ThroughputLine]:
    """Sum up the runs of each workload, in the order in which they came."""
    return [
        _line(name, [run for run in measured if run.workload == name])
        for name in dict.fromkeys(run.workload for run in measured)
    ]


def failures(measured: Sequence[Throughput]) -> list[str]:
    """Return a sentence for each run that did not end."""
    return [
        f"{run.workload}, turn {run.turn + 1}, {run.scheduler}: {run.because}; {run.bound} of {run.created} pods bound."
        for run in measured
        if run.because
    ]


def render(measured: Sequence[Throughput]) -> Table:
    """Lay the lines out for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=CAPTION, caption_justify="left")
    table.add_column("WORKLOAD", overflow="fold")
    for title in ("PODS BOUND", "KUBE-SCHEDULER", "DOVETAIL", "RATIO"):
        table.add_column(title, justify="right", no_wrap=True)
    for line in lines(measured):
        table.add_row(Text(line.workload), line.bound, line.kube_scheduler, line.dovetail, line.ratio)
    return table


def markdown(measured: Sequence[Throughput], without: dict[str, str]) -> str:
    """Write the table, what failed and what is left out for a page."""
    return "\n".join(
        (
            "| workload | pods bound | kube-scheduler | Dovetail | ratio |",
            "|---|---|---|---|---|",
            *(
                f"| {line.workload} | {line.bound} | {line.kube_scheduler} | {line.dovetail} | {line.ratio} |"
                for line in lines(measured)
            ),
            "",
            *(f"- {sentence}" for sentence in (*failures(measured), *left_out(without))),
        )
    )


def left_out(without: dict[str, str]) -> list[str]:
    """Return a sentence for each test case that is not run."""
    return [f"{case} is not run: it {reason}." for case, reason in without.items()]


def write(path: Path, measured: Sequence[Throughput]) -> None:
    """Record runs as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(measured)))


def read(path: Path) -> list[Throughput]:
    """Read recorded runs. Raises msgspec.ValidationError where the file holds something else."""
    return msgspec.json.decode(path.read_bytes(), type=list[Throughput])


def joined(records: Sequence[Sequence[Throughput]]) -> list[Throughput]:
    """Join the runs of several commands; the turns of each come after those of the one before."""
    together: list[Throughput] = []
    for record in records:
        after = max((run.turn for run in together), default=-1) + 1
        together += [msgspec.structs.replace(run, turn=run.turn + after) for run in record]
    return together


def _line(name: str, runs: Sequence[Throughput]) -> ThroughputLine:
    peers, ours = ([run for run in runs if run.scheduler == scheduler] for scheduler in ("kube-scheduler", "Dovetail"))
    ratios = turn_ratios({run.turn: run.rate for run in ours if run.rate}, {run.turn: run.rate for run in peers})
    bound = [run.bound for run in runs if run.rate]
    return ThroughputLine(name, _spread(bound), _rates(peers), _rates(ours), _spread(ratios, "{:.2f}"))


def _rates(runs: Sequence[Throughput]) -> str:
    rates = [run.rate for run in runs if run.rate]
    if runs and not rates:
        return "failed"
    unfinished = len(runs) - len(rates)
    return _spread(rates, "{:.0f}" if min(rates, default=0) >= 10 else "{:.1f}") + f", {unfinished} failed" * bool(
        unfinished
    )


def _spread(values: Sequence[float], form: str = "{:.0f}") -> str:
    """Give the spread of values; a dash where there are none."""
    return spread(values, form) if values else NONE

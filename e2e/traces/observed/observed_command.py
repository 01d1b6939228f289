"""`python -m e2e.traces observed`: replay one's own cluster and print one table."""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from e2e import plots
from e2e.arguments import seconds_or_never
from e2e.traces.observed import observed_policies, observed_replay, observed_trace
from e2e.traces.observed.observed_trace import ObservedTrace
from e2e.traces.queues.job_figures import SIZES, QueueRun
from e2e.traces.workload import TraceError

NAMES: Final = (observed_replay.RECORDED, *observed_policies.SIMPLE, *observed_policies.DOVETAIL)
WIDTH: Final = 120
CAPTION: Final = (
    "WAIT: seconds, mean and 95th percentile, by the devices of a pod; who waits when the record ends counts until "
    "then. IN USE: share of all device-seconds. recorded: what the cluster's own scheduler did. dovetail-N: starving "
    "after N seconds. CPU: seconds of the run."
)


def main(arguments: Sequence[str]) -> int:
    """Run the command; 2 where the record is missing or cannot be read."""
    options = _parser().parse_args(arguments)
    try:
        trace = observed_trace.read(options.record)
    except TraceError as error:
        print(error, file=sys.stderr)
        return 2
    runs = list(_runs(trace, options))
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "observed.json").write_bytes(msgspec.json.format(msgspec.json.encode(runs)))
    Console(width=WIDTH).print(_table(trace, runs))
    print(f"observed.json is in {options.results}")
    return 0


def _runs(trace: ObservedTrace, options: argparse.Namespace) -> Iterator[QueueRun]:
    for name in options.policies:
        if name == observed_replay.RECORDED:
            yield observed_replay.recorded(trace)
            continue
        times = options.starvation if name in observed_policies.DOVETAIL else [math.inf]
        for seconds in times:
            shown = "never" if math.isinf(seconds) else f"{seconds:g}"
            policy = f"{name}-{shown}" if name in observed_policies.DOVETAIL else name
            print(f"{trace.name}, {policy}", file=sys.stderr)
            yield observed_replay.replay(trace, observed_policies.made(name, seconds), policy)


def _table(trace: ObservedTrace, runs: Sequence[QueueRun]) -> Table:
    """Lay out a line for each policy."""
    sizes = ("0", *SIZES)
    title = f"{runs[0].jobs} pods on {runs[0].machines} nodes, {trace.devices} devices, {runs[0].makespan:.0f} s"
    columns = ("POLICY", *(f"WAIT {name}" for name in sizes), "WAITING", "IN USE", "CPU")
    table = Table(*columns, title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, caption=CAPTION)
    for column in table.columns[1:]:
        column.justify = "right"
    for run in runs:
        found = [run.waits.get(name) for name in sizes]
        table.add_row(
            run.policy,
            *(f"{each.mean:.1f} {each.p95:.1f}" if each else "" for each in found),
            str(run.stuck),
            "" if run.used is None else f"{100 * run.used:.1f} %",
            f"{run.seconds:.1f}",
        )
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make traces observed", description="Replay the record of `dovetail observe` with other policies."
    )
    parser.add_argument(
        "--record", type=Path, required=True, metavar="FILE", help="that `dovetail observe` has written"
    )
    parser.add_argument(
        "--policies", nargs="+", choices=NAMES, default=list(NAMES), metavar="NAME", help=f"of {', '.join(NAMES)} (all)"
    )
    parser.add_argument(
        "--starvation",
        nargs="+",
        type=seconds_or_never,
        default=[300.0, math.inf],
        metavar="SECONDS",
        help="after how long a pod of dovetail starves, or `never`: a run for each (300 never)",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=plots.RESULTS / "traces" / "observed",
        metavar="FOLDER",
        help="where observed.json is written (results/traces/observed)",
    )
    return parser

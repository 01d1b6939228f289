"""`python -m e2e.traces queues`: replay queues of jobs and print one table."""

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from rich.console import Console

from e2e import plots
from e2e.arguments import at_least_one, seconds_or_never
from e2e.traces import kept_runs
from e2e.traces.queues import job_figures, job_policies, job_report
from e2e.traces.queues.job_batches import DovetailQueue
from e2e.traces.queues.job_figures import QueueRun
from e2e.traces.queues.job_simulation import simulate
from e2e.traces.queues.job_traces import JobTrace, read_all
from e2e.traces.workload import TraceError
from solver.domain import NodeReservationLimits, Policy

DOVETAIL: Final = {
    "dovetail": Policy(),
    "dovetail-devices": Policy(counts_devices=True),
    "dovetail-small-reservations": Policy(node_reservations=NodeReservationLimits(percent_of_gang=0)),
}
"""By name: the default policy, `placed: devices`, and `nodeReservations.maxNodesPercentPerGang: 0`."""
NAMES: Final = (*job_policies.MAKE, *DOVETAIL)
STARVATION: Final = (300.0, 86_400.0, math.inf)
"""The scheduler's default (`queue.starvationSeconds`), one day, and never."""
WIDTH: Final = 140


def main(arguments: Sequence[str]) -> int:
    """Run the command; 2 where a trace is missing or cannot be read."""
    options = _parser().parse_args(arguments)
    try:
        runs = [
            _run(trace, name, setting, options) for trace in _traces(options) for name, setting in _policies(options)
        ]
    except TraceError as error:
        print(error, file=sys.stderr)
        return 2
    (options.results / "queues.json").write_bytes(msgspec.json.format(msgspec.json.encode(runs)))
    plots.draw(options.results / "waits.svg", job_report.panels(runs))
    Console(width=WIDTH).print(job_report.render(runs))
    print(f"runs, queues.json and waits.svg are in {options.results}; what is there is not measured again")
    return 0


def _traces(options: argparse.Namespace) -> list[JobTrace]:
    """Read the traces that are asked for. Raises TraceError."""
    there = read_all(options.traces)
    for pattern in options.jobs:
        if not any(fnmatchcase(trace.name, pattern) for trace in there):
            raise TraceError(f"no trace is named {pattern}; there are {', '.join(trace.name for trace in there)}")
    wanted = [trace for trace in there if any(fnmatchcase(trace.name, pattern) for pattern in options.jobs)]
    if options.load is None:
        return wanted
    # Another cluster is another setting: its runs have names of their own.
    return [replace(trace.at(options.load / 100), name=f"{trace.name}@{options.load}") for trace in wanted]


class _Setting(NamedTuple):
    """After how many seconds a pod of Dovetail starves, and how many moves an hour may have."""

    starvation: float = math.inf
    moves: int = 0

    def __str__(self) -> str:
        seconds = "never" if math.isinf(self.starvation) else f"{self.starvation:g}"
        return f"{seconds}+{self.moves}" if self.moves else seconds


def _policies(options: argparse.Namespace) -> Iterator[tuple[str, _Setting]]:
    for name in options.policies:
        if name not in DOVETAIL:
            yield name, _Setting()
            continue
        for seconds, moves in product(options.starvation, options.moves):
            yield name, _Setting(seconds, moves)


def _run(trace: JobTrace, name: str, setting: _Setting, options: argparse.Namespace) -> QueueRun:
    """Measure one run, unless an earlier command has."""
    known = DOVETAIL.get(name)
    policy = f"{name}-{setting}" if known is not None else name

    def measure() -> QueueRun:
        began = time.process_time()
        if known is not None:
            ours = DovetailQueue(trace, setting.starvation, known)
            outcome = simulate(trace, ours, ours, setting.moves)
        else:
            outcome = simulate(trace, job_policies.MAKE[name]())
        return job_figures.figures(trace, policy, outcome, round(time.process_time() - began, 3))

    folders = kept_runs.SIMPLE if known is None else kept_runs.DOVETAIL
    path = options.results / trace.name / f"{policy}.json"
    return kept_runs.kept(path, QueueRun, folders, measure, whatever_code=options.keep)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make traces queues", description="Replay queues of jobs of public traces.")
    parser.add_argument("--traces", type=Path, required=True, metavar="FOLDER", help="with the files of docs/traces.md")
    parser.add_argument(
        "--jobs",
        nargs="+",
        default=["*"],
        metavar="NAME",
        help="traces by name, or by pattern such as `philly-*` (all)",
    )
    parser.add_argument(
        "--policies",
        nargs="+",
        choices=NAMES,
        default=list(NAMES),
        metavar="NAME",
        help=f"of {', '.join(NAMES)} (all)",
    )
    parser.add_argument(
        "--starvation",
        nargs="+",
        type=seconds_or_never,
        default=list(STARVATION),
        metavar="SECONDS",
        help="after how long a pod of dovetail starves, or `never`: a run for each (300 86400 never)",
    )
    parser.add_argument(
        "--moves",
        nargs="+",
        type=int,
        default=[0],
        metavar="NUMBER",
        help="how many pods of dovetail an hour may be moved so that waiting jobs fit: a run for each (0)",
    )
    parser.add_argument(
        "--load",
        type=at_least_one,
        metavar="PERCENT",
        help="on as many machines as have this load (as docs/traces.md says)",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=plots.RESULTS / "traces" / "queues",
        metavar="FOLDER",
        help="where runs are kept (results/traces/queues)",
    )
    parser.add_argument("--keep", action="store_true", help="also take runs that other code has made")
    return parser

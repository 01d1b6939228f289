"""`python -m e2e.traces one-pod`: what it costs to decide one pod where pods are expected, beside the same without."""

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from e2e.arguments import at_least_one, per_cent
from e2e.traces import alibaba
from e2e.traces.dovetail import Dovetail, Task, expected
from e2e.traces.draws import FIRST_SEED, LOAD, draw
from e2e.traces.replay import Setting
from e2e.traces.workload import TraceError, capacity
from solver.domain import Plan, Policy

_LINE: Final = "{:12}{:>12}{:>14}{:>10}{:>8}"
_FIRST: Final = 20
"""Pods whose times do not count: what is kept from one decision to the next is built up."""


class Cost(NamedTuple):
    """CPU milliseconds for one pod in the median, and the median of the ratios of both for the same pod."""

    without: float
    with_expected: float
    ratio: float


def main(arguments: Sequence[str]) -> int:
    """Run the command; 2 where a trace is missing or cannot be read."""
    options = _parser().parse_args(arguments)
    print(_LINE.format("tasks", "GPUs in use", "ms without", "ms with", "times"))
    try:
        machines = alibaba.machines(options.traces)
        for name in options.lists:
            setting = Setting(machines, name, alibaba.tasks(options.traces, name))
            for used in options.used:
                found = measured(setting, used, options.pods)
                cells = [f"{each:.2f}" for each in found] if found else ["never in use", "", ""]
                print(_LINE.format(name, f"{used} %", *cells).rstrip(), flush=True)
    except TraceError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def measured(setting: Setting, used: int, pods: int) -> Cost | None:
    """
    Decide pods twice each, in turns, on one cluster: with expected pods, which are obeyed, and without.

    `used` is the per cent of GPUs in use when it begins, by pods that were decided with expected ones; None where so
    many never are.
    """
    total = capacity(setting.machines)
    arrivals = chain.from_iterable(draw(setting.tasks, total, seed) for seed in count(FIRST_SEED))
    without, expecting = clusters = [
        Dovetail(setting.machines, Policy(expected=each)) for each in ((), expected(setting.tasks))
    ]
    taken, arrived = 0, 0
    while 100 * taken < used * total:
        if arrived > LOAD * total:
            return None
        shape = next(arrivals)
        arrived += shape.amount
        task = without.task(shape)
        plan = expecting.decide(task)
        taken += shape.amount if plan.placements else 0
        _carry_out(clusters, task, plan)
    times = list[tuple[float, float]]()
    for number in range(_FIRST + pods):
        task = without.task(next(arrivals))
        order = clusters if number % 2 else clusters[::-1]
        plans, seconds = dict[Dovetail, Plan](), dict[Dovetail, float]()
        for cluster in order:
            began = time.process_time()
            plans[cluster] = cluster.decide(task)
            seconds[cluster] = time.process_time() - began
        times.append((seconds[without], seconds[expecting]))
        _carry_out(clusters, task, plans[expecting])
    times = times[_FIRST:]
    before, after = (1000 * median(each) for each in zip(*times, strict=True))
    return Cost(before, after, median(more / less for less, more in times))


def _carry_out(clusters: Sequence[Dovetail], task: Task, plan: Plan) -> None:
    for cluster in clusters:
        cluster.settle(task, plan)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make traces ARGS=one-pod",
        description="Measure what one pod costs where pods are expected, beside the same pod without.",
    )
    parser.add_argument("--traces", type=Path, required=True, metavar="FOLDER", help="with the files of docs/traces.md")
    parser.add_argument(
        "--lists",
        nargs="+",
        default=list(alibaba.LISTS),
        metavar="NAME",
        help=f"lists of tasks ({' '.join(alibaba.LISTS)})",
    )
    parser.add_argument(
        "--used",
        nargs="+",
        type=per_cent,
        default=[0, 30, 60, 90],
        metavar="PERCENT",
        help="GPUs in use when it begins (0 30 60 90)",
    )
    parser.add_argument("--pods", type=at_least_one, default=300, metavar="N", help="pods that are measured (300)")
    return parser

"""
`make measure ARGS=added-nodes`: what "which nodes to add" costs in a large cluster, and how good the answers are.

    make measure ARGS=added-nodes                                # seeds 0 to 9: 500 nodes, 200 waiting gangs, 8 shapes
    make measure ARGS="added-nodes --seeds 2 --first 30 --nodes 100 --gangs 40"

Processor time counts, of the search and of the decisions that confirm its answer. `at least` is the proven bound of the
price; seeds with equal prices and bounds before and after a change have lost nothing.
"""

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from e2e.arguments import at_least_one
from e2e.bench.measure import PATIENCE_SECONDS
from scheduler.simulation.adding import confirmed_nodes
from scheduler.worker.recording import Record
from solver.domain import AddedNodes, Policy
from tests.support.large_additions import large_case

_DECISION_SECONDS = 4.0
_ROW = "{:>5}{:>8}{:>7}{:>8}{:>10}{:>10}"


class MeasuredAnswer(NamedTuple):
    """An answer: seconds of the processor, the pods that were asked about, and the nodes."""

    seed: int
    seconds: float
    pods: int
    found: AddedNodes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 where pods are left without a place."""
    options = _parser().parse_args(arguments)
    is_collecting = gc.isenabled()
    gc.disable()  # as `dovetail fit` does
    try:
        return _all(options)
    finally:
        if is_collecting:
            gc.enable()


def _all(options: argparse.Namespace) -> int:
    """Measure one seed after the other."""
    print(_ROW.format("seed", "CPU s", "pods", "nodes", "price", "at least"), flush=True)
    measured = []
    for seed in range(options.first, options.first + options.seeds):
        measured.append(measure(seed, options.nodes, options.gangs))
        print(row(measured[-1]), flush=True)
    return int(any(each.found.waiting for each in measured))


def measure(seed: int, nodes: int, gangs: int) -> MeasuredAnswer:
    """Ask once, without anything known before."""
    asked = large_case(seed, nodes, gangs)
    record = Record(
        cause="measured",
        snapshot=asked.snapshot,
        batch=asked.batch,
        policy=Policy(),
        seconds=PATIENCE_SECONDS,
        deterministic_seconds=_DECISION_SECONDS,
    )
    began = time.process_time()
    found, _ = confirmed_nodes.find(record, asked.batch, asked.shapes)
    return MeasuredAnswer(seed, time.process_time() - began, len(asked.batch.pods), found)


def row(each: MeasuredAnswer) -> str:
    """Write a line of the table."""
    found = each.found
    return _ROW.format(each.seed, f"{each.seconds:.1f}", each.pods, len(found.nodes), found.price, found.least_price)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="measure added-nodes", description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=at_least_one, default=10, metavar="N", help="how many cases (10)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them (0)")
    parser.add_argument("--nodes", type=at_least_one, default=500, metavar="N", help="nodes of 8 devices (500)")
    parser.add_argument("--gangs", type=at_least_one, default=200, metavar="N", help="gangs that wait (200)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""`python -m e2e.bench`: solve workloads and print one table."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from e2e import plots
from e2e.arguments import at_least_one
from e2e.bench import ablation, growth, measure, memory, recorded, table
from e2e.bench.measure import Effort, Measure
from e2e.bench.workloads import Case, Workload, workloads
from solver.domain import Policy, SearchStage

WIDTH = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when a plan is worse than a greedy one, differs between runs or breaks a rule."""
    options = _parser().parse_args(arguments)
    if options.memory:
        Console(width=WIDTH).print(memory.render(memory.measure()))
        return 0
    if options.record:
        print(*recorded.record(options.record), sep="\n")
        return 0
    if options.growth:
        _grow(options)
        return 0
    if options.ablation:
        earned = ablation.render(tuple(_ablated(options)))
        Console(width=max(WIDTH, table.width(earned))).print(earned)
        return 0
    measured = measure.read(options.show) if options.show else tuple(_measured(options))
    if not options.show:
        record = options.json or plots.record_path("bench")
        measure.write(record, measured)
        plots.draw(record.with_suffix(".svg"), table.panels(measured))
    shown = table.render(measured)
    Console(width=max(WIDTH, table.width(shown))).print(shown)
    found = table.problems(measured)
    for line in found:
        print(line, file=sys.stderr)
    return int(bool(found))


def chosen(options: argparse.Namespace) -> list[Workload]:
    """Give the workloads that were named, else the recorded cases, the ordinary workloads, or all."""
    known = workloads()
    if options.only:
        return [(known | recorded.workloads())[name] for name in options.only]
    if options.recorded:
        return list(recorded.workloads().values())
    return [each for each in known.values() if options.all or not each.is_large]


def _grow(options: argparse.Namespace) -> None:
    points = []
    for size in growth.sizes():
        print(f"{size.varied}: {size.name}", file=sys.stderr)
        points.append(growth.measure(size, options.runs))
    record = options.json or plots.record_path("growth")
    growth.write(record, points)
    plots.draw(record.with_suffix(".svg"), growth.panels(points))
    shown = growth.render(points)
    Console(width=max(WIDTH, table.width(shown))).print(shown)


def _cases(options: argparse.Namespace) -> Iterator[tuple[Workload, int, Case, Policy]]:
    """Make the cases one after the other; recorded ones have one seed."""
    for workload in chosen(options):
        for seed in range(1 if workload.is_recorded else options.seeds):
            print(f"{workload.name}, seed {seed}: {workload.about}", file=sys.stderr)
            case = workload.make(seed)
            yield workload, seed, case, case.policy or Policy(sums_priorities=options.priorities == "sum")


def _ablated(options: argparse.Namespace) -> Iterator[ablation.Ablation]:
    effort, stages = Effort(work=options.work), options.without or list(SearchStage)
    for workload, seed, case, policy in _cases(options):
        yield from ablation.ablated(f"{workload.name}/{seed}", case, policy, effort, stages)


def _measured(options: argparse.Namespace) -> Iterator[Measure]:
    effort = Effort(work=options.work, runs=options.runs, without=tuple(options.without))
    for workload, seed, case, policy in _cases(options):
        yield measure.measure(workload.name, seed, case, policy, effort)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure how good plans are and what they take.")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*workloads(), *recorded.names()],
        metavar="NAME",
        help="only this workload; repeatable",
    )
    parser.add_argument("--recorded", action="store_true", help="the recorded cases instead of the workloads")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="solve nothing, record the cases anew")
    parser.add_argument("--all", action="store_true", help="the largest workloads too")
    parser.add_argument("--seeds", type=at_least_one, default=1, metavar="N", help="seeds of each workload (1)")
    parser.add_argument(
        "--runs", type=at_least_one, default=2, metavar="N", help="warm runs of each, after a cold one (2)"
    )
    parser.add_argument("--work", type=float, default=4.0, metavar="S", help="deterministic seconds of a search (4)")
    parser.add_argument(
        "--priorities", choices=("strict", "sum"), default="strict", help="one level for each priority, or their sum"
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        type=SearchStage,
        choices=list(SearchStage),
        metavar="STAGE",
        help=f"leave a stage of the search out; repeatable: {', '.join(SearchStage)}",
    )
    parser.add_argument(
        "--ablation", action="store_true", help="show what each stage earns (those of --without; all if none is named)"
    )
    parser.add_argument("--memory", action="store_true", help="solve nothing, measure memory for each object instead")
    parser.add_argument(
        "--growth", action="store_true", help="how the cost grows with nodes, pods, devices and constraints instead"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured (results/bench-TIME.json)")
    parser.add_argument("--show", type=Path, metavar="FILE", help="solve nothing, show what --json wrote")
    return parser


if __name__ == "__main__":
    sys.exit(main())

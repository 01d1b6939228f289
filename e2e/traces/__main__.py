"""`python -m e2e.traces`: replay public traces and print one table."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from e2e import plots
from e2e.arguments import at_least_one
from e2e.traces import alibaba, kept_runs, one_pod, published, replay, report
from e2e.traces.draws import FIRST_SEED
from e2e.traces.observed import observed_command
from e2e.traces.queues import queue_command
from e2e.traces.replay import Curve, Setting
from e2e.traces.workload import TraceError

WIDTH: Final = 120


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 2 where a trace is missing or cannot be read."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["queues"]:
        return queue_command.main(arguments[1:])
    if arguments[:1] == ["one-pod"]:
        return one_pod.main(arguments[1:])
    if arguments[:1] == ["observed"]:
        return observed_command.main(arguments[1:])
    options = _parser().parse_args(arguments)
    try:
        settings = _settings(options)
        known = published.allocated(options.traces)
        curves = [_run(setting, policy, seed, options) for setting, policy, seed in _wanted(options, settings)]
        bounds = {(s.name, seed): _bounds(s, seed, options) for s in settings for seed in _seeds(options)}
    except TraceError as error:
        print(error, file=sys.stderr)
        return 2
    (options.results / "curves.json").write_bytes(msgspec.json.format(msgspec.json.encode(curves)))
    plots.draw(options.results / "allocated.svg", report.panels(curves, bounds, known))
    Console(width=WIDTH).print(report.render(curves, bounds, known))
    print(f"runs, curves.json and allocated.svg are in {options.results}; what is there is not measured again")
    return 0


def _settings(options: argparse.Namespace) -> list[Setting]:
    """Read machines and lists. Raises TraceError."""
    there = alibaba.lists(options.traces)
    names = there if options.lists == ["all"] else options.lists
    unknown = [name for name in names if name not in there]
    if unknown:
        raise TraceError(f"there is no list {unknown[0]}; the folder has {', '.join(there)}")
    machines = alibaba.machines(options.traces)
    return [Setting(machines, name, alibaba.tasks(options.traces, name)) for name in names]


def _seeds(options: argparse.Namespace) -> range:
    return range(FIRST_SEED, FIRST_SEED + options.seeds)


def _wanted(options: argparse.Namespace, settings: Sequence[Setting]) -> Iterator[tuple[Setting, str, int]]:
    for setting in settings:
        for policy in options.policies:
            for seed in _seeds(options):
                yield setting, policy, seed


def _run(setting: Setting, policy: str, seed: int, options: argparse.Namespace) -> Curve:
    """Measure one run, unless an earlier command has."""
    path = options.results / setting.name / f"{policy}-{seed}.json"
    folders = kept_runs.DOVETAIL if policy in {replay.DOVETAIL, replay.EXPECTING} else kept_runs.SIMPLE
    return kept_runs.kept(
        path, Curve, folders, lambda: replay.replay(setting, policy, seed), whatever_code=options.keep
    )


def _bounds(setting: Setting, seed: int, options: argparse.Namespace) -> tuple[float, ...]:
    path = options.results / setting.name / f"bound-{seed}.json"
    return kept_runs.kept(
        path,
        tuple[float, ...],
        kept_runs.SIMPLE,
        lambda: replay.bounds(setting, seed),
        whatever_code=options.keep,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make traces",
        description="Replay public traces, beside published results. "
        "`queues` before options: jobs that end; `observed`: one's own cluster; `one-pod`: what expected pods cost.",
    )
    parser.add_argument("--traces", type=Path, required=True, metavar="FOLDER", help="with the files of docs/traces.md")
    parser.add_argument(
        "--lists",
        nargs="+",
        default=list(alibaba.LISTS),
        metavar="NAME",
        help=f"lists of tasks, or `all` ({' '.join(alibaba.LISTS)})",
    )
    parser.add_argument(
        "--policies",
        nargs="+",
        choices=replay.NAMES,
        default=list(replay.NAMES),
        metavar="NAME",
        help=f"of {', '.join(replay.NAMES)} (all)",
    )
    parser.add_argument("--seeds", type=at_least_one, default=3, metavar="N", help="draws of each list (3)")
    parser.add_argument(
        "--results",
        type=Path,
        default=plots.RESULTS / "traces",
        metavar="FOLDER",
        help="where runs are kept (results/traces)",
    )
    parser.add_argument("--keep", action="store_true", help="also take runs that other code has made")
    return parser


if __name__ == "__main__":
    sys.exit(main())

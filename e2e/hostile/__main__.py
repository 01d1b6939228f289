"""The command line of `make hostile`."""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from e2e.controlplane.access import RequestError
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import ControlPlane, KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.hostile import online, steps, verdict
from e2e.hostile.cases import CASES
from e2e.hostile.objects.draw import written
from e2e.hostile.objects.generator import generate
from e2e.hostile.offline import fuzz
from e2e.hostile.offline.rounds import Round
from e2e.hostile.run import Setting, measure
from e2e.hostile.stream import most_running
from scheduler.change import Kind

WIDTH = 120
INTERRUPTED = 130
GPUS_PER_NODE = 8


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when something misses the target or was found, 2 when the command makes no sense."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if most_running(options.rate) > options.nodes * GPUS_PER_NODE / 2:
        parser.error(f"--rate {options.rate:g} uses more than half of {options.nodes} nodes: lower it, or add nodes")
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell's background job inherits it as ignored
        signal.signal(number, _interrupt)
    try:
        return _dispatch(options)
    except (BuildError, ComponentError, KubectlError, RequestError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _dispatch(options: argparse.Namespace) -> int:
    if options.list:
        for each in CASES.values():
            print(f"{each.name:29}{each.about}")
        return 0
    if options.steps:
        return _steps(options)
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)  # noqa: S311 - no secret
    if options.only_object:
        return _again(seed, options.only_object)
    if options.objects:
        return _offline(seed, options)
    if options.online:
        return _online(seed, options)
    return _cases(options)


def _again(seed: int, numbers: Sequence[int]) -> int:
    """Do one round with these objects, and show them."""
    objects = [generate(seed, number) for number in numbers]
    for each in objects:
        print(f"{each.number} {each.kind}: {', '.join(each.about)}")
        print(f"  {written(each.manifest).decode()[:2000]}")
    findings = Round(objects).run()
    for found in findings:
        print(f"WRONG {found.rule}\n{found.about}")
    if not findings:
        print("nothing was found")
    return int(bool(findings))


def _offline(seed: int, options: argparse.Namespace) -> int:
    folder = _folder(options)
    print(f"seed {seed}, findings go to {folder}", flush=True)
    plan = fuzz.Plan(seed=seed, objects=options.objects, processes=options.processes)
    summary = fuzz.fuzz(plan, folder, lambda text: print(text, file=sys.stderr, flush=True))
    print("\n".join(summary.lines()))
    return int(bool(summary.found))


def _steps(options: argparse.Namespace) -> int:
    """Measure the steps of extreme objects; a table of the worst, or of all."""
    rows: list[steps.Row] = []

    def note(row: steps.Row) -> None:
        rows.append(row)
        print(f"{row.kind} {row.shape} ({row.refusal}): {row.worst:.0f} ms", file=sys.stderr, flush=True)
        if options.json is not None:
            steps.write(options.json, rows)

    if options.show:
        rows = [each for path in options.show for each in steps.read(path)]
    else:
        kinds = [kind for kind in Kind if not options.kind or kind.name.lower() in options.kind]
        steps.measure(kinds, options.refused, note, options.shape or ())
    Console(width=WIDTH + 40).print(steps.render(rows if options.all else steps.worst(rows, options.rows)))
    return int(any(row.worst > steps.TARGET_MS for row in rows))


def _online(seed: int, options: argparse.Namespace) -> int:
    folder = _folder(options)
    print(f"seed {seed}, logs in {folder}", flush=True)
    with ControlPlane.start(kubelet=True, folder=folder) as plane:
        found = asyncio.run(online.run(plane, seed, options.online, _setting(options)))
    Console(width=WIDTH).print(online.render(found))
    for kind, refusals in sorted(found.refusals.items()):
        print("\n".join(f"refused {kind} {each}" for each in refusals))
    for failure in found.failures:
        print(f"WRONG {failure}")
    return int(bool(found.failures))


def _cases(options: argparse.Namespace) -> int:
    if options.show:
        outcomes: Sequence[verdict.Outcome] = [each for path in options.show for each in verdict.read(path)]
    else:
        chosen = [CASES[name] for name in options.only or CASES]
        folder = _folder(options)
        print(f"logs in {folder}", file=sys.stderr, flush=True)
        with ControlPlane.start(kubelet=True, folder=folder) as plane:
            outcomes = asyncio.run(measure(plane, chosen, _setting(options), partial(_note, options.json)))
    Console(width=WIDTH).print(verdict.render(outcomes))
    print("\nThe worst:")
    for each in verdict.worst(outcomes):
        print("\n".join(verdict.details(each)))
    return int(any(each.failures for each in outcomes))


def _note(path: Path | None, outcomes: Sequence[verdict.Outcome]) -> None:
    if path is not None:
        verdict.write(path, outcomes)


def _setting(options: argparse.Namespace) -> Setting:
    return Setting(nodes=options.nodes, per_second=options.rate, idle_seconds=options.idle, seconds=options.seconds)


def _folder(options: argparse.Namespace) -> Path:
    folder: Path = (options.folder or Path(tempfile.mkdtemp(prefix="dovetail-hostile-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    about = "Measure how long good pods wait beside hostile tenants and drivers, or look for objects that do harm."
    parser = argparse.ArgumentParser(prog="make hostile", description=about)
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--only", action="append", choices=list(CASES), metavar="CASE", help="only this; repeatable")
    parser.add_argument("--seconds", type=_positive, default=40.0, help="of each case (%(default)s)")
    parser.add_argument("--idle", type=_positive, default=30.0, help="seconds of the idle phase (%(default)s)")
    parser.add_argument("--nodes", type=_count, default=200, help="of 8 GPUs each (%(default)s)")
    parser.add_argument("--rate", type=_positive, default=5.0, help="good pods per second (%(default)s)")
    parser.add_argument("--seed", type=int, help="of generated objects (default: another one every time)")
    parser.add_argument("--objects", type=_count, metavar="N", help="generate so many objects, without a cluster")
    parser.add_argument("--processes", type=_count, default=2, help="that do it (%(default)s)")
    parser.add_argument("--online", type=_count, metavar="N", help="generate so many on the real API server")
    parser.add_argument("--only-object", type=_numbers, metavar="N,…", help="only these objects, without a cluster")
    parser.add_argument("--steps", action="store_true", help="CPU time of each step of the largest objects")
    parser.add_argument("--all", action="store_true", help="with --steps: a row for each object")
    parser.add_argument("--rows", type=_count, default=25, help="with --steps: rows of the table (%(default)s)")
    kinds = [kind.name.lower() for kind in Kind]
    parser.add_argument("--kind", action="append", choices=kinds, help="with --steps: only this; repeatable")
    parser.add_argument("--shape", action="append", metavar="WORD", help="with --steps: only shapes with it")
    about_refused = (
        "with --steps: how many shapes of each kind are also refused, the largest ones; 0 for all (%(default)s)"
    )
    parser.add_argument("--refused", type=int, default=3, metavar="N", help=about_refused)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured, after each case")
    parser.add_argument(
        "--show", type=Path, metavar="FILE", action="append", help="run nothing, show what --json wrote; repeatable"
    )
    parser.add_argument("--folder", type=Path, metavar="DIR", help="for logs and findings (default: one that stays)")
    return parser


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 100_000_000):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of things: give 1 or more")
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_count(each) if each != "0" else 0 for each in text.split(","))


if __name__ == "__main__":
    sys.exit(main())

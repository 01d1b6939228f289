"""`make differential`: compare kube-scheduler's feasible nodes with Dovetail's on generated clusters."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from e2e.controlplane.access import RequestError
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import ComponentError
from e2e.differential import document, groups, report, run
from e2e.differential.groups import CASES, WEIGHTS, Group
from e2e.differential.report import Tally

DEFAULT_CASES = 4000
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when the two disagree where they should not, or a run failed."""
    options = _parser().parse_args(arguments)
    if options.list:
        print(document.markdown(), end="")
        return 0
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell's background job inherits it as ignored
        signal.signal(number, _interrupt)
    try:
        with ControlPlane.start(folder=options.folder) as plane:
            tally, seconds = asyncio.run(run.compare(plane, _groups(options), _progress))
    except (BuildError, ComponentError, RequestError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    report.show(tally, seconds, with_explained=options.all)
    return int(bool(tally.defects))


def _groups(options: argparse.Namespace) -> Iterator[Group]:
    left, seed = options.cases, options.seed
    while left > 0:
        found = groups.group(seed, frozenset(options.feature or ())).first(left)
        left -= len(found.cases)
        seed += 1
        if options.pod:
            found = replace(found, cases=tuple(each for each in found.cases if each.name == options.pod))
        yield found


def _progress(tally: Tally) -> None:
    if tally.cases // CASES % 10 == 0 or tally.defects:
        print(f"{tally.cases} cases, {len(tally.defects)} unexplained", file=sys.stderr, flush=True)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make differential", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first group's number (0)")
    parser.add_argument("--cases", type=int, default=DEFAULT_CASES, metavar="N", help=f"({DEFAULT_CASES})")
    parser.add_argument("--feature", action="append", choices=sorted(WEIGHTS), help="only these; repeatable")
    parser.add_argument("--pod", metavar="NAME", help="only this pod of its group")
    parser.add_argument("--all", action="store_true", help="print disagreements that the list explains, too")
    parser.add_argument("--list", action="store_true", help="run nothing, print the list as docs/differences.md has it")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep state and logs here (else temporary)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

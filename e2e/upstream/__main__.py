"""`python -m e2e.upstream`: Kubernetes' own tests with kube-scheduler and with Dovetail, in one table."""

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn, get_args

from rich.console import Console

from e2e.controlplane.build import BuildError
from e2e.upstream import compatibility, known, results, suites
from e2e.upstream.compatibility import Line
from e2e.upstream.results import Run, SchedulerName, UpstreamResult
from e2e.versions import PAGE, write_section

Found = dict[SchedulerName, dict[str, UpstreamResult]]
WIDTH = 140
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when a test fails with Dovetail that is not listed."""
    options = _parser().parse_args(arguments)
    if options.short:
        options.suite, options.gates, options.run, options.only = "dra", ["all"], suites.SHORT, "Dovetail"
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    found: Found = {scheduler: {} for scheduler in get_args(SchedulerName)}
    interrupted = False
    try:
        (_show if options.show else _measure)(options, found)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        interrupted = True
    peer, ours = (results.telling(each) for each in found.values())
    lines = compatibility.lines(peer, ours, options.kubernetes)
    _tell(options, lines)
    return INTERRUPTED if interrupted else int(not lines or any(line.is_unexplained for line in lines))


def _measure(options: argparse.Namespace, found: Found) -> None:
    folder = options.folder or Path(tempfile.mkdtemp(prefix="dovetail-upstream-"))
    print(f"logs: {folder}", file=sys.stderr)
    etcd = suites.etcd_folder(options.kubernetes)
    packages = suites.packages(options.kubernetes, options.suite, options.gates or ())
    if unknown := set(options.package or ()) - set(packages):
        raise BuildError(f"--package {min(unknown)} is not one of {', '.join(packages)}")
    for binary in suites.binaries(options.kubernetes, options.package or packages):
        for scheduler in get_args(SchedulerName):
            if options.only not in {None, scheduler}:
                continue
            print(f"{binary.package}, Kubernetes {options.kubernetes}, with {scheduler}", file=sys.stderr)
            skip = known.skipped(suites.prefix(binary.package)) if scheduler == "Dovetail" else ""
            asked = Run(scheduler, folder.resolve(), etcd, options.run, skip)
            results.run(binary, asked, found[scheduler])


def _show(options: argparse.Namespace, found: Found) -> None:
    for package in suites.packages(options.kubernetes, options.suite, options.gates or ()):
        for scheduler, results_of in found.items():
            log = results.log_file(options.show, package, scheduler)
            if log.exists():
                results.read(log.read_text().splitlines(), results_of, suites.prefix(package), tell=False)


def _tell(options: argparse.Namespace, lines: Sequence[Line]) -> None:
    console = Console(width=WIDTH)
    console.print(compatibility.render(lines))
    for line in lines:
        if line.is_unexplained and line.message:
            console.print(f"{line.test}: {line.message}\n", markup=False, highlight=False)
    console.print(compatibility.summary(lines), highlight=False)
    if not lines:
        print(f"no test matches --run {options.run}", file=sys.stderr)
    if options.write:
        marks = compatibility.marks(options.suite, options.kubernetes)
        write_section(PAGE, marks, compatibility.markdown(lines))


def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """End a run at a signal, so that what it has found is still shown."""
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make upstream", description="Run Kubernetes' own scheduler tests with kube-scheduler and with Dovetail."
    )
    parser.add_argument("--kubernetes", choices=suites.KUBERNETES, default=suites.KUBERNETES[-1], help="whose tests")
    parser.add_argument("--suite", choices=("dra", "scheduler"), default="dra", help="of test/integration (dra)")
    parser.add_argument("--gates", action="append", choices=[*suites.DRA], help="only this part of dra; repeatable")
    parser.add_argument(
        "--package", action="append", metavar="NAME", help="only this one: scheduler/filters; repeatable"
    )
    parser.add_argument("--run", default="", metavar="REGEX", help="only these tests, as for go test: TestDRA/all/Pod")
    parser.add_argument(
        "--short", action="store_true", help="a few minutes of dra, with Dovetail only: for each commit"
    )
    parser.add_argument("--only", choices=get_args(SchedulerName), help="run one scheduler (both)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/compatibility.md")
    parser.add_argument("--show", type=Path, metavar="DIR", help="run nothing, show what a run left in its folder")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep logs here (else temporary)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

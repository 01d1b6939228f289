"""`python -m e2e.upstream.perf`: workloads of scheduler_perf with kube-scheduler and with Dovetail, in turns."""

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from rich.console import Console

from e2e.controlplane.build import BuildError
from e2e.upstream import suites
from e2e.upstream.__main__ import INTERRUPTED, WIDTH, interrupt
from e2e.upstream.perf import measure, throughput, workloads
from e2e.upstream.perf.measure import PerfRun
from e2e.upstream.perf.throughput import Throughput
from e2e.upstream.perf.workloads import SUITES, PerfWorkload, WorkloadError
from e2e.upstream.results import SchedulerName
from e2e.versions import PAGE, write_section

KUBERNETES = suites.KUBERNETES[-1]
RECORD = "throughput.json"
MARKS = ("<!-- make perf: begin -->", "<!-- make perf: end -->")
EPILOG = """
examples:
  make perf                                                        some workloads of each suite: half an hour
  make perf ARGS="--list"                                          every workload, with its sizes
  make perf ARGS="--suite dra --run 'half_100|200nodes'"           by regular expression
  make perf ARGS="--run StarvationIndependent/10Nodes --set cloggerPods=500 --set initNodes=200"
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when a run did not end."""
    options = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    measured = throughput.joined([throughput.read(folder / RECORD) for folder in options.show])
    interrupted = False
    try:
        if not options.show:
            known = workloads.read(suites.module(KUBERNETES), options.suite or SUITES)
            if options.list:
                return _list(workloads.chosen(known, options.run or "."))
            found = [workloads.resized(each, dict(options.set)) for each in workloads.chosen(known, options.run)]
            _measure(options, found, measured)
    except (BuildError, WorkloadError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        interrupted = True
    _tell(options, measured)
    return INTERRUPTED if interrupted else int(any(run.because for run in measured))


def _measure(options: argparse.Namespace, found: Sequence[PerfWorkload], measured: list[Throughput]) -> None:
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="dovetail-perf-"))).resolve()
    print(f"logs: {folder}", file=sys.stderr)
    etcd = suites.etcd_folder(KUBERNETES)
    (binary,) = suites.binaries(KUBERNETES, (measure.PACKAGE,))
    schedulers: tuple[SchedulerName, ...] = get_args(SchedulerName)
    for workload in found:
        for turn in range(options.turns):
            for scheduler in schedulers:
                if options.only not in {None, scheduler}:
                    continue
                print(f"{workload.name}, turn {turn + 1}, with {scheduler} …", file=sys.stderr, flush=True)
                run = measure.run(binary, PerfRun(workload, scheduler, turn, folder, etcd, options.limit))
                measured.append(run)
                throughput.write(folder / RECORD, measured)
                said = run.because or f"{run.bound} pods in {run.seconds:.1f} s: {run.rate:.1f} pods/s"
                print(f"  {said}", file=sys.stderr, flush=True)


def _list(known: Sequence[PerfWorkload]) -> int:
    for workload in known:
        print(f"{workload.name}  ({workload.package})\n    {workload.sizes}")
    print(*throughput.left_out(workloads.without()), sep="\n")
    return 0


def _tell(options: argparse.Namespace, measured: Sequence[Throughput]) -> None:
    console = Console(width=WIDTH)
    console.print(throughput.render(measured))
    for sentence in throughput.failures(measured):
        console.print(sentence, markup=False, highlight=False)
    if options.write:
        write_section(PAGE, MARKS, throughput.markdown(measured, workloads.without()))


def _parameter(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not value.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=N such as initNodes=200")
    return name, int(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make perf",
        description=f"Run workloads of Kubernetes' scheduler_perf ({KUBERNETES}) with kube-scheduler and with Dovetail "
        "in turns, each on a control plane of its own, and print pods bound per second.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EPILOG,
    )
    parser.add_argument("--suite", action="append", choices=SUITES, help="only this one; repeatable")
    parser.add_argument("--run", metavar="REGEX", help="workloads by name, as in --list ('.': all)")
    parser.add_argument(
        "--set", action="append", type=_parameter, default=[], metavar="NAME=N", help="another size; repeatable"
    )
    parser.add_argument("--turns", type=int, default=3, metavar="N", help="runs with each scheduler (3)")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="at most, for one run (300)")
    parser.add_argument("--only", choices=get_args(SchedulerName), help="run one scheduler (both)")
    parser.add_argument("--list", action="store_true", help="run nothing, list the workloads (those of --run)")
    parser.add_argument(
        "--show",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="run nothing, show what was left in a folder; repeatable",
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/compatibility.md")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep logs here (else temporary)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""`dovetail fit -f FILE`: whether and where the pods of a file would start, or what has to end, move, go or come."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.cli.arguments import (
    TABLE,
    UsageError,
    add_format,
    add_manifests,
    add_namespace,
    cluster_access,
    completed,
    manifests,
    read_manifests,
    refuse,
    report,
    say,
)
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources import shape_arguments
from scheduler.cli.sources.configuration import ConfigurationReader, add_configured_cluster

if TYPE_CHECKING:  # these take a second to import
    from collections.abc import Sequence

    from scheduler.settings.scheduler_names import Serving
    from scheduler.simulation.adding.karpenter_objects import KarpenterObjects
    from scheduler.simulation.admission.quota_admission import QuotaLedger
    from scheduler.simulation.case_builder import CaseBuilder
    from scheduler.simulation.fitting import FileInPlace
    from scheduler.simulation.simulator import SimulationCase
    from scheduler.worker.recording import Record
    from solver.domain import Claim, Pod

_MAX: Final = "max"
_MOST_DIGITS: Final = 9


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "Nothing is written to the cluster. Exit status, about the pods of the file only: 0 they would start now (with "
        "--count N: so many copies, with max: at least one; with --add-nodes: with the nodes), 1 they would not, as "
        "where no Dovetail runs or serves their schedulerName, 2 a manifest is invalid or cannot be read, 3 the answer "
        "may be wrong, as a warning says."
    )
    add_manifests(parser, "YAML or JSON manifests of the pods, a folder of manifests, or - for standard input")
    parser.add_argument(
        "--count",
        metavar="max|N",
        help="also count how many fit: pods where all pods of the file are equal, else copies of the file",
    )
    shape_arguments.add_node_options(parser, "all pods of the file")
    parser.add_argument(
        "--cluster",
        action="append",
        default=[],
        type=Path,
        metavar="FILE_OR_DIR",
        help="read the cluster from manifests, such as of `kubectl get nodes,resourceslices,… -o yaml`, instead of the "
        "live one; may be repeated",
    )
    add_namespace(parser, "the objects in the files that name none")
    add_configured_cluster(parser)
    parser.add_argument(
        "--scheduler-name", metavar="NAME", help="decide as this scheduler (default: the one that the pods name)"
    )
    add_format(parser)


def execute(options: argparse.Namespace) -> int:
    """Read, decide and print."""
    paths, wanted = manifests(options), _count(options.count)
    shape_arguments.refuse_without(options)
    if options.add_nodes and wanted is not None:
        raise UsageError("--count cannot be with --add-nodes: leave one of them out")
    if not paths:
        return refuse("fit: give the pods with -f FILE_OR_DIR")
    from scheduler.simulation import live_cluster  # noqa: PLC0415 - the cluster's client takes a while to import
    from scheduler.simulation.adding import karpenter_objects  # noqa: PLC0415 - as above
    from scheduler.simulation.manifests import documents  # noqa: PLC0415 - as above

    of_cluster = documents.read(options.cluster)
    karpenter = karpenter_objects.separated(of_cluster)
    if of_cluster.problems:
        report((), of_cluster.problems)
        return refuse("fit: without the whole cluster there is no answer")
    access = None if options.cluster else cluster_access(options)
    asked = read_manifests(options, access)
    if not asked.documents:
        report((), asked.problems)
        nothing = f"fit: {', '.join(map(str, paths))}: there is no object to decide about"
        return ExitStatus.WRONG if asked.problems else refuse(nothing)
    running = ConfigurationReader(options, access)
    found = None if access is None else live_cluster.fetch(access, meanwhile=(running.read, live_cluster.load_solver))
    from scheduler.simulation import case_builder, case_warnings, fitting, simulator  # noqa: PLC0415 - the solver takes a second

    found = found or case_builder.CaseBuilder.as_cluster(of_cluster)
    made = case_builder.CaseBuilder.of(found, asked)
    chosen = options.scheduler_name or _scheduler_of(made, running)
    configured = running.chosen(chosen)
    serving = configured.serving(chosen, options.scheduler_name)
    misspelt = fitting.misspelt(made, chosen, configured.scheduler_names)
    report(misspelt, ())
    case = made.case(serving.name, made.own if serving.unserved else ())
    if not case.own:
        report((*case.warnings, *case_warnings.of_pods(case, serving.name)), case.problems)
        return refuse(f"fit: {', '.join(map(str, paths))}: no pod waits for scheduler {serving.name}")
    configured.warn_of_no_scheduler()
    record = simulator.recorded(case, serving.settings, serving.name, running.reservations(made.pods))
    file = _in_place(case, record, made.gone, serving.name)
    idle = configured.idle if file.own and not options.scheduler_name else ""
    about = _Decided(case, file, serving, made.quotas, idle)
    if options.add_nodes:
        karpenter = karpenter if access is None else shape_arguments.live_objects(access)
        status = _with_nodes(options, about, karpenter)
    else:
        status = _as_it_is(options, about, wanted)
    status = ExitStatus.NO if misspelt or idle else status
    return ExitStatus.WRONG if case.problems else completed(status, found.forbidden, is_configured=running.is_known)


def _scheduler_of(made: "CaseBuilder", running: ConfigurationReader) -> str:
    """Return the scheduler that the pods of the file name. Raise `UsageError` where they name several."""
    from scheduler.simulation import fitting  # noqa: PLC0415 - as above

    try:
        return fitting.scheduler_of(made)
    except fitting.SchedulerNameError as error:
        slips = "".join(f". {each}" for each in fitting.misspelt(made, "", running.chosen().scheduler_names))
        raise UsageError(f"{error}: choose with --scheduler-name{slips}") from error


def _in_place(
    case: "SimulationCase", record: "Record", gone: "Sequence[Pod | Claim]", scheduler_name: str
) -> "FileInPlace":
    """Leave pods of the file that run where they are, and print what is odd and wrong about the file."""
    from scheduler.simulation import case_warnings, fitting  # noqa: PLC0415 - as above

    file = fitting.in_place(record, case.own, gone)
    anew = set(case_warnings.decided_anew(gone)) if file.running else set()
    of_pods = case_warnings.of_pods(case, scheduler_name)
    report((*(each for each in case.warnings if each not in anew), *of_pods), case.problems)
    return file


class _Decided(NamedTuple):
    """What is decided about, and by whom; `idle` is as in `fitting.Fit`."""

    case: "SimulationCase"
    file: "FileInPlace"
    serving: "Serving"
    quotas: "QuotaLedger"
    idle: str


def _as_it_is(options: argparse.Namespace, about: _Decided, wanted: int | None) -> ExitStatus:
    """Print whether the pods start on the nodes that there are."""
    from scheduler.simulation import fitting, printing  # noqa: PLC0415 - the solver takes a second

    most = None if wanted is None else min(fitting.MOST_COPIES, wanted or fitting.MOST_COPIES)
    file = about.file
    answer = fitting.fit(file.asked, file.own, most, running=file.running, quotas=about.quotas)
    answer = answer._replace(unserved=about.serving.unserved, idle=about.idle)
    needed = wanted or 1
    if options.output == TABLE:
        fitting.show(answer, needed, sys.stdout)
    else:
        sys.stdout.write(printing.text("Fit", fitting.document(answer, needed), options.output))
    return ExitStatus.OK if answer.fits(needed) else ExitStatus.NO


def _with_nodes(options: argparse.Namespace, about: _Decided, karpenter: "KarpenterObjects") -> ExitStatus:
    """Print with which nodes the pods start."""
    from scheduler.simulation.adding import node_additions  # noqa: PLC0415 - as above

    if not about.file.own:
        say("fit: all pods of the file run already")
        if options.output == TABLE:
            return ExitStatus.OK
    nodes = shape_arguments.offered(options, about.case, about.serving.settings, karpenter)
    answer = node_additions.find(about.file.asked, about.file.own, nodes)._replace(
        unserved=about.serving.unserved, idle=about.idle
    )
    shape_arguments.printed(answer, options.output)
    return ExitStatus.OK if answer.starts else ExitStatus.NO


def _count(text: str | None) -> int | None:
    """Return the number of copies asked for, 0 for `max`, None without the option. Raise `UsageError`."""
    if text is None or text == _MAX:
        return None if text is None else 0
    number = int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0
    if number < 1:
        raise UsageError(f"--count {text}: write max, or a number from 1 to {'9' * _MOST_DIGITS}")
    return number

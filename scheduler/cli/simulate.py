"""`dovetail simulate`: the plan for manifests or for a live cluster; nothing is written."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scheduler.cli.arguments import (
    TABLE,
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
    warn,
)
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.configuration import ConfigurationReader, add_configured_cluster

if TYPE_CHECKING:  # these take a second to import
    from collections.abc import Sequence

    from scheduler.simulation.simulator import SimulationCase
    from solver.domain import PodId

VERSIONS: Final = ("1.34", "1.35", "1.36", "1.37")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "Exit status: 0 all pods are placed, 1 some pods are not, or name a scheduler that is misspelt, 2 a manifest "
        "is invalid or cannot be read (the plan for the other manifests is printed all the same), 3 the answer may be "
        "wrong, as a warning says."
    )
    add_manifests(parser, "YAML or JSON manifests, a folder of manifests, or - for standard input; may be repeated")
    parser.add_argument(
        "--from-cluster",
        action="store_true",
        help="read the objects of the live cluster; manifests replace objects of the same name",
    )
    add_namespace(parser, "the objects in the files that name none")
    add_configured_cluster(parser)
    parser.add_argument(
        "--kubernetes",
        metavar="VERSION",
        choices=VERSIONS,
        help=f"read manifests as this version does, {VERSIONS[0]} to {VERSIONS[-1]} (default: the newest; with "
        "--from-cluster the cluster's)",
    )
    parser.add_argument(
        "--scheduler-name",
        metavar="NAME",
        help="decide for pods with this spec.schedulerName (default: that of the first profile; pods of the files "
        "that name none are decided as well)",
    )
    parser.add_argument(
        "--save",
        type=Path,
        metavar="FILE",
        help="save the input of the decision, for `dovetail replay` and for bug reports",
    )
    parser.add_argument(
        "--keep-parameters",
        action="store_true",
        help="keep the opaque parameters of drivers in the saved file (they may hold secrets)",
    )
    add_format(parser)


def execute(options: argparse.Namespace) -> int:
    """Read, decide and print."""
    paths = manifests(options)
    if not paths and not options.from_cluster:
        return refuse("simulate: give manifests with -f FILE_OR_DIR, or --from-cluster, or both")
    if options.kubernetes and options.from_cluster:
        return refuse("simulate: leave out --kubernetes: with --from-cluster the version is the cluster's")
    access = cluster_access(options) if options.from_cluster else None
    running = ConfigurationReader(options, access)
    from scheduler.simulation import live_cluster  # noqa: PLC0415 - the cluster's client takes a while to import

    if access is not None:
        found = live_cluster.fetch(access, meanwhile=(running.read, live_cluster.load_solver))
    else:
        found = live_cluster.without_cluster(options.kubernetes or VERSIONS[-1])
    configured = running.chosen(options.scheduler_name)
    name, settings = configured.served(options.scheduler_name)
    from scheduler.settings.scheduler_names import DEFAULT_SCHEDULER  # noqa: PLC0415 - as above
    from scheduler.simulation import case_builder, case_warnings, fitting, simulator  # noqa: PLC0415 - the solver takes a second

    made = case_builder.CaseBuilder.of(found, read_manifests(options, access))
    joining: frozenset[PodId] = frozenset()
    if options.scheduler_name is None and fitting.names_no_scheduler(made):
        if DEFAULT_SCHEDULER in settings.scheduler_names:
            name = DEFAULT_SCHEDULER
        else:
            warn(f"the pods of the files name no scheduler: decided as if they named {name} (see --scheduler-name)")
            joining = made.own
    misspelt = fitting.misspelt(made, name, configured.scheduler_names)
    case = made.case(name, joining)
    is_about_files = options.from_cluster and bool(paths)
    nothing = "" if (case.own if is_about_files else case.batch.pods) else _nothing(case, name, misspelt)
    of_pods = () if nothing and options.output == TABLE else (*misspelt, *case_warnings.of_pods(case, name))
    report((*of_pods, *case.warnings), case.problems)
    asked = simulator.recorded(case, settings, name, running.reservations(made.pods))
    if options.save is not None:
        try:
            simulator.save(options.save, asked, keep_parameters=options.keep_parameters)
        except OSError as error:
            return refuse(f"--save: {options.save}: cannot be written: {error.strerror}")
    decided = simulator.answer(asked)
    status = show(decided.about(case.own) if is_about_files else decided, options.output, nothing)
    if case.problems:
        return ExitStatus.WRONG
    status = ExitStatus.NO if misspelt else status
    return completed(status, found.forbidden, is_configured=running.is_known)


def _nothing(case: "SimulationCase", name: str, misspelt: "Sequence[str]") -> str:
    """Say that no pod waits for a scheduler, which pods are left out, and why no scheduler takes them."""
    from scheduler.simulation import case_warnings  # noqa: PLC0415 - as above

    others = "".join(f": {each}" for each in case_warnings.other_schedulers(case.left_out, name))
    return " ".join(f"{each}." for each in (f"No pod waits for scheduler {name}{others}", *misspelt))


def show(found: Any, form: str, nothing: str = "") -> int:
    """Print an answer and return its exit status; `nothing` is said in place of a plan without pods."""
    from scheduler.simulation import plan_output, printing  # noqa: PLC0415 - as above

    for defect in found.defects:
        say(f"defect: {defect}; please report it with the file that --save writes")
    if form == TABLE:
        plan_output.show(found, sys.stdout, nothing)
    else:
        sys.stdout.write(printing.text("Plan", plan_output.document(found), form))
    return ExitStatus.NO if found.plan.unplaced or found.defects else ExitStatus.OK

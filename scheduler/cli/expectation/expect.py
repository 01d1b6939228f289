"""`dovetail expect`: the pods to expect in a profile, as those of a cluster or of files ask for devices."""

import argparse
import sys
from typing import TYPE_CHECKING, Final

from scheduler.cli.arguments import (
    UsageError,
    add_cluster,
    add_manifests,
    cluster_access,
    completed,
    manifests,
    namespace_name,
    namespace_of,
    report,
    warn,
)
from scheduler.cli.exit_status import ExitStatus

if TYPE_CHECKING:  # these take a second to import
    from scheduler.change import Change
    from scheduler.cli.expectation.counted_kinds import Expectation

_MOST: Final = 16
"""Kinds that are printed; rarer ones change little, and each is looked at on each node."""

_MOST_DIGITS: Final = 4


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "Prints what to write in a profile of the configuration; nothing is written to the cluster. Exit status: 0 "
        "the pods to expect were printed, 2 arguments are wrong, files or the API server cannot be read, or no pod "
        "asks for devices, 3 the answer may be wrong, as a warning says."
    )
    parser.add_argument(
        "-n",
        "--namespace",
        type=namespace_name,
        default="",
        metavar="NAMESPACE",
        help="only the pods of this namespace (default: all)",
    )
    add_manifests(parser, "count the pods of manifests instead of those in the cluster; may be repeated")
    parser.add_argument(
        "--most", type=_most, default=_MOST, metavar="N", help=f"print the N most frequent kinds (default: {_MOST})"
    )
    add_cluster(parser)


def _most(text: str) -> int:
    from scheduler.settings.expected_pods import MOST_KINDS  # noqa: PLC0415 - the settings take a while to import

    if not text.isdecimal() or len(text) > _MOST_DIGITS or not 1 <= int(text) <= MOST_KINDS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MOST_KINDS}")
    return int(text)


def execute(options: argparse.Namespace) -> int:
    """Read, count and print."""
    from scheduler.cli.expectation import counted_kinds  # noqa: PLC0415 - the solver's values take a while to import

    changes, forbidden, problems = _read(options)
    prefix = f"{options.namespace}/" if options.namespace else ""
    found = counted_kinds.of((each for each in changes if each.key.startswith(prefix)), options.most)
    for reason, pods in found.unsaid.items():
        warn(f"pods that {reason} are left out: {pods}")
    status = completed(ExitStatus.OK, forbidden)
    if not found.kinds:
        raise UsageError(_nothing(found))
    sys.stdout.write(counted_kinds.text(found))
    return ExitStatus.WRONG if problems else status


def _nothing(found: "Expectation") -> str:
    """Say why there is no kind."""
    if found.pods:
        return "each kind of pods is rarer than one of a thousand: there is nothing to expect"
    if found.unsaid:
        return "no pod asks for devices in a way that can be expected"
    return "no pod has a claim for devices that is there: look at other namespaces or files"


def _read(options: argparse.Namespace) -> "tuple[tuple[Change, ...], tuple[str, ...], bool]":
    """Return pods and claims, the kinds that may not be listed, and whether a file is wrong. Raise `KubeError`."""
    from scheduler.change import Kind  # noqa: PLC0415 - as above
    from scheduler.simulation import live_cluster  # noqa: PLC0415 - as above

    if not manifests(options):
        found = live_cluster.fetch(cluster_access(options), (Kind.PODS, Kind.CLAIMS))
        report(found.warnings, ())
        return found.changes, found.forbidden, False
    from scheduler.simulation import (  # noqa: PLC0415 - they import the search, which takes a second
        case_builder,
        case_warnings,
        defaults,
    )
    from scheduler.simulation.manifests import documents  # noqa: PLC0415 - as above

    reading = defaults.in_namespace(
        documents.read(manifests(options)), namespace_of(options, None), is_given=bool(options.namespace)
    )
    made = case_builder.CaseBuilder.of(live_cluster.ClusterObjects(), reading)
    accepted = tuple(each for each in made.changes if each.kind is not Kind.CLAIMS or each.key not in made.wrong)
    report((*made.warnings, *case_warnings.skipped(made.skipped)), made.problems)
    return accepted, (), bool(made.problems)

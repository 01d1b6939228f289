"""`dovetail explain pod NS/NAME`: why a pod waits, by kind of node, and the nearest change that would let it run."""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from scheduler.cli.arguments import (
    add_cluster,
    add_format,
    add_namespace,
    cluster_access,
    completed,
    refuse,
    say,
    settings_for,
)
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.targets import Target, TargetKind, add_target, target_of
from scheduler.observe import terminal

_KINDS: Final = (TargetKind.POD,)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "Nothing is written to the cluster. Exit status: 0 the pod runs or would be placed, 1 the pod waits, 2 the pod "
        "cannot be found or read, 3 some kinds of objects may not be listed."
    )
    add_target(parser, _KINDS)
    add_namespace(parser)
    parser.add_argument(
        "--snapshot",
        type=Path,
        metavar="FILE",
        help="use a file that `dovetail simulate --save` wrote instead of the live cluster",
    )
    add_cluster(parser)
    add_format(parser)


def execute(options: argparse.Namespace) -> int:
    """Read, explain, print."""
    from scheduler.simulation import (  # noqa: PLC0415 - as above
        explanation_output,
        printing,
        simulator,
    )

    access = None if options.snapshot else cluster_access(options)
    target = target_of(options.target, options, _KINDS, access)
    try:
        asked, pods, forbidden = _live(options, access, target) if access else _from_file(options.snapshot)
    except simulator.SavedError as error:
        return refuse(str(error))
    pod = next((each for each in asked.batch.pods if tuple(each.id) == target[1:]), None)
    if pod is None:
        return completed(_not_waiting(target, pods), forbidden)
    diagnosis = simulator.explained(asked, pod)
    if options.output == "table":
        explanation_output.show(diagnosis, sys.stdout)
    else:
        sys.stdout.write(printing.text("Explanation", explanation_output.document(diagnosis), options.output))
    return completed(ExitStatus.OK if diagnosis.node else ExitStatus.NO, forbidden)


def _from_file(path: Path) -> tuple[Any, Any, tuple[str, ...]]:
    from scheduler.simulation import simulator  # noqa: PLC0415 - as above

    asked = simulator.load(path)
    return asked, asked.snapshot.pods, ()


def _live(options: argparse.Namespace, access: Any, target: Target) -> tuple[Any, Any, tuple[str, ...]]:
    """Read the live cluster, as the scheduler that the pod names would; also return the kinds that are forbidden."""
    from scheduler.simulation import case_builder, defragment, live_cluster, simulator  # noqa: PLC0415 - as above
    from scheduler.simulation.manifests import documents  # noqa: PLC0415 - as above
    from solver.domain import Pod  # noqa: PLC0415 - and this

    found = live_cluster.fetch(access)
    pods = [change.value for change in found.changes if isinstance(change.value, Pod)]
    made = case_builder.CaseBuilder.of(found, documents.ManifestFiles())
    wanted = defragment.scheduler_of(made.pods, "pod", f"{target.namespace}/{target.name}")
    name, settings = settings_for(options.config, wanted)
    _warn_of_other_scheduler(options, target, wanted)
    return simulator.recorded(made.case(name), settings, name), pods, found.forbidden


def _warn_of_other_scheduler(options: argparse.Namespace, target: Target, wanted: str) -> None:
    """Warn if the configuration has no profile for the scheduler that the pod names: it may not be scheduled at all."""
    from scheduler.settings import load  # noqa: PLC0415 - as above

    served = load(options.config).scheduler_names
    if wanted and wanted not in served:
        say(
            f"explain: warning: {target} has schedulerName {wanted}, but the configuration has profiles only "
            f"for {', '.join(served)}. The output shows what a scheduler with that name would decide. Correct the "
            "schedulerName, or give --config the file that has this profile"
        )


def _not_waiting(target: Target, pods: Any) -> int:
    """Report the state of a pod that does not wait, and return the exit status."""
    found = next((each for each in pods if tuple(each.id) == target[1:]), None)
    name = terminal.escaped(f"{target.namespace}/{target.name}")
    if found is None:
        return refuse(f"explain: pod {name} does not exist")
    if found.node_name:
        sys.stdout.write(f"Pod {name} is bound to node {terminal.escaped(found.node_name)}.\n")
        return ExitStatus.OK
    if found.scheduling_gates:
        gates = terminal.escaped(", ".join(found.scheduling_gates))
        sys.stdout.write(f"Pod {name} has scheduling gates: {gates}. It is not scheduled until they are removed.\n")
        return ExitStatus.NO
    return refuse(f"explain: pod {name} does not wait for a node: it has ended, or is being deleted")

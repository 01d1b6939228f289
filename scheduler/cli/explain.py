"""`dovetail explain pod NS/NAME`: why a pod waits, by kind of node, and the nearest change that would let it run."""

import argparse
import sys
from pathlib import Path
from typing import Any

from scheduler.cli.arguments import add_cluster, add_format, refuse, say, settings_for
from scheduler.observe import terminal
from scheduler.settings import load

_PLACED, _WAITS = 0, 1


def add(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Show why a pod waits, for each kind of node, and the nearest change that would make it schedulable."
    parser = commands.add_parser(
        "explain",
        help=text,
        description=text,
        epilog="Nothing is written to the cluster. Exit status: 0 the pod runs or would be placed, 1 the pod waits, "
        "2 the pod cannot be found or read.",
        allow_abbrev=False,
    )
    parser.add_argument("what", choices=("pod",), help="the kind of object")
    parser.add_argument("name", metavar="NS/NAME", help="the pod; the namespace defaults to `default`")
    parser.add_argument(
        "--snapshot",
        type=Path,
        metavar="FILE",
        help="use a file that `dovetail simulate --save` wrote instead of the live cluster",
    )
    add_cluster(parser)
    add_format(parser)
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Read, explain, print."""
    from scheduler.simulation import (  # noqa: PLC0415 - as above
        explanation_output,
        printing,
        simulator,
    )

    namespace, _, name = options.name.rpartition("/")
    if not name or "/" in namespace:
        return refuse(f"explain: {options.name!r} is not a pod name: write NS/NAME")
    key = (namespace or "default", name)
    try:
        asked, pods = _from_file(options.snapshot) if options.snapshot else _live(options)
    except simulator.SavedError as error:
        return refuse(str(error))
    pod = next((each for each in asked.batch.pods if tuple(each.id) == key), None)
    if pod is None:
        return _not_waiting(key, pods)
    diagnosis = simulator.explained(asked, pod)
    if options.output == "table":
        explanation_output.show(diagnosis, sys.stdout)
    else:
        sys.stdout.write(printing.text(explanation_output.document(diagnosis), options.output))
    return _PLACED if diagnosis.node else _WAITS


def _from_file(path: Path) -> tuple[Any, Any]:
    from scheduler.simulation import simulator  # noqa: PLC0415 - as above

    asked = simulator.load(path)
    return asked, asked.snapshot.pods


def _live(options: argparse.Namespace) -> tuple[Any, Any]:
    """Read the live cluster, as the scheduler that the pod names would. Raise `SavedError`."""
    from scheduler.kube.errors import KubeError  # noqa: PLC0415 - the client takes a while to import
    from scheduler.simulation import case_builder, live_cluster, simulator  # noqa: PLC0415 - as above
    from scheduler.simulation.manifests import documents  # noqa: PLC0415 - as above
    from solver.domain import Pod  # noqa: PLC0415 - and this

    try:
        found = live_cluster.fetch(options.kubeconfig)
    except KubeError as error:
        raise simulator.SavedError(str(error)) from error
    pods = [change.value for change in found.changes if isinstance(change.value, Pod)]
    made = case_builder.CaseBuilder.of(found, documents.ManifestFiles())
    wanted = made.scheduler_of(options.name)
    name, settings = settings_for(options.config, wanted)
    _warn_of_other_scheduler(options, wanted)
    return simulator.recorded(made.case(name), settings, name), pods


def _warn_of_other_scheduler(options: argparse.Namespace, wanted: str) -> None:
    """Warn if the configuration has no profile for the scheduler that the pod names: it may not be scheduled at all."""
    served = load(options.config).scheduler_names
    if wanted and wanted not in served:
        say(
            f"explain: warning: pod {options.name} has schedulerName {wanted}, but the configuration has profiles only "
            f"for {', '.join(served)}. The output shows what a scheduler with that name would decide. Correct the "
            "schedulerName, or give --config the file that has this profile"
        )


def _not_waiting(key: tuple[str, str], pods: Any) -> int:
    """Report the state of a pod that does not wait, and return the exit status."""
    found = next((each for each in pods if tuple(each.id) == key), None)
    name = terminal.escaped("/".join(key))
    if found is None:
        return refuse(f"explain: pod {name} does not exist")
    if found.node_name:
        sys.stdout.write(f"Pod {name} is bound to node {terminal.escaped(found.node_name)}.\n")
        return _PLACED
    if found.scheduling_gates:
        gates = terminal.escaped(", ".join(found.scheduling_gates))
        sys.stdout.write(f"Pod {name} has scheduling gates: {gates}. It is not scheduled until they are removed.\n")
        return _WAITS
    return refuse(f"explain: pod {name} does not wait for a node: it has ended, or is being deleted")

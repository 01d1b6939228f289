"""`--add-nodes` of `dovetail fit` and `dovetail queue`: its options, and the shapes that the answer may use."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.cli.arguments import TABLE, UsageError, report, warn

if TYPE_CHECKING:  # these take a second to import
    from scheduler.kube.access import ClusterAccess
    from scheduler.settings import Settings
    from scheduler.simulation.adding.karpenter_objects import KarpenterObjects
    from scheduler.simulation.adding.node_additions import NodeAdditions, OfferedNodes
    from scheduler.simulation.simulator import SimulationCase


def add_node_options(parser: argparse.ArgumentParser, whose: str) -> None:
    """Add `--add-nodes` and `--shapes`; `whose` names the pods that are to start."""
    parser.add_argument(
        "--add-nodes",
        action="store_true",
        help=f"say with which nodes beside those that exist {whose} would start, and cost least",
    )
    parser.add_argument(
        "--shapes",
        type=Path,
        metavar="FILE",
        help="with --add-nodes: the shapes of nodes that can be added, with their prices (docs/simulate.md; default: "
        "one node of each group of live nodes, and Karpenter's NodePools, each node at the same price)",
    )


def refuse_without(options: argparse.Namespace) -> None:
    """Raise `UsageError` where `--shapes` stands without `--add-nodes`."""
    if options.shapes is not None and not options.add_nodes:
        raise UsageError("--shapes FILE: add --add-nodes, which it is for")


def live_objects(access: "ClusterAccess") -> "KarpenterObjects":
    """List Karpenter's objects; none where the cluster has no Karpenter. Warn where they may not be listed."""
    from scheduler.kube.errors import Forbidden  # noqa: PLC0415 - the cluster's client takes a while to import
    from scheduler.simulation.adding import karpenter_objects  # noqa: PLC0415 - as above

    try:
        return karpenter_objects.listed(access)
    except Forbidden:
        warn("cannot list nodepools and nodeclaims (karpenter.sh): shapes are those of live nodes only")
        return karpenter_objects.KarpenterObjects()


def offered(
    options: argparse.Namespace, case: "SimulationCase", settings: "Settings", karpenter: "KarpenterObjects"
) -> "OfferedNodes":
    """Return the shapes of the file, or of the cluster; print what is wrong with the file. Raise `UsageError`."""
    from scheduler.simulation.adding import coming_nodes, live_shapes, shapes_file  # noqa: PLC0415 - as above
    from scheduler.simulation.adding.node_additions import OfferedNodes  # noqa: PLC0415 - as above

    unfinished = coming_nodes.names(karpenter.claims)
    live = live_shapes.live_shapes(case.snapshot, settings.devices.group_labels, unfinished)
    known = live_shapes.pool_shapes(case.snapshot, live, karpenter)
    if options.shapes is None:
        if not known.shapes:
            raise UsageError(
                "--add-nodes: the cluster has no node to take a shape from: describe some with --shapes FILE"
            )
        priced = shapes_file.PricedShapes(known.shapes)
        return OfferedNodes(priced, known.limits, known.unknown, karpenter.claims, (*known.shapes, *live))
    found = shapes_file.read(options.shapes, {shape.name: shape for shape in known.shapes})
    if found.problems:
        report((), found.problems)
        raise UsageError(f"--shapes {options.shapes}: correct the file")
    return OfferedNodes(
        found, known.limits_of(found.shapes), claims=karpenter.claims, known=(*known.shapes, *live, *found.shapes)
    )


def printed(answer: "NodeAdditions", output: str) -> None:
    """Print the answer."""
    from scheduler.simulation import printing  # noqa: PLC0415 - as above
    from scheduler.simulation.adding import node_additions  # noqa: PLC0415 - as above

    if output == TABLE:
        node_additions.show(answer, sys.stdout)
    else:
        sys.stdout.write(printing.text("AddedNodes", node_additions.document(answer), output))

"""`python -m e2e.scale`: what a large cluster costs, and several schedulers on one API server, in one table."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from e2e import dovetail, plots
from e2e.arguments import at_least_one
from e2e.controlplane import wire
from e2e.controlplane.access import RequestError
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import ControlPlane, KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.scale import figures, full_cluster, several
from e2e.scale.figures import Figure
from e2e.scale.large import LargeCluster
from e2e.scale.repaired import Repaired
from e2e.scale.several import Several

_CONNECTIONS: Final = 64
_LARGE: Final = ("idle", "freed")
_TWO: Final = "two"
_REPAIR: Final = "repair"
_NODES: Final = 5000
_KAI_NODES: Final = 500
"""Nodes of KAI-Scheduler's consolidation, which `repair` carries out."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when a run failed."""
    options = _parser().parse_args(arguments)
    try:
        found = asyncio.run(_measure(options))
    except (BuildError, ComponentError, KubectlError, RequestError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    record = options.json or plots.record_path("scale")
    record.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    print(*figures.lines(found), sep="\n")
    return 0


async def _measure(options: argparse.Namespace) -> list[Figure]:
    found: list[Figure] = []
    chosen = options.only or [*_LARGE]
    nodes = options.nodes or (_KAI_NODES if _REPAIR in chosen else _NODES)
    with ControlPlane.start(folder=options.folder) as plane:
        kubeconfig = dovetail.install(plane)
        async with wire.session(plane.kubeconfig, _CONNECTIONS) as session:
            if _TWO in chosen:
                found += await Several(plane, session, kubeconfig, nodes, options.pods or several.PODS).measure(
                    options.turns
                )
                return found
            if _REPAIR in chosen:
                found += await Repaired(plane, session, kubeconfig, nodes).measure()
                return found
            await full_cluster.fill(session, nodes)
            pods = options.pods or full_cluster.WAITING_PODS
            cluster = LargeCluster(plane, session, kubeconfig, nodes, pods)
            for name, run in (("idle", cluster.idle), ("freed", cluster.freed)):
                if name in chosen:
                    print(f"{name}: {nodes} nodes", file=sys.stderr)
                    found += await run(options.seconds)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="measure scale", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=[*_LARGE, _TWO, _REPAIR], help="only this; repeatable (idle, freed)"
    )
    parser.add_argument("--nodes", type=at_least_one, metavar="N", help="nodes of 8 devices (5000; repair: 500)")
    parser.add_argument("--seconds", type=at_least_one, default=60, metavar="N", help="of each measurement (60)")
    parser.add_argument("--pods", type=at_least_one, metavar="N", help="pods that wait (freed: 10,000; two: 2,000)")
    parser.add_argument("--turns", type=at_least_one, default=1, metavar="N", help="runs of each kind of `two` (1)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep the cluster and logs here, for further runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured (results/scale-TIME.json)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

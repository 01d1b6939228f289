"""`python -m e2e.latency`: how soon pods are bound by Dovetail and by kube-scheduler, in turns, in one table."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from e2e import dovetail, plots
from e2e.arguments import at_least_one
from e2e.compare.contestants import DOVETAIL, PEER_UNLIMITED
from e2e.controlplane import wire
from e2e.controlplane.access import RequestError
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import ControlPlane, KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.fleet import publish
from e2e.fleet.fleets import gpu_fleet
from e2e.latency import latencies
from e2e.latency.arrivals import WORKLOADS, Arrivals
from e2e.latency.latencies import LatencyRun

WIDTH = 120
CONNECTIONS = 64
SCHEDULERS = {"dovetail": DOVETAIL, "kube-scheduler": PEER_UNLIMITED}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when a run failed."""
    options = _parser().parse_args(arguments)
    try:
        runs = latencies.read(options.show) if options.show else asyncio.run(_measure(options))
    except (BuildError, ComponentError, KubectlError, RequestError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    Console(width=WIDTH).print(latencies.render(runs, DOVETAIL.name))
    return 0


async def _measure(options: argparse.Namespace) -> tuple[LatencyRun, ...]:
    runs: list[LatencyRun] = []
    record = options.json or plots.record_path("latency")
    for workload in (WORKLOADS[name] for name in options.workload or WORKLOADS):
        print(f"{workload.name}: {workload.about}", file=sys.stderr)
        with ControlPlane.start(folder=options.folder) as plane:
            kubeconfig = dovetail.install(plane)
            async with wire.session(plane.kubeconfig, CONNECTIONS) as session:
                await publish.publish(session, gpu_fleet(workload.nodes))
                arrivals = Arrivals(plane, session, kubeconfig)
                for turn in range(options.turns):
                    chosen = [SCHEDULERS[name] for name in options.scheduler or SCHEDULERS]
                    for contestant in chosen[:: -1 if turn % 2 else 1]:
                        run = await arrivals.run(workload, contestant, turn, options.pods)
                        halves = ", ".join(f"p{share} {run.quantile(share / 100) * 1000:.0f} ms" for share in (50, 99))
                        print(f"  {run.scheduler}: {len(run.seconds)} of {run.pods} bound, {halves}", file=sys.stderr)
                        runs.append(run)
                        latencies.write(record, runs)
    plots.draw(record.with_suffix(".svg"), latencies.panels(runs))
    return tuple(runs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="measure latency", description="How soon a pod is bound, with Dovetail and with kube-scheduler in turns."
    )
    parser.add_argument("--workload", action="append", choices=[*WORKLOADS], help="only this one; repeatable")
    parser.add_argument("--scheduler", action="append", choices=[*SCHEDULERS], help="only this one; repeatable")
    parser.add_argument("--turns", type=at_least_one, default=1, metavar="N", help="runs with each scheduler (1)")
    parser.add_argument("--pods", type=at_least_one, default=200, metavar="N", help="pods of a run (200)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured (results/latency-TIME.json)")
    parser.add_argument("--show", type=Path, metavar="FILE", help="run nothing, show what --json wrote")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep state and logs here (else temporary)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""
`python -m e2e.latency.new_nodes`: how soon a gang runs after the last slice of nodes that come for it.

A gang of whole nodes waits, and has failed some times. Then the nodes come, ready at once, and their slices one after
the other, as from drivers that start at different times. Each gang has nodes of its own.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import aiohttp

from e2e import dovetail, objects
from e2e.arguments import at_least_one
from e2e.compare.race import Watch
from e2e.controlplane import wire
from e2e.controlplane.access import RequestError
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import ControlPlane, KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.fleet import nvidia
from e2e.scenarios.workload import IMAGE, Manifest

_NAMESPACE: Final = "new-nodes"
_POLL_SECONDS: Final = 0.02
_SETTLE_SECONDS: Final = 120.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when a run failed."""
    options = _parser().parse_args(arguments)
    try:
        asyncio.run(_measure(options))
    except (BuildError, ComponentError, KubectlError, RequestError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


async def _measure(options: argparse.Namespace) -> None:
    with ControlPlane.start() as plane:
        kubeconfig = dovetail.install(plane)
        async with wire.session(plane.kubeconfig, 32) as session:
            await objects.create(session, [_object("v1", "Namespace", _NAMESPACE)])
            await objects.create(session, [*nvidia.gpu_node("class").classes, _template()])
            watch = Watch([_NAMESPACE])
            watching = asyncio.create_task(watch.run(session))
            scheduler = await asyncio.to_thread(
                dovetail.Dovetail.start, kubeconfig, plane.folder / "dovetail.log", leader_elect=False
            )
            try:
                waits = [await _gang(session, watch, options, number) for number in range(options.gangs)]
            finally:
                watching.cancel()
                await asyncio.to_thread(scheduler.stop)
    each = ", ".join(f"{seconds:.2f}" for seconds in waits)
    print(f"gangs of {options.size} × 8 run {statistics.median(waits):.2f} s after the last slice (median; {each})")


async def _gang(session: aiohttp.ClientSession, watch: Watch, options: argparse.Namespace, number: int) -> float:
    """Let a gang wait, add its nodes and then their slices; return the seconds from the last slice to the last pod."""
    names = [f"g{number}-{member}" for member in range(options.size)]
    await objects.create(session, [_pod(name, number, options.size) for name in names])
    await asyncio.sleep(options.waits)
    fleets = [nvidia.gpu_node(f"new-{number}-{member}") for member in range(options.size)]
    for fleet in fleets:
        for node in fleet.nodes:
            node["metadata"]["labels"]["gang"] = str(number)
        await objects.create(session, fleet.nodes)
    for fleet in fleets:
        await asyncio.sleep(options.apart)
        await objects.create(session, fleet.slices)
    came = time.monotonic()
    while any(watch.seconds_of(name) is None for name in names):
        if time.monotonic() > came + _SETTLE_SECONDS:
            raise TimeoutError(f"gang {number} does not run {_SETTLE_SECONDS:.0f} s after its last slice")
        await asyncio.sleep(_POLL_SECONDS)
    return max(seconds - came for name in names if (seconds := watch.seconds_of(name)) is not None)


def _object(version: str, kind: str, name: str, **more: object) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def _template() -> Manifest:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 8}}]
    made = _object(
        "resource.k8s.io/v1", "ResourceClaimTemplate", "whole", spec={"spec": {"devices": {"requests": requests}}}
    )
    made["metadata"]["namespace"] = _NAMESPACE
    return made


def _pod(name: str, number: int, size: int) -> Manifest:
    container = {"name": "main", "image": IMAGE, "resources": {"claims": [{"name": "gpu"}], "requests": {"cpu": "1"}}}
    made = _object(
        "v1",
        "Pod",
        name,
        spec={
            "schedulerName": "dovetail",
            "nodeSelector": {"gang": str(number)},
            "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "whole"}],
            "containers": [container],
        },
    )
    made["metadata"] |= {
        "namespace": _NAMESPACE,
        "labels": {"dovetail.dev/gang": f"g{number}"},
        "annotations": {"dovetail.dev/gang-minimum": str(size)},
    }
    return made


def _options() -> Iterator[tuple[str, type, float, str]]:
    yield "--waits", float, 20.0, "seconds that a gang waits before its nodes come (20: its backoff is 8 s then)"
    yield "--apart", float, 0.2, "seconds from slice to slice (0.2)"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="measure new-nodes", description=(__doc__ or "").strip())
    parser.add_argument("--gangs", type=at_least_one, default=5, metavar="N", help="gangs, one after the other (5)")
    parser.add_argument("--size", type=at_least_one, default=4, metavar="N", help="nodes and pods of a gang (4)")
    for name, kind, default, text in _options():
        parser.add_argument(name, type=kind, default=default, metavar="SECONDS", help=text)
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Several schedulers on one API server: each on nodes of its own, or all on the same nodes, next to a single one."""

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
import yaml

from e2e import audit, objects
from e2e.compare.race import Watch
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail
from e2e.fleet import publish
from e2e.fleet.fleets import gpu_fleet
from e2e.objects import Manifest
from e2e.questions import busy_cluster
from e2e.scale import process_use
from e2e.scale.figures import Figure

PODS: Final = 2000
LABEL: Final = "dovetail.dev/pool"
POOLS: Final = ("a", "b")
MODES: Final[Mapping[str, Sequence[Mapping[str, str]]]] = {
    "one scheduler": ({},),
    "two, each on half of the nodes": tuple({LABEL: pool} for pool in POOLS),
    "two on the same nodes": ({}, {}),
}
"""The labels of the nodes whose devices each scheduler owns; without any all nodes."""
_SETTLE_SECONDS: Final = 300.0
_QUIET_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.05
_SERVERS: Final = ("kube-apiserver", "etcd")


@dataclass(slots=True)
class Several:
    """Runs on one control plane with `nodes` nodes in two pools; nothing stays of a run."""

    plane: ControlPlane
    session: aiohttp.ClientSession
    kubeconfig: Path
    nodes: int
    pods: int
    _runs: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def measure(self, turns: int) -> Iterator[Figure]:
        """Run all of them in turns. Raises ComponentError, RequestError and TimeoutError."""
        fleet = gpu_fleet(self.nodes)
        for number, node in enumerate(fleet.nodes):
            node["metadata"]["labels"][LABEL] = POOLS[number % len(POOLS)]
        await publish.publish(self.session, fleet)
        found: list[Figure] = []
        for turn in range(turns):
            names = list(MODES)[:: -1 if turn % 2 else 1]
            for name in names:
                found.append(await self._run(name, MODES[name]))
                print(f"  {name}: {found[-1].measured}", file=sys.stderr)
        return iter(found)

    async def _run(self, name: str, owned: Sequence[Mapping[str, str]]) -> Figure:
        namespace = f"several-{next(self._runs)}"
        schedulers = [f"dovetail-{number}" for number in range(len(owned))]
        pods = [_pod(namespace, number, schedulers[number % len(schedulers)]) for number in range(self.pods)]
        await objects.create(self.session, [_namespace(namespace), busy_cluster.template(namespace, 1)])
        await objects.create(self.session, pods)
        await self._until_claims(namespace, self.pods)
        watch = Watch([namespace])
        watching = asyncio.create_task(watch.run(self.session))
        servers, began = self._server_seconds(), time.monotonic()
        with contextlib.ExitStack() as running:
            started = [self._start(running, *each) for each in zip(schedulers, owned, strict=True)]
            bound = await self._finished(watch)
            used = sum(process_use.cpu_seconds(each.pid) for each in started)
            found = await asyncio.to_thread(audit.read, self.plane.request)
        servers = self._server_seconds() - servers
        watching.cancel()
        await objects.delete(self.session, pods)
        await self._until_claims(namespace, 0)
        size = f"{self.pods} pods × 1 GPU, {self.nodes} nodes × 8"
        return _figure(name, size, [each - began for each in bound], (used, servers), audit.audit(found))

    def _start(self, running: contextlib.ExitStack, scheduler: str, owned: Mapping[str, str]) -> Dovetail:
        """Start a scheduler without a Lease; the next one need not wait until it is ready."""
        settings = {
            "apiVersion": "config.dovetail.dev/v1alpha1",
            "kind": "DovetailConfiguration",
            "profiles": [{"schedulerName": scheduler}],
            "devices": {"owned": {"nodeSelector": {"matchLabels": dict(owned)}}},
        }
        config, log = (self.plane.folder / f"{scheduler}.{end}" for end in ("yaml", "log"))
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        started = Dovetail(self.kubeconfig, log, f"--config={config}", "--leader-elect=false")
        running.callback(started.stop)
        return started

    async def _finished(self, watch: Watch) -> list[float]:
        """Wait until all pods are bound, or none was for a while; return when each was."""
        since = time.monotonic()
        while time.monotonic() < since + _SETTLE_SECONDS:
            bound = sorted(watch.without("").values())
            if len(bound) == self.pods or (bound and time.monotonic() > bound[-1] + _QUIET_SECONDS):
                return bound
            await asyncio.sleep(_POLL_SECONDS)
        raise TimeoutError(f"no end of the bindings after {_SETTLE_SECONDS:.0f} s")

    async def _until_claims(self, namespace: str, count: int) -> None:
        """Wait until a namespace has so many claims."""
        path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
        cached, end = {"resourceVersion": "0"}, time.monotonic() + _SETTLE_SECONDS
        while len((await objects.request(self.session, "GET", path, query=cached))["items"]) != count:
            if time.monotonic() > end:
                raise TimeoutError(f"namespace {namespace} has not {count} claims after {_SETTLE_SECONDS:.0f} s")
            await asyncio.sleep(0.5)

    def _server_seconds(self) -> float:
        return sum(process_use.cpu_seconds(self.plane.components[name].pid) for name in _SERVERS)


def _figure(
    name: str, size: str, bound: Sequence[float], used: tuple[float, float], findings: Sequence[audit.Finding]
) -> Figure:
    rate = (len(bound) - 1) / (bound[-1] - bound[0]) if len(bound) > 1 else 0.0
    twice = sum(each.rule == "twice" for each in findings)
    cpu = "schedulers {:.1f}, API server and etcd {:.1f} CPU ms a pod".format(
        *(1000 * each / max(1, len(bound)) for each in used)
    )
    measured = f"{len(bound)} bound, last after {bound[-1] if bound else 0:.1f} s, {rate:.0f} a second; {cpu}"
    wrong = f"{twice} devices twice, {len(findings) - twice} other findings"
    return Figure(name, size, f"{measured}; {wrong}", "no device twice")


def _namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _pod(namespace: str, number: int, scheduler: str) -> Manifest:
    pod = busy_cluster.waiting_pod(f"p{number}", namespace, {"resourceClaimTemplateName": "gpus-1"})
    pod["spec"] |= {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
    return pod

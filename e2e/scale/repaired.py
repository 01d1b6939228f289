"""
A repair is carried out: single-device pods stand in the way of gangs on every node, and move.

KAI-Scheduler's consolidation: on each of 500 nodes of 8 devices run three pods with one device each, and 41 gangs of 10
pods with 6 devices wait. 410 nodes must each lose a pod. What a move costs an application is not measured here.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import yaml

from e2e import objects
from e2e.controlplane.plane import REPOSITORY, ControlPlane
from e2e.dovetail import REPAIRS, Dovetail
from e2e.fleet import publish
from e2e.fleet.fleets import gpu_fleet
from e2e.objects import Manifest
from e2e.questions import busy_cluster
from e2e.scale.figures import Figure
from e2e.scenarios.workload import IMAGE

_NAMESPACE: Final = "consolidation"
_SINGLES: Final = 3
"""Pods with one device on each node."""
_MEMBERS: Final = 10
_WANTED: Final = 6
"""Devices of a member of a gang."""
_FREE: Final = 8 - _SINGLES
_COMPONENTS: Final = REPOSITORY / "deploy" / "components"
_SECONDS: Final = 900.0
_LIFTED: Final[Manifest] = {
    "repair": {**REPAIRS, "planningSeconds": 60},
    "deviceHolds": {"maxDevices": 100_000, "maxDevicesPerNamespace": 100_000},
}


@dataclass(slots=True)
class Repaired:
    """A cluster of so many nodes, in which gangs wait that fit once pods have moved."""

    plane: ControlPlane
    session: aiohttp.ClientSession
    kubeconfig: Path
    nodes: int

    async def measure(self) -> Iterator[Figure]:
        """Fill the cluster, let gangs wait, and repair."""
        self._install()
        await asyncio.to_thread(self.plane.start_kubelet)  # a deletion that the server gave up halfway needs one
        await publish.publish(self.session, gpu_fleet(self.nodes))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
        templates = (busy_cluster.template(_NAMESPACE, devices) for devices in (1, _WANTED))
        await objects.create(self.session, [namespace, *templates])
        singles = _SINGLES * self.nodes
        async with self._scheduler("filling", {"policy": "spread"}, {}):
            await objects.create(self.session, [_replica_set(singles)])
            await self._until(lambda pods: _bound(pods, "single") == singles, "the single pods run")
        # Each node that loses a pod has room for one member, and nodes that take pods have `_FREE` places each.
        gangs = self.nodes * _FREE // (_FREE + 1) // _MEMBERS
        members = [_member(gang, number) for gang in range(gangs) for number in range(_MEMBERS)]
        async with self._scheduler("repairing", {}, _LIFTED):
            await objects.create(self.session, members)
            began = time.monotonic()
            await self._until(lambda pods: _bound(pods, "member") == len(members), "the gangs run")
            seconds = time.monotonic() - began
            await self._until(lambda pods: _bound(pods, "single") == singles, "all pods that moved run")
        plans = [each for each in (await self._list("repairplans"))["items"] if each["spec"]["moves"]]
        moved = sum(len(each.get("status", {}).get("moves", ())) for each in plans)
        size = f"{self.nodes} nodes × 8 devices, {gangs} gangs of {_MEMBERS} × {_WANTED} devices"
        least = sum(each["spec"].get("least", 0) for each in plans)
        return iter(
            (
                Figure("a repair: from the last gang's pod to the last binding", size, f"{seconds:.0f} s", "≤ 120 s"),
                Figure("the same, pods moved", size, f"{moved} in {len(plans)} plans", f"{least} (proven)"),
            )
        )

    def _install(self) -> None:
        for name in ("crd.yaml", "clusterrole.yaml"):
            self.plane.kubectl("apply", "--server-side", "-f", str(_COMPONENTS / "repair" / name))
        self.plane.kubectl("wait", "--for=condition=Established", "crd/repairplans.dovetail.dev")

    @asynccontextmanager
    async def _scheduler(self, name: str, profile: Manifest, settings: Manifest) -> AsyncIterator[None]:
        """Run a scheduler with some settings."""
        path = self.plane.folder / f"{name}.yaml"
        head = {"apiVersion": "config.dovetail.dev/v1alpha1", "kind": "DovetailConfiguration"}
        path.write_text(yaml.safe_dump({**head, "profiles": [profile], **settings}), encoding="utf-8")
        log = self.plane.folder / f"{name}.log"
        component = await asyncio.to_thread(
            Dovetail.start, self.kubeconfig, log, f"--config={path}", leader_elect=False
        )
        try:
            yield
        finally:
            await asyncio.to_thread(component.stop)

    async def _until(self, is_so: Any, what: str) -> None:
        """Wait until the pods are as they have to be. Raise `TimeoutError`."""
        end = time.monotonic() + _SECONDS
        while not is_so((await self._list("pods"))["items"]):
            if time.monotonic() > end:
                raise TimeoutError(f"after {_SECONDS:.0f} s it is not yet so that {what}")
            await asyncio.sleep(1)

    async def _list(self, kind: str) -> Any:
        path = f"/api/v1/namespaces/{_NAMESPACE}/pods" if kind == "pods" else f"/apis/dovetail.dev/v1alpha1/{kind}"
        async with self.session.get(path) as answer:
            answer.raise_for_status()
            return msgspec.json.decode(await answer.read())


def _bound(pods: list[Manifest], app: str) -> int:
    return sum(
        each["metadata"]["labels"]["app"] == app
        and bool(each["spec"].get("nodeName"))
        and "deletionTimestamp" not in each["metadata"]
        for each in pods
    )


def _spec(devices: int) -> Manifest:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": "gpus"}]}
    return {
        "schedulerName": "dovetail",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": IMAGE, "resources": resources}],
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": f"gpus-{devices}"}],
    }


def _replica_set(count: int) -> Manifest:
    labels = {"app": "single"}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "single", "namespace": _NAMESPACE},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _spec(1)},
        },
    }


def _member(gang: int, number: int) -> Manifest:
    labels = {"app": "member", "dovetail.dev/gang": f"gang-{gang:03}"}
    metadata = {
        "name": f"member-{gang:03}-{number}",
        "namespace": _NAMESPACE,
        "labels": labels,
        "annotations": {"dovetail.dev/gang-minimum": str(_MEMBERS)},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(_WANTED)}

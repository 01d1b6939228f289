"""
One run: pods come at a steady rate while a scheduler runs, and leave some seconds after they were bound.

Or all of them wait already when the scheduler's process starts: then their seconds count from that start. It starts
when controllers have no more to write about the nodes and the pods: the first scheduler would have a busy API server.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from e2e import objects
from e2e.compare.contestants import Contestant
from e2e.compare.race import Watch
from e2e.controlplane.plane import ControlPlane
from e2e.fleet import publish
from e2e.latency.latencies import LatencyRun
from e2e.scenarios.workload import IMAGE, Manifest

_SETTLE_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.05
_FILLERS_GPUS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalWorkload:
    """
    `rate` pods a second, each for `living_seconds`, on `nodes` nodes of eight GPUs; pods that stay hold `filled`.

    With a rate of 0 all pods wait before the scheduler starts.
    """

    name: str
    nodes: int
    rate: float
    filled: float = 0.0
    living_seconds: float = 5.0

    @property
    def about(self) -> str:
        """The workload in words."""
        share = f", {self.filled:.0%} of the GPUs in use" if self.filled else ""
        if self.is_start:
            return f"all pods × 1 GPU wait when the process starts, {self.nodes} nodes × 8"
        return f"{self.rate:g} pods × 1 GPU a second, {self.nodes} nodes × 8{share}"

    @property
    def is_start(self) -> bool:
        """Whether all pods wait before the scheduler starts."""
        return not self.rate


WORKLOADS: Final[Mapping[str, ArrivalWorkload]] = {
    each.name: each
    for each in (
        ArrivalWorkload(name="one-200", nodes=200, rate=5),
        ArrivalWorkload(name="one-4000", nodes=4000, rate=5),
        ArrivalWorkload(name="forty-200", nodes=200, rate=40, filled=0.5),
        ArrivalWorkload(name="eighty-200", nodes=200, rate=80, filled=0.5),
        ArrivalWorkload(name="start-500", nodes=500, rate=0),
        ArrivalWorkload(name="start-5000", nodes=5000, rate=0),
    )
}


class Arrivals:
    """Runs of workloads on one control plane that has their fleet; nothing stays of a run."""

    def __init__(self, plane: ControlPlane, session: aiohttp.ClientSession, kubeconfig: Path) -> None:
        self._plane = plane
        self._session = session
        self._kubeconfig = kubeconfig
        self._runs = itertools.count(1)

    async def run(self, workload: ArrivalWorkload, contestant: Contestant, turn: int, pods: int) -> LatencyRun:
        """Run a workload once. Raises ComponentError, RequestError and TimeoutError."""
        namespace = f"{workload.name}-{next(self._runs)}"
        fillers = list(_fillers(workload, namespace, contestant.scheduler_name))
        await objects.create(self._session, [_namespace(namespace)])
        await objects.create(self._session, _templates(namespace))
        if contestant.starter:
            fillers.append(_pod(contestant.starter, namespace, contestant.scheduler_name, ""))
        await objects.create(self._session, fillers)
        watch = Watch([namespace])
        watching = asyncio.create_task(watch.run(self._session))
        try:
            waiting = await self._wait(contestant, namespace, pods) if workload.is_start else []
            await publish.settle(self._session)
            launched = time.monotonic()
            component, _ = await contestant.start(self._plane, self._kubeconfig, watch, {})
            try:
                await _until(lambda: all(watch.seconds_of(each["metadata"]["name"]) is not None for each in fillers))
                if workload.is_start:
                    created = dict.fromkeys((each["metadata"]["name"] for each in waiting), launched)
                    await _until(lambda: all(watch.seconds_of(name) is not None for name in created))
                else:
                    created = await self._arrive(workload, contestant, namespace, watch, pods)
            finally:
                await asyncio.to_thread(component.stop)
            await self._take_away(namespace, [*fillers, *waiting])
        finally:
            watching.cancel()
        bound = {name: watch.seconds_of(name) for name in created}
        seconds = tuple(max(0.0, at - created[name]) for name, at in bound.items() if at is not None)
        return LatencyRun(
            workload=workload.name, scheduler=contestant.name.partition(",")[0], turn=turn, pods=pods, seconds=seconds
        )

    async def _wait(self, contestant: Contestant, namespace: str, pods: int) -> list[Manifest]:
        """Create the pods, and return them when their claims exist."""
        waiting = [_pod(f"p{number}", namespace, contestant.scheduler_name, "one") for number in range(pods)]
        await objects.create(self._session, waiting)
        end = time.monotonic() + _SETTLE_SECONDS
        while len((await objects.request(self._session, "GET", _claims(namespace)))["items"]) < pods:
            if time.monotonic() > end:
                raise TimeoutError(f"claims in namespace {namespace} are missing after {_SETTLE_SECONDS:.0f} s")
            await asyncio.sleep(_POLL_SECONDS)
        return waiting

    async def _arrive(
        self, workload: ArrivalWorkload, contestant: Contestant, namespace: str, watch: Watch, pods: int
    ) -> dict[str, float]:
        """Create the pods, each at its time; return when the API server had answered, by name."""
        created: dict[str, float] = {}

        async def live(number: int) -> None:
            manifest = _pod(f"p{number}", namespace, contestant.scheduler_name, "one")
            await objects.create(self._session, [manifest])
            created[f"p{number}"] = time.monotonic()
            await asyncio.sleep(workload.living_seconds)
            await _until(lambda: watch.seconds_of(f"p{number}") is not None)
            await objects.delete(self._session, [manifest])

        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number in range(pods):
                await asyncio.sleep(max(0.0, began + number / workload.rate - time.monotonic()))
                tasks.create_task(live(number))
        return created

    async def _take_away(self, namespace: str, fillers: list[Manifest]) -> None:
        """Delete what is left, and wait until no claim of the run holds a device."""
        await objects.delete(self._session, fillers)
        end = time.monotonic() + _SETTLE_SECONDS
        while (await objects.request(self._session, "GET", _claims(namespace)))["items"]:
            if time.monotonic() > end:
                raise TimeoutError(f"claims of namespace {namespace} are left after {_SETTLE_SECONDS:.0f} s")
            await asyncio.sleep(_POLL_SECONDS)
        await objects.delete(self._session, [_namespace(namespace)])


async def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _SETTLE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"a pod was not bound within {_SETTLE_SECONDS:.0f} s")
        await asyncio.sleep(_POLL_SECONDS)


def _claims(namespace: str) -> str:
    """Return the path of a namespace's claims."""
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"


def _namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _templates(namespace: str) -> list[Manifest]:
    """Make the templates of claims for one and for several GPUs."""
    return [_template(namespace, name, count) for name, count in (("one", 1), ("filler", _FILLERS_GPUS))]


def _template(namespace: str, name: str, count: int) -> Manifest:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def _fillers(workload: ArrivalWorkload, namespace: str, scheduler_name: str) -> Iterator[Manifest]:
    """Make pods that stay; at least one, so that no scheduler's first decision is measured."""
    for number in range(max(1, round(workload.nodes * 8 * workload.filled / _FILLERS_GPUS))):
        yield _pod(f"filler-{number}", namespace, scheduler_name, "filler")


def _pod(name: str, namespace: str, scheduler_name: str, template: str) -> Manifest:
    """Make a pod with a claim from a template; one without claims goes before all others."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": template}] if template else []
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, **({"claims": [{"name": "gpu"}]} if template else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulerName": scheduler_name,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": IMAGE, "resources": resources}],
            **({"resourceClaims": claims} if claims else {"priorityClassName": "system-node-critical"}),
        },
    }

"""One run: everything waits, a scheduler starts, the clock runs until nothing more is bound, and all is taken away."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import aiohttp

from e2e import audit, objects
from e2e.compare.contestants import Contestant
from e2e.compare.samples import Sample
from e2e.controlplane import wire
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import Component
from e2e.scenarios.workload import IMAGE, Manifest, Scenario

QUIET_SECONDS = 12.0  # kube-scheduler tries again after 10 s at the latest
FIRST_SECONDS = 60.0  # until a phase's first binding: the first plan of many pods takes long on a loaded machine
LIMIT_SECONDS = 600.0
SETTLE_SECONDS = 120.0
PODS = "/api/v1/pods"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"


class Watch:
    """When each pod of some namespaces was bound, as a watch from outside sees it."""

    def __init__(self, namespaces: Iterable[str]) -> None:
        self._namespaces = frozenset(namespaces)
        self._bound: dict[str, float] = {}

    def seconds_of(self, pod: str) -> float | None:
        """Return when a pod was bound, None while it is not."""
        return self._bound.get(pod)

    def without(self, starter: str) -> dict[str, float]:
        """Return all bound pods but the one that only marks the beginning."""
        return {pod: seconds for pod, seconds in self._bound.items() if pod != starter}

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Watch until cancelled."""
        async for kind, pod in wire.changes(session, PODS, wire.Pod, "spec.nodeName!="):
            if kind != "DELETED" and pod.metadata.namespace in self._namespaces:
                self._bound.setdefault(pod.metadata.name, time.monotonic())


class Race:
    """Runs of scenarios on one control plane, of which nothing stays."""

    def __init__(self, plane: ControlPlane, session: aiohttp.ClientSession, kubeconfig: Path) -> None:
        self._plane = plane
        self._session = session
        self._kubeconfig = kubeconfig
        self._runs = itertools.count(1)

    async def run(self, scenario: Scenario, contestant: Contestant, turn: int) -> Sample:
        """Run a scenario, whose fleet is there, once. Raises ComponentError and RequestError."""
        namespace = f"{scenario.name}-{next(self._runs)}"
        manifests = _unique(scenario.manifests(namespace, contestant.scheduler_name, turn))
        later = scenario.later(namespace, contestant.scheduler_name, turn) if scenario.later else []
        first = scenario.pods - len(later)
        if contestant.starter:
            manifests.append(_starter(contestant, namespace))
        async with (
            self._waiting(manifests, first + bool(contestant.starter)),
            self._watching(manifests) as watch,
        ):
            component, began = await contestant.start(self._plane, self._kubeconfig, watch, scenario.profile)
            try:
                if later:
                    await self._finished(watch, contestant.starter, first, began, component)
                    await objects.create(self._session, later)
                since = time.monotonic() if later else began
                await self._finished(watch, contestant.starter, scenario.placeable, since, component)
                bound = watch.without(contestant.starter)
                left = await asyncio.to_thread(audit.read, self._plane.request)
            finally:
                await asyncio.to_thread(component.stop)
        return Sample(
            scenario=scenario.name,
            scheduler=contestant.name,
            turn=turn,
            pods=scenario.pods,
            bound=len(bound),
            first=min(bound.values(), default=began) - began,
            seconds=max([began, *bound.values()]) - began,
            whole=whole_nodes(left),
            findings=_findings(left, _namespaces(manifests)),
        )

    async def _finished(self, watch: Watch, starter: str, placeable: int, since: float, component: Component) -> None:
        """Wait until all that fit are bound, or nothing was for a while; `since` is when the wait for them began."""
        while time.monotonic() < since + LIMIT_SECONDS:
            bound = watch.without(starter)
            last = max(bound.values(), default=since)
            quiet_from = last + QUIET_SECONDS if last > since else since + FIRST_SECONDS
            if len(bound) >= placeable or time.monotonic() > quiet_from:
                return
            component.check()
            await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def _waiting(self, manifests: list[Manifest], pods: int) -> AsyncIterator[None]:
        """Have all objects and all claims made from templates in the cluster, and take them away at the end."""
        namespaces = _namespaces(manifests)
        await objects.create(self._session, map(_namespace, namespaces))
        workloads = [each for each in manifests if each["kind"] in {"Pod", "Deployment"}]
        others = [each for each in manifests if each not in workloads]
        try:
            await objects.create(self._session, others)
            await objects.create(self._session, workloads)
            await self._until(lambda: self._unready(namespaces, pods), "all pods have their claims")
            yield
        except Exception:  # when cancelled, all is thrown away with the control plane
            await self._take_away(manifests, namespaces)
            raise
        await self._take_away(manifests, namespaces)

    async def _take_away(self, manifests: list[Manifest], namespaces: frozenset[str]) -> None:
        await objects.delete(self._session, [each for each in manifests if each["kind"] == "Deployment"])
        await self._until(lambda: self._remaining(namespaces), "the pods and claims of a run are gone")
        await objects.delete(self._session, [each for each in manifests if each["kind"] not in {"Pod", "Deployment"}])
        await objects.delete(self._session, map(_namespace, namespaces))

    @contextlib.asynccontextmanager
    async def _watching(self, manifests: list[Manifest]) -> AsyncIterator[Watch]:
        watch = Watch(_namespaces(manifests))
        task = asyncio.create_task(watch.run(self._session))
        try:
            yield watch
        finally:
            task.cancel()

    async def _unready(self, namespaces: frozenset[str], pods: int) -> int:
        """Count the pods that are not there yet, or lack claims that are made from templates."""
        there = [each for each in await self._list(PODS) if each["metadata"]["namespace"] in namespaces]
        return pods - sum(_has_its_claims(pod) for pod in there)

    async def _remaining(self, namespaces: frozenset[str]) -> int:
        """Delete the pods that are still there and count them and their claims."""
        pods = [each for each in await self._list(PODS) if each["metadata"]["namespace"] in namespaces]
        await objects.delete(self._session, [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in pods])
        claims = [
            each
            for each in await self._list(CLAIMS)
            if each["metadata"]["namespace"] in namespaces and each["metadata"].get("ownerReferences")
        ]
        return len(pods) + len(claims)

    async def _until(self, count: Callable[[], Awaitable[int]], what: str) -> None:
        """Wait until a number is zero. Raises TimeoutError that says what it should have meant."""
        end = time.monotonic() + SETTLE_SECONDS
        while left := await count():
            if time.monotonic() > end:
                raise TimeoutError(f"not so after {SETTLE_SECONDS:.0f} s: {what} ({left} are left)")
            await asyncio.sleep(0.1)

    async def _list(self, path: str) -> list[dict[str, Any]]:
        # From the API server's cache: a list of everything several times a second must not be what is measured.
        answer = await objects.request(self._session, "GET", path, query={"resourceVersion": "0"})
        items: list[dict[str, Any]] = answer["items"]
        return items


def whole_nodes(found: audit.Objects) -> int:
    """Count the nodes that have devices none of which is in use."""
    pools = {
        (each["spec"]["driver"], each["spec"]["pool"]["name"]): each["spec"]["nodeName"]
        for each in found.slices
        if each["spec"].get("nodeName") and each["spec"].get("devices")
    }
    results = (result for claim in found.claims for result in audit.results_of(claim))
    used = {pools.get((result["driver"], result["pool"])) for result in results}
    return len(set(pools.values()) - used)


def _findings(found: audit.Objects, namespaces: frozenset[str]) -> tuple[str, ...]:
    """Check what a run has left in the API server, from any client."""
    own = found._replace(
        pods=[each for each in found.pods if each["metadata"]["namespace"] in namespaces],
        claims=[each for each in found.claims if each["metadata"]["namespace"] in namespaces],
    )
    return (
        *(f"{each.rule}: {each.subject}: {each.message}" for each in audit.audit(own)),
        *(f"gang: {name}: {count} of {size} bound" for name, count, size in partial_gangs(own)),
    )


def partial_gangs(found: audit.Objects) -> list[tuple[str, int, int]]:
    """Name the groups of pods of which some are bound and some are not, with how many are and how many there are."""
    gangs: dict[str, list[bool]] = {}
    for pod in found.pods:
        name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        if name:
            gangs.setdefault(name, []).append(bool(pod["spec"].get("nodeName")))
    return [(name, sum(bound), len(bound)) for name, bound in gangs.items() if 0 < sum(bound) < len(bound)]


def _has_its_claims(pod: dict[str, Any]) -> bool:
    wanted = [each for each in pod["spec"].get("resourceClaims") or () if each.get("resourceClaimTemplateName")]
    return len(pod["status"].get("resourceClaimStatuses") or ()) == len(wanted)


def _unique(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Keep one of several manifests of the same object: examples bring the same class twice."""
    return list({objects.object_path(manifest): manifest for manifest in manifests}.values())


def _namespaces(manifests: Iterable[Manifest]) -> frozenset[str]:
    return frozenset(each["metadata"]["namespace"] for each in manifests if "namespace" in each["metadata"])


def _namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _starter(contestant: Contestant, namespace: str) -> Manifest:
    """Make a pod without claims that goes before all others."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": contestant.starter, "namespace": namespace},
        "spec": {
            "schedulerName": contestant.scheduler_name,
            "priorityClassName": "system-node-critical",
            "containers": [{"name": "main", "image": IMAGE}],
        },
    }

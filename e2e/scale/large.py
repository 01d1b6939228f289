"""One scheduler on a large cluster: what it costs while nothing happens, and while one device is freed a second."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from e2e.controlplane import wire
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail
from e2e.objects import delete, exists, object_path
from e2e.scale import full_cluster, process_use
from e2e.scale.figures import Figure

REPORT_SECONDS: Final = 300.0
"""nodeStatusReportFrequency: a kubelet sends an unchanged node status so often."""
_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_STRATEGIC_MERGE: Final = {"Content-Type": "application/strategic-merge-patch+json"}
_QUIET_SHARE: Final = 0.05
_POLL_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 900.0
_GIVEN_SECONDS: Final = 30.0


@dataclass(slots=True)
class LargeCluster:
    """A scheduler on a cluster of `nodes`, of which every device is held, and of `pods` that wait."""

    plane: ControlPlane
    session: aiohttp.ClientSession
    kubeconfig: Path
    nodes: int
    pods: int

    async def idle(self, seconds: float) -> Iterator[Figure]:
        """Measure a scheduler that has nothing to do, without and with the kubelets' node status."""
        async with self._scheduler() as pid:
            silent = await self._share(pid, seconds)
            beating = asyncio.create_task(self._beat())
            try:
                beaten = await self._share(pid, seconds)
            finally:
                beating.cancel()
            memory = process_use.memory_mib(pid)
        size = f"{self.nodes} nodes × 8 devices, {4 * self.nodes} pods"
        return iter(
            (
                Figure("idle, no event", size, f"{silent:.1%} of a core", ""),
                Figure("idle, node status of kubelets", size, f"{beaten:.1%} of a core", "≤ 3 %"),
                Figure("idle, memory with worker", size, f"{memory:.0f} MiB", "≤ 600 MiB"),
            )
        )

    async def freed(self, seconds: float) -> Iterator[Figure]:
        """Free one device a second, and say when another pod has it."""
        await full_cluster.add_waiting_pods(self.session, self.pods)
        watch = _Bindings()
        watching = asyncio.create_task(watch.run(self.session))
        try:
            async with self._scheduler() as pid:
                before, began = process_use.cpu_seconds(pid), time.monotonic()
                waits = await self._free(watch, round(seconds))
                share = (process_use.cpu_seconds(pid) - before) / (time.monotonic() - began)
                memory = process_use.memory_mib(pid)
        finally:
            watching.cancel()
        ordered = sorted(waits)
        late = f"{sum(each > 1 for each in ordered)} of {len(ordered)} later than 1 s"
        waited = f"p50 {_at(ordered, 0.5)}, p99 {_at(ordered, 0.99)} s; {late}"
        size = f"{self.pods} pods of {full_cluster.SPECS} specs wait, {self.nodes} nodes × 8"
        return iter(
            (
                Figure("a device is freed each second", size, waited, "≤ 1 s each"),
                Figure("the same, CPU", size, f"{share:.1%} of a core", "≤ 20 %"),
                Figure("the same, memory with worker", size, f"{memory:.0f} MiB", ""),
            )
        )

    @asynccontextmanager
    async def _scheduler(self) -> AsyncIterator[int]:
        """Run a scheduler, and give its process id when it has done what there was to do."""
        log = self.plane.folder / "dovetail.log"
        component = await asyncio.to_thread(Dovetail.start, self.kubeconfig, log, leader_elect=False)
        try:
            end = time.monotonic() + _PATIENCE_SECONDS
            while await self._share(component.pid, _POLL_SECONDS) > _QUIET_SHARE and time.monotonic() < end:
                component.check()
            yield component.pid
        finally:
            await asyncio.to_thread(component.stop)

    async def _share(self, pid: int, seconds: float) -> float:
        """Return which share of a core the scheduler uses in the next seconds."""
        before, began = process_use.cpu_seconds(pid), time.monotonic()
        await asyncio.sleep(seconds)
        return (process_use.cpu_seconds(pid) - before) / (time.monotonic() - began)

    async def _beat(self) -> None:
        """Send the node status of every kubelet, one after the other, all of them in `REPORT_SECONDS`."""
        began = time.monotonic()
        for number in itertools.count():
            await asyncio.sleep(max(0.0, began + number * REPORT_SECONDS / self.nodes - time.monotonic()))
            path = f"{full_cluster.NODES_PATH}/gpu-{number % self.nodes:04}/status"
            async with self.session.patch(path, data=_status(), headers=_STRATEGIC_MERGE) as answer:
                answer.raise_for_status()

    async def _free(self, watch: "_Bindings", count: int) -> list[float]:
        """Delete the pods that hold one GPU, one a second, and return how long each GPU was free."""
        candidates = await self._holding_nodes(count)
        waits, began = list[float](), time.monotonic()

        async def free(node: int) -> None:
            pod, claim, _ = full_cluster.last_holder(node)
            taken = watch.next_on(pod["spec"]["nodeName"])
            await delete(self.session, [pod])
            await delete(self.session, [claim])
            deleted = time.monotonic()
            async with asyncio.timeout(_GIVEN_SECONDS):
                waits.append(max(0.0, await taken - deleted))

        async with asyncio.TaskGroup() as tasks:
            for number, node in enumerate(candidates):
                await asyncio.sleep(max(0.0, began + number - time.monotonic()))
                tasks.create_task(free(node))
        return waits

    async def _holding_nodes(self, count: int) -> list[int]:
        """Return nodes whose pod with one GPU is there: an earlier run may have deleted some."""
        found = list[int]()
        for node in range(self.nodes):
            if len(found) == count:
                break
            if await exists(self.session, object_path(full_cluster.last_holder(node)[0])):
                found.append(node)
        return found


class _Bindings:
    """When the next pod of a node was bound, as a watch from outside sees it."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._awaited: dict[str, asyncio.Future[float]] = {}

    def next_on(self, node: str) -> asyncio.Future[float]:
        """Return when the next pod is bound to a node."""
        return self._awaited.setdefault(node, asyncio.get_running_loop().create_future())

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Watch until cancelled."""
        async for kind, pod in wire.changes(session, "/api/v1/pods", wire.Pod, "spec.nodeName!="):
            is_new = pod.metadata.uid not in self._seen
            self._seen.add(pod.metadata.uid)
            if kind != "DELETED" and is_new and (taken := self._awaited.pop(pod.spec.node_name, None)):
                taken.set_result(time.monotonic())


def _at(ordered: list[float], share: float) -> str:
    return f"{ordered[min(len(ordered) - 1, int(share * len(ordered)))]:.2f}" if ordered else "–"


def _status() -> bytes:
    """Make what a kubelet sends where nothing but the time has changed."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    conditions = [
        {"type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": now}
        for kind, status, reason, message in _CONDITIONS
    ]
    return msgspec.json.encode({"status": {"conditions": conditions}})

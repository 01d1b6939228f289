"""
Waiting pods and claims that were shed because memory is short: reports them, and reads them again when there is room.

`queue.memory_budget` decides which; here is its I/O.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.change import Change, Kind
from scheduler.kube import paths
from scheduler.kube.client import Client
from scheduler.kube.decode.objects import decode
from scheduler.kube.errors import DecodeError, KubeError, NotFound
from scheduler.observe import logs, memory
from scheduler.observe.health import Check
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.queue.memory_budget import MemoryBudget, ObjectKey
from solver.domain import ClaimId, PodId

_PERIOD_SECONDS: Final = 1.0
_MOST_READS: Final = 100
"""Objects that are read in one period, so that no other request is delayed."""
_FULL_SHARE: Final = 0.9
"""Share of the container's memory above which no new waiting object is taken in."""
_MIB: Final = 1024 * 1024

_log: Final = logs.logger()


class Readmission:
    """Reads shed objects again, in the background; `see` gets their changes."""

    def __init__(
        self,
        client: Client,
        shedding: MemoryBudget,
        see: Callable[[Sequence[Change]], None],
        *,
        metrics: Metrics,
        check: Check,
        worker_pid: Callable[[], int | None],
    ) -> None:
        self._client: Final = client
        self._shedding: Final = shedding
        self._see: Final = see
        self._metrics: Final = metrics
        self._check: Final = check
        self._worker_pid: Final = worker_pid
        self._limit_bytes: Final = memory.container_limit_bytes()
        self._is_short = False
        check.succeed()

    async def run(self) -> None:
        """Do so every second."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            for step in (self._look_at_memory, self.readmit, self._report):
                with Confined(self._metrics, Subsystem.READMISSION):
                    await step()

    async def readmit(self) -> None:
        """Read the objects for which there is room."""
        for key, seen in self._shedding.candidates(_MOST_READS):
            try:
                with Confined(self._metrics, Subsystem.READMISSION, passing=(KubeError, DecodeError), key=key.name):
                    await self._readmit(key, seen)
                    continue
                self._shedding.readmit(key, seen)  # a defect on one object: the watch shows its next version
            except DecodeError:
                self._shedding.readmit(key, seen)  # the watch shows it when it is readable
            except KubeError:
                return  # the next period tries again

    async def _readmit(self, key: ObjectKey, seen: int) -> None:
        try:
            value = decode(key.kind, await self._client.request("GET", _path(key)))
        except NotFound:
            value = None
        if self._shedding.readmit(key, seen):
            self._see((Change(kind=key.kind, key=key.name, value=value),))

    async def _look_at_memory(self) -> None:
        pids = [os.getpid(), *(pid for pid in (self._worker_pid(),) if pid is not None)]
        used = memory.resident_bytes(pids)
        self._metrics.memory_resident.set(used)
        self._shedding.is_closed = self._limit_bytes is not None and used > _FULL_SHARE * self._limit_bytes

    async def _report(self) -> None:
        """Show the shed objects: series, readiness detail, and a log line at the beginning and the end."""
        shedding, counts = self._shedding, {kind: self._shedding.left(kind) for kind in (Kind.PODS, Kind.CLAIMS)}
        self._metrics.waiting_bytes.set(shedding.bytes)
        for kind, count in counts.items():
            self._metrics.shed_objects.labels(kind).set(count)
        is_short = shedding.is_closed or any(counts.values())
        if is_short:
            self._check.degrade(_message(shedding, counts))
        elif self._is_short:
            self._check.succeed()
        if is_short != self._is_short:
            self._is_short = is_short
            _log.warning(logs.MEMORY_SHORT if is_short else logs.MEMORY_ENOUGH, detail=self._check.message)


def _message(shedding: MemoryBudget, counts: dict[Kind, int]) -> str:
    cause = (
        "the container's memory is nearly used up: raise its limit"
        if shedding.is_closed
        else f"waiting pods and claims take {shedding.bytes // _MIB} MiB: raise queue.maxWaitingMiB and the limit"
    )
    left = f"{counts[Kind.PODS]} pods and {counts[Kind.CLAIMS]} claims are not taken in"
    largest = shedding.largest()
    return f"{cause}; {left}" + (f", most of them of namespace {largest}" if largest else "")


def _path(key: ObjectKey) -> str:
    namespace, _, name = key.name.partition("/")
    if key.kind is Kind.PODS:
        return paths.pod(PodId(namespace, name))
    return paths.claim(ClaimId(namespace, name))

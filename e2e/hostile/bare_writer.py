"""
A process that binds pods and decides nothing: how long a pod waits by the API server alone, beside the same objects.

`python -m e2e.hostile.bare_writer KUBECONFIG` watches all pods and claims, and joins the good pods that name it to
their claims, which have the same names. For each it writes what Dovetail writes: finalizer, status, binding, event. Its
devices are no driver's.
"""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, cast

import msgspec
import uvloop

from e2e.compare.writer import Assignment, node_selector, place
from e2e.hostile.objects.kinds import BARE_WRITER, HELD_NODE
from e2e.hostile.stream import NAMESPACE
from scheduler.change import Kind
from scheduler.kube import paths
from scheduler.kube.client import Client
from scheduler.kube.decode.objects import decode
from scheduler.kube.errors import KubeError
from scheduler.status.events import EventFactory
from solver.domain import Allocation, Claim, DeviceId, DeviceResult, Pod

_SILENT_SECONDS: Final = 600.0
_AGAIN_SECONDS: Final = 1.0


class _Metadata(msgspec.Struct):
    name: str
    namespace: str


class _Named(msgspec.Struct):
    metadata: _Metadata


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BareWriter:
    """Joins each pod to its claim, and places both."""

    def __init__(self, client: Client) -> None:
        self._client: Final = client
        self._events: Final = EventFactory(BARE_WRITER)
        self._numbers: Final = itertools.count()
        self._pods: Final[dict[str, Pod]] = {}
        self._claims: Final[dict[str, Claim]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    async def run(self) -> None:
        """Place until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._see_pods())
            tasks.create_task(self._see_claims())

    async def _see_pods(self) -> None:
        async for found in _mine(self._client, Kind.PODS):
            pod = cast("Pod", found)
            if not pod.node_name:
                self._pods[pod.id.name] = pod
                self._place(pod.id.name)

    async def _see_claims(self) -> None:
        async for found in _mine(self._client, Kind.CLAIMS):
            claim = cast("Claim", found)
            if claim.allocation is None:
                self._claims[claim.id.name] = claim
                self._place(claim.id.name)

    def _place(self, name: str) -> None:
        if name in self._pods and name in self._claims:
            task = asyncio.create_task(self._write(self._pods.pop(name), self._claims.pop(name)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _write(self, pod: Pod, claim: Claim) -> None:
        device = DeviceId("writer.example.com", "writer", f"device-{next(self._numbers)}")
        result = DeviceResult(request=claim.requests[0].name, device=device)
        allocation = Allocation(results=(result,), node_selector=node_selector(HELD_NODE))
        try:
            await place(self._client, self._events, Assignment(pod, claim, allocation, HELD_NODE))
        except KubeError as error:  # this pod waits, as its measurement says
            print(error, file=sys.stderr, flush=True)


def _created(line: bytes) -> msgspec.Raw | None:
    """Return the pod or claim of the bare writer that a line of a watch tells of for the first time."""
    try:
        event = msgspec.json.decode(line, type=_Event)
        if event.type != "ADDED":
            return None
        metadata = msgspec.json.decode(event.object, type=_Named).metadata
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None  # a hostile object, or a line that is cut where a watch ends
    is_own = metadata.namespace == NAMESPACE and metadata.name.startswith(BARE_WRITER)
    return event.object if is_own else None


async def _opened(lines: AsyncIterator[list[bytes]], kind: Kind) -> AsyncIterator[list[bytes]]:
    """Pass the lines of a watch on, and say when it is open."""
    async for chunk in lines:
        if not chunk:  # the first one
            print(f"watches {kind.value}", flush=True)
        yield chunk


async def _mine(client: Client, kind: Kind) -> AsyncIterator[object]:
    """
    Give the pods or claims of the bare writer that are there or are created.

    All namespaces are watched, and a watch that has ended starts with everything, as a scheduler's does.
    """
    while True:
        try:
            lines = client.stream_lines(paths.COLLECTIONS[kind], {"watch": "1"}, read_timeout_seconds=_SILENT_SECONDS)
            async for line in (each async for chunk in _opened(lines, kind) for each in chunk):
                found = _created(line)
                if found is not None:
                    yield decode(kind, found)
        except KubeError as error:
            print(error, file=sys.stderr, flush=True)
        await asyncio.sleep(_AGAIN_SECONDS)


async def main(kubeconfig: Path) -> None:
    """Place pods until the process ends."""
    async with Client.connect(kubeconfig) as client:
        await _BareWriter(client).run()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))

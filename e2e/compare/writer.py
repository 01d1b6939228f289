"""
A process that sends what Dovetail sends for a pod and decides nothing: how fast an API server with its watches is.

`python -m e2e.compare.writer KUBECONFIG` reads all pods that name it, their claims and all slices, gives each claim the
next free devices, says `READY`, and writes finalizer, status, binding and event of each pod, with watches of pods and
claims open. Claims have one request with a count, and at most one matchAttribute.
"""

import asyncio
import datetime as dt
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, cast

import uvloop

from scheduler.change import Kind
from scheduler.kube import paths, writes
from scheduler.kube.client import Client, pages
from scheduler.kube.decode.objects import decode
from scheduler.status.events import EventFactory
from solver.domain import (
    Allocation,
    Claim,
    ConsumerReference,
    DeviceId,
    DeviceResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    ResourceSlice,
)

NAME: Final = "writer"
"""The schedulerName of its pods."""
READY: Final = "ready"
SCENARIOS: Final = "one-gpu", "gpu-pairs"
"""How the names of scenarios begin whose pods it can serve one after the other."""
_AT_ONCE: Final = 32
_SILENT_SECONDS: Final = 600.0


class Assignment(NamedTuple):
    """A pod, its claim, and what both get."""

    pod: Pod
    claim: Claim
    allocation: Allocation
    node: str


class _Devices:
    """The free devices of a cluster, in groups that have the same node and the same value of an attribute."""

    def __init__(self, slices: Iterable[ResourceSlice], attribute: str) -> None:
        groups: dict[tuple[str, object], list[DeviceId]] = defaultdict(list)
        for each in slices:
            for device in each.devices:
                group = each.scope.node_name, dict(device.attributes).get(attribute)
                groups[group].append(DeviceId(each.driver, each.pool, device.name))
        self._groups: Final = itertools.cycle([(node, devices) for (node, _), devices in groups.items()])
        self._count: Final = len(groups)

    def take(self, count: int) -> tuple[str, list[DeviceId]]:
        """Return a node and some of its devices. Raises ValueError where no group has as many left."""
        for node, devices in itertools.islice(self._groups, self._count):
            if len(devices) >= count:
                return node, [devices.pop() for _ in range(count)]
        raise ValueError(f"no group of devices has {count} left: make the fleet larger")


def assignments(pods: Iterable[Pod], claims: Iterable[Claim], slices: Iterable[ResourceSlice]) -> Iterator[Assignment]:
    """Give each claim of a pod the next free devices. Raises ValueError where there are too few."""
    of_pods = {each.owner_pod_uid: each for each in claims}
    used = [(each, of_pods[each.uid]) for each in pods]
    attribute = next((constraint.attribute for _, claim in used for constraint in claim.constraints), "")
    devices = _Devices(slices, attribute)
    for pod, claim in used:
        (request,) = claim.requests
        node, taken = devices.take(request.alternatives[0].count)
        allocation = Allocation(
            results=tuple(DeviceResult(request=request.name, device=each) for each in taken),
            node_selector=node_selector(node),
        )
        yield Assignment(pod, claim, allocation, node)


def node_selector(node: str) -> NodeSelector:
    """Make the selector of an allocation whose devices one node alone can use."""
    name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    return NodeSelector(terms=(NodeSelectorTerm(match_fields=(name,)),))


async def write(kubeconfig: Path) -> None:
    """Write all pods that name the writer, and end with standard input. Raises KubeError and ValueError."""
    async with Client.connect(kubeconfig) as client, asyncio.TaskGroup() as tasks:
        pods = [cast("Pod", each) for each in await _list(client, Kind.PODS)]
        claims = [cast("Claim", each) for each in await _list(client, Kind.CLAIMS)]
        slices = [cast("ResourceSlice", each) for each in await _list(client, Kind.SLICES)]
        waiting = [each for each in pods if each.scheduler_name == NAME and not each.node_name]
        todo = iter(list(assignments(waiting, claims, slices)))
        watches = [tasks.create_task(_watch(client, each)) for each in (Kind.PODS, Kind.CLAIMS)]
        print(READY, flush=True)
        events = EventFactory(NAME)
        await asyncio.gather(*(_write_all(client, events, todo) for _ in range(_AT_ONCE)))
        await asyncio.to_thread(sys.stdin.buffer.read)
        for each in watches:
            each.cancel()


async def _write_all(client: Client, events: EventFactory, todo: Iterator[Assignment]) -> None:
    for each in todo:
        await place(client, events, each)


async def place(client: Client, events: EventFactory, assignment: Assignment) -> None:
    """Write a claim, its pod's binding and the event. Raises KubeError."""
    pod, claim, allocation, node = assignment
    kept = await writes.add_finalizer(client, claim)
    await writes.allocate(client, kept, allocation, [ConsumerReference.of(pod.id, pod.uid)])
    await writes.bind(client, pod.id, pod.uid, node)
    await writes.write_event(client, events.scheduled(pod, node, dt.datetime.now(dt.UTC)))


async def _list(client: Client, kind: Kind) -> list[object]:
    return [decode(kind, raw) async for page in pages(client, paths.COLLECTIONS[kind]) for raw in page.items]


async def _watch(client: Client, kind: Kind) -> None:
    """Read a watch and drop what it says."""
    query = {"watch": "1"}
    async for _ in client.stream_lines(paths.COLLECTIONS[kind], query, read_timeout_seconds=_SILENT_SECONDS):
        pass


if __name__ == "__main__":
    uvloop.run(write(Path(sys.argv[1])))

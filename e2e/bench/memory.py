"""
What the scheduler and its worker process take in memory, per node, device, bound pod and waiting pod.

Each process is measured in a child of its own, with the real path: JSON of the watch → decode → cluster, change log and
queue; and frames → replica → one solve, which makes the inventory. docs/operating.md has the formula.
"""

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

import msgspec
from rich.table import Table

from e2e.fleet import nvidia
from e2e.fleet.shape import Manifest, images
from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.cluster.interning import DeviceInterner
from scheduler.kube.decode.pieces import at_once
from scheduler.kube.watching.list_watch import ListWatch, Received
from scheduler.observe.memory import resident_bytes
from scheduler.queue import SchedulingQueue
from scheduler.queue.memory_budget import MemoryBudget
from scheduler.worker import frames
from scheduler.worker.change_log import ChangeLog
from solver import SolverCache, solve, solve_warm_up_case
from solver.domain import Batch, Budget, Pod, Policy, ResourceSlice

_NAME: Final = "trainer-6d5f9c7b8-"
_NOWHERE: Final = 1 << 50
_DEVICES_PER_NODE: Final = 8
NODES: Final = 1000

Stage = tuple[str, int, Iterator[tuple[Kind, bytes]]]


class Measured(NamedTuple):
    """KiB of one process for one object of a stage; `base` is what it takes with nothing in it, in MiB."""

    process: str
    base_mib: float
    kib: dict[str, float]


def measure(nodes: int = NODES) -> tuple[Measured, ...]:
    """Measure both processes, one after the other, with so many nodes of eight devices, and as many pods as devices."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, maxtasksperchild=1) as pool:
        return tuple(pool.apply(_process, (name, nodes)) for name in ("shell", "worker"))


def render(measured: tuple[Measured, ...]) -> Table:
    """One line per kind of object."""
    table = Table("", *(f"{each.process}" for each in measured), "together", title="Memory")
    table.add_row("with nothing in it, MiB", *(f"{each.base_mib:.0f}" for each in measured), _sum(_bases(measured)))
    for stage in measured[0].kib:
        values = [each.kib[stage] for each in measured]
        table.add_row(f"{stage}, KiB", *(f"{value:.1f}" for value in values), _sum(values))
    return table


def _bases(measured: tuple[Measured, ...]) -> list[float]:
    return [each.base_mib for each in measured]


def _sum(values: list[float]) -> str:
    return f"{sum(values):.1f}"


def _process(name: str, nodes: int) -> Measured:
    solve_warm_up_case()
    take = {"shell": _shell, "worker": _worker}[name]()
    base, found = _resident(), {}
    for stage, count, objects in _stages(nodes):
        before = _resident()
        take(objects)
        found[stage] = (_resident() - before) / 1024 / count
    return Measured(name, base / 1024 / 1024, found)


def _resident() -> int:
    gc.collect()
    return resident_bytes((os.getpid(),))


def _shell() -> Callable[[Iterator[tuple[Kind, bytes]]], None]:
    cluster, changes, pending = Cluster(), ChangeLog(), SchedulingQueue(("dovetail",))
    shedding = MemoryBudget(("dovetail",), _NOWHERE, cluster.interner)
    watches = {kind: ListWatch(kind) for kind in (Kind.NODES, Kind.SLICES, Kind.CLASSES, Kind.PODS, Kind.CLAIMS)}

    def take(objects: Iterator[tuple[Kind, bytes]]) -> None:
        for kind, body in objects:
            for change in shedding.admit(_changes(watches[kind], body)):
                cluster.apply(change)
                changes.append(change)
                if isinstance(change.value, Pod):
                    pending.offer(change.value, 0.0)

    return take


def _worker() -> Callable[[Iterator[tuple[Kind, bytes]]], None]:
    replica, devices, engine = Cluster(), DeviceInterner(), SolverCache()

    def take(objects: Iterator[tuple[Kind, bytes]]) -> None:
        waiting: tuple[Pod, ...] = ()
        for kind, body in objects:
            for change in _changes(ListWatch(kind), body):
                sent = frames.decode_change(frames.encode_change(change))
                if isinstance(sent.value, ResourceSlice):
                    devices.share(sent.value)
                replica.apply(sent)
                if isinstance(sent.value, Pod) and not sent.value.node_name:
                    waiting = (sent.value,)
        batch = Batch(pods=waiting)
        solve(replica.snapshot(), batch, Policy(), Budget(), engine)

    return take


def _changes(watch: ListWatch, body: bytes) -> list[Change]:
    received = Received()
    at_once(watch.receive_lines((b'{"type":"ADDED","object":' + body + b"}",), received))
    if received.problems:
        raise received.problems[0]
    return received.changes


def _stages(nodes: int) -> Iterator[Stage]:
    pods = devices = nodes * _DEVICES_PER_NODE
    fleets = [nvidia.gpu_node(f"node-{number:05}") for number in range(nodes)]
    for fleet in fleets:
        fleet.nodes[0]["status"]["images"] = list(images())
    yield "node", nodes, _published(Kind.NODES, (each.nodes for each in fleets))
    slices = _published(Kind.SLICES, (each.slices for each in fleets))
    yield "device", devices, chain(_published(Kind.CLASSES, [fleets[0].classes]), slices)
    yield "bound pod with its claim", pods, _pods("bound", pods, is_bound=True)
    yield "waiting pod with its claim", pods, _pods("waiting", pods, is_bound=False)


def _published(kind: Kind, objects: Iterable[Iterable[Manifest]]) -> Iterator[tuple[Kind, bytes]]:
    return ((kind, _raw(each)) for some in objects for each in some)


def _pods(namespace: str, count: int, *, is_bound: bool) -> Iterator[tuple[Kind, bytes]]:
    for number in range(count):
        node, device = f"node-{number // _DEVICES_PER_NODE:05}", f"gpu-{number % _DEVICES_PER_NODE}"
        name, uid = f"{_NAME}{number:06}", f"11111111-2222-3333-4444-{number:012}"
        owner = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}]
        results = [{"request": "gpu", "driver": nvidia.DRIVER, "pool": node, "device": device}]
        reserved = [{"resource": "pods", "name": name, "uid": uid}]
        claim = {
            "metadata": {"name": f"{name}-gpu-abcde", "namespace": namespace, "ownerReferences": owner},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
            "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved} if is_bound else {},
        }
        yield Kind.CLAIMS, _raw(claim)
        yield Kind.PODS, _raw(_pod(namespace, name, uid, node if is_bound else ""))


def _pod(namespace: str, name: str, uid: str, node: str) -> dict[str, object]:
    replicas = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": _NAME, "uid": f"uid-{namespace}"}
    times = [{"key": f"node.kubernetes.io/{each}", "operator": "Exists"} for each in ("not-ready", "unreachable")]
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "trainer", "team": "research", "pod-template-hash": "6d5f9c7b8"},
            "ownerReferences": [{**replicas, "controller": True}],
        },
        "spec": {
            "schedulerName": "dovetail",
            "containers": [
                {"name": "main", "image": "trainer", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
            ],
            "tolerations": times,
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        }
        | ({"nodeName": node} if node else {}),
        "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu-abcde"}]},
    }


def _raw(manifest: Manifest) -> bytes:
    metadata = manifest["metadata"]
    own = {"uid": f"uid-{metadata['name']}", "resourceVersion": "1"}
    return msgspec.json.encode({**manifest, "metadata": own | metadata})

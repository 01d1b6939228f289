"""
How the cost of a decision grows with nodes, pods, devices of a node, and what pods ask for.

Half of all devices are held by running pods. One thing is varied at a time; each point is a cluster of its own.
Seconds are CPU seconds of the process: other work on the machine changes them little.
"""

import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from rich import box
from rich.table import Table

from e2e.bench import asks, clusters
from e2e.bench.asks import Ask
from e2e.bench.clusters import Share
from e2e.bench.measure import Effort, timed
from e2e.bench.workloads import Case
from e2e.fleet import nvidia
from e2e.fleet.shape import Fleet
from e2e.plots import Panel, Series
from e2e.spread import spread
from solver import SolverCache
from solver.domain import Batch, Policy, Snapshot

NODES, PODS, DEVICES = 1000, 1000, 8
COLUMNS: Final = ("VARIED", "SIZE", "PLACED", "PROVEN", "ONE POD", "ALL PODS", "AFTER A DEVICE", "COLD")
CAPTION: Final = (
    f"CPU milliseconds of a decision, the median (least–most). {NODES} nodes, {PODS} pods and {DEVICES} devices on a "
    "node where they are not varied. PROVEN: no other plan places more pods. AFTER A DEVICE: one pod, after a device "
    "came or went. COLD: the first decision, which reads the whole cluster."
)
_EFFORT: Final = Effort()


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One measured cluster and batch; CPU seconds, of a decision about `one_pod` or about `all_pods`."""

    varied: str
    size: str
    pods: int
    placed: int
    proven: bool
    one_pod: tuple[float, ...]
    all_pods: tuple[float, ...]
    after_device: tuple[float, ...]
    cold: float


@dataclass(frozen=True, slots=True)
class Size:
    """One point to measure: the kind of node is made by `node`, pods are drawn from `kinds`."""

    varied: str
    name: str
    node: Callable[[str], Fleet] = clusters.h100_alone
    nodes: int = NODES
    devices: int = DEVICES
    pods: int = PODS
    kinds: tuple[Ask, ...] = (asks.gpus(1, weight=3), asks.gpus(2), asks.gpus(4))


def sizes() -> tuple[Size, ...]:
    """Return all points."""
    return (
        *(Size("nodes", str(count), nodes=count) for count in (500, 1500, 5000, 15000)),
        *(Size("pods", str(count), nodes=5000, pods=count) for count in (10, 100, 1000, 5000)),
        *(Size("devices of a node", str(count), partial(_node, count), devices=count) for count in (2, 4, 8, 16)),
        *_constraints(),
        Size("nodes and pods", "15000 × 5000", nodes=15000, pods=5000),
    )


def _node(gpus: int, name: str) -> Fleet:
    return nvidia.gpu_node(name, gpus=gpus)


def _constraints() -> Iterator[Size]:
    """One kind of pod each, of one or two devices."""
    kinds: tuple[tuple[str, Callable[[str], Fleet], Ask], ...] = (
        ("any GPU", clusters.h100, asks.gpus(1)),
        ("a GPU of a model", clusters.h100, asks.gpus(1, model=nvidia.H100.product)),
        ("first available of two", clusters.h100, asks.first_available((2, clusters.H200.product), (2, ""))),
        ("two GPUs of a NUMA node", clusters.h100, asks.together(2)),
        ("GPU and card of a PCIe root", clusters.h100, asks.pairs(1)),
        ("a MIG device", clusters.partitionable, asks.profile("1g.5gb")),
        ("a share of memory", clusters.shareable, asks.share(20)),
    )
    return (Size("what a pod asks for", name, node, nodes=200, pods=400, kinds=(ask,)) for name, node, ask in kinds)


def case_of(size: Size, seed: int = 0) -> Case:
    """Make the cluster and the pods of a point."""
    chance = random.Random(seed)  # noqa: S311 - a workload, not a secret
    free = (0, size.devices // 2, size.devices)
    snapshot = clusters.in_use(clusters.cluster(size.nodes, Share(100, size.node)), free, chance)
    pods, claims = asks.waiting(asks.mixed(size.kinds, size.pods, chance), (1,) * size.pods)
    return Case(clusters.waiting(snapshot, claims), Batch(pods=tuple(pods)))


def measure(size: Size, runs: int) -> Point:
    """Decide a point cold and warm, about one pod and about all, and after changes of a slice."""
    case, policy, cache = case_of(size), Policy(), SolverCache()
    one = Case(case.snapshot, Batch(pods=case.batch.pods[:1]))
    cold, plan = timed(case, policy, _EFFORT, cache)
    all_pods = [timed(case, policy, _EFFORT, cache)[0] for _ in range(runs)]
    changed = Case(without_a_device(case.snapshot), one.batch)
    one_pod, after_device = [], []
    for _ in range(runs):
        after_device += [timed(each, policy, _EFFORT, cache)[0] for each in (changed, one)]
        one_pod.append(timed(one, policy, _EFFORT, cache)[0])
    return Point(
        varied=size.varied,
        size=size.name,
        pods=size.pods,
        placed=len(plan.placements),
        proven=all(level.proven for level in plan.report.levels if level.name.startswith("placed")),
        one_pod=tuple(one_pod),
        all_pods=tuple(all_pods),
        after_device=tuple(after_device),
        cold=cold,
    )


def without_a_device(snapshot: Snapshot) -> Snapshot:
    """Take the last device from a slice in the middle that has any."""
    slices = list(snapshot.slices)
    index = next(index for index in range(len(slices) // 2, len(slices)) if slices[index].devices)
    slices[index] = msgspec.structs.replace(slices[index], devices=slices[index].devices[:-1])
    return msgspec.structs.replace(snapshot, slices=tuple(slices))


def render(points: Sequence[Point]) -> Table:
    """Lay out one line for each point."""
    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False, caption=CAPTION, caption_justify="left")
    for column in table.columns[2:]:
        column.justify = "right"
    shown = ""
    for each in points:
        if shown and each.varied != shown:
            table.add_section()
        table.add_row("" if each.varied == shown else each.varied, each.size, *_cells(each))
        shown = each.varied
    return table


def panels(points: Sequence[Point]) -> tuple[Panel, ...]:
    """Draw one panel for each thing that is varied over several sizes."""
    varied = {each.varied: [point for point in points if point.varied == each.varied] for each in points}
    return tuple(_panel(name, own) for name, own in varied.items() if len(own) > 1)


def _panel(varied: str, points: Sequence[Point]) -> Panel:
    numbers = tuple(float(each.size) for each in points if each.size.isdigit())
    series = (
        _series("one pod", [each.one_pod for each in points]),
        _series("all pods", [each.all_pods for each in points]),
        _series("one pod, after a device came or went", [each.after_device for each in points]),
        _series("cold", [(each.cold,) for each in points]),
    )
    x = numbers if len(numbers) == len(points) else tuple(each.size for each in points)
    return Panel(f"A decision, by {varied}", "CPU ms", x, series, varied, x_scale="log")


def _series(name: str, seconds: Sequence[tuple[float, ...]]) -> Series:
    return Series(
        name,
        tuple(statistics.median(each) * 1000 for each in seconds),
        tuple((min(each) * 1000, max(each) * 1000) for each in seconds),
    )


def markdown(points: Sequence[Point]) -> str:
    """Return the same table for a page."""
    rows = ((each.varied, each.size, *_cells(each)) for each in points)
    head = [f"| {' | '.join(COLUMNS).lower()} |", "|---|---|---:|---|---:|---:|---:|---:|"]
    return "\n".join((*head, *(f"| {' | '.join(row)} |" for row in rows)))


def write(path: Path, points: Sequence[Point]) -> None:
    """Record points as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(points)))


def _cells(point: Point) -> tuple[str, ...]:
    placed, proven = f"{point.placed} of {point.pods}", "yes" if point.proven else "no"
    times = (point.one_pod, point.all_pods, point.after_device, (point.cold,))
    return (placed, proven, *(spread([seconds * 1000 for seconds in each]) for each in times))

"""
What NVIDIA's driver publishes where GPUs are cut when they are allocated (gate DynamicMIG): every possible placement.

The whole GPU and every MIG placement are devices that draw on one counter set for each GPU (KEP-4815): a placement
takes its own memory slices, so that two of them fit together where their slices do not overlap.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from e2e.fleet import nvidia
from e2e.fleet.pci import gpu_slots
from e2e.fleet.shape import Fleet, Manifest, device, node, slices


class ClaimComponent(NamedTuple):
    """A profile of the A100 40 GB: its name, NVML's identity, its `parts` of seven, memory, and where it may begin."""

    name: str
    identity: int
    parts: int
    memory: str
    memory_slices: int
    starts: tuple[int, ...]


CUTS = (
    ClaimComponent("1g.5gb", 19, 1, "4864Mi", 1, (0, 1, 2, 3, 4, 5, 6)),
    ClaimComponent("2g.10gb", 14, 2, "9856Mi", 2, (0, 2, 4)),
    ClaimComponent("3g.20gb", 9, 3, "19968Mi", 4, (0, 4)),
    ClaimComponent("4g.20gb", 5, 4, "19968Mi", 4, (0,)),
    ClaimComponent("7g.40gb", 0, 7, "40192Mi", 8, (0,)),
)
MULTIPROCESSORS_PER_PART = 14
WHOLE = ClaimComponent("", 0, 7, "40Gi", 8, (0,))


def partitionable_node(name: str, *, gpus: int = 8) -> Fleet:
    """Make a node with A100 40 GB none of which is cut yet."""
    model = nvidia.A100_40GB
    devices = [each for minor in range(gpus) for each in _devices(name, minor, gpus)]
    sets = [
        {"name": _counter_set(minor), "counters": {key: {"value": value} for key, value in _drawn(WHOLE, 0).items()}}
        for minor in range(gpus)
    ]
    made = slices(nvidia.DRIVER, name, devices)
    pool = {**made[0]["spec"]["pool"], "resourceSliceCount": len(made) + 1}
    published = tuple({**each, "spec": {**each["spec"], "pool": pool}} for each in made)
    spec = {"driver": nvidia.DRIVER, "nodeName": name, "pool": pool, "sharedCounters": sets}
    counters: dict[str, Any] = {**made[0], "metadata": {"name": f"{name}-{nvidia.DRIVER}-counters"}, "spec": spec}
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": model.product.replace(" ", "-")}
    return Fleet((node(name, model.machine, labels=labels),), nvidia.CLASSES, (counters, *published))


def _devices(node_name: str, minor: int, gpus: int) -> Iterator[Manifest]:
    """Make the whole GPU, then every placement of every profile."""
    common = nvidia.attributes(nvidia.A100_40GB, gpu_slots(gpus, 2)[minor])
    uuid = nvidia.gpu_uuid(node_name, minor)
    whole = device(f"gpu-{minor}", {"type": "gpu", "uuid": uuid, **common}, {"memory": WHOLE.memory})
    yield {**whole, "consumesCounters": [_consumption(minor, WHOLE, 0)]}
    for cut in CUTS:
        for start in cut.starts:
            name = f"gpu-{minor}-mig-{cut.name.replace('.', '')}-{cut.identity}-{start}"
            attributes = {"type": "mig", "parentUUID": uuid, "profile": cut.name, **common}
            capacity = {"memory": cut.memory, "multiprocessors": str(MULTIPROCESSORS_PER_PART * cut.parts)}
            yield {**device(name, attributes, capacity), "consumesCounters": [_consumption(minor, cut, start)]}


def _consumption(minor: int, cut: ClaimComponent, start: int) -> Manifest:
    counters = {key: {"value": value} for key, value in _drawn(cut, start).items()}
    return {"counterSet": _counter_set(minor), "counters": counters}


def _counter_set(minor: int) -> str:
    return f"gpu-{minor}-counter-set"


def _drawn(cut: ClaimComponent, start: int) -> dict[str, str]:
    """Return what a placement draws: its part of the multiprocessors, its memory, and the slices that it lies on."""
    return {
        "multiprocessors": str(MULTIPROCESSORS_PER_PART * cut.parts),
        "memory": cut.memory,
        **{f"memory-slice-{index}": "1" for index in range(start, start + cut.memory_slices)},
    }

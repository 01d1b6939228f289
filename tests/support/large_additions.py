"""Large cases of "which nodes to add": a full cluster, gangs of several sizes that wait, shapes of several sizes."""

import random
from typing import NamedTuple

from solver.domain import Batch, NodeShape, Snapshot
from tests.support import builders as b

_SIZES = ((4, 8), (2, 8), (8, 4), (4, 2), (3, 3), (2, 5), (6, 1), (2, 6))
"""Pods of a gang, and the devices of each."""
_SHAPES = (("p8", 8, 96, 983), ("p4", 4, 48, 510), ("p2", 2, 24, 260), ("p1", 1, 12, 140))
"""Name, devices, CPUs and price."""


class LargeCase(NamedTuple):
    """What is asked: the cluster, the pods that wait, and shapes in two zones."""

    snapshot: Snapshot
    batch: Batch
    shapes: tuple[NodeShape, ...]


def large_case(seed: int, nodes: int, gangs: int) -> LargeCase:
    """Draw a case: the same one for the same seed."""
    draw = random.Random(seed)  # noqa: S311 -- cases, no secrets
    objects: list[b.SnapshotObject] = []
    for number in range(nodes):
        name = f"n{number:03}"
        used, cpu = draw.choice((8, 8, 8, 8, 8, 8, 7, 7, 6, 4)), draw.choice((40, 60, 80, 90))
        objects += [b.node(name, cpu=96, labels={"zone": draw.choice("abc")}), b.gpu_slice(name, count=8)]
        objects.append(b.held(f"h{number}", *(b.result("gpu", f"gpu-{at}", name) for at in range(used))))
        objects.append(b.pod(f"r{number}", node_name=name, cpu=cpu))
    pods, rules = [], []
    for number in range(gangs):
        gang, (size, count) = f"g{number}", draw.choice(_SIZES)
        cpu, priority = draw.choice((2, 6, 6, 11)) * count, draw.choice((0, 0, 0, 5))
        rules.append(b.gang(gang, size, members=size))
        for member in range(size):
            name = f"{gang}-{member}"
            objects.append(b.claim(f"c-{name}", b.request("gpu", count=count)))
            pods.append(b.member(b.pod(name, f"c-{name}", cpu=cpu, priority=priority), gang))
    shapes = tuple(
        NodeShape(
            name=f"{name}-{zone}",
            node=b.node(f"of-{name}-{zone}", cpu=cpu, labels={"zone": zone}),
            slices=(b.gpu_slice(f"of-{name}-{zone}", count=count),),
            price=price + (zone == "b"),
        )
        for zone in "ab"
        for name, count, cpu, price in _SHAPES
    )
    order = sorted(pods, key=lambda pod: -pod.priority)
    return LargeCase(b.snapshot(objects, b.gpu_class()), b.batch(*order, gangs=rules), shapes)

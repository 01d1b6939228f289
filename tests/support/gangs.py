"""Racks, gangs that need one of them, and single pods in the way."""

from collections.abc import Sequence

from solver.domain import Batch, Pod, Policy
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b

RACK = "example.com/rack"


def racks(count: int, nodes: int = 3, gpus: int = 12) -> list[b.SnapshotObject]:
    """Racks of nodes: four with 8 GPUs in the first one, others in the rest."""
    objects: list[b.SnapshotObject] = [b.gpu_class()]
    for rack in range(count):
        for index in range(nodes if rack else 4):
            name = f"r{rack}-n{index}"
            objects += [b.node(name, labels={RACK: f"r{rack}"}), b.gpu_slice(name, count=gpus if rack else 8)]
    return objects


def gang_of(size: int, name: str = "g", gpus: int = 8, priority: int = 0) -> tuple[list[Pod], list[b.SnapshotObject]]:
    pods = [b.member(b.pod(f"{name}-{i}", f"{name}-{i}", priority=priority), name) for i in range(size)]
    return pods, [b.claim(f"{name}-{i}", b.request(count=gpus)) for i in range(size)]


def singles(counts: Sequence[int], priority: int = 1) -> tuple[list[Pod], list[b.SnapshotObject]]:
    pods = [b.pod(f"s-{i}", f"s-{i}", priority=priority) for i in range(len(counts))]
    return pods, [b.claim(f"s-{i}", b.request(count=count)) for i, count in enumerate(counts)]


def crowded(count: int = 3) -> tuple[list[b.SnapshotObject], Batch]:
    """Singles of higher priority: greedily they are put where they leave least, which the gang needs whole."""
    members, claims = gang_of(4)
    alone, own = singles((6, 6, 6, 6, 5, 5, 5, 5))
    gang = b.gang("g", 4, b.by_label(RACK))
    return [*racks(count), *claims, *own], Batch(pods=(*alone, *members), gangs=(gang,))


def problem_of(objects: list[b.SnapshotObject], batch: Batch) -> Problem:
    return prepare(b.snapshot(objects), batch, Policy(), SolverCache())

"""The machines of a trace as a cluster: objects in the scheduler's cache, the solver's decisions, what they bind."""

from typing import Final

import msgspec

from e2e.bench.clusters import read
from e2e.fleet.shape import Fleet
from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from solver import SolverCache, plan_moves, solve
from solver.domain import (
    Allocation,
    Batch,
    Budget,
    Claim,
    ConsumerReference,
    Plan,
    Pod,
    Policy,
    Relocation,
    RepairGoal,
    RepairRules,
)

DRIVER: Final = "gpu.trace.example.com"
CLASS: Final = "gpu"
NAMESPACE: Final = "trace"
GPU: Final = "gpu-"
"""What comes before the number of a GPU in its name."""
_MOVES_SECONDS: Final = 2.0
"""Deterministic seconds for one search for moves."""
_PATIENCE_SECONDS: Final = 3600.0
"""No end for the clock of a busy machine: work is the limit."""


class TraceCluster:
    """Nodes with GPUs, and the pods and claims that a replay puts there."""

    def __init__(self, fleet: Fleet, policy: Policy) -> None:
        self._policy: Final = policy
        self._cluster: Final = Cluster()
        self._cache: Final = SolverCache()
        snapshot = read(fleet)
        for kind, objects in (
            (Kind.NODES, snapshot.nodes),
            (Kind.SLICES, snapshot.slices),
            (Kind.CLASSES, snapshot.classes),
        ):
            for each in objects:
                self._cluster.apply(Change(kind=kind, key=each.name, value=each))

    def put(self, each: Pod | Claim) -> None:
        """Create an object, or change it."""
        self._cluster.apply(Change(kind=_kind_of(each), key=f"{each.id.namespace}/{each.id.name}", value=each))

    def remove(self, each: Pod | Claim) -> None:
        """Delete an object."""
        self._cluster.apply(Change(kind=_kind_of(each), key=f"{each.id.namespace}/{each.id.name}", value=None))

    def decide(self, batch: Batch, now: int = 0) -> Plan:
        """Decide a batch as the scheduler would, without a limit of time; `now` is 0 where it does not matter."""
        budget = Budget(seconds=_PATIENCE_SECONDS)
        rules = msgspec.structs.replace(self._policy.preemption, now=now)
        policy = msgspec.structs.replace(self._policy, preemption=rules)
        return solve(self._cluster.snapshot(), batch, policy, budget, self._cache)

    def moves(self, wanted: Batch, now: int) -> Relocation:
        """Find the fewest moves with which pods fit."""
        rules = msgspec.structs.replace(self._policy.preemption, scheduler_names=("dovetail",))
        policy = msgspec.structs.replace(self._policy, preemption=rules)
        budget = Budget(seconds=_PATIENCE_SECONDS, deterministic_seconds=_MOVES_SECONDS)
        goal = RepairGoal(wanted=wanted)
        return plan_moves(self._cluster.snapshot(), goal, policy, budget, RepairRules(now=now))

    def allocate(self, claim: Claim, allocation: Allocation, pod: Pod) -> tuple[int, ...]:
        """Write the status of a pod's claim, and return the numbers of its GPUs."""
        reserved = (ConsumerReference(resource="pods", name=pod.id.name, uid=pod.uid),)
        self.put(msgspec.structs.replace(claim, allocation=allocation, reserved_for=reserved))
        return tuple(int(each.device.device.removeprefix(GPU)) for each in allocation.results)

    def bind(self, pod: Pod, node: str, started: int = 0) -> None:
        """Let a pod run on a node; `started` is in seconds since the epoch, 0 where it does not matter."""
        self.put(msgspec.structs.replace(pod, node_name=node, started=started))


def _kind_of(each: Pod | Claim) -> Kind:
    return Kind.PODS if isinstance(each, Pod) else Kind.CLAIMS

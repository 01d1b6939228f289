"""
Policies over an observed cluster. What fits where is said by the solver for all of them; they choose among the nodes.

The simple ones go through the queue once and pass over what does not fit. First fit and best fit start a gang with all
its pods or not at all, and the solver says where; kube-scheduler's way is one pod after the other, without gangs.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, Protocol

import msgspec

from scheduler.cluster import Cluster
from scheduler.queue.starvation import StarvationTracker
from scheduler.settings.schema import BatchLimits
from solver import SolverCache, feasible_nodes, solve
from solver.domain import Batch, Budget, Plan, Pod, Policy, Snapshot

_PATIENCE_SECONDS: Final = 3600.0
"""No end for the clock of a busy machine: work is the limit."""
Left = tuple[int, int]
"""Devices of a node that no claim has, and its free cpu in millicores."""
Take = Callable[[Plan, Batch], None]
"""Carries a plan out in the cluster of the replay."""


class ObservedPolicy(Protocol):
    """Decides about the pods that wait, in the order of the queue."""

    def place(self, cluster: Cluster, waiting: Sequence[Pod], now: float, take: Take, /) -> None:
        """Place some of the pods: each plan is taken before the next one is made."""


class OneByOne:
    """The first node with room, or one by what is left: `choose` takes names and what they have left."""

    def __init__(self, choose: Callable[[Mapping[str, Left]], str], *, is_gang: bool) -> None:
        self._choose: Final = choose
        self._is_gang: Final = is_gang
        self._cache: Final = SolverCache()
        self._policy: Final = Policy(levels=())

    def place(self, cluster: Cluster, waiting: Sequence[Pod], _: float, take: Take) -> None:
        """Place what fits."""
        for _gang, group in groupby(waiting, key=lambda pod: (pod.gang if self._is_gang else None) or pod.uid):
            pods = tuple(group)
            batch = cluster.with_gangs(Batch(pods=pods)) if self._is_gang else Batch(pods=pods)
            plan = self._one(cluster.snapshot(), pods[0]) if len(pods) == 1 and not batch.gangs else None
            if batch.gangs:
                plan = solve(cluster.snapshot(), batch, self._policy, Budget(seconds=_PATIENCE_SECONDS), self._cache)
            if plan is not None:
                take(plan, batch)

    def _one(self, snapshot: Snapshot, pod: Pod) -> Plan | None:
        found = feasible_nodes(snapshot, pod, self._policy, Budget(seconds=_PATIENCE_SECONDS), self._cache)
        left = {name: each for name, each in _left(snapshot).items() if name in found.plans}
        return found.plans[self._choose(left)] if left else None


class DovetailBatches:
    """The solver: all waiting pods are one batch. A pod starves after `starvation_seconds`, with nodes reserved."""

    def __init__(self, policy: Policy, starvation_seconds: float) -> None:
        self._policy: Final = policy
        self._cache: Final = SolverCache()
        self._starvation: Final = StarvationTracker(starvation_seconds)

    def place(self, cluster: Cluster, waiting: Sequence[Pod], now: float, take: Take) -> None:
        """Decide the pods, at most so many at once as the scheduler does."""
        for pods in _batches(waiting, BatchLimits().max_pods):
            batch = self._starvation.marked(cluster.with_gangs(Batch(pods=tuple(pods))), now)
            rules = msgspec.structs.replace(self._policy.preemption, now=int(now))
            policy = msgspec.structs.replace(self._policy, preemption=rules)
            plan = solve(cluster.snapshot(), batch, policy, Budget(seconds=_PATIENCE_SECONDS), self._cache)
            self._starvation.decided(batch, plan, now)
            take(plan, batch)
            for placement in plan.placements:
                self._starvation.forget(placement.pod_uid)


def _batches(pods: Sequence[Pod], most: int) -> Iterator[list[Pod]]:
    """Split the queue; the pods of a gang that follow each other stay together."""
    batch: list[Pod] = []
    for _gang, group in groupby(pods, key=lambda pod: pod.gang or pod.uid):
        if len(batch) >= most:
            yield batch
            batch = []
        batch += group
    if batch:
        yield batch


def _left(snapshot: Snapshot) -> dict[str, Left]:
    """Return what nodes have left, in the order of their names; devices of several nodes count for none."""
    devices, cpu = dict.fromkeys((each.name for each in snapshot.nodes), 0), dict[str, int]()
    home = {each.pool_id: each.scope.node_name for each in snapshot.slices if each.scope.node_name in devices}
    for each in snapshot.nodes:
        cpu[each.name] = dict(each.allocatable).get("cpu", 0)
    for published in snapshot.slices:
        if published.pool_id in home:
            devices[home[published.pool_id]] += len(published.devices)
    held = {result.device for claim in snapshot.claims if claim.allocation for result in claim.allocation.results}
    for device in held:
        if (node := home.get(device.pool_id)) is not None:
            devices[node] -= 1
    for pod in snapshot.pods:
        if pod.node_name in cpu:
            cpu[pod.node_name] -= dict(pod.requests).get("cpu", 0)
    return {name: (devices[name], cpu[name]) for name in sorted(devices)}


SIMPLE: Final[Mapping[str, Callable[[], ObservedPolicy]]] = {
    "first-fit": lambda: OneByOne(lambda left: next(iter(left)), is_gang=True),
    "best-fit": lambda: OneByOne(lambda left: min(left, key=lambda name: left[name]), is_gang=True),
    "kube-scheduler": lambda: OneByOne(lambda left: max(left, key=lambda name: left[name]), is_gang=False),
}
"""By name; of equal nodes the first one is taken."""
DOVETAIL: Final = {"dovetail": Policy(), "dovetail-devices": Policy(counts_devices=True)}
"""By name. The second is the same with `placed: devices`."""


def made(name: str, starvation_seconds: float = math.inf) -> ObservedPolicy:
    """Make a policy by its name."""
    known = DOVETAIL.get(name)
    return SIMPLE[name]() if known is None else DovetailBatches(known, starvation_seconds)

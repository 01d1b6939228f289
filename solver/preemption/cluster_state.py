"""
The cluster as it will be while one decision after the other is made, indexed so that a part of it can be cut out.

What one decision changes costs what it touches, and looking at a few nodes costs those nodes and not the cluster.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from solver.domain import Batch, Claim, ClaimId, GangId, Pod, PodId, PoolId, Snapshot
from solver.feasibility.selector_index import described
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.usage import Usage
from solver.problem.inter_pod.inter_pod_context import RunningPods
from solver.problem.node_arrays import MOST, PODS, Amounts, Room


@dataclass(slots=True, eq=False)
class Ground:
    """
    Pods and claims as they will be; of `origin` everything else holds, and the PodDisruptionBudgets as they are left.

    `room` is what nodes have left, `free_devices` how many devices of its own nobody holds, per node.
    """

    stock: Inventory
    origin: Snapshot
    room: Room
    free_devices: Amounts
    pods: dict[PodId, Pod] = field(default_factory=dict)
    claims: dict[ClaimId, Claim] = field(default_factory=dict)
    _on_node: defaultdict[str, dict[PodId, None]] = field(default_factory=lambda: defaultdict(dict))
    _of_gang: defaultdict[GangId, dict[PodId, None]] = field(default_factory=lambda: defaultdict(dict))
    _of_pod: defaultdict[str, dict[ClaimId, None]] = field(default_factory=lambda: defaultdict(dict))
    _of_pool: defaultdict[tuple[str, str], dict[ClaimId, None]] = field(default_factory=lambda: defaultdict(dict))
    _whole: Snapshot | None = None

    @classmethod
    def of(cls, stock: Inventory, snapshot: Snapshot, room: Room, usage: Usage) -> "Ground":
        """Index a snapshot; `room` and `usage` are what the same snapshot leaves and uses of nodes and devices."""
        held = [stock.records[record].home for record in (*usage.exclusive, *usage.shared)]
        counts = np.bincount(np.array([home for home in held if home >= 0], dtype=np.int64), minlength=len(stock.nodes))
        owned = np.array([len(indices) for indices in stock.by_home], dtype=np.int64)
        left = Room({resource: amounts.copy() for resource, amounts in room.free.items()})
        ground = cls(stock, snapshot, left, owned - counts, _whole=snapshot)
        for pod in snapshot.pods:
            ground._index_pod(pod)
        for claim in snapshot.claims:
            ground._index_claim(claim)
        return ground

    def whole(self) -> Snapshot:
        """Give all of it."""
        if self._whole is None:
            pods = tuple(self.pods[key] for key in sorted(self.pods))
            claims = tuple(self.claims[key] for key in sorted(self.claims))
            self._whole = replace(self.origin, pods=pods, claims=claims)
        return self._whole

    def part(self, names: Collection[str], batch: Batch, others: Iterable[Pod]) -> Snapshot:
        """
        Cut out the nodes of these names, with who runs there, the devices that they reach, and what these hold.

        Some other pods come with them, and the members of the batch's gangs. Only for a batch that `is_local`.
        """
        wanted = frozenset(names)
        pods = {each.id: each for each in others}
        gangs = {pod.gang for pod in batch.pods if pod.gang is not None}
        for keys in (*(self._on_node.get(name, {}) for name in wanted), *(self._of_gang.get(key, {}) for key in gangs)):
            pods.update((key, self.pods[key]) for key in keys)
        near = {
            PoolId(each.driver, each.pool)
            for each in self.origin.slices
            if not each.scope.node_name or each.scope.node_name in wanted
        }
        claims = {claim: None for pod in batch.pods for claim in pod.claim_ids}
        for pool in near:
            claims.update(self._of_pool.get(pool, {}))
        for pod in pods.values():
            claims.update(self._of_pod.get(pod.uid, {}))
        return replace(
            self.origin,
            nodes=tuple(node for node in self.origin.nodes if node.name in wanted),
            slices=tuple(each for each in self.origin.slices if PoolId(each.driver, each.pool) in near),
            pods=tuple(pods[key] for key in sorted(pods)),
            claims=tuple(self.claims[key] for key in sorted(claims) if key in self.claims),
        )

    def is_local(self, batch: Batch, residents: RunningPods) -> bool:
        """Whether what runs on other nodes decides nothing about where the pods of a batch may be."""
        if any(gang.levels for gang in batch.gangs):
            return False
        labels = {each.name: each.labels for each in self.origin.namespaces}
        return not any(
            looks_around(pod)
            or residents.keep_away(described(pod.id.namespace, labels.get(pod.id.namespace, ()), pod.labels))
            for pod in batch.pods
        )

    def device_count(self, pod: Pod) -> int:
        """Count the devices of all claims that are reserved for a pod."""
        count = 0
        for key in self._of_pod.get(pod.uid, ()):
            allocation = self.claims[key].allocation
            count += len(allocation.results) if allocation is not None else 0
        return count

    def claims_of(self, pools: Iterable[PoolId]) -> tuple[Claim, ...]:
        """Give the claims that hold devices of some pools."""
        return tuple(self.claims[key] for pool in pools for key in self._of_pool.get(pool, ()))

    def absorb(self, before: Snapshot, after: Snapshot) -> None:
        """Take what a decision changes of pods, claims and budgets between two pictures of the same part."""
        old_pods, new_pods = {pod.id: pod for pod in before.pods}, {pod.id: pod for pod in after.pods}
        for key, pod in old_pods.items():
            if new_pods.get(key) is not pod:
                self._drop_pod(pod)
        for key, pod in new_pods.items():
            if old_pods.get(key) is not pod:
                self._index_pod(pod)
                self._count_room(pod, -1)
        old_claims, new_claims = {each.id: each for each in before.claims}, {each.id: each for each in after.claims}
        for claim_id, claim in old_claims.items():
            if new_claims.get(claim_id) is not claim:
                self._drop_claim(claim)
        for claim_id, claim in new_claims.items():
            if old_claims.get(claim_id) is not claim:
                self._index_claim(claim)
                self._count_devices(claim, -1)
        self.origin, self._whole = replace(self.origin, budgets=after.budgets), None

    def _index_pod(self, pod: Pod) -> None:
        self.pods[pod.id] = pod
        self._on_node[pod.node_name][pod.id] = None
        if pod.gang is not None:
            self._of_gang[pod.gang][pod.id] = None

    def _drop_pod(self, pod: Pod) -> None:
        del self.pods[pod.id], self._on_node[pod.node_name][pod.id]
        if pod.gang is not None:
            del self._of_gang[pod.gang][pod.id]
        self._count_room(pod, 1)

    def _index_claim(self, claim: Claim) -> None:
        self.claims[claim.id] = claim
        if claim.allocation is None:
            return
        for each in claim.reserved_for:
            self._of_pod[each.uid][claim.id] = None
        for result in claim.allocation.results:
            self._of_pool[result.device[:2]][claim.id] = None

    def _drop_claim(self, claim: Claim) -> None:
        del self.claims[claim.id]
        if claim.allocation is None:
            return
        for each in claim.reserved_for:
            self._of_pod[each.uid].pop(claim.id, None)
        for result in claim.allocation.results:
            self._of_pool[result.device[:2]].pop(claim.id, None)
        self._count_devices(claim, 1)

    def _count_room(self, pod: Pod, sign: int) -> None:
        node = self.stock.node_index.get(pod.node_name)
        if node is None:
            return
        for resource, amount in ((PODS, 1), *pod.requests):
            self.room.change(resource, node, sign * min(amount, MOST))

    def _count_devices(self, claim: Claim, sign: int) -> None:
        for result in claim.allocation.results if claim.allocation is not None else ():
            record = self.stock.record_of.get(result.device)
            if record is not None and not result.admin_access and self.stock.records[record].home >= 0:
                self.free_devices[self.stock.records[record].home] += sign


def looks_around(pod: Pod) -> bool:
    """Whether what runs on other nodes, or ports and volumes there, may keep a pod from a node."""
    is_spread = any(each.is_required for each in pod.spread)
    return bool(pod.affinity or pod.anti_affinity or is_spread or pod.host_ports or pod.volumes)

"""
The cluster after the preemptions that are decided so far: a frozen state with indexes, so that a part can be cut out.

A decision gives a new state and leaves the old one as it is; both share the entries that the decision does not touch.
The only work that grows with the cluster is to copy dictionaries and arrays of numbers.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from solver.arrays import MOST, Amounts
from solver.domain import Batch, Claim, ClaimId, GangId, Pod, PodId, PoolId, Snapshot
from solver.feasibility.selector_index import matched_labels
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.ledger import DeviceLedger, allocations
from solver.problem.node_arrays import PODS, Room
from solver.rules.inter_pod.running_pods import RunningPods

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Object = TypeVar("_Object", Pod, Claim)
_Index = Mapping[_Key, Sequence[_Value]]


@dataclass(frozen=True, eq=False)  # no slots: `snapshot` is cached
class ClusterState:
    """
    Pods and claims as they will be; `origin` has everything else, and the PodDisruptionBudgets as they are left.

    `room` is what nodes have left, `ledger` what claims hold of devices, and `free_devices` the number of unallocated
    devices in the node's own pools.
    """

    inventory: Inventory
    origin: Snapshot
    room: Room
    ledger: DeviceLedger
    free_devices: Amounts
    pods: Mapping[PodId, Pod]
    claims: Mapping[ClaimId, Claim]
    pods_by_node: _Index[str, PodId]
    pods_by_gang: _Index[GangId, PodId]
    claims_by_consumer: _Index[str, ClaimId]
    claims_by_pool: _Index[PoolId, ClaimId]

    @classmethod
    def of(cls, inventory: Inventory, snapshot: Snapshot, room: Room, ledger: DeviceLedger) -> "ClusterState":
        """Index a snapshot; `room` is what it leaves of nodes, `ledger` what it holds of devices."""
        owned = np.array([len(indices) for indices in inventory.by_home], dtype=np.int64)
        homes = [inventory.records[record].home for record in ledger.exclusive.keys() | ledger.shared.keys()]
        held = np.bincount([home for home in homes if home >= 0], minlength=len(inventory.nodes))
        return cls(
            inventory,
            snapshot,
            room,
            ledger,
            owned - held,
            {pod.id: pod for pod in snapshot.pods},
            {claim.id: claim for claim in snapshot.claims},
            _indexed((pod.node_name, pod.id) for pod in snapshot.pods),
            _indexed(_gangs(snapshot.pods)),
            _indexed(_consumers(snapshot.claims)),
            _indexed(_pools(snapshot.claims)),
        )

    @cached_property
    def snapshot(self) -> Snapshot:
        """The whole cluster."""
        pods = tuple(self.pods[key] for key in sorted(self.pods))
        claims = tuple(self.claims[key] for key in sorted(self.claims))
        return replace(self.origin, pods=pods, claims=claims)

    def part(self, names: Collection[str], batch: Batch, others: Iterable[Pod]) -> Snapshot:
        """
        Cut out the nodes of these names with their pods, the devices that they reach, and the claims on these devices.

        The part also has `others`, and the members of the batch's gangs. It decides like the whole cluster only for a
        batch that `is_local`.
        """
        wanted = frozenset(names)
        gangs = {pod.gang for pod in batch.pods if pod.gang is not None}
        pods = {each.id: each for each in others}
        for keys in (
            *(self.pods_by_node.get(name, ()) for name in wanted),
            *(self.pods_by_gang.get(gang, ()) for gang in gangs),
        ):
            pods.update((key, self.pods[key]) for key in keys)
        pools = {
            PoolId(each.driver, each.pool)
            for each in self.origin.slices
            if not each.scope.node_name or each.scope.node_name in wanted
        }
        claims = {claim for pod in batch.pods for claim in pod.claim_ids if claim in self.claims}
        claims = claims.union(
            *(self.claims_by_pool.get(pool, ()) for pool in pools),
            *(self.claims_by_consumer.get(pod.uid, ()) for pod in pods.values()),
        )
        return replace(
            self.origin,
            nodes=tuple(node for node in self.origin.nodes if node.name in wanted),
            slices=tuple(each for each in self.origin.slices if PoolId(each.driver, each.pool) in pools),
            pods=tuple(pods[key] for key in sorted(pods)),
            claims=tuple(self.claims[key] for key in sorted(claims)),
        )

    def is_local(self, batch: Batch, running: RunningPods) -> bool:
        """Whether pods on other nodes have no say in where the pods of a batch may run."""
        if any(gang.levels for gang in batch.gangs):
            return False
        labels = {each.name: each.labels for each in self.origin.namespaces}
        return not any(
            is_coupled(pod)
            or running.keep_away(matched_labels(pod.id.namespace, labels.get(pod.id.namespace, ()), pod.labels))
            for pod in batch.pods
        )

    def device_count(self, pod: Pod) -> int:
        """Count the devices in all claims that are reserved for a pod."""
        count = 0
        for key in self.claims_by_consumer.get(pod.uid, ()):
            allocation = self.claims[key].allocation
            count += len(allocation.results) if allocation is not None else 0
        return count

    def claims_of(self, pools: Iterable[PoolId]) -> tuple[Claim, ...]:
        """Return the claims that hold devices of some pools."""
        return tuple(self.claims[key] for pool in pools for key in self.claims_by_pool.get(pool, ()))

    def changed(self, before: Snapshot, after: Snapshot) -> "ClusterState":
        """Return the state in which a decision has turned the part `before` into `after`."""
        gone_pods, new_pods = _difference(before.pods, after.pods)
        gone_claims, new_claims = _difference(before.claims, after.claims)
        room = self.room.copy()
        _count_room(room, self.inventory, gone_pods, 1)
        _count_room(room, self.inventory, new_pods, -1)
        ledger = self.ledger.changed(self.inventory, allocations(gone_claims), allocations(new_claims))
        free_devices = self.free_devices.copy()
        for record in ledger.touched.records:
            home = self.inventory.records[record].home
            if home >= 0:
                free_devices[home] += self.ledger.is_held(record) - ledger.is_held(record)
        return ClusterState(
            self.inventory,
            replace(self.origin, budgets=after.budgets),
            room,
            ledger,
            free_devices,
            _replaced(self.pods, [pod.id for pod in gone_pods], {pod.id: pod for pod in new_pods}),
            _replaced(self.claims, [claim.id for claim in gone_claims], {claim.id: claim for claim in new_claims}),
            _reindexed(
                self.pods_by_node,
                ((pod.node_name, pod.id) for pod in gone_pods),
                ((pod.node_name, pod.id) for pod in new_pods),
            ),
            _reindexed(self.pods_by_gang, _gangs(gone_pods), _gangs(new_pods)),
            _reindexed(self.claims_by_consumer, _consumers(gone_claims), _consumers(new_claims)),
            _reindexed(self.claims_by_pool, _pools(gone_claims), _pools(new_claims)),
        )


def is_coupled(pod: Pod) -> bool:
    """Whether other pods, wherever they run, may keep a pod from a node: by affinity, spread, ports or volumes."""
    is_spread = any(each.is_required for each in pod.spread)
    return bool(pod.affinity or pod.anti_affinity or is_spread or pod.host_ports or pod.volumes)


def _gangs(pods: Iterable[Pod]) -> Iterator[tuple[GangId, PodId]]:
    return ((pod.gang, pod.id) for pod in pods if pod.gang is not None)


def _consumers(claims: Iterable[Claim]) -> Iterator[tuple[str, ClaimId]]:
    return ((each.uid, claim.id) for claim in claims if claim.allocation is not None for each in claim.reserved_for)


def _pools(claims: Iterable[Claim]) -> Iterator[tuple[PoolId, ClaimId]]:
    return (
        (PoolId(*result.device[:2]), claim.id)
        for claim in claims
        if claim.allocation is not None
        for result in claim.allocation.results
    )


def _indexed(pairs: Iterable[tuple[_Key, _Value]]) -> _Index[_Key, _Value]:
    found: defaultdict[_Key, list[_Value]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return dict(found)


def _reindexed(
    index: _Index[_Key, _Value], gone: Iterable[tuple[_Key, _Value]], new: Iterable[tuple[_Key, _Value]]
) -> _Index[_Key, _Value]:
    found = dict(index)
    for key, value in gone:
        found[key] = [each for each in found[key] if each != value]
    for key, value in new:
        found[key] = [*found.get(key, ()), value]
    return found


def _difference(before: Sequence[_Object], after: Sequence[_Object]) -> tuple[list[_Object], list[_Object]]:
    """Return the objects that are not the same any more, and those that take their place or are new."""
    old, new = {each.id: each for each in before}, {each.id: each for each in after}
    gone = [each for key, each in old.items() if new.get(key) is not each]
    return gone, [each for key, each in new.items() if old.get(key) is not each]


def _replaced(known: Mapping[_Key, _Value], gone: Iterable[_Key], new: dict[_Key, _Value]) -> Mapping[_Key, _Value]:
    found = dict(known)
    for key in gone:
        del found[key]
    return found | new


def _count_room(room: Room, inventory: Inventory, pods: Iterable[Pod], sign: int) -> None:
    for pod in pods:
        node = inventory.node_index.get(pod.node_name)
        if node is None:
            continue
        for resource, amount in ((PODS, 1), *pod.requests):
            room.change(resource, node, sign * min(amount, MOST))

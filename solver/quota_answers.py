"""What a fleet has of what quotas count: for guarantees above it, and for pods that name other classes."""

from collections.abc import Iterable

from solver.domain import Policy, QuotaFleet, QuotaKey, QuotaShape, QuotaState, QuotaTree, Snapshot, quota_states
from solver.domain.pod import Pod
from solver.feasibility.capacity import published_name
from solver.fleet.fleet_builder import compiles
from solver.problem.devices.inventory import DeviceRecord
from solver.problem.prepare import gc_paused
from solver.problem.solver_cache import SolverCache
from solver.rules.quotas.waiting import waiting_pods


def quota_fleet(snapshot: Snapshot, policy: Policy, cache: SolverCache) -> QuotaFleet:
    """Count the devices of usable pools for each key of a snapshot's quotas."""
    if not snapshot.quotas:
        return QuotaFleet()
    with gc_paused():
        keys = QuotaTree.of(snapshot.quotas, ()).keys
        inventory = cache.inventory(snapshot, policy.owned)
        sound = [each for each in snapshot.classes if not each.invalid and compiles(each)]
        matching = cache.matching(inventory, (each.selectors for each in sound))
        found = {each.name: frozenset(indices) for each, indices in zip(sound, matching, strict=True)}
        totals = [
            (key, _total(key, (inventory.records[index] for index in found.get(key.device_class, ())))) for key in keys
        ]
        serving = [
            (name, key)
            for key in keys
            for name, indices in found.items()
            if not indices.isdisjoint(found.get(key.device_class, ()))
        ]
    return QuotaFleet(totals=tuple(totals), classes=tuple(found), serving=tuple(serving))


def _total(key: QuotaKey, records: Iterable[DeviceRecord]) -> int:
    if key.shape == QuotaShape.WHOLE_NODES:
        return len({each.home for each in records} - {-1})
    if not key.capacity:
        return sum(1 for _ in records)
    total = 0
    for each in records:
        capacities = dict(each.device.capacities)
        name = published_name(each.id.driver, key.capacity, capacities)
        total += 0 if name is None else capacities[name].value.nano
    return total


def quotas_of(
    snapshot: Snapshot, pods: Iterable[Pod], policy: Policy, cache: SolverCache | None = None
) -> tuple[QuotaState, ...]:
    """Return the state of all quotas of a snapshot, with the pods that wait."""
    cache = cache or SolverCache()
    tree = cache.quotas.follow(snapshot)
    claims = {each.id: each for each in snapshot.claims}
    waiting = waiting_pods(pods, tree.leaf_of, claims.get, snapshot.classes)
    return quota_states(tree, cache.quotas.held, waiting, quota_fleet(snapshot, policy, cache))

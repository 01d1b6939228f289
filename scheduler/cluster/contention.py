"""
Devices that a unit's claims cannot hold beside other claims, by the checker's rule (`solver.verify.clashes`).

One rule for the claims that a unit allocates, for those that it is the first to use, and for the choice of the
allocation that is removed.
"""

from collections.abc import Collection, Iterator, Sequence

from scheduler.cluster.devices import Duplicate
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_index import holds_node
from scheduler.cluster.unit import Unit
from solver.domain import Allocation, ClaimId
from solver.verify import clashes


def duplicates(store: ObjectStore, unit: Unit) -> tuple[Duplicate, ...]:
    """
    Compare the devices of a unit with those of every other claim, whether the unit is assumed or not.

    These are the devices that it allocates, and those of allocated claims that it is the first to use.

    `claims` of a duplicate are the other claims; they are empty if the unit alone exceeds what is published now.
    """
    own = frozenset((*(each.claim for each in unit.allocations), *unit.stand_ins))
    found = [*_compared(store, [(each.claim, each.allocation) for each in unit.allocations], own)]
    for key in unit.claims:
        if key not in own and not _is_running(store, key):
            found += claim_conflicts(store, key, own)  # own ones were compared with it above
    return tuple(found)


def claim_conflicts(store: ObjectStore, key: ClaimId, without: Collection[ClaimId] = ()) -> tuple[Duplicate, ...]:
    """
    Compare an allocated claim with all claims but `without`, and return the duplicates that other claims share in.

    That a claim alone exceeds what is published now is no conflict: a driver may publish less after the allocation.
    """
    claim = store.assumed_claims.get(key)
    if claim is None or claim.allocation is None:
        return ()
    found = _compared(store, [(key, claim.allocation)], frozenset((key, *without)), is_old=True)
    return tuple(each for each in found if each.claims)


def _compared(
    store: ObjectStore, wanted: Sequence[tuple[ClaimId, Allocation]], own: frozenset[ClaimId], *, is_old: bool = False
) -> Iterator[Duplicate]:
    """Compare allocations with those of all claims but `own`."""
    devices = dict.fromkeys(result.device for _, allocation in wanted for result in allocation.results)
    pool_ids, allocated = dict.fromkeys(device.pool_id for device in devices), store.allocated_devices
    pools = store.slice_index.checked(pool_ids)
    counting = [pool for pool in pool_ids if pools.view(pool).counters]
    drawing = dict.fromkeys(device for pool in counting for device in allocated.in_pool(pool))
    others = {}
    for device in devices | drawing:
        holders = allocated.holders(device)
        if not own.isdisjoint(holders):
            holders = {claim: results for claim, results in holders.items() if claim not in own}
        if holders:
            others[device] = holders
    for clash in clashes(wanted, others, allocated.draws, pools, is_old=is_old):
        yield Duplicate(device=clash.device, claims=clash.claims, message=clash.message)


def _is_running(store: ObjectStore, claim: ClaimId) -> bool:
    """Whether the watch has shown a pod on a node that uses a claim: no allocation would be removed."""
    pods = (store.pods.get(key) for key in store.pods_by_claim.get(claim, ()))
    return any(pod is not None and holds_node(pod) for pod in pods)

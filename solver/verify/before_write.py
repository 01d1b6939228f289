"""
The check of a unit right before it is written: the rules that a change of the cluster since the decision can break.

Not checked again: selectors, constraints and the shape of requests, because CEL of users must not run on the loop and
the specs of pods and claims do not change; configuration; required pod affinity, topology spread and the topology of
gangs, which need all pods of the cluster. kube-scheduler checks none of its rules again. Devices that other claims hold
are compared by `clashes`.
"""

from collections.abc import Iterator
from typing import Final

from solver.domain import Batch, Plan, Policy, Snapshot, Violation
from solver.verify import claims, devices, extended_resources, inter_pod, node_fit
from solver.verify.plan_context import PlanContext, new_allocations
from solver.verify.pools import Pools
from solver.verify.snapshot_index import SnapshotIndex

_ANY_DEVICE: Final = Policy(allocates_where_plugins_serve=True)
"""Which devices are ours does not change between a decision and its writes."""


def recheck(snapshot: Snapshot, batch: Batch, plan: Plan, pools: Pools) -> Iterator[Violation]:
    """
    Return the rules that a unit, as a plan of its own, breaks in what its pods touch of the cluster.

    The snapshot has its nodes with all their pods, its claims, and the classes behind its extended resources; instead
    of slices there are `pools`, with at least those of its devices.
    """
    context = PlanContext.of(snapshot, batch, _ANY_DEVICE, plan, SnapshotIndex(pools))
    yield from node_fit.pod_violations(batch, plan, context)
    yield from node_fit.node_violations(plan, context)
    yield from inter_pod.port_violations(plan, context)
    yield from claims.claim_violations(plan, context)
    yield from extended_resources.violations(plan, context)
    for new in new_allocations(plan, context):
        yield from devices.device_violations(new, context)

"""
The independent checker: whether a plan keeps every rule of the API and of the configuration.

`check` is written from the API's semantics and not from the solver. It imports the domain and the door to CEL and
nothing else, and implements pools, taints, node fit and rounding again, so that only the same mistake made twice goes
unnoticed. It runs before every commit; a plan that fails is never written. The shell, `simulate` and all tests call it.

A check costs what its plan touches, and what the snapshot has changed since the last check with the same
`VerifierCache`; without a cache, one pass over nodes, slices, claims and pods.

One module per kind of rule: `node_fit`, `node_allocatable` (KEP-5517), `inter_pod` (ports, affinity, spread),
`volumes`, `claims` (with allocation results), `requests`, `devices` (with constraints), `usage` (exclusive devices,
capacities, counters), `extended_resources` (KEP-5004), `gangs`, `preemption` (with node reservations). `violations` is
the closed list of rules. The checks share `plan_context` (batch and plan by key), `snapshot_index` with `pools` and
`label_groups` (the snapshot by key, built of the indexes of `object_index`), and `matching` (node selectors, taints).
"""

from collections.abc import Iterator

from solver.domain import Batch, Plan, Policy, Snapshot, Violation
from solver.verify import (
    claims,
    devices,
    extended_resources,
    gangs,
    inter_pod,
    node_fit,
    preemption,
    requests,
    usage,
    volumes,
)
from solver.verify.plan_context import PlanContext, new_allocations
from solver.verify.snapshot_index import VerifierCache
from solver.verify.violations import Rule

__all__ = ["Rule", "VerifierCache", "check"]


def check(
    snapshot: Snapshot,
    batch: Batch,
    plan: Plan,
    policy: Policy = Policy(),  # noqa: B008 -- a frozen value
    cache: VerifierCache | None = None,
) -> tuple[Violation, ...]:
    """
    Return the violations of a plan; empty for a valid plan. Never raises on an invalid plan.

    A cache makes a check cost what the snapshot changed since the last one, and never changes the answer.
    """
    cache = VerifierCache() if cache is None else cache
    index = cache.take()

    def fits(then: Snapshot, part: Batch, placed: Plan, policy: Policy) -> tuple[Violation, ...]:
        """Check placements in some state of the cluster."""
        return tuple(_violations(PlanContext.of(then, part, policy, placed, index), part, placed))

    found = (*fits(snapshot, batch, plan, policy), *preemption.violations(snapshot, batch, plan, policy, fits))
    cache.keep(index)
    return found


def _violations(context: PlanContext, batch: Batch, plan: Plan) -> Iterator[Violation]:
    yield from node_fit.pod_violations(batch, plan, context)
    yield from node_fit.node_violations(plan, context)
    yield from inter_pod.violations(plan, context)
    yield from preemption.reservation_violations(batch, plan, context)
    yield from volumes.violations(plan, context)
    yield from claims.claim_violations(plan, context)
    yield from extended_resources.violations(plan, context)
    made = new_allocations(plan, context)
    for new in made:
        yield from requests.request_violations(new, context)
        yield from devices.device_violations(new, context)
        yield from devices.constraint_violations(new, context)
        yield from claims.derived_violations(new, context)
    yield from usage.violations(made, context)
    yield from gangs.violations(batch, plan, context)

"""
The independent checker: whether a plan keeps every rule of the API and of the configuration.

`check` is written from the API's semantics and not from the solver. It imports the domain and the door to CEL and
nothing else, and implements pools, taints, node fit and rounding again, so that only the same mistake made twice goes
unnoticed. It costs one pass over the cluster's indexes and then only what the plan touches, so it runs before every
commit; a plan that fails is never written. The shell, `simulate` and all tests call it.

One module per kind of rule: `node_fit`, `node_allocatable` (KEP-5517), `inter_pod` (ports, affinity, spread),
`volumes`, `claims` (with allocation results), `requests`, `devices` (with constraints), `usage` (exclusive devices,
capacities, counters), `extended_resources` (KEP-5004), `gangs`, `preemption` (with node reservations). `violations` is
the closed list of rules. The checks share `plan_context` (snapshot and plan by key), `pools`, and `matching` (node
selectors, taints).
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
from solver.verify.violations import Rule

__all__ = ["Rule", "check"]


def check(snapshot: Snapshot, batch: Batch, plan: Plan, policy: Policy = Policy()) -> tuple[Violation, ...]:  # noqa: B008 -- a frozen value
    """Return the violations of a plan; empty for a valid plan. Never raises on an invalid plan."""
    context = PlanContext.of(snapshot, batch, policy, plan)
    found = tuple(_violations(context, batch, plan))
    if not plan.preemptions:
        return found

    def fits(then: Snapshot, part: Batch, placed: Plan, policy: Policy) -> tuple[Violation, ...]:
        """Check placements in another state of the same nodes and slices; the pools are read only once."""
        return tuple(_violations(PlanContext.of(then, part, policy, placed, context.pools), part, placed))

    return (*found, *preemption.violations(snapshot, batch, plan, policy, fits))


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

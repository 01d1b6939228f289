"""The check of a plan: all kinds of rules, in their order."""

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
from solver.verify.holds import respected_holds
from solver.verify.plan_context import PlanContext, new_allocations
from solver.verify.quotas import quota_limits
from solver.verify.snapshot_index import VerifierCache


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
        yield from requests.constraint_violations(new, context)
        yield from claims.derived_violations(new, context)
    yield from usage.violations(made, context)
    yield from quota_limits.violations(made, context)
    yield from gangs.violations(batch, plan, context)
    yield from respected_holds.violations(batch, plan, context)
